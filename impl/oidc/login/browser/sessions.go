package browser

import (
	"context"
	"errors"
	"time"

	"github.com/writ-id/writ/gen/db"
	sessionv3 "github.com/writ-id/writ/gen/proto/writ/session/v3alpha"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/oidc/login/flow"
)

// extendEvery is how often a session that is used lives on. It ends when it was not used for
// as long as the settings say (package lifetime), and when the password in it is as old as
// they say (SEC-151).
const extendEvery = time.Hour

// Read reads the sessions of the browser, the newest first. It is one statement, or none
// without a cookie.
func (b *Browser) Read(ctx context.Context) ([]Session, error) {
	tokens := b.Jar.tokens
	if len(tokens) == 0 {
		return nil, nil
	}
	hashes := make([][]byte, len(tokens))
	for i, token := range tokens {
		hash := secret.HashToken(token)
		hashes[i] = hash[:]
	}
	rows, err := b.queries.BrowserSessions(ctx, b.DB.Pool, db.BrowserSessionsParams{InstanceID: b.Instance.ID, Hashes: hashes, Now: b.Now()})
	if err != nil {
		return nil, err
	}
	var found []Session
	for i, hash := range hashes {
		for j := range rows {
			if string(rows[j].TokenHash) != string(hash) {
				continue
			}
			lives, err := b.Lives.Of(ctx, b.Instance.ID, rows[j].OrgID)
			if err != nil {
				return nil, err
			}
			found = append(found, sessionOf(&rows[j], tokens[i], lives.Session))
		}
	}
	return found, nil
}

func sessionOf(row *db.BrowserSessionsRow, token string, life time.Duration) Session {
	return Session{
		Session: flow.Session{
			ID: row.ID, UserID: row.UserID, OrgID: row.OrgID, LoginName: row.LoginName, DisplayName: row.DisplayName, Generation: row.Generation,
			IsActive: row.IsActive, Life: life,
			PasswordVerifiedAt: row.PasswordVerifiedAt, PasswordChanged: row.PasswordChanged, PasswordChangeRequired: row.PasswordChangeRequired,
			IntentVerifiedAt: row.IntentVerifiedAt, IntentAuthTime: row.IntentAuthTime, IDPID: row.IdpID, IsLinked: row.IsLinked,
			HasTOTP: row.HasTotp, SMSAddress: row.SmsAddress, EmailAddress: row.EmailAddress,
			TOTPVerifiedAt: row.TotpVerifiedAt, SMSVerifiedAt: row.OtpSmsVerifiedAt, EmailVerifiedAt: row.OtpEmailVerifiedAt,
		},
		FailedFactors: row.FailedOtpAttempts, FailedFactorsUntil: row.FailedOtpUntil, expires: row.ExpirationDate, token: token,
	}
}

// Load reads the sessions of the browser that count in a login.
func (b *Browser) Load(ctx context.Context, f *flow.Flow) ([]Session, error) {
	all, err := b.Read(ctx)
	b.sessions = nil
	for i := range all {
		if f.Admits(&all[i].Session) {
			b.sessions = append(b.sessions, all[i])
		}
	}
	return b.sessions, err
}

// Current reads the session that a login authenticates anew; nil when there is none.
func (b *Browser) Current(ctx context.Context, f *flow.Flow) (*Session, error) {
	if _, err := b.Load(ctx, f); err != nil {
		return nil, err
	}
	return b.Find(f.SessionID()), nil
}

// Find returns one of the sessions that Load read; nil when there is none with that ID.
func (b *Browser) Find(id string) *Session {
	for i := range b.sessions {
		if b.sessions[i].ID == id && id != "" {
			return &b.sessions[i]
		}
	}
	return nil
}

// Idle is how long sessions of users of an organization live while they are not used.
func (b *Browser) Idle(ctx context.Context, orgID string) (time.Duration, error) {
	lives, err := b.Lives.Of(ctx, b.Instance.ID, orgID)
	return min(lives.SessionIdle, lives.Session), err
}

// Extend lets a session live on that is used, at most once an hour or in a quarter of its
// life.
func (b *Browser) Extend(ctx context.Context, k *Session) error {
	idle, err := b.Idle(ctx, k.OrgID)
	if err != nil {
		return err
	}
	now := b.Now()
	due := now.Add(idle - min(extendEvery, idle/4))
	if k.expires == nil || k.expires.After(due) {
		return nil
	}
	return b.queries.ExtendSession(ctx, b.DB.Pool, db.ExtendSessionParams{
		InstanceID: b.Instance.ID, ID: k.ID, Now: now, Due: due, ExpirationDate: now.Add(idle),
	})
}

// SignOut ends sessions of the browser, all of them when id is empty, and takes
// their cookies away. The browser gets another cookie: no form and no login that
// was begun before counts afterwards (SEC-132).
func (b *Browser) SignOut(ctx context.Context, id string) error {
	all, err := b.Read(ctx)
	if err != nil {
		return err
	}
	var stay []string
	for i := range all {
		if id != "" && all[i].ID != id {
			stay = append(stay, all[i].token)
			continue
		}
		_, err := b.Sessions.DeleteSession(b.As(ctx, "", all[i].UserID), &sessionv3.DeleteSessionRequest{Id: all[i].ID})
		if err != nil && ReasonOf(err) != "NOT_FOUND" {
			return err
		}
	}
	b.Jar.keep(stay)
	b.Jar.Rebind()
	return nil
}

// ReasonOf returns the reason of a refusal, "" when err is none.
func ReasonOf(err error) string {
	if refusal, ok := errors.AsType[*fault.Error](err); ok {
		return refusal.Reason
	}
	return ""
}
