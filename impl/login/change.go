package login

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	sessionv3 "github.com/writ-id/writ/gen/proto/writ/session/v3alpha"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/resource"
	"github.com/writ-id/writ/impl/secret"
	"github.com/writ-id/writ/impl/signout"
	"github.com/writ-id/writ/impl/store"
	"github.com/writ-id/writ/impl/user"
)

// recentPassword is how old the proof of a password may be that is to be changed
// (SEC-180).
const recentPassword = 15 * time.Minute

// showChange shows the page on which a password is changed that has to be.
func (v *visit) showChange() error {
	k, err := v.at(pathChange)
	if err != nil || k == nil {
		return err
	}
	return v.changeForm(k, nil)
}

// takeChange changes the password. Other sessions of the user end.
func (v *visit) takeChange() error {
	k, err := v.at(pathChange)
	if err != nil || k == nil {
		return err
	}
	password, mistakes := v.newPassword(k.LoginName)
	if mistakes != nil {
		return v.changeForm(k, mistakes)
	}
	changing, err := v.queries.CodeUser(v.r.Context(), v.DB.Pool, db.CodeUserParams{InstanceID: v.instance.ID, ID: k.UserID})
	if err != nil {
		return err
	}
	// Not a way to try passwords: who is here has just proven this one.
	same, _, err := secret.Verify(v.r.Context(), v.instance.ID, changing.PasswordHash, password, changing.PasswordHash != "")
	if err != nil {
		return err
	}
	if same {
		return v.changeForm(k, []mistake{{"newPassword", "newPassword.same"}})
	}
	hash, err := secret.New(v.r.Context(), v.instance.ID, password)
	if err != nil {
		return err
	}
	if err := v.DB.InTx(v.r.Context(), func(tx pgx.Tx) error {
		return v.setPassword(store.Within(v.asUser(k), tx), &changing, hash, k.ID)
	}); err != nil {
		return err
	}
	if _, err := v.patch(k, &sessionv3.PatchSession{Checks: checkPassword(password)}, user.Attempt{}); err != nil {
		return err
	}
	return v.advance()
}

func (v *visit) changeForm(k *known, mistakes []mistake) error {
	p := v.page("change", pathChange)
	p.Who, p.Change = k.LoginName, v.link("change", pathName)
	p.Fields = newPasswordFields()
	return v.render(p, mistakes)
}

func newPasswordFields() []field {
	return []field{
		{Name: "newPassword", Type: "password", Autocomplete: "new-password", MinLength: minPassword},
		{Name: "newPasswordAgain", Type: "password", Autocomplete: "new-password"},
	}
}

// newPassword returns the new password of a form, or what is wrong with it.
func (v *visit) newPassword(loginName string) (string, []mistake) {
	password := v.form.Get("newPassword")
	length := utf8.RuneCountInString(password)
	switch {
	case password == "":
		return "", []mistake{{"newPassword", "newPassword.required"}}
	case length < minPassword:
		return "", []mistake{{"newPassword", "newPassword.short"}}
	case length > maxPassword:
		return "", []mistake{{"newPassword", "newPassword.long"}}
	case isName(password, loginName):
		return "", []mistake{{"newPassword", "newPassword.name"}}
	case password != v.form.Get("newPasswordAgain"):
		return "", []mistake{{"newPasswordAgain", "newPassword.differs"}}
	}
	return password, nil
}

// isName reports whether a password is the name of its user, which it must not be.
func isName(password, loginName string) bool {
	username := loginName
	if at := strings.LastIndexByte(loginName, '@'); at >= 0 {
		username = loginName[:at]
	}
	folded := resource.Fold(password)
	return folded == resource.Fold(loginName) || folded == resource.Fold(username)
}

// setPassword replaces the password of a user, which ends their sessions but one, and
// tells them, in the transaction of ctx. The hash is made before: it takes long.
func (v *visit) setPassword(ctx context.Context, user *db.CodeUserRow, hash, keep string) error {
	ctx = signout.Keep(ctx, keep)
	if _, err := v.Users.SetPassword(ctx, &userv3.SetPasswordRequest{
		Id: user.ID, NewPassword: &userv3.SetPassword{Value: &userv3.SetPassword_Hash{Hash: hash}},
	}); err != nil {
		return err
	}
	if user.Email == "" || !user.IsEmailVerified {
		return nil
	}
	return v.tell(ctx, v.DB.Conn(ctx), "password_changed", "", recipient{id: user.ID, orgID: user.OrgID, address: user.Email, language: user.PreferredLanguage, name: user.DisplayName})
}
