package browser

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	sessionv3 "github.com/writ-id/writ/gen/proto/writ/session/v3alpha"
	"github.com/writ-id/writ/impl/api/session"
	"github.com/writ-id/writ/impl/api/user"
	"github.com/writ-id/writ/impl/oidc/login/flow"
)

// gone are the reasons of refusals of a session that has ended meanwhile: the user then gets a
// new one.
var gone = []string{"NOT_FOUND", "SESSION_EXPIRED", "SESSION_TOKEN_INVALID"}

// PasswordCheck is the check of a password.
func PasswordCheck(typed string) *sessionv3.Checks {
	return &sessionv3.Checks{Password: &sessionv3.CheckPassword{Password: typed}}
}

// UserCheck is the check that begins a session of a user.
func UserCheck(userID string) *sessionv3.CheckUser {
	return &sessionv3.CheckUser{Search: &sessionv3.CheckUser_UserId{UserId: userID}}
}

// CheckPassword checks a password of a user, who may not exist: in the session that this
// browser has for them, so that it lives on, or in a new one, which takes as long. It returns
// the ID of that session, "" when the password is not right.
func (b *Browser) CheckPassword(ctx context.Context, f *flow.Flow, orgID, userID, typed string, by session.Attempt) (string, error) {
	if _, err := b.Load(ctx, f); err != nil {
		return "", err
	}
	for i := range b.sessions {
		k := &b.sessions[i]
		if k.UserID != userID || userID == "" {
			continue
		}
		right, err := b.Patch(ctx, k, &sessionv3.PatchSession{Checks: PasswordCheck(typed)}, by)
		if reason := ReasonOf(err); reason == "PERMISSION_DENIED" || slices.Contains(gone, reason) {
			continue
		}
		if !right {
			return "", err
		}
		return k.ID, err
	}
	idle, err := b.Idle(ctx, orgID)
	if err != nil {
		return "", err
	}
	checks := PasswordCheck(typed)
	checks.User = UserCheck(userID)
	made, err := b.Sessions.CreateSessionBy(b.As(ctx, orgID, userID), &sessionv3.CreateSessionRequest{
		Session: &sessionv3.Session{Checks: checks, Lifetime: durationpb.New(idle), UserAgent: b.Agent},
	}, by)
	if err != nil {
		return "", butWrong(err)
	}
	b.Jar.Add(made.GetSessionToken(), "")
	return made.GetDetails().GetId(), nil
}

// butWrong returns the error of a check that could not be made; a wrong proof is none.
func butWrong(err error) error {
	if ReasonOf(err) == "CHECK_FAILED" && !errors.Is(err, user.ErrTooMany) {
		return nil
	}
	return err
}

// Patch adds a proof to a session, or asks for a code; it reports whether what was
// to be checked is right. The session gets another token (SEC-141).
func (b *Browser) Patch(ctx context.Context, k *Session, change *sessionv3.PatchSession, by session.Attempt) (bool, error) {
	idle, err := b.Idle(ctx, k.OrgID)
	if err != nil {
		return false, err
	}
	change.SessionToken, change.Lifetime = &k.token, durationpb.New(idle)
	made, err := b.Sessions.PatchSessionBy(b.As(ctx, k.OrgID, k.UserID), &sessionv3.PatchSessionRequest{Id: k.ID, Session: change}, by)
	if err != nil {
		return false, butWrong(err)
	}
	b.Jar.Add(made.GetSessionToken(), k.token)
	return true, nil
}

// SignInBy notes in the session that this browser has for a user, or in a new one, with
// which identity provider they signed in. The session gets another token (SEC-141). It returns
// the ID of the session.
func (b *Browser) SignInBy(ctx context.Context, f *flow.Flow, orgID, userID string, intent session.Intent) (string, error) {
	if _, err := b.Load(ctx, f); err != nil {
		return "", err
	}
	idle, err := b.Idle(ctx, orgID)
	if err != nil {
		return "", err
	}
	for i := range b.sessions {
		k := &b.sessions[i]
		if k.UserID != userID {
			continue
		}
		made, err := b.Sessions.PatchByIntent(b.As(ctx, k.OrgID, k.UserID), &sessionv3.PatchSessionRequest{
			Id: k.ID, Session: &sessionv3.PatchSession{SessionToken: &k.token, Lifetime: durationpb.New(idle)},
		}, intent)
		if slices.Contains(gone, ReasonOf(err)) {
			continue
		}
		if err == nil {
			b.Jar.Add(made.GetSessionToken(), k.token)
		}
		return k.ID, err
	}
	made, err := b.Sessions.CreateByIntent(b.As(ctx, orgID, userID), &sessionv3.Session{
		Checks: &sessionv3.Checks{User: UserCheck(userID)}, Lifetime: durationpb.New(idle), UserAgent: b.Agent,
	}, intent)
	if err == nil {
		b.Jar.Add(made.GetSessionToken(), "")
	}
	return made.GetDetails().GetId(), err
}

// SignInProven begins a session of a user as though they had just typed their password, as the
// only one of the browser. Only development calls it.
func (b *Browser) SignInProven(ctx context.Context, orgID, userID string) (*Session, error) {
	idle, err := b.Idle(ctx, orgID)
	if err != nil {
		return nil, err
	}
	made, err := b.Sessions.CreateProven(b.As(ctx, orgID, userID), &sessionv3.Session{
		Checks: &sessionv3.Checks{User: UserCheck(userID)}, Lifetime: durationpb.New(idle),
	})
	if err != nil {
		return nil, err
	}
	b.Jar.Add(made.GetSessionToken(), "")
	all, err := b.Read(ctx)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}
