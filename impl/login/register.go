package login

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"golang.org/x/text/unicode/norm"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/writ-id/writ/gen/db"
	sessionv3 "github.com/writ-id/writ/gen/proto/writ/session/v3alpha"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/policy"
	"github.com/writ-id/writ/impl/resource"
	"github.com/writ-id/writ/impl/secret"
	"github.com/writ-id/writ/impl/session"
	"github.com/writ-id/writ/impl/signout"
	"github.com/writ-id/writ/impl/store"
	"github.com/writ-id/writ/impl/user"
)

const (
	maxPersonName = 200
	maxUsername   = 200
	// messagesLimit is how many messages an address gets in an hour because somebody
	// registers with it, whoever that is (SEC-185).
	messagesLimit = 10
	// abandonedAfter is how long after their last code ended those are kept who
	// registered and never verified their address.
	abandonedAfter = 7 * 24 * time.Hour
)

// emailPattern is that of the contract.
var emailPattern = regexp.MustCompile(`^[!-?A-~]{1,64}@[A-Za-z0-9.-]{1,135}$`)

// registration is what somebody says of themselves.
type registration struct{ givenName, familyName, email, loginName string }

// mayRegister reports whether people may register here; the browser is sent to the
// login name when not (SEC-145).
func (v *visit) mayRegister() (bool, error) {
	if v.instance.AllowRegistration && v.flow.GetUserId() == "" && (v.flow.GetOrgId() != "" || v.instance.DefaultOrg != "") {
		return true, nil
	}
	return false, v.to(pathName)
}

// showRegister shows the page on which people register.
func (v *visit) showRegister() error {
	if may, err := v.mayRegister(); !may {
		return err
	}
	return v.registerForm(registration{email: emailOf(v.flow.GetLoginHint())}, nil)
}

func emailOf(hint string) string {
	if emailPattern.MatchString(hint) {
		return hint
	}
	return ""
}

// takeRegister makes a user who cannot sign in before their address is verified.
// Whether the address is known already is not told, neither by the answer nor by
// what follows: who knows a password only learns that it is not right (SEC-170).
func (v *visit) takeRegister() error {
	if may, err := v.mayRegister(); !may {
		return err
	}
	said, mistakes := v.readRegistration()
	password, more := v.newPassword(said.email)
	if mistakes = append(mistakes, more...); len(mistakes) > 0 {
		return v.registerForm(said, mistakes)
	}
	if err := inTime(v.r.Context(), func() (err error) {
		mistakes, err = v.register(said, password)
		return err
	}); err != nil {
		return err
	}
	if mistakes != nil {
		return v.registerForm(said, mistakes)
	}
	v.flow.Registering, v.flow.Address, v.flow.LoginName = true, said.email, said.email
	return v.to(pathVerify)
}

func (v *visit) readRegistration() (said registration, mistakes []mistake) {
	for _, one := range []struct {
		into  *string
		field string
		ok    func(string) bool
	}{
		{&said.givenName, "givenName", isPersonName},
		{&said.familyName, "familyName", isPersonName},
		{&said.email, "email", emailPattern.MatchString},
		{&said.loginName, "loginName", isUsername},
	} {
		*one.into = strings.TrimSpace(v.form.Get(one.field))
		if !one.ok(*one.into) {
			mistakes = append(mistakes, mistake{one.field, one.field + ".invalid"})
		}
	}
	return said, mistakes
}

func isPersonName(name string) bool {
	return name != "" && utf8.ValidString(name) && utf8.RuneCountInString(name) <= maxPersonName && !strings.ContainsFunc(name, unicode.IsControl)
}

// isUsername reports whether a username can be like that: who registers gets none that
// reads like an address. It is asked before anybody looks for the address: what is refused
// must not tell who is known.
func isUsername(name string) bool {
	if name == "" {
		return true
	}
	_, err := user.Canonical(name)
	return err == nil && utf8.ValidString(name) && len(name) <= maxUsername && !strings.Contains(name, "@")
}

