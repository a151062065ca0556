package login

import (
	"github.com/writ-id/writ/impl/api/message"
	"github.com/writ-id/writ/impl/oidc/login/code"
	"github.com/writ-id/writ/impl/oidc/login/password"
)

// showForgot shows the page on which a new password is asked for.
func showForgot(v *visit) error {
	if err := canMail(v, v.flow.GetOrgId()); err != nil {
		return err
	}
	name := v.flow.GetLoginName()
	if name == "" {
		name = v.flow.GetLoginHint()
	}
	return forgotForm(v, name, nil)
}

// takeForgot sends a code to the verified address of a user. Whether there is one
// is not told (SEC-170).
func takeForgot(v *visit) error {
	name := canonicalName(v.form.Get("loginName"))
	if name == "" {
		return forgotForm(v, v.form.Get("loginName"), []mistake{{"loginName", "loginName.required"}})
	}
	v.spent = true
	ctx := v.r.Context()
	if err := canMail(v, v.flow.GetOrgId()); err != nil {
		return err
	}
	if err := inTime(ctx, func() error {
		user, err := resolve(v, name)
		v.flow.CodeUserId = user.ID
		if err != nil || user.ID == "" {
			v.flow.CodeUserId = v.NewID() // nobody's, and as long
			return err
		}
		if !user.IsEmailVerified || user.Email == "" {
			return nil
		}
		to := recipient(v, &user)
		to.Language = v.words.language
		if to.Browser, err = v.browser().asks(user.ID, &user.Generation); err != nil {
			return err
		}
		if to.Door, err = v.browser().door(&user); err != nil {
			return err
		}
		return v.codes.Send(ctx, code.Reset, "reset_password", to)
	}); err != nil {
		return err
	}
	v.flow.LoginName, v.flow.SessionId, v.flow.Registering = name, "", false
	return v.to(pathReset)
}

// canMail refuses what would send an e-mail when nobody would carry it on: to users of an
// organization, or of any when none is named. It is asked before a user is looked for, so
// that its answer is the same for all (SEC-170).
func canMail(v *visit, orgID string) error {
	return message.CanSend(v.r.Context(), v.DB.Pool, &v.Env, message.Email, v.instance.ID, orgID)
}

func forgotForm(v *visit, name string, mistakes []mistake) error {
	p := v.page("forgot", pathForgot)
	p.Fields = []field{{Name: "loginName", Type: "text", Value: name, Autocomplete: "username", Username: true}}
	p.Links = append(p.Links, v.link("back", pathName))
	return v.render(p, mistakes)
}

// showReset shows the page that takes the code and the new password.
func showReset(v *visit) error {
	if v.flow.GetCodeUserId() == "" || v.flow.GetRegistering() {
		return v.to(pathForgot)
	}
	return resetForm(v, nil)
}

// takeReset sets a new password. The user is not signed in by it and has to prove
// second factors as ever; whatever else was open in their name ends (SEC-173).
func takeReset(v *visit) error {
	if v.flow.GetCodeUserId() == "" || v.flow.GetRegistering() {
		return v.to(pathForgot)
	}
	typed := digits(v.form.Get("code"))
	if typed == "" {
		return resetForm(v, []mistake{{"code", "code.required"}})
	}
	chosen, mistakes := newPassword(v, v.flow.GetLoginName())
	if mistakes != nil {
		return resetForm(v, mistakes)
	}
	wrong, ctx := password.Right, v.r.Context()
	if err := inTime(ctx, func() error {
		browser, err := v.browser().asks(v.flow.GetCodeUserId(), nil)
		if err == nil {
			wrong, err = v.passwords.Reset(ctx, v.instance.ID, v.flow.GetCodeUserId(), browser.ID, typed, chosen)
		}
		return err
	}); err != nil {
		return err
	}
	if wrong != password.Right {
		return resetForm(v, mistakesOf(wrong))
	}
	v.flow.CodeUserId, v.flow.SessionId, v.flow.Notice = "", "", "reset"
	return v.to(pathPassword)
}

func resetForm(v *visit, mistakes []mistake) error {
	p := v.page("reset", pathReset)
	p.Lead = v.words.get("reset.lead", v.flow.GetLoginName())
	p.Fields = append([]field{{Name: "code", Type: "text", Value: digits(v.form.Get("code")), Autocomplete: "one-time-code", Numeric: true}}, newPasswordFields()...)
	p.Links = append(p.Links, v.link("newcode", pathForgot), v.link("back", pathName))
	return v.render(p, mistakes)
}
