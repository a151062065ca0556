package step

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/writ-id/writ/impl/oidc/login/flow"
	"github.com/writ-id/writ/impl/oidc/login/page"
	"github.com/writ-id/writ/impl/oidc/login/registration"
	"github.com/writ-id/writ/impl/oidc/login/rule"
)

// registersIn returns the organization in which people may register here, "" when they may
// not (SEC-145). Their address has to be proven, so an e-mail has to arrive.
func (s *Steps) registersIn(ctx context.Context, q *Request) (string, error) {
	at, asked := q.Browser.Instance, q.Flow.Asked()
	org := cmp.Or(asked.OrgID, at.DefaultOrg)
	if !at.AllowRegistration || asked.UserID != "" || org == "" {
		return "", nil
	}
	return org, s.canMail(ctx, q, org)
}

// showRegister shows the page on which people register.
func (s *Steps) showRegister(ctx context.Context, q *Request) (Answer, error) {
	org, err := s.registersIn(ctx, q)
	if err != nil || org == "" {
		return Answer{To: flow.PathName}, err
	}
	said := registration.Form{}
	if hint := q.Flow.Hint(); rule.IsEmail(hint) {
		said.Email = hint
	}
	return ask(registerPage(q, said))
}

// takeRegister makes a user who cannot sign in before their address is verified.
// Whether the address is known already is not told, neither by the answer nor by
// what follows: a wrong password is told of in the same words (SEC-170).
func (s *Steps) takeRegister(ctx context.Context, q *Request) (Answer, error) {
	org, err := s.registersIn(ctx, q)
	if err != nil || org == "" {
		return Answer{To: flow.PathName}, err
	}
	said := formSaid(q)
	chosen, more := newPassword(q, said.Email)
	if mistakes := append(mistakesIn(said), more...); len(mistakes) > 0 {
		return again(registerPage(q, said), mistakes...)
	}
	where := registration.Where{OrgID: org, Language: q.Words.Language()}
	if before, ok := q.Flow.State().(flow.Verify); ok {
		where.Before = before.UserID
	}
	if where, err = s.Registrations.At(ctx, q.Browser, where, said.Email); err != nil {
		return Answer{}, err
	}
	begun, err := s.Registrations.Register(ctx, where, said, chosen)
	if errors.Is(err, registration.ErrPasswordIsName) {
		return wrong(registerPage(q, said), page.Mistake{Field: "newPassword", Key: "newPassword.name"})
	}
	if err != nil {
		return Answer{Counts: true}, err
	}
	q.Browser.Jar.Add(begun.SessionToken, "")
	return Answer{Counts: true, Event: flow.Registered{
		UserID: begun.UserID, Address: said.Email, SessionID: begun.SessionID, Since: q.Browser.Began.Unix(),
	}}, nil
}

// formSaid returns what somebody typed of themselves, mistakesIn what is wrong with it.
func formSaid(q *Request) registration.Form {
	typed := func(field string) string { return strings.TrimSpace(q.Form.Get(field)) }
	return registration.Form{
		GivenName: typed(registration.FieldGivenName), FamilyName: typed(registration.FieldFamilyName),
		Email: typed(registration.FieldEmail), LoginName: typed(registration.FieldLoginName),
	}
}

func mistakesIn(said registration.Form) (mistakes []page.Mistake) {
	for _, field := range said.Check() {
		mistakes = append(mistakes, page.Mistake{Field: field, Key: field + ".invalid"})
	}
	return mistakes
}

func registerPage(q *Request, said registration.Form) *page.Page {
	p := q.Words.Of(q.Flow, "register", flow.PathRegister)
	p.Fields = append(personFields(q, said), newPasswordFields()...)
	p.Fields[len(p.Fields)-2].Label = q.Words.Get("field.password")
	p.Links = append(p.Links, q.Words.Link("have", flow.PathName))
	return p
}

// personFields ask who somebody is.
func personFields(q *Request, said registration.Form) []page.Field {
	return []page.Field{
		{Name: registration.FieldGivenName, Type: "text", Value: said.GivenName, Autocomplete: "given-name"},
		{Name: registration.FieldFamilyName, Type: "text", Value: said.FamilyName, Autocomplete: "family-name"},
		{Name: registration.FieldEmail, Type: "email", Value: said.Email, Autocomplete: "email", Username: true},
		{
			Name: registration.FieldLoginName, Type: "text", Value: said.LoginName, Autocomplete: "username", Username: true, Optional: true,
			Label: q.Words.Get("field.wish"), Hint: q.Words.Get("register.loginName"),
		},
	}
}

// showVerify shows the page that takes the code for the address.
func (s *Steps) showVerify(_ context.Context, q *Request) (Answer, error) { return ask(verifyPage(q)) }

// takeVerify marks the address as verified and lets the user in. A registration with an
// address that is another one's, or is known, stays here.
func (s *Steps) takeVerify(ctx context.Context, q *Request) (Answer, error) {
	state := q.Flow.State().(flow.Verify)
	if q.Form.Get("send") != "" {
		where, err := s.Registrations.At(ctx, q.Browser, registration.Where{Language: q.Words.Language(), Before: state.UserID}, state.Address)
		if err == nil {
			err = s.Registrations.Resend(ctx, where, state.UserID, state.Address)
		}
		return Answer{Event: flow.Sent{}, Counts: true}, err
	}
	typed := digits(q.Form.Get("code"))
	if typed == "" {
		return again(verifyPage(q), page.Mistake{Field: "code", Key: "code.required"})
	}
	verified, err := s.Registrations.Verify(ctx, q.Browser.Instance.ID, state.UserID, q.Browser.Unknown(), state.Address, typed)
	if err != nil {
		return Answer{}, err
	}
	if !verified {
		return wrong(verifyPage(q), page.Mistake{Field: "code", Key: "code.wrong"})
	}
	return Answer{Event: flow.Verified{}}, nil
}

func verifyPage(q *Request) *page.Page {
	p := q.Words.Of(q.Flow, "verify", flow.PathVerify)
	p.Lead = q.Words.Get("verify.lead", q.Flow.LoginName())
	p.Fields = []page.Field{{Name: "code", Type: "text", Autocomplete: "one-time-code", Numeric: true, Hint: q.Words.Get("verify.many")}}
	p.Other = append(p.Other, q.Words.Link("again", flow.PathVerify))
	p.Links = append(p.Links, q.Words.Link("address", flow.PathRegister))
	return p
}