// register makes the user, or tells who has the address that somebody tried it. What
// it refuses depends on nothing but the form.
func (v *visit) register(said registration, password string) ([]mistake, error) {
	ctx, orgID := v.r.Context(), v.flow.GetOrgId()
	if orgID == "" {
		orgID = v.instance.DefaultOrg
	}
	domain, err := v.queries.LoginDomain(ctx, v.DB.Pool, db.LoginDomainParams{InstanceID: v.instance.ID, OrgID: orgID})
	if err != nil {
		return nil, err
	}
	may := func(username string) bool { return !isName(password, username+"@"+domain) }
	if !may(said.username()) {
		return []mistake{{"newPassword", "newPassword.name"}}, nil
	}
	hash, err := secret.New(ctx, v.instance.ID, password) // on every road, and not within a transaction: it takes long
	if err != nil {
		return nil, err
	}
	owner, err := v.queries.UserOfEmail(ctx, v.DB.Pool, db.UserOfEmailParams{InstanceID: v.instance.ID, EmailFolded: resource.Fold(said.email)})
	known := err == nil
	if err != nil && !store.NoRow(err) {
		return nil, err
	}
	enough, err := v.hadEnough(ctx, v.DB.Pool, said.email)
	if err != nil {
		return nil, err
	}
	if !known && !enough {
		err := v.enroll(said, orgID, hash, may)
		if !errors.Is(err, errNoMoreCodes) && reasonOf(err) != "CHECK_FAILED" { // the organization is inactive: nobody can sign in there
			return nil, err
		}
		enough = true
	}
	// An answer of the same length.
	v.flow.CodeUserId = v.NewID()
	v.proved(v.NewID(), session.TokenPrefix+secret.Random(), "")
	if enough {
		return nil, nil
	}
	return nil, v.tell(ctx, v.DB.Pool, "email_known", "", recipient{id: owner.ID, orgID: owner.OrgID, address: owner.Email, language: owner.PreferredLanguage, name: owner.DisplayName})
}

// hadEnough reports whether an address got as many messages as it may in an hour.
func (v *visit) hadEnough(ctx context.Context, tx db.DBTX, address string) (bool, error) {
	recent, err := v.queries.RecentMessagesTo(ctx, tx, db.RecentMessagesToParams{
		InstanceID: v.instance.ID, Recipient: address, Since: v.Now().Add(-time.Hour),
	})
	return recent >= messagesLimit, err
}

// enroll makes a user, a session in which their password is proven, and a code for
// their address, without which the user stays inactive. It is one transaction: who
// goes away in the middle leaves nothing behind, and nobody ever sees the user active.
//
// Who registered with the address before, and has not verified it, goes: only one can
// have it, and the newest is the one whom somebody waits for, be it after a double
// click. The code of that one is void (SEC-172).
func (v *visit) enroll(said registration, orgID, hash string, may func(username string) bool) error {
	var userID string
	var made *sessionv3.CreateSessionResponse
	err := v.DB.InTx(v.r.Context(), func(tx pgx.Tx) (err error) {
		product := store.Within(v.as(v.r.Context(), v.instance, orgID, ""), tx)
		// Those who register with the address at the same time stand in line.
		if err := v.queries.LockName(product, tx, db.LockNameParams{InstanceID: v.instance.ID, Name: "mail/" + strings.ToLower(said.email)}); err != nil {
			return err
		}
		enough, err := v.hadEnough(product, tx, said.email)
		if err != nil {
			return err
		}
		if enough {
			return errNoMoreCodes
		}
		before, err := v.queries.Registrations(product, tx, db.RegistrationsParams{InstanceID: v.instance.ID, EmailFolded: resource.Fold(said.email)})
		if err != nil {
			return err
		}
		for _, old := range before {
			if err := v.queries.ReleaseUsername(product, tx, db.ReleaseUsernameParams{InstanceID: v.instance.ID, ID: old.ID}); err != nil {
				return err
			}
		}
		if userID, err = v.createUser(product, said, hash, may); err != nil {
			return err
		}
		themself := store.Within(v.as(v.r.Context(), v.instance, orgID, userID), tx)
		if made, err = v.Sessions.CreateProven(themself, &sessionv3.Session{
			Checks:   &sessionv3.Checks{User: &sessionv3.CheckUser{Search: &sessionv3.CheckUser_UserId{UserId: userID}}},
			Lifetime: durationpb.New(idleLifetime), UserAgent: v.userAgent(),
		}); err != nil {
			return err
		}
		if _, err := v.Users.DeactivateUser(signout.Keep(themself, made.GetDetails().GetId()), &userv3.DeactivateUserRequest{Id: userID}); err != nil {
			return err
		}
		for _, old := range before {
			if err := v.queries.MoveMessages(product, tx, db.MoveMessagesParams{InstanceID: v.instance.ID, UserID: old.ID, NewUserID: userID, OrgID: orgID}); err != nil {
				return err
			}
			if _, err := v.Users.DeleteUser(product, &userv3.DeleteUserRequest{Id: old.ID}); err != nil {
				return err
			}
		}
		return v.sendCodeIn(themself, tx, purposeVerify, "verify_email", recipient{id: userID, orgID: orgID, address: said.email, language: v.words.language, name: said.givenName})
	})
	if err != nil {
		return err
	}
	v.flow.CodeUserId = userID
	v.proved(made.GetDetails().GetId(), made.GetSessionToken(), "")
	return nil
}

