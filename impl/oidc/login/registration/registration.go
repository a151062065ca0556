// Package registration lets people register: it makes a user who cannot sign in before
// their address is verified. Whether an address is known already is told by nothing,
// neither by what it answers nor by what follows (SEC-170).
package registration

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"golang.org/x/text/unicode/norm"

	"github.com/writ-id/writ/gen/db"
	sessionv3 "github.com/writ-id/writ/gen/proto/writ/session/v3alpha"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/api/idplink"
	"github.com/writ-id/writ/impl/api/message"
	"github.com/writ-id/writ/impl/api/session"
	"github.com/writ-id/writ/impl/api/user"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/oidc/login/browser"
	"github.com/writ-id/writ/impl/oidc/login/code"
	"github.com/writ-id/writ/impl/oidc/login/password"
	"github.com/writ-id/writ/impl/oidc/login/rule"
)

const (
	// abandonedAfter is how long after their last code ended those are kept who
	// registered and never verified their address.
	abandonedAfter = 7 * 24 * time.Hour
	// overAfter is when no browser can be at a registration any more, which then does not
	// keep its username from another one with the address.
	overAfter = time.Hour
)

// Config holds what a Service needs; every field is required.
type Config struct {
	resource.Env
	Roles    *policy.Roles
	Sessions *session.Service
	Users    *user.Service
	Links    *idplink.Service
	Codes    *code.Codes
}

// Service registers people. It is safe for concurrent use.
type Service struct {
	Config
	queries *db.Queries
}

// New returns a Service over c.
func New(c Config) *Service { return &Service{c, db.New()} }

// Form is what somebody says of themselves.
type Form struct{ GivenName, FamilyName, Email, LoginName string }

// The fields of a form, as pages name them.
const (
	FieldGivenName  = "givenName"
	FieldFamilyName = "familyName"
	FieldEmail      = "email"
	FieldLoginName  = "loginName"
)

// Check returns the fields that cannot be like that: by the rules of the contract for the
// user that is made, and three of the form's own: people have names, in one line, and get
// no username that reads like an address. It is asked before anybody looks for the address:
// what is refused must not tell who is known.
func (f Form) Check() (wrong []string) {
	broken := rule.Broken(&userv3.User{Username: f.LoginName, Type: &userv3.User_Human{Human: &userv3.Human{
		Profile: &userv3.Profile{GivenName: f.GivenName, FamilyName: f.FamilyName},
		Email:   &userv3.Email{Address: f.Email},
	}}})
	for _, one := range []struct {
		field, path string
		own         bool
	}{
		{FieldGivenName, "human.profile.given_name", isName(f.GivenName)},
		{FieldFamilyName, "human.profile.family_name", isName(f.FamilyName)},
		{FieldEmail, "human.email.address", f.Email != ""},
		{FieldLoginName, "username", isUsername(f.LoginName)},
	} {
		left := one.field == FieldLoginName && f.LoginName == "" // then it is made of the address
		if !left && (!one.own || broken[one.path] != "") {
			wrong = append(wrong, one.field)
		}
	}
	return wrong
}

