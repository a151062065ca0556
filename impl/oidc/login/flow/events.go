package flow

import (
	"cmp"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
)

// Event is what happened in a login.
type Event interface{ event() }

// The events. Each says what it has changed; On refuses one that its state cannot have.
type (
	// Hinted fills in a login name, which nobody has typed.
	Hinted struct{ LoginName string }
	// Named is a login name that was typed, with the organization that its domain leads to.
	Named struct{ LoginName, DomainOrg string }
	// Another is the wish to sign in as somebody else.
	Another struct{}
	// Chose is a session that was chosen.
	Chose struct{ SessionID, LoginName string }
	// Proved is a session in which the user has just proven who they are; Since is a Unix time.
	// Without a login name it is who was named.
	Proved struct {
		SessionID, LoginName string
		Since                int64
	}
	// Registered is a user whose address has to be verified, with a session in which they have
	// proven who they are, if there is one.
	Registered struct {
		UserID, Address, SessionID string
		Since                      int64
	}
	// Verified is the right code for the address.
	Verified struct{}
	// Sent is a code that was sent.
	Sent struct{}
	// Forgot is a code for a new password that was sent to a user.
	Forgot struct{ LoginName, UserID string }
	// Replaced is a password that was replaced by a code.
	Replaced struct{}
	// Left is a browser that goes to an identity provider.
	Left struct{}
	// Refused is an identity provider, or what it said, by which nobody signs in; Reason is the
	// key of what is told.
	Refused struct{ Reason string }
	// Met is an account at an identity provider that no user is linked to.
	Met struct{ External *tokenv1.External }
	// Linking is the wish to link that to the user who signs in.
	Linking struct{}
	// Linked is that link, made; the session notes with which provider.
	Linked struct{ SessionID string }
	// ConsentDue is an application that asks for something; with Proof the user has to have
	// proven who they are in this login.
	ConsentDue struct{ Proof bool }
	// Consented is that consent, or that there is nothing to be asked any more.
	Consented struct{}
)

func (Hinted) event()     {}
func (Named) event()      {}
func (Another) event()    {}
func (Chose) event()      {}
func (Proved) event()     {}
func (Registered) event() {}
func (Verified) event()   {}
func (Sent) event()       {}
func (Forgot) event()     {}
func (Replaced) event()   {}
func (Left) event()       {}
func (Refused) event()    {}
func (Met) event()        {}
func (Linking) event()    {}
func (Linked) event()     {}
func (ConsentDue) event() {}
func (Consented) event()  {}

// On changes the login by an event. It reports false, and changes nothing, when the state of
// the login cannot have it.
func (f *Flow) On(event Event) bool {
	switch is := event.(type) {
	case Hinted:
		f.hint = is.LoginName
	case Named:
		f.domainOrg, f.state = is.DomainOrg, SignIn{LoginName: is.LoginName}
	case Another:
		f.hint, f.domainOrg, f.state = "", "", Name{}
	case Chose:
		f.state = SignIn{LoginName: is.LoginName, SessionID: is.SessionID}
	case Proved:
		if is.LoginName = cmp.Or(is.LoginName, f.LoginName()); is.LoginName == "" {
			return false
		}
		f.state = SignIn{LoginName: is.LoginName, SessionID: is.SessionID}
		f.prove(is.Since)
	case Registered:
		f.state = Verify{UserID: is.UserID, Address: is.Address, SessionID: is.SessionID}
		if is.SessionID != "" {
			f.prove(is.Since)
		}
	case Verified:
		state, ok := f.state.(Verify)
		if !ok {
			return false
		}
		f.state = SignIn{LoginName: state.Address, SessionID: state.SessionID}
	case Sent:
		f.notice = "sent"
	case Forgot:
		f.state = Reset(is)
	case Replaced:
		if _, ok := f.state.(Reset); !ok {
			return false
		}
		f.state, f.notice = f.named(), "reset"
	case Left:
		f.state, f.link, f.notice = f.named(), nil, ""
	case Refused:
		f.state, f.link, f.notice = f.named(), nil, is.Reason
	case Met:
		f.state, f.link = Unlinked{LoginName: f.LoginName(), External: is.External}, nil
	default:
		return f.onEnd(event)
	}
	return true
}

// onEnd is On for what ends a login beside the proof of who somebody is.
func (f *Flow) onEnd(event Event) bool {
	switch is := event.(type) {
	case Linking:
		state, ok := f.state.(Unlinked)
		if !ok {
			return false
		}
		f.link, f.state = state.External, Name{}
		if name := state.External.GetLoginName(); name != "" {
			f.state = SignIn{LoginName: name}
		}
		f.proof.Since = max(f.proof.Since, state.External.GetEndedAt()) // of second factors, too
	case Linked:
		state, ok := f.state.(SignIn)
		if !ok || f.link == nil {
			return false
		}
		f.link, f.state = nil, SignIn{LoginName: state.LoginName, SessionID: is.SessionID}
	case ConsentDue:
		if is.Proof {
			f.proof.Since = max(f.proof.Since, f.startedAt)
		}
		f.consent = true
	case Consented:
		f.consent = false
	default:
		return false
	}
	return true
}

// prove notes a proof: the login then asks for nothing newer than the request that brought
// it, which is a little older than now.
func (f *Flow) prove(since int64) {
	if f.proof.Fresh {
		f.proof = Proof{Since: max(f.proof.Since, since)}
	}
}

// named is the state of a login of which nothing is kept but the login name: no session, so
// that who was refused is not signed in by what they had proven before.
func (f *Flow) named() State {
	if name := f.LoginName(); name != "" {
		return SignIn{LoginName: name}
	}
	return Name{}
}

// Told drops the notice: a page has told it.
func (f *Flow) Told() { f.notice = "" }