// username is the one that somebody wishes, as it will be stored: the local part of
// their address if they do not say.
func (r registration) username() string {
	if r.loginName != "" {
		return norm.NFC.String(r.loginName)
	}
	return r.email[:strings.LastIndexByte(r.email, '@')]
}

// createUser creates the user under the username they wish or, when it is taken, the
// same with a number: that a name is taken is not told either. Nor by the refusal of a
// password that is such a name, which is passed over like one that is taken.
func (v *visit) createUser(ctx context.Context, said registration, hash string, may func(username string) bool) (id string, err error) {
	for try := 1; ; try++ {
		name := said.username()
		if try > 1 {
			suffix := strconv.Itoa(try)
			if try > 4 { // many have that name
				suffix = secret.NewCode(try)
			}
			name = shorten(name, maxUsername-len(suffix)) + suffix
		}
		if !may(name) {
			continue
		}
		// A savepoint, because a name that is taken fails the transaction.
		err = v.DB.InTx(ctx, func(tx pgx.Tx) error {
			made, err := v.Users.CreateUser(store.Within(ctx, tx), &userv3.CreateUserRequest{User: &userv3.User{Username: name, Type: &userv3.User_Human{Human: &userv3.Human{
				Profile:  &userv3.Profile{GivenName: said.givenName, FamilyName: said.familyName, PreferredLanguage: v.words.language},
				Email:    &userv3.Email{Address: said.email},
				Password: &userv3.Password{Value: &userv3.Password_Hash{Hash: hash}},
			}}}})
			id = made.GetDetails().GetId()
			return err
		})
		if reasonOf(err) != "USER_USERNAME_TAKEN" || try > 12 {
			return id, err
		}
	}
}

func (v *visit) registerForm(said registration, mistakes []mistake) error {
	p := v.page("register", pathRegister)
	p.Fields = append([]field{
		{Name: "givenName", Type: "text", Value: said.givenName, Autocomplete: "given-name"},
		{Name: "familyName", Type: "text", Value: said.familyName, Autocomplete: "family-name"},
		{Name: "email", Type: "email", Value: said.email, Autocomplete: "email", Username: true},
		{Name: "loginName", Type: "text", Value: said.loginName, Autocomplete: "username", Username: true, Optional: true, Label: v.words.get("field.wish"), Hint: v.words.get("register.loginName")},
	}, newPasswordFields()...)
	p.Fields[len(p.Fields)-2].Label = v.words.get("field.password")
	p.Links = append(p.Links, v.link("have", pathName))
	return v.render(p, mistakes)
}

// showVerify shows the page that takes the code for the address.
func (v *visit) showVerify() error {
	if !v.flow.GetRegistering() {
		return v.to(pathName)
	}
	return v.verifyForm(nil)
}