func isName(name string) bool {
	return name != "" && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

func isUsername(name string) bool {
	_, err := user.Canonical(name)
	return err == nil && utf8.ValidString(name) && !strings.Contains(name, "@")
}

// username is the one that somebody wishes, as it will be stored: the local part of
// their address if they do not say.
func (f Form) username() string {
	if f.LoginName != "" {
		return norm.NFC.String(f.LoginName)
	}
	if at := strings.LastIndexByte(f.Email, '@'); at >= 0 {
		return f.Email[:at]
	}
	return "user" // of whom nothing is known
}

// Where says where somebody registers, and how.
type Where struct {
	InstanceID, OrgID, Language string
	Before                      string // the user whom this login made before, if it did: this one takes their place
	Browser                     code.Browser
	Door                        string        // a link for the owner of the address
	Lifetime                    time.Duration // of the session, while it is not used
	UserAgent                   *sessionv3.UserAgent
}

// At completes where a registration with an address goes on, in a browser. Without an
// organization no session is begun.
func (s *Service) At(ctx context.Context, b *browser.Browser, at Where, address string) (Where, error) {
	at.InstanceID, at.UserAgent = b.Instance.ID, b.Agent
	var err error
	if at.Browser, err = b.AsksFor(ctx, address); err != nil {
		return at, err
	}
	if at.Door, err = b.DoorOfAddress(ctx, address); err == nil && at.OrgID != "" {
		at.Lifetime, err = b.Idle(ctx, at.OrgID)
	}
	return at, err
}

// Begun is what a registration goes on with: a user and a session, in which they are proven,
// or what looks like them.
type Begun struct {
	UserID, SessionID, SessionToken string
	// Verifies says that the address has to be verified by a code first.
	Verifies bool
}

// ErrPasswordIsName refuses a password that is the name of its user.
var ErrPasswordIsName = errors.New("registration: the password is the name")

// Register makes the user, or tells who has the address that somebody tried it. What
// it refuses depends on nothing but the form.
func (s *Service) Register(ctx context.Context, at Where, said Form, typed string) (*Begun, error) {
	domain, err := s.queries.LoginDomain(ctx, s.DB.Pool, db.LoginDomainParams{InstanceID: at.InstanceID, OrgID: at.OrgID})
	if err != nil {
		return nil, err
	}
	may := func(username string) bool { return !password.Is(typed, username+"@"+domain) }
	if !may(said.username()) {
		return nil, ErrPasswordIsName
	}
	hash, err := s.Users.Hashes.New(ctx, at.InstanceID, typed) // on every road, and not within a transaction: it takes long
	if err != nil {
		return nil, err
	}
	return s.register(ctx, at, said, proof{hash: hash, may: may, code: true})
}

// register makes the user of a form whose address has to be verified; or tells who has it.
func (s *Service) register(ctx context.Context, at Where, said Form, by proof) (*Begun, error) {
	if err := message.CanSend(ctx, s.DB.Pool, &s.Env, message.Email, at.InstanceID, at.OrgID); err != nil {
		return nil, err
	}
	owner, err := s.queries.UserOfEmail(ctx, s.DB.Pool, db.UserOfEmailParams{InstanceID: at.InstanceID, EmailFolded: resource.Fold(said.Email)})
	known := err == nil
	if err != nil && !store.NoRow(err) {
		return nil, err
	}
	template := "verify_email"
	if known {
		template = "email_known"
	}
	enough, err := s.hadEnough(ctx, at, template, said.Email)
	if err != nil {
		return nil, err
	}
	if !known && !enough {
		begun, err := s.enroll(ctx, at, said, by)
		if !errors.Is(err, code.ErrNoMore) && reasonOf(err) != "CHECK_FAILED" { // the organization is inactive: nobody can sign in there
			return begun, err
		}
		enough = true
	}
	alike := &Begun{s.NewID(), s.NewID(), session.TokenPrefix + secret.Random(), true} // an answer of the same length
	if enough {
		return alike, nil
	}
	return alike, s.Codes.Tell(ctx, s.DB.Pool, template, code.Recipient{
		InstanceID: at.InstanceID, ID: owner.ID, OrgID: owner.OrgID, Address: owner.Email, Proven: true, Language: owner.PreferredLanguage, Name: owner.DisplayName,
	})
}

// hadEnough reports whether an address got as many messages of a kind in an hour as it may,
// whoever that is who registers with it (SEC-185). What was sent stays good, and its door
// lets the owner of the address go on.
func (s *Service) hadEnough(ctx context.Context, at Where, template, address string) (bool, error) {
	recent, err := s.queries.RecentMessagesTo(ctx, s.DB.Pool, db.RecentMessagesToParams{
		InstanceID: at.InstanceID, Recipient: address, Template: template, Since: s.Now().Add(-time.Hour),
	})
	return recent >= at.Browser.Most(), err
}

// reasonOf returns the reason of a refusal, "" when err is none.
func reasonOf(err error) string {
	if refusal, ok := errors.AsType[*fault.Error](err); ok {
		return refusal.Reason
	}
	return ""
}

// maxUsername is how long a username may be: that of the contract.
var _, maxUsername = rule.Length(&userv3.User{}, "username")

// createUser creates the user under the username they wish or, when it is taken, the
// same with a number: that a name is taken is not told either. Nor by the refusal of a
// password that is such a name, which is passed over like one that is taken. One by which
// somebody of another organization may sign in is taken too: nobody decided that a stranger
// has the better claim to it (SEC-174).
func (s *Service) createUser(ctx context.Context, tx pgx.Tx, users *user.Service, at Where, said Form, by proof) (id string, err error) {
	for try := 1; ; try++ {
		name := said.username()
		if try > 1 {
			suffix := strconv.Itoa(try)
			if try > 4 { // many have that name
				suffix = secret.NewCode(try)
			}
			name = strings.ToValidUTF8(name[:min(len(name), maxUsername-len(suffix))], "") + suffix
		}
		if by.may != nil && !by.may(name) {
			continue
		}
		taken, err := s.isSomebodys(ctx, tx, at, name)
		if err != nil {
			return "", err
		}
		if taken && try <= 12 {
			continue
		}
		// A savepoint, because a name that is taken fails the transaction.
		err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			human := &userv3.Human{Profile: &userv3.Profile{GivenName: said.GivenName, FamilyName: said.FamilyName, PreferredLanguage: at.Language}}
			if said.Email != "" {
				human.Email = &userv3.Email{Address: said.Email, IsVerified: by.vouched}
			}
			if by.hash != "" {
				human.Password = &userv3.Password{Value: &userv3.Password_Hash{Hash: by.hash}}
			}
			if of := by.external; of != nil {
				human.Profile.DisplayName, human.Profile.NickName = of.GetDisplayName(), of.GetNickname()
			}
			made, err := users.In(tx).CreateUser(ctx, &userv3.CreateUserRequest{User: &userv3.User{Username: name, Type: &userv3.User_Human{Human: human}}})
			id = made.GetDetails().GetId()
			return err
		})
		if reasonOf(err) != "USER_USERNAME_TAKEN" || try > 12 {
			return id, err
		}
	}
}

// isSomebodys reports whether a username would get in the way of somebody who is there. Those
// who register at the same time with one name do it one after the other.
func (s *Service) isSomebodys(ctx context.Context, tx pgx.Tx, at Where, username string) (bool, error) {
	folded := resource.Fold(username)
	if err := s.queries.LockName(ctx, tx, db.LockNameParams{InstanceID: at.InstanceID, Name: "username/" + folded}); err != nil {
		return false, err
	}
	return s.queries.NameIsSomebodys(ctx, tx, db.NameIsSomebodysParams{InstanceID: at.InstanceID, OrgID: at.OrgID, UsernameFolded: folded})
}
