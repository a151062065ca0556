package login

import (
	"time"

	sessionv3 "github.com/writ-id/writ/gen/proto/writ/session/v3alpha"
	"github.com/writ-id/writ/impl/api/session"
	"github.com/writ-id/writ/impl/oidc/login/password"
)

// recentPassword is how old the proof of a password may be that is to be changed
// (SEC-180).
const recentPassword = 15 * time.Minute

// showChange shows the page on which a password is changed that has to be.
func showChange(v *visit) error {
	k, err := v.at(pathChange)
	if err != nil || k == nil {
		return err
	}
	return changeForm(v, k, nil)
}

// takeChange changes the password. Other sessions of the user end.
func takeChange(v *visit) error {
	k, err := v.at(pathChange)
	if err != nil || k == nil {
		return err
	}
	chosen, mistakes := newPassword(v, k.LoginName)
	if mistakes != nil {
		return changeForm(v, k, mistakes)
	}
	wrong, err := v.passwords.Change(v.r.Context(), v.instance.ID, k.UserID, k.ID, chosen)
	if err != nil {
		return err
	}
	if wrong != password.Right {
		return changeForm(v, k, mistakesOf(wrong))
	}
	if _, err := patchSession(v, k, &sessionv3.PatchSession{Checks: checkPassword(chosen)}, session.Attempt{}); err != nil {
		return err
	}
	return v.advance()
}

func changeForm(v *visit, k *browserSession, mistakes []mistake) error {
	p := v.page("change", pathChange)
	p.Who, p.Change = k.LoginName, v.link("change", pathName)
	p.Fields = newPasswordFields()
	return v.render(p, mistakes)
}

func newPasswordFields() []field {
	return []field{
		{Name: "newPassword", Type: "password", Autocomplete: "new-password", MinLength: password.Shortest()},
		{Name: "newPasswordAgain", Type: "password", Autocomplete: "new-password"},
	}
}

// newPassword returns the new password of a form, or what is wrong with it.
func newPassword(v *visit, loginName string) (string, []mistake) {
	typed := v.form.Get("newPassword")
	if wrong := password.Check(typed, v.form.Get("newPasswordAgain"), loginName); wrong != password.Right {
		return "", mistakesOf(wrong)
	}
	return typed, nil
}

// mistakesOf says what is wrong with a new password, by the keys of texts.
func mistakesOf(wrong password.Wrong) []mistake {
	switch wrong {
	case password.BadCode:
		return []mistake{{"code", "code.wrong"}}
	case password.Differs:
		return []mistake{{"newPasswordAgain", "newPassword.differs"}}
	}
	return []mistake{{"newPassword", "newPassword." + string(wrong)}}
}
