package step

import (
	"context"
	"errors"

	"github.com/writ-id/writ/gen/db"
	sessionv3 "github.com/writ-id/writ/gen/proto/writ/session/v3alpha"
	"github.com/writ-id/writ/impl/api/session"
	"github.com/writ-id/writ/impl/api/user"
	"github.com/writ-id/writ/impl/oidc/login/browser"
	"github.com/writ-id/writ/impl/oidc/login/code"
	"github.com/writ-id/writ/impl/oidc/login/flow"
	"github.com/writ-id/writ/impl/oidc/login/page"
	"github.com/writ-id/writ/impl/oidc/login/password"
)

// showPassword shows the page that asks for the password.
func (s *Steps) showPassword(ctx context.Context, q *Request) (Answer, error) {
	p, err := s.passwordPage(ctx, q)
	return Answer{Page: p}, err
}

// takePassword checks the password. Why it does not sign in is not told, neither by the
// words nor by the time they take (SEC-170): they hold, too, for a right one that was not
// judged, because there were too many wrong ones.
func (s *Steps) takePassword(ctx context.Context, q *Request) (Answer, error) {
	typed, key := q.Form.Get("password"), "password.required"
	if typed != "" {
		id, err := s.signIn(ctx, q, typed)
		if id != "" || err != nil {
			return Answer{Event: flow.Proved{SessionID: id, Since: q.Browser.Began.Unix()}}, err
		}
		times, err := q.Browser.Wrong(ctx, q.Flow.LoginName())
		if err != nil {
			return Answer{}, err
		}
		key = browser.WrongKey(times)
	}
	p, err := s.passwordPage(ctx, q)
	return Answer{Page: p, Mistakes: []page.Mistake{{Field: "password", Key: key}}, Counts: typed != ""}, err
}

func (s *Steps) passwordPage(ctx context.Context, q *Request) (*page.Page, error) {
	p := q.Words.Of(q.Flow, "password", flow.PathPassword)
	p.Who, p.Change = q.Flow.LoginName(), q.Words.Link("change", flow.PathName)
	p.Fields = []page.Field{{Name: "password", Type: "password", Autocomplete: "current-password"}}
	p.Links = append(p.Links, q.Words.Link("forgot", flow.PathForgot))
	return s.withProviders(ctx, q, p)
}

// signIn checks a password by the sessions service. It returns the session in which it was
// proven; "" when it is not right. A browser that had the right one is known to the user from
// now on, and a user is told when strangers used up the tries.
func (s *Steps) signIn(ctx context.Context, q *Request, typed string) (string, error) {
	at := q.Browser.Instance
	named, err := s.Resolve(ctx, q.Flow, at.ID, at.DefaultOrg, q.Flow.LoginName())
	if err != nil {
		return "", err
	}
	by := session.Attempt{Attempt: user.Attempt{Name: q.Flow.LoginName()}}
	if named.ID != "" {
		by.User = &db.LoginUserRow{
			ID: named.ID, OrgID: named.OrgID, PreferredLanguage: named.PreferredLanguage, Generation: named.Generation, PasswordHash: named.PasswordHash,
		}
	}
	if by.Browser, err = q.Browser.KnownTo(ctx, named.ID, &named.Generation); err != nil {
		return "", err
	}
	if !password.CanBe(typed) { // no password is that long
		typed = ""
	}
	id, err := q.Browser.CheckPassword(ctx, q.Flow, named.OrgID, named.ID, typed, by)
	switch {
	case errors.Is(err, user.ErrTooMany):
		return "", s.shutOut(ctx, q, &named)
	case err != nil || id == "":
		return "", err
	}
	if err := q.Browser.Right(ctx, q.Flow.LoginName()); err != nil {
		return "", err
	}
	return id, q.Browser.Remember(ctx, named.ID, named.Generation)
}

// shutOut tells a user who cannot get in because strangers used up the tries how to get in
// all the same. It is silent towards the browser, which may be one of a stranger.
func (s *Steps) shutOut(ctx context.Context, q *Request, named *db.LoginCandidatesRow) error {
	if !named.IsEmailVerified || named.Email == "" {
		return nil
	}
	recent, err := s.queries.RecentMessagesOf(ctx, s.DB.Pool, db.RecentMessagesOfParams{
		InstanceID: q.Browser.Instance.ID, UserID: named.ID, Template: "door", Since: s.Now().Add(-browser.DoorEvery),
	})
	if err != nil || recent > 0 {
		return err
	}
	to := recipient(q, named)
	if to.Door, err = q.Browser.DoorOf(ctx, named.ID, named.Generation); err != nil {
		return err
	}
	return s.Codes.Tell(ctx, s.DB.Pool, "door", to)
}

// recipient is a user as messages address them, in their own language.
func recipient(q *Request, named *db.LoginCandidatesRow) code.Recipient {
	return code.Recipient{
		InstanceID: q.Browser.Instance.ID, ID: named.ID, OrgID: named.OrgID, Address: named.Email,
		Proven: named.IsEmailVerified && named.IsEmailProven, Language: named.PreferredLanguage, Name: named.DisplayName,
	}
}

// showChange shows the page on which a password is changed that has to be.
func (s *Steps) showChange(_ context.Context, q *Request) (Answer, error) { return ask(changePage(q)) }

// takeChange changes the password. Other sessions of the user end.
func (s *Steps) takeChange(ctx context.Context, q *Request) (Answer, error) {
	k := q.Session
	chosen, mistakes := newPassword(q, k.LoginName)
	if mistakes != nil {
		return again(changePage(q), mistakes...)
	}
	bad, err := s.Passwords.Change(ctx, q.Browser.Instance.ID, k.UserID, k.ID, chosen)
	if err != nil {
		return Answer{}, err
	}
	if bad != password.Right {
		return again(changePage(q), mistakesOf(bad)...)
	}
	right, err := q.Browser.Patch(ctx, k, &sessionv3.PatchSession{Checks: browser.PasswordCheck(chosen)}, session.Attempt{})
	if err != nil || !right {
		return Answer{}, err
	}
	return Answer{Event: flow.Proved{SessionID: k.ID, Since: q.Browser.Began.Unix()}}, nil
}

func changePage(q *Request) *page.Page {
	p := q.Words.Of(q.Flow, "change", flow.PathChange)
	p.Who, p.Change = q.Session.LoginName, q.Words.Link("change", flow.PathName)
	p.Fields = newPasswordFields()
	return p
}

func newPasswordFields() []page.Field {
	return []page.Field{
		{Name: "newPassword", Type: "password", Autocomplete: "new-password", MinLength: password.Shortest()},
		{Name: "newPasswordAgain", Type: "password", Autocomplete: "new-password"},
	}
}

// newPassword returns the new password of a form, or what is wrong with it.
func newPassword(q *Request, loginName string) (string, []page.Mistake) {
	typed := q.Form.Get("newPassword")
	if bad := password.Check(typed, q.Form.Get("newPasswordAgain"), loginName); bad != password.Right {
		return "", mistakesOf(bad)
	}
	return typed, nil
}

// mistakesOf says what is wrong with a new password, by the keys of texts.
func mistakesOf(bad password.Wrong) []page.Mistake {
	switch bad {
	case password.BadCode:
		return []page.Mistake{{Field: "code", Key: "code.wrong"}}
	case password.Differs:
		return []page.Mistake{{Field: "newPasswordAgain", Key: "newPassword.differs"}}
	}
	return []page.Mistake{{Field: "newPassword", Key: "newPassword." + string(bad)}}
}
