package step

import (
	"context"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	sessionv3 "github.com/writ-id/writ/gen/proto/writ/session/v3alpha"
	"github.com/writ-id/writ/impl/api/authenticator"
	"github.com/writ-id/writ/impl/api/session"
	"github.com/writ-id/writ/impl/oidc/login/browser"
	"github.com/writ-id/writ/impl/oidc/login/flow"
	"github.com/writ-id/writ/impl/oidc/login/page"
)

// factor is a kind of second factor.
type factor struct {
	due    flow.Due
	name   string
	digits int
	check  func(code string) *sessionv3.Checks
	// challenge has a code sent; nil for a kind that has none sent.
	challenge *sessionv3.Challenges
}

// factors are all kinds.
var factors = []factor{
	{flow.TOTP, "totp", 6, func(code string) *sessionv3.Checks {
		return &sessionv3.Checks{Totp: &sessionv3.CheckTOTP{Code: code}}
	}, nil},
	{flow.SMS, "sms", 8, func(code string) *sessionv3.Checks {
		return &sessionv3.Checks{OtpSms: &sessionv3.CheckCode{Code: code}}
	}, &sessionv3.Challenges{OtpSms: &sessionv3.CodeChallenge{}}},
	{flow.Email, "email", 8, func(code string) *sessionv3.Checks {
		return &sessionv3.Checks{OtpEmail: &sessionv3.CheckCode{Code: code}}
	}, &sessionv3.Challenges{OtpEmail: &sessionv3.CodeChallenge{}}},
}

func (s *Steps) factor(f factor) Handler {
	return Handler{
		func(_ context.Context, q *Request) (Answer, error) { return s.showFactor(q, f) },
		func(ctx context.Context, q *Request) (Answer, error) { return s.takeFactor(ctx, q, f) },
	}
}

func (s *Steps) showFactor(q *Request, f factor) (Answer, error) {
	p := f.page(q)
	if isSpent(q.Session, s.Now()) {
		p.Notice = q.Words.Get("notice.spent")
	}
	return ask(p)
}

// isSpent reports whether the user has no try of a second factor left for now, which a user
// who has proven the password may know.
func isSpent(k *browser.Session, now time.Time) bool {
	return k.FailedFactors >= authenticator.FactorAttempts && now.Before(k.FailedFactorsUntil)
}

// takeFactor sends a code or checks one. The session gets a new token each time.
func (s *Steps) takeFactor(ctx context.Context, q *Request, f factor) (Answer, error) {
	if q.Form.Get("send") != "" {
		event, err := s.Challenge(ctx, q.Browser, q.Session, f.due)
		return Answer{Event: event, To: f.due.Path(), Counts: true}, err
	}
	typed := digits(q.Form.Get("code"))
	if typed == "" {
		return again(f.page(q), page.Mistake{Field: "code", Key: "code.required"})
	}
	if len(typed) == f.digits { // what has another length is no guess
		right, err := q.Browser.Patch(ctx, q.Session, &sessionv3.PatchSession{Checks: f.check(typed)}, session.Attempt{})
		if right || err != nil {
			return Answer{}, err
		}
	}
	if isSpent(q.Session, s.Now()) {
		return wrong(f.page(q), page.Mistake{Field: "code", Key: "code.spent"})
	}
	return wrong(f.page(q), page.Mistake{Field: "code", Key: "code.wrong"})
}

// Challenge sends a code, for what is due and has one sent; else the event is nil. How many
// messages an address gets is limited where they are queued, without a word (SEC-185).
func (s *Steps) Challenge(ctx context.Context, b *browser.Browser, k *browser.Session, due flow.Due) (flow.Event, error) {
	for _, f := range factors {
		if f.due == due && f.challenge != nil {
			_, err := b.Patch(ctx, k, &sessionv3.PatchSession{Challenges: f.challenge}, session.Attempt{})
			return flow.Sent{}, err
		}
	}
	return nil, nil
}

func (f factor) page(q *Request) *page.Page {
	k, w := q.Session, q.Words
	p := w.Of(q.Flow, f.name, f.due.Path())
	p.Who, p.Change = k.LoginName, w.Link("change", flow.PathName)
	p.Fields = []page.Field{{Name: "code", Type: "text", Autocomplete: "one-time-code", Numeric: true}}
	switch f.due {
	case flow.SMS:
		p.Lead = w.Get("sms.lead", maskPhone(k.SMSAddress))
	case flow.Email:
		p.Lead = w.Get("email.lead", maskEmail(k.EmailAddress))
	}
	if f.challenge != nil {
		p.Other = append(p.Other, w.Link("again", f.due.Path()))
	}
	for _, other := range factors {
		if other.due != f.due && other.due.IsFactor(&k.Session) {
			p.Other = append(p.Other, w.Link(other.name, other.due.Path()))
		}
	}
	return p
}

// digits returns a code as it was meant: people type spaces into it.
func digits(typed string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, page.Shorten(typed, 100))
}

// maskPhone and maskEmail name an address to a user who knows it already.
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
