package step

import (
	"context"

	"github.com/writ-id/writ/impl/oidc/login/code"
	"github.com/writ-id/writ/impl/oidc/login/flow"
	"github.com/writ-id/writ/impl/oidc/login/page"
	"github.com/writ-id/writ/impl/oidc/login/password"
)

// showForgot shows the page on which a new password is asked for.
func (s *Steps) showForgot(ctx context.Context, q *Request) (Answer, error) {
	return Answer{Page: forgotPage(q, q.Flow.Hint())}, s.canMail(ctx, q, q.Flow.Asked().OrgID)
}

// takeForgot sends a code to the verified address of a user. Whether there is one
// is not told (SEC-170).
func (s *Steps) takeForgot(ctx context.Context, q *Request) (Answer, error) {
	name := CanonicalName(q.Form.Get("loginName"))
	if name == "" {
		return again(forgotPage(q, q.Form.Get("loginName")), page.Mistake{Field: "loginName", Key: "loginName.required"})
	}
	if err := s.canMail(ctx, q, q.Flow.Asked().OrgID); err != nil {
		return Answer{Counts: true}, err
	}
	userID, err := s.sendReset(ctx, q, name)
	return Answer{Event: flow.Forgot{LoginName: name, UserID: userID}, Counts: true}, err
}

// sendReset sends a code to whom a name means, and returns their ID: for a name that means
// nobody one that is nobody's, and as long.
func (s *Steps) sendReset(ctx context.Context, q *Request, name string) (string, error) {
	at := q.Browser.Instance
	named, err := s.Resolve(ctx, q.Flow, at.ID, at.DefaultOrg, name)
	if err != nil || named.ID == "" {
		return s.NewID(), err
	}
	if !named.IsEmailVerified || named.Email == "" {
		return named.ID, nil
	}
	to := recipient(q, &named)
	to.Language = q.Words.Language()
	if to.Browser, err = q.Browser.Asks(ctx, named.ID, &named.Generation); err != nil {
		return "", err
	}
	if to.Door, err = q.Browser.DoorOf(ctx, named.ID, named.Generation); err != nil {
		return "", err
	}
	return named.ID, s.Codes.Send(ctx, code.Reset, "reset_password", to)
}

func forgotPage(q *Request, name string) *page.Page {
	p := q.Words.Of(q.Flow, "forgot", flow.PathForgot)
	p.Fields = []page.Field{{Name: "loginName", Type: "text", Value: name, Autocomplete: "username", Username: true}}
	p.Links = append(p.Links, q.Words.Link("back", flow.PathName))
	return p
}

// showReset shows the page that takes the code and the new password.
func (s *Steps) showReset(_ context.Context, q *Request) (Answer, error) { return ask(resetPage(q)) }

// takeReset sets a new password. The user is not signed in by it and has to prove
// second factors as ever; whatever else was open in their name ends (SEC-173).
func (s *Steps) takeReset(ctx context.Context, q *Request) (Answer, error) {
	state := q.Flow.State().(flow.Reset)
	typed := digits(q.Form.Get("code"))
	if typed == "" {
		return again(resetPage(q), page.Mistake{Field: "code", Key: "code.required"})
	}
	chosen, mistakes := newPassword(q, state.LoginName)
	if mistakes != nil {
		return again(resetPage(q), mistakes...)
	}
	from, err := q.Browser.Asks(ctx, state.UserID, nil)
	if err != nil {
		return Answer{}, err
	}
	bad, err := s.Passwords.Reset(ctx, q.Browser.Instance.ID, state.UserID, from.ID, typed, chosen)
	if err != nil {
		return Answer{}, err
	}
	if bad != password.Right {
		p := resetPage(q)
		return Answer{Page: p, Mistakes: mistakesOf(bad), Counts: bad == password.BadCode}, nil
	}
	return Answer{Event: flow.Replaced{}}, nil
}

func resetPage(q *Request) *page.Page {
	p := q.Words.Of(q.Flow, "reset", flow.PathReset)
	p.Lead = q.Words.Get("reset.lead", q.Flow.LoginName())
	p.Fields = append([]page.Field{{Name: "code", Type: "text", Value: digits(q.Form.Get("code")), Autocomplete: "one-time-code", Numeric: true}}, newPasswordFields()...)
	p.Links = append(p.Links, q.Words.Link("newcode", flow.PathForgot), q.Words.Link("back", flow.PathName))
	return p
}
