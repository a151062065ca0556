package login

import (
	"html/template"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	sessionv3 "github.com/writ-id/writ/gen/proto/writ/session/v3alpha"
	"github.com/writ-id/writ/impl/api/authenticator"
	"github.com/writ-id/writ/impl/api/session"
)

// factorPage is the page of one kind of second factor.
type factorPage struct {
	path, name string
	digits     int
}

// factorPages are the pages of all kinds.
var factorPages = []factorPage{{pathTOTP, "totp", 6}, {pathSMS, "sms", 8}, {pathEmail, "email", 8}}

func (f factorPage) step() step {
	return step{
		func(v *visit) error { return showFactor(v, f) },
		func(v *visit) error { return takeFactor(v, f) },
		true,
	}
}

// factorDue returns the session that is to be proven by a second factor of this kind;
// nil when the browser was sent to the page that is due.
func factorDue(v *visit, f factorPage) (*browserSession, error) {
	k, err := v.current()
	if err != nil {
		return nil, err
	}
	next := v.next(k)
	if k != nil && slices.Contains(k.factors(), next) && slices.Contains(k.factors(), f.path) {
		return k, nil
	}
	return nil, v.due(next)
}

func showFactor(v *visit, f factorPage) error {
	k, err := factorDue(v, f)
	if err != nil || k == nil {
		return err
	}
	if k.spent(v.Now()) {
		v.flow.Notice = "spent"
	}
	return factorForm(v, f, k, nil)
}

// spent reports whether the user has no try of a second factor left for now. Who has
// proven the password may know.
func (k *browserSession) spent(now time.Time) bool {
	return k.FailedOtpAttempts >= authenticator.FactorAttempts && now.Before(k.FailedOtpUntil)
}

// takeFactor sends a code or checks one. The session gets a new token each time.
func takeFactor(v *visit, f factorPage) error {
	k, err := factorDue(v, f)
	if err != nil || k == nil {
		return err
	}
	if v.form.Get("send") != "" {
		v.spent = true
		if err := challenge(v, k, f.path); err != nil {
			return err
		}
		return v.to(f.path)
	}
	code := digits(v.form.Get("code"))
	if code == "" {
		return factorForm(v, f, k, []mistake{{"code", "code.required"}})
	}
	right := false
	if len(code) == f.digits { // what has another length is no guess
		if right, err = patchSession(v, k, &sessionv3.PatchSession{Checks: f.check(code)}, session.Attempt{}); err != nil {
			return err
		}
	}
	if !right && k.spent(v.Now()) {
		return factorForm(v, f, k, []mistake{{"code", "code.spent"}})
	}
	if !right {
		return factorForm(v, f, k, []mistake{{"code", "code.wrong"}})
	}
	return v.advance()
}

func (f factorPage) check(code string) *sessionv3.Checks {
	switch f.path {
	case pathSMS:
		return &sessionv3.Checks{OtpSms: &sessionv3.CheckCode{Code: code}}
	case pathEmail:
		return &sessionv3.Checks{OtpEmail: &sessionv3.CheckCode{Code: code}}
	}
	return &sessionv3.Checks{Totp: &sessionv3.CheckTOTP{Code: code}}
}

// challenge sends a code, for the factors that have one sent. How many messages an
// address gets is limited where they are queued, without a word (SEC-185).
func challenge(v *visit, k *browserSession, path string) error {
	want := &sessionv3.Challenges{}
	switch path {
	case pathSMS:
		want.OtpSms = &sessionv3.CodeChallenge{}
	case pathEmail:
		want.OtpEmail = &sessionv3.CodeChallenge{}
	default:
		return nil
	}
	_, err := patchSession(v, k, &sessionv3.PatchSession{Challenges: want}, session.Attempt{})
	if err == nil {
		v.flow.Notice = "sent"
	}
	return err
}

func factorForm(v *visit, f factorPage, k *browserSession, mistakes []mistake) error {
	p := v.page(f.name, template.URL(f.path)) //nolint:gosec // a constant
	p.Who, p.Change = k.LoginName, v.link("change", pathName)
	p.Fields = []field{{Name: "code", Type: "text", Autocomplete: "one-time-code", Numeric: true}}
	switch f.path {
	case pathSMS:
		p.Lead = v.words.get("sms.lead", maskPhone(k.SmsAddress))
	case pathEmail:
		p.Lead = v.words.get("email.lead", maskEmail(k.EmailAddress))
	}
	if f.path != pathTOTP {
		p.Other = append(p.Other, link{v.words.get("link.again"), f.path})
	}
	for _, path := range k.factors() {
		if path != f.path {
			p.Other = append(p.Other, link{v.words.get("link" + strings.ReplaceAll(strings.TrimPrefix(path, pathName), "/", ".")), path})
		}
	}
	return v.render(p, mistakes)
}

// digits returns a code as it was meant: people type spaces into it.
func digits(typed string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, shorten(typed, 100))
}

// maskPhone and maskEmail name an address to who knows it already.
func maskPhone(number string) string {
	if len(number) < 7 {
		return "…"
	}
	return number[:3] + "\u00a0…\u00a0" + number[len(number)-2:]
}

func maskEmail(address string) string {
	at := strings.LastIndexByte(address, '@')
	if at < 1 {
		return "…"
	}
	_, first := utf8.DecodeRuneInString(address)
	return address[:first] + "…" + address[at:]
}
