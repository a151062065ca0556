package flow

import "slices"

// The paths of the pages.
const (
	PathName     = "/login"
	PathPassword = "/login/password"
	PathTOTP     = "/login/totp"
	PathSMS      = "/login/sms"
	PathEmail    = "/login/email"
	PathChange   = "/login/change-password"
	PathAccounts = "/login/accounts"
	PathRegister = "/login/register"
	PathVerify   = "/login/verify"
	PathForgot   = "/login/forgot"
	PathReset    = "/login/reset"
	PathConsent  = "/login/consent"
	PathCancel   = "/login/cancel"
	PathDoor     = "/login/door"      // of no login
	PathStyle    = "/login/style.css" // likewise
	PathExternal = "/login/idp"       // the first of those of identity providers
	PathUnlinked = "/login/idp/account"
	PathLink     = "/login/idp/link"
	PathCreate   = "/login/idp/register"

	// Those that belong to no page of the table.
	PathBegin     = "/login/begin" // which only sends the browser on
	PathCallback  = "/login/idp/callback"
	PathSignedOut = "/login/idp/signedout"
)

// Opens says when a page may be opened.
type Opens int

// When a page may be opened; otherwise the browser goes to the page that is due.
const (
	Always   Opens = iota // it is a choice of the user
	IfNamed               // when somebody is named
	IfDue                 // when what it asks for is due
	IfFactor              // when a second factor is due, and the user has the one that it asks for
	IfChoice              // in the state Unlinked
)

// Page is a row of the table: all that can be said of a page without asking for anything.
type Page struct {
	Path   string
	Due    Due // what it asks for; 0: it is never due
	Opens  Opens
	Posts  bool // whether it is a form on other pages, and has none of its own
	Tried  bool // whether a try counts for the address that it comes from, unless it is right
	InTime bool // whether its answer tells by its time nothing of who is known (SEC-170)
}

// Pages is the table of the pages; there are no others.
var Pages = []Page{
	{Path: PathName, Due: LoginName, Opens: Always},
	{Path: PathPassword, Due: Password, Opens: IfNamed, Tried: true, InTime: true},
	{Path: PathTOTP, Due: TOTP, Opens: IfFactor, Tried: true},
	{Path: PathSMS, Due: SMS, Opens: IfFactor, Tried: true},
	{Path: PathEmail, Due: Email, Opens: IfFactor, Tried: true},
	{Path: PathChange, Due: NewPassword, Opens: IfDue, Tried: true},
	{Path: PathRegister, Opens: Always, Tried: true, InTime: true},
	{Path: PathVerify, Due: Code, Opens: IfDue, Tried: true, InTime: true},
	{Path: PathForgot, Opens: Always, Tried: true, InTime: true},
	{Path: PathReset, Due: ByCode, Opens: IfDue, Tried: true, InTime: true},
	{Path: PathUnlinked, Due: Choice, Opens: IfChoice},
	{Path: PathCreate, Opens: IfChoice, Tried: true, InTime: true},
	{Path: PathConsent, Due: Consent, Opens: IfDue},
	{Path: PathAccounts, Due: Nothing, Opens: Always}, // of a login that leads nowhere else
	{Path: PathLink, Opens: IfChoice, Posts: true},
	{Path: PathExternal, Opens: Always, Posts: true},
	{Path: PathCancel, Opens: Always, Posts: true},
}

// PageAt returns the page at a path; nil when there is none.
func PageAt(path string) *Page {
	if i := slices.IndexFunc(Pages, func(p Page) bool { return p.Path == path }); i >= 0 {
		return &Pages[i]
	}
	return nil
}

// Path returns the path of the page for what is due; empty when it has none.
func (d Due) Path() string {
	if i := slices.IndexFunc(Pages, func(p Page) bool { return p.Due == d && d != 0 }); i >= 0 {
		return Pages[i].Path
	}
	return ""
}

// MayOpen reports whether a page may be opened in a login in which something is due of a
// session.
func (p *Page) MayOpen(f *Flow, k *Session, due Due) bool {
	switch p.Opens {
	case Always:
		return true
	case IfNamed:
		_, registers := f.state.(Verify)
		return f.LoginName() != "" && !registers
	case IfChoice:
		_, met := f.state.(Unlinked)
		return met
	case IfFactor:
		return due.IsFactor(k) && p.Due.IsFactor(k)
	}
	return due == p.Due
}

// NeedsSession reports whether MayOpen asks for the session.
func (p *Page) NeedsSession() bool { return p.Opens == IfDue || p.Opens == IfFactor }
