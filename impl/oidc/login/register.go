package login

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/writ-id/writ/gen/db"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/oidc/login/registration"
	"github.com/writ-id/writ/impl/oidc/login/rule"
)

// mayRegister reports whether people may register here; the browser is sent to the
// login name when not (SEC-145).
func mayRegister(v *visit) (bool, error) {
	if org := cmp.Or(v.flow.GetOrgId(), v.instance.DefaultOrg); v.instance.AllowRegistration && v.flow.GetUserId() == "" && org != "" {
		err := canMail(v, org) // the address has to be proven
		return err == nil, err
	}
	return false, v.to(pathName)
}

// showRegister shows the page on which people register.
func showRegister(v *visit) error {
	if may, err := mayRegister(v); !may {
		return err
	}
	return registerForm(v, registration.Form{Email: emailOf(v.flow.GetLoginHint())}, nil)
}

func emailOf(hint string) string {
	if rule.IsEmail(hint) {
		return hint
	}
	return ""
}

// takeRegister makes a user who cannot sign in before their address is verified.
// Whether the address is known already is not told, neither by the answer nor by
// what follows: who knows a password only learns that it is not right (SEC-170).
func takeRegister(v *visit) error {
	if may, err := mayRegister(v); !may {
		return err
	}
	said := formSaid(v)
	mistakes := mistakesIn(said)
	chosen, more := newPassword(v, said.Email)
	if mistakes = append(mistakes, more...); len(mistakes) > 0 {
		return registerForm(v, said, mistakes)
	}
	at, err := registeringIn(v, cmp.Or(v.flow.GetOrgId(), v.instance.DefaultOrg), said.Email)
	if err != nil {
		return err
	}
	v.spent = true
	var begun *registration.Begun
	err = inTime(v.r.Context(), func() (err error) {
		begun, err = v.registrations.Register(v.r.Context(), at, said, chosen)
		return err
	})
	if errors.Is(err, registration.ErrPasswordIsName) {
		return registerForm(v, said, []mistake{{"newPassword", "newPassword.name"}})
	}
	if err != nil {
		return err
	}
	v.flow.CodeUserId = begun.UserID
	v.proved(begun.SessionID, begun.SessionToken, "")
	v.flow.Registering, v.flow.Address, v.flow.LoginName = true, said.Email, said.Email
	return v.to(pathVerify)
}

// registeringIn says where somebody registers with an address.
func registeringIn(v *visit, orgID, address string) (at registration.Where, err error) {
	if at, err = registering(v, address); err == nil {
		at.OrgID = orgID
		at.Lifetime, err = v.idle(v.r.Context(), v.instance.ID, orgID)
	}
	return at, err
}

// registering is registeringIn for who does already.
func registering(v *visit, address string) (at registration.Where, err error) {
	at = registration.Where{InstanceID: v.instance.ID, Language: v.words.language, UserAgent: userAgent(v)}
	if v.flow.GetRegistering() {
		at.Before = v.flow.GetCodeUserId()
	}
	if at.Browser, err = v.browser().asksFor(address); err == nil {
		at.Door, err = v.browser().doorOf(&tokenv1.Door{Address: resource.Fold(address)})
	}
	return at, err
}

// formSaid returns what somebody typed of themselves, mistakesIn what is wrong with it.
func formSaid(v *visit) registration.Form {
	typed := func(field string) string { return strings.TrimSpace(v.form.Get(field)) }
	return registration.Form{
		GivenName: typed(registration.FieldGivenName), FamilyName: typed(registration.FieldFamilyName),
		Email: typed(registration.FieldEmail), LoginName: typed(registration.FieldLoginName),
	}
}

func mistakesIn(said registration.Form) (mistakes []mistake) {
	for _, field := range said.Check() {
		mistakes = append(mistakes, mistake{field, field + ".invalid"})
	}
	return mistakes
}

func registerForm(v *visit, said registration.Form, mistakes []mistake) error {
	p := v.page("register", pathRegister)
	p.Fields = append(personFields(v, said), newPasswordFields()...)
	p.Fields[len(p.Fields)-2].Label = v.words.get("field.password")
	p.Links = append(p.Links, v.link("have", pathName))
	return v.render(p, mistakes)
}

// personFields ask who somebody is.
func personFields(v *visit, said registration.Form) []field {
	return []field{
		{Name: registration.FieldGivenName, Type: "text", Value: said.GivenName, Autocomplete: "given-name"},
		{Name: registration.FieldFamilyName, Type: "text", Value: said.FamilyName, Autocomplete: "family-name"},
		{Name: registration.FieldEmail, Type: "email", Value: said.Email, Autocomplete: "email", Username: true},
		{Name: registration.FieldLoginName, Type: "text", Value: said.LoginName, Autocomplete: "username", Username: true, Optional: true, Label: v.words.get("field.wish"), Hint: v.words.get("register.loginName")},
	}
}

// showVerify shows the page that takes the code for the address.
func showVerify(v *visit) error {
	if !v.flow.GetRegistering() {
		return v.to(pathName)
	}
	return verifyForm(v, nil)
}

// takeVerify marks the address as verified and lets the user in. Who registered
// with an address that is not theirs, or is known, stays here.
func takeVerify(v *visit) error {
	if !v.flow.GetRegistering() {
		return v.to(pathName)
	}
	if v.form.Get("send") != "" {
		v.spent = true
		if err := inTime(v.r.Context(), func() error { return sendAgain(v) }); err != nil {
			return err
		}
		v.flow.Notice = "sent"
		return v.to(pathVerify)
	}
	code := digits(v.form.Get("code"))
	if code == "" {
		return verifyForm(v, []mistake{{"code", "code.required"}})
	}
	verified := false
	if err := inTime(v.r.Context(), func() (err error) {
		verified, err = v.registrations.Verify(v.r.Context(), v.instance.ID, v.flow.GetCodeUserId(), v.browser().unknown(), v.flow.GetAddress(), code)
		return err
	}); err != nil {
		return err
	}
	if !verified {
		return verifyForm(v, []mistake{{"code", "code.wrong"}})
	}
	v.flow.Registering, v.flow.CodeUserId, v.flow.Address = false, "", ""
	return v.advance()
}

// sendAgain sends another code to who registers.
func sendAgain(v *visit) error {
	at, err := registering(v, v.flow.GetAddress())
	if err != nil {
		return err
	}
	return v.registrations.Resend(v.r.Context(), at, v.flow.GetCodeUserId(), v.flow.GetAddress())
}

func verifyForm(v *visit, mistakes []mistake) error {
	p := v.page("verify", pathVerify)
	p.Lead = v.words.get("verify.lead", v.flow.GetAddress())
	p.Fields = []field{{Name: "code", Type: "text", Autocomplete: "one-time-code", Numeric: true, Hint: v.words.get("verify.many")}}
	p.Other = append(p.Other, link{v.words.get("link.again"), pathVerify})
	p.Links = append(p.Links, v.link("address", pathRegister))
	return v.render(p, mistakes)
}

// Sweep deletes those who registered and never verified their address, and tries of
// browsers that do not count any more. It returns how many registrations that were, at
// most batch.
func (p *Pages) Sweep(ctx context.Context, before time.Time, batch int32) (int64, error) {
	if _, err := p.queries.SweepBrowserTries(ctx, p.DB.Pool, db.SweepBrowserTriesParams{Before: before, Batch: batch}); err != nil {
		return 0, err
	}
	return p.registrations.Sweep(ctx, before, batch)
}
