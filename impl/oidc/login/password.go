package login

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/writ-id/writ/gen/db"
	sessionv3 "github.com/writ-id/writ/gen/proto/writ/session/v3alpha"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/api/session"
	"github.com/writ-id/writ/impl/api/user"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/oidc/login/password"
)

// showPassword shows the page that asks for the password.
func showPassword(v *visit) error {
	if v.flow.GetLoginName() == "" {
		return v.to(pathName)
	}
	return passwordForm(v, nil)
}

// takePassword checks the password. Why it does not sign in is not told, neither by the
// words nor by the time they take (SEC-170): they hold, too, for a right one that was not
// judged, because there were too many wrong ones.
func takePassword(v *visit) error {
	if v.flow.GetLoginName() == "" {
		return v.to(pathName)
	}
	typed := v.form.Get("password")
	if typed == "" {
		return passwordForm(v, []mistake{{"password", "password.required"}})
	}
	right := false
	if err := inTime(v.r.Context(), func() (err error) {
		right, err = signIn(v, typed)
		return err
	}); err != nil {
		return err
	}
	if !right {
		times, err := v.tries().wrong(v.flow.GetLoginName())
		if err != nil {
			return err
		}
		return passwordForm(v, []mistake{{"password", wrongKey(times)}})
	}
	v.flow.Registering = false
	return v.advance()
}

// signIn checks a password by the sessions service: in the session that this
// browser has for the user, so that it lives on, or in a new one.
func signIn(v *visit, typed string) (bool, error) {
	named, err := resolve(v, v.flow.GetLoginName())
	if err != nil {
		return false, err
	}
	by := session.Attempt{Attempt: user.Attempt{Name: v.flow.GetLoginName()}}
	if named.ID != "" {
		by.User = &db.LoginUserRow{
			ID: named.ID, OrgID: named.OrgID, PreferredLanguage: named.PreferredLanguage, Generation: named.Generation, PasswordHash: named.PasswordHash,
		}
	}
	if by.Browser, err = v.browser().of(named.ID, &named.Generation); err != nil {
		return false, err
	}
	if !password.CanBe(typed) { // no password is that long
		typed = ""
	}
	if err := v.load(); err != nil {
		return false, err
	}
	for i := range v.sessions {
		if v.sessions[i].UserID == named.ID {
			right, err := patchSession(v, &v.sessions[i], &sessionv3.PatchSession{Checks: checkPassword(typed)}, by)
			if reason := reasonOf(err); reason != "NOT_FOUND" && reason != "SESSION_EXPIRED" && reason != "PERMISSION_DENIED" && reason != "SESSION_TOKEN_INVALID" {
				return tried(v, &named, right, err)
			}
		}
	}
	right, err := createSession(v, named.OrgID, named.ID, typed, by)
	return tried(v, &named, right, err)
}

// tried ends a try of a password: a browser that had the right one is known to the user
// from now on, and a user is told when strangers used up the tries.
func tried(v *visit, named *db.LoginCandidatesRow, right bool, err error) (bool, error) {
	switch {
	case errors.Is(err, user.ErrTooMany):
		return false, shutOut(v, named)
	case err != nil || !right:
		return false, err
	}
	if err := v.tries().right(v.flow.GetLoginName()); err != nil {
		return false, err
	}
	return true, v.browser().remember(&tokenv1.KnownUser{UserId: named.ID, Generation: named.Generation})
}

func checkPassword(typed string) *sessionv3.Checks {
	return &sessionv3.Checks{Password: &sessionv3.CheckPassword{Password: typed}}
}

// createSession begins a session with a password. An empty user is nobody, which takes as
// long.
func createSession(v *visit, orgID, userID, typed string, by session.Attempt) (bool, error) {
	idle, err := v.idle(v.r.Context(), v.instance.ID, orgID)
	if err != nil {
		return false, err
	}
	checks := checkPassword(typed)
	checks.User = &sessionv3.CheckUser{Search: &sessionv3.CheckUser_UserId{UserId: userID}}
	made, err := v.Sessions.CreateSessionBy(v.as(v.r.Context(), v.instance, orgID, userID), &sessionv3.CreateSessionRequest{
		Session: &sessionv3.Session{Checks: checks, Lifetime: durationpb.New(idle), UserAgent: userAgent(v)},
	}, by)
	if reasonOf(err) == "CHECK_FAILED" && !errors.Is(err, user.ErrTooMany) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	v.proved(made.GetDetails().GetId(), made.GetSessionToken(), "")
	return true, nil
}

// patchSession adds a proof to a session, or asks for a code; it reports whether what was
// to be checked is right.
func patchSession(v *visit, k *browserSession, change *sessionv3.PatchSession, by session.Attempt) (bool, error) {
	idle, err := v.idle(v.r.Context(), v.instance.ID, k.OrgID)
	if err != nil {
		return false, err
	}
	change.SessionToken, change.Lifetime = &k.token, durationpb.New(idle)
	made, err := v.Sessions.PatchSessionBy(asUser(v, k), &sessionv3.PatchSessionRequest{Id: k.ID, Session: change}, by)
	if reasonOf(err) == "CHECK_FAILED" && !errors.Is(err, user.ErrTooMany) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if change.GetChecks().GetPassword() != nil {
		v.proved(k.ID, made.GetSessionToken(), k.token)
	} else {
		v.cookies.put(made.GetSessionToken(), k.token)
		v.changed = true
	}
	return true, nil
}

func asUser(v *visit, k *browserSession) context.Context {
	return v.as(v.r.Context(), v.instance, k.OrgID, k.UserID)
}

// proved makes the session whose password was just proven the one of the flow. The
// flow then asks for nothing newer than this request: the proof is a little older than now.
func (v *visit) proved(id, token, old string) {
	v.cookies.put(token, old)
	v.changed = true
	v.flow.SessionId = id
	if v.flow.GetFresh() {
		v.flow.Fresh, v.flow.NotBefore = false, max(v.flow.GetNotBefore(), v.began.Unix())
	}
}

// userAgent says which browser a session is in, from what the connection tells.
func userAgent(v *visit) *sessionv3.UserAgent {
	return &sessionv3.UserAgent{Ip: policy.RequestFrom(v.r.Context()).ClientAddress, Description: shorten(v.r.UserAgent(), 500)}
}

func passwordForm(v *visit, mistakes []mistake) error {
	p := v.page("password", pathPassword)
	p.Who, p.Change = v.flow.GetLoginName(), v.link("change", pathName)
	p.Fields = []field{{Name: "password", Type: "password", Autocomplete: "current-password"}}
	p.Links = append(p.Links, v.link("forgot", pathForgot))
	return v.renderWith(p, mistakes)
}
