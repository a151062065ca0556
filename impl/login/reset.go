package login

import (
	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/secret"
	"github.com/writ-id/writ/impl/store"
)

// active is the state of users who can sign in.
const active = 1

// showForgot shows the page on which a new password is asked for.
func (v *visit) showForgot() error {
	name := v.flow.GetLoginName()
	if name == "" {
		name = v.flow.GetLoginHint()
	}
	return v.forgotForm(name, nil)
}

// takeForgot sends a code to the verified address of a user. Whether there is one
// is not told (SEC-170).
func (v *visit) takeForgot() error {
	name := canonicalName(v.form.Get("loginName"))
	if name == "" {
		return v.forgotForm(v.form.Get("loginName"), []mistake{{"loginName", "loginName.required"}})
	}
	ctx := v.r.Context()
	if err := inTime(ctx, func() error {
		user, err := v.resolve(name)
		v.flow.CodeUserId = user.ID
		if err != nil || user.ID == "" {
			v.flow.CodeUserId = v.NewID() // nobody's, and as long
			return err
		}
		if !user.IsEmailVerified || user.Email == "" {
			return nil
		}
		to := recipient{id: user.ID, orgID: user.OrgID, address: user.Email, language: v.words.language, name: user.DisplayName}
		if to.browser, err = v.browserOf(user.ID, &user.Generation); err != nil {
			return err
		}
		if to.door, err = v.door(&user); err != nil {
			return err
		}
		return v.sendCode(ctx, purposeReset, "reset_password", to)
	}); err != nil {
		return err
	}
	v.flow.LoginName, v.flow.SessionId, v.flow.Registering = name, "", false
	return v.to(pathReset)
}

func (v *visit) forgotForm(name string, mistakes []mistake) error {
	p := v.page("forgot", pathForgot)
	p.Fields = []field{{Name: "loginName", Type: "text", Value: name, Autocomplete: "username", Username: true}}
	p.Links = append(p.Links, v.link("back", pathName))
	return v.render(p, mistakes)
}

// showReset shows the page that takes the code and the new password.
func (v *visit) showReset() error {
	if v.flow.GetCodeUserId() == "" || v.flow.GetRegistering() {
		return v.to(pathForgot)
	}
	return v.resetForm(nil)
}

// takeReset sets a new password. The user is not signed in by it and has to prove
// second factors as ever; whatever else was open in their name ends (SEC-173).
func (v *visit) takeReset() error {
	if v.flow.GetCodeUserId() == "" || v.flow.GetRegistering() {
		return v.to(pathForgot)
	}
	code := digits(v.form.Get("code"))
	if code == "" {
		return v.resetForm([]mistake{{"code", "code.required"}})
	}
	password, mistakes := v.newPassword(v.flow.GetLoginName())
	if mistakes != nil {
		return v.resetForm(mistakes)
	}
	if err := inTime(v.r.Context(), func() (err error) {
		mistakes, err = v.reset(code, password)
		return err
	}); err != nil {
		return err
	}
	if mistakes != nil {
		return v.resetForm(mistakes)
	}
	v.flow.CodeUserId, v.flow.SessionId, v.flow.Notice = "", "", "reset"
	return v.to(pathPassword)
}

func (v *visit) reset(code, password string) ([]mistake, error) {
	wrong := []mistake{{"code", "code.wrong"}}
	tried, err := v.tryCode(v.flow.GetCodeUserId(), purposeReset, code)
	if err != nil || tried == nil {
		return wrong, err
	}
	user, err := v.queries.CodeUser(v.r.Context(), v.DB.Pool, db.CodeUserParams{InstanceID: v.instance.ID, ID: tried.userID})
	if store.NoRow(err) || err == nil && (user.State != active || user.Email != tried.address) {
		return wrong, nil
	}
	if err != nil {
		return nil, err
	}
	if isName(password, user.LoginName) {
		return []mistake{{"newPassword", "newPassword.name"}}, nil
	}
	hash, err := secret.New(v.r.Context(), v.instance.ID, password)
	if err != nil {
		return nil, err
	}
	used := false
	err = v.DB.InTx(v.r.Context(), func(tx pgx.Tx) error {
		if used, err = v.use(v.r.Context(), tx, tried); err != nil || !used {
			return err
		}
		return v.setPassword(store.Within(v.as(v.r.Context(), v.instance, user.OrgID, user.ID), tx), &user, hash, "")
	})
	if err == nil && !used {
		return wrong, nil
	}
	return nil, err
}

func (v *visit) resetForm(mistakes []mistake) error {
	p := v.page("reset", pathReset)
	p.Lead = v.words.get("reset.lead", v.flow.GetLoginName())
	p.Fields = append([]field{{Name: "code", Type: "text", Value: digits(v.form.Get("code")), Autocomplete: "one-time-code", Numeric: true}}, newPasswordFields()...)
	p.Links = append(p.Links, v.link("newcode", pathForgot), v.link("back", pathName))
	return v.render(p, mistakes)
}