// takeVerify marks the address as verified and lets the user in. Who registered
// with an address that is not theirs, or is known, stays here.
func (v *visit) takeVerify() error {
	if !v.flow.GetRegistering() {
		return v.to(pathName)
	}
	if v.form.Get("send") != "" {
		if err := inTime(v.r.Context(), v.resend); err != nil {
			return err
		}
		v.flow.Notice = "sent"
		return v.to(pathVerify)
	}
	code := digits(v.form.Get("code"))
	if code == "" {
		return v.verifyForm([]mistake{{"code", "code.required"}})
	}
	verified := false
	if err := inTime(v.r.Context(), func() (err error) {
		verified, err = v.verify(code)
		return err
	}); err != nil {
		return err
	}
	if !verified {
		return v.verifyForm([]mistake{{"code", "code.wrong"}})
	}
	v.flow.Registering, v.flow.CodeUserId, v.flow.Address = false, "", ""
	return v.advance()
}

// registering reads the user who is to verify their address, if there is one.
func (v *visit) registering() (*db.CodeUserRow, error) {
	user, err := v.queries.CodeUser(v.r.Context(), v.DB.Pool, db.CodeUserParams{InstanceID: v.instance.ID, ID: v.flow.GetCodeUserId()})
	if store.NoRow(err) || err == nil && (!user.IsRegistering || user.Email != v.flow.GetAddress()) {
		return nil, nil
	}
	return &user, err
}

func (v *visit) resend() error {
	user, err := v.registering()
	if err != nil || user == nil {
		return err
	}
	return v.sendCode(v.r.Context(), purposeVerify, "verify_email", recipient{id: user.ID, orgID: user.OrgID, address: user.Email, language: v.words.language, name: user.DisplayName})
}

func (v *visit) verify(code string) (verified bool, err error) {
	tried, err := v.tryCode(v.flow.GetCodeUserId(), purposeVerify, code)
	if err != nil || tried == nil {
		return false, err
	}
	user, err := v.registering()
	if err != nil || user == nil || user.Email != tried.address {
		return false, err
	}
	ctx := v.as(v.r.Context(), v.instance, user.OrgID, user.ID)
	err = v.DB.InTx(ctx, func(tx pgx.Tx) error {
		ctx, yes := store.Within(ctx, tx), true
		if verified, err = v.use(ctx, tx, tried); err != nil || !verified {
			return err
		}
		if _, err := v.Users.PatchUser(ctx, &userv3.PatchUserRequest{Id: user.ID, User: &userv3.PatchUser{
			Type: &userv3.PatchUser_Human{Human: &userv3.PatchHuman{Email: &userv3.PatchEmail{IsVerified: &yes}}},
		}}); err != nil {
			return err
		}
		_, err := v.Users.ActivateUser(ctx, &userv3.ActivateUserRequest{Id: user.ID})
		return err
	})
	return verified && err == nil, err
}

func (v *visit) verifyForm(mistakes []mistake) error {
	p := v.page("verify", pathVerify)
	p.Lead = v.words.get("verify.lead", v.flow.GetAddress())
	p.Fields = []field{{Name: "code", Type: "text", Autocomplete: "one-time-code", Numeric: true}}
	p.Other = append(p.Other, link{v.words.get("link.again"), pathVerify})
	p.Links = append(p.Links, v.link("address", pathRegister))
	return v.render(p, mistakes)
}

// Sweep deletes those who registered and never verified their address, each in a
// transaction of its own, and tries of browsers that do not count any more. It returns how
// many registrations that were, at most batch.
func (p *Pages) Sweep(ctx context.Context, before time.Time, batch int32) (int64, error) {
	if _, err := p.queries.SweepBrowserTries(ctx, p.DB.Pool, db.SweepBrowserTriesParams{Before: before, Batch: batch}); err != nil {
		return 0, err
	}
	for n := range int64(batch) {
		err := p.DB.InTx(ctx, func(tx pgx.Tx) error {
			gone, err := p.queries.AbandonedRegistration(ctx, tx, before.Add(-abandonedAfter))
			if err != nil {
				return err
			}
			product := store.Within(p.as(ctx, &policy.Instance{ID: gone.InstanceID}, gone.OrgID, ""), tx)
			_, err = p.Users.DeleteUser(product, &userv3.DeleteUserRequest{Id: gone.ID})
			return err
		})
		if store.NoRow(err) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
	return int64(batch), nil
}
