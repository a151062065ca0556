package login

import (
	"context"
	"net"

	"google.golang.org/protobuf/types/known/durationpb"

	sessionv3 "github.com/writ-id/writ/gen/proto/writ/session/v3alpha"
	"github.com/writ-id/writ/impl/user"
)

// maxPassword bounds a password, in characters; it is the rule of the contract.
const (
	minPassword = 8
	maxPassword = 1000
)

// showPassword shows the page that asks for the password.
func (v *visit) showPassword() error {
	if v.flow.GetLoginName() == "" {
		return v.to(pathName)
	}
	return v.passwordForm(nil)
}

// takePassword checks the password. Why it is not right is not told, neither by the
// words nor by the time they take (SEC-170).
func (v *visit) takePassword() error {
	if v.flow.GetLoginName() == "" {
		return v.to(pathName)
	}
	password := v.form.Get("password")
	if password == "" {
		return v.passwordForm([]mistake{{"password", "password.required"}})
	}
	right := false
	if err := inTime(v.r.Context(), func() (err error) {
		right, err = v.signIn(password)
		return err
	}); err != nil {
		return err
	}
	if !right {
		return v.passwordForm([]mistake{{"password", "password.wrong"}})
	}
	v.flow.Registering = false
	return v.advance()
}

// signIn checks a password by the sessions service: in the session that this
// browser has for the user, so that it lives on, or in a new one.
func (v *visit) signIn(password string) (bool, error) {
	user, err := v.resolve(v.flow.GetLoginName())
	if err != nil {
		return false, err
	}
	if len(password) > 4*maxPassword { // no password is that long
		password = ""
	}
	if err := v.load(); err != nil {
		return false, err
	}
	for i := range v.sessions {
		if v.sessions[i].UserID == user.ID {
			right, err := v.patch(&v.sessions[i], &sessionv3.PatchSession{Checks: checkPassword(password)})
			if reason := reasonOf(err); reason != "NOT_FOUND" && reason != "SESSION_EXPIRED" && reason != "PERMISSION_DENIED" && reason != "SESSION_TOKEN_INVALID" {
				return right, err
			}
		}
	}
	return v.create(user.OrgID, user.ID, password)
}

func checkPassword(password string) *sessionv3.Checks {
	return &sessionv3.Checks{Password: &sessionv3.CheckPassword{Password: password}}
}

// create begins a session with a password. An empty user is nobody, which takes as
// long.
func (v *visit) create(orgID, userID, password string) (bool, error) {
	checks := checkPassword(password)
	checks.User = &sessionv3.CheckUser{Search: &sessionv3.CheckUser_UserId{UserId: userID}}
	made, err := v.Sessions.CreateSession(v.as(user.Named(v.r.Context(), v.flow.GetLoginName()), v.instance, orgID, userID), &sessionv3.CreateSessionRequest{
		Session: &sessionv3.Session{Checks: checks, Lifetime: durationpb.New(idleLifetime), UserAgent: v.userAgent()},
	})
	if reasonOf(err) == "CHECK_FAILED" {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	v.proved(made.GetDetails().GetId(), made.GetSessionToken(), "")
	return true, nil
}

// patch adds a proof to a session, or asks for a code; it reports whether what was
// to be checked is right.
func (v *visit) patch(k *known, change *sessionv3.PatchSession) (bool, error) {
	change.SessionToken, change.Lifetime = &k.token, durationpb.New(idleLifetime)
	made, err := v.Sessions.PatchSession(v.asUser(k), &sessionv3.PatchSessionRequest{Id: k.ID, Session: change})
	if reasonOf(err) == "CHECK_FAILED" {
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

func (v *visit) asUser(k *known) context.Context {
	return v.as(v.r.Context(), v.instance, k.OrgID, k.UserID)
}

// proved makes the session whose password was just proven the one of the flow. The
// flow then asks for nothing newer.
func (v *visit) proved(id, token, old string) {
	v.cookies.put(token, old)
	v.changed = true
	v.flow.SessionId = id
	if v.flow.GetFresh() {
		v.flow.Fresh, v.flow.NotBefore = false, max(v.flow.GetNotBefore(), v.Now().Unix())
	}
}

// userAgent says which browser a session is in, from what the connection tells.
func (v *visit) userAgent() *sessionv3.UserAgent {
	ip, _, err := net.SplitHostPort(v.r.RemoteAddr)
	if err != nil {
		ip = ""
	}
	return &sessionv3.UserAgent{Ip: ip, Description: shorten(v.r.UserAgent(), 500)}
}

func (v *visit) passwordForm(mistakes []mistake) error {
	p := v.page("password", pathPassword)
	p.Who, p.Change = v.flow.GetLoginName(), v.link("change", pathName)
	p.Fields = []field{{Name: "password", Type: "password", Autocomplete: "current-password"}}
	p.Links = append(p.Links, v.link("forgot", pathForgot))
	return v.render(p, mistakes)
}
