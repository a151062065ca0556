// Package flow is the state machine of a login: what was asked for, the state that the login
// is in, the events that change it, and what it needs next. It knows neither HTTP nor the
// database; time is an argument.
//
// Nothing but On changes a flow, so a state that makes no sense cannot be written. Next is
// the one place that says what is due, and Pages (pages.go) the one table of the pages.
//
//	state      fields beside those of every flow                 due
//	Name       –                                                 the login name
//	SignIn     login name, session                               what the session lacks: password, second factor,
//	                                                             another password; then Link, consent, nothing
//	Verify     user, address, session                            the code for the address
//	Reset      login name, user                                  the code and a new password
//	Unlinked   account at an identity provider, login name       a choice: link it, or a new user
package flow

import (
	"cmp"
	"time"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
)

// Lifetime is how long a login may take.
const Lifetime = time.Hour

// What is kept of texts that a request brings; a longer one counts as absent.
const (
	MaxHint      = 500 // a username, an at sign and a domain
	MaxLanguages = 1000
)

// Asked is what a login is for. Nothing of it changes.
type Asked struct {
	Request  string // the query of the authorization request; empty for a login that leads nowhere else
	AppName  string
	Language string // the languages asked for, by ui_locales
	OrgID    string // the organization that users have to belong to; empty: any
	UserID   string // the user it has to be; empty: any
	Choose   bool   // whether the account is to be chosen although there is one
	Create   bool   // whether registration is shown first
	IDPID    string // the identity provider to go to at once; empty: the user chooses
}

// Proof says how late a user has to prove who they are.
type Proof struct {
	Fresh bool  // in this login: no session that exists already is enough
	Since int64 // Unix time; 0: whenever
}

// Flow is a login that is under way.
type Flow struct {
	asked     Asked
	browser   []byte // the SHA-256 of the cookie of the browser that it belongs to; empty: of none yet
	startedAt int64
	proof     Proof
	hint      string // the login name that pages fill in
	domainOrg string // the organization that a verified domain of the login name leads to
	state     State
	link      *tokenv1.External // is linked to the user who signs in; nil: nothing is
	consent   bool              // whether the user is asked what the application may do
	notice    string            // the key of what the next page tells
}

// State is one of Name, SignIn, Verify, Reset and Unlinked.
type State interface{ state() }

// Name is the state of a login of which nobody is named.
type Name struct{}

// SignIn is the state in which somebody is named.
type SignIn struct {
	LoginName string
	SessionID string // the session that is authenticated; empty: none yet
}

// Verify is the state of a registration whose address has to be verified.
type Verify struct {
	UserID    string // who may not exist (SEC-170)
	Address   string
	SessionID string
}

// Reset is the state in which a code for a new password was sent.
type Reset struct {
	LoginName string
	UserID    string // who may not exist (SEC-170)
}

// Unlinked is the state in which an identity provider has authenticated somebody to whom no
// user is linked.
type Unlinked struct {
	LoginName string // that was typed before; empty: none
	External  *tokenv1.External
}

func (Name) state()     {}
func (SignIn) state()   {}
func (Verify) state()   {}
func (Reset) state()    {}
func (Unlinked) state() {}

// New returns a login for what is asked, which no browser is bound to yet.
func New(asked Asked, proof Proof, hint string, now time.Time) *Flow {
	if len(hint) > MaxHint {
		hint = ""
	}
	if len(asked.Language) > MaxLanguages {
		asked.Language = ""
	}
	return &Flow{asked: asked, proof: proof, hint: hint, startedAt: now.Unix(), state: Name{}}
}

// Asked returns what the login is for.
func (f *Flow) Asked() Asked { return f.asked }

// Bind makes the login one of a browser, by the hash of its cookie (SEC-142).
func (f *Flow) Bind(browser []byte) { f.browser = browser }

// Browser returns what Bind noted.
func (f *Flow) Browser() []byte { return f.browser }

// StartedAt returns when the login began.
func (f *Flow) StartedAt() time.Time { return time.Unix(f.startedAt, 0).UTC() }

// IsRecent reports whether the login may go on at a time.
func (f *Flow) IsRecent(now time.Time) bool { return Recent(now, f.startedAt) }

// Recent reports whether what was made at a Unix time may still be used.
func Recent(now time.Time, at int64) bool {
	age := now.Sub(time.Unix(at, 0))
	return age < Lifetime && age > -time.Minute
}

// Proof returns how late the user has to prove who they are.
func (f *Flow) Proof() Proof { return f.proof }

// State returns the state of the login.
func (f *Flow) State() State { return f.state }

// LoginName returns the login name that was typed; empty when there is none.
func (f *Flow) LoginName() string {
	switch state := f.state.(type) {
	case SignIn:
		return state.LoginName
	case Verify:
		return state.Address
	case Reset:
		return state.LoginName
	case Unlinked:
		return state.LoginName
	}
	return ""
}

// SessionID returns the session that is being authenticated; empty when there is none.
func (f *Flow) SessionID() string {
	switch state := f.state.(type) {
	case SignIn:
		return state.SessionID
	case Verify:
		return state.SessionID
	}
	return ""
}

// Hint returns the login name that pages fill in.
func (f *Flow) Hint() string { return cmp.Or(f.LoginName(), f.hint) }

// Home is the organization whose identity providers count: the one that the login is
// restricted to, or that a verified domain of the login name leads to; empty is the instance.
func (f *Flow) Home() string { return cmp.Or(f.asked.OrgID, f.domainOrg) }

// DomainOrg returns the organization that a verified domain of the login name leads to.
func (f *Flow) DomainOrg() string { return f.domainOrg }

// Link returns the account at an identity provider that is linked to the user who signs in;
// nil when nothing is.
func (f *Flow) Link() *tokenv1.External { return f.link }

// Notice returns the key of what the next page tells.
func (f *Flow) Notice() string { return f.notice }

// Admits reports whether a session is of a user who may sign in here: sessions of others do
// not count on any road (SEC-018).
func (f *Flow) Admits(k *Session) bool {
	return k.IsActive && (f.asked.OrgID == "" || f.asked.OrgID == k.OrgID) && (f.asked.UserID == "" || f.asked.UserID == k.UserID)
}

// After returns the login as it would be after an event.
func (f *Flow) After(event Event) *Flow {
	other := *f
	other.On(event)
	return &other
}
