package login

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/writ-id/writ/gen/db"
	sessionv3 "github.com/writ-id/writ/gen/proto/writ/session/v3alpha"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/secret"
)

// How long what was proven counts. A session ends when it was not used for as long as the
// settings say (package lifetime), and when the password in it is as old as they say (SEC-151).
const (
	factorLifetime = 18 * time.Hour
	extendEvery    = time.Hour
)

// browserSession is a session of a browser as it is now, complete or not.
type browserSession struct {
	db.BrowserSessionsRow
	token string
	life  time.Duration // how long a password counts, or a provider's word
}

// since reports whether something was proven at or after a time.
func since(proven *time.Time, from time.Time) bool { return proven != nil && !proven.Before(from) }

// hasPassword reports whether the password was proven, and is still the same.
func (k *browserSession) hasPassword(now time.Time) bool {
	return since(k.PasswordVerifiedAt, now.Add(-k.life)) &&
		(k.PasswordChanged == nil || since(k.PasswordVerifiedAt, *k.PasswordChanged))
}

// hasIntent reports whether the user signed in with an identity provider, and is linked to
// the account there still.
func (k *browserSession) hasIntent(now time.Time) bool {
	return k.IsLinked && since(k.IntentVerifiedAt, now.Add(-k.life))
}

// isProven reports whether the user proved who they are, in whatever way.
func (k *browserSession) isProven(now time.Time) bool { return k.hasPassword(now) || k.hasIntent(now) }

// provenTime returns when the user last did.
func (k *browserSession) provenTime(now time.Time) (at time.Time) {
	if k.hasPassword(now) {
		at = *k.PasswordVerifiedAt
	}
	if k.hasIntent(now) && k.IntentAuthTime != nil && k.IntentAuthTime.After(at) {
		at = *k.IntentAuthTime
	}
	return at
}

// mustChange reports whether the password has to be changed with which the user signed in.
func (k *browserSession) mustChange(now time.Time) bool {
	return k.PasswordChangeRequired && k.hasPassword(now)
}

// factors returns the paths of the pages on which the user can prove a second
// factor, the best first.
func (k *browserSession) factors() (paths []string) {
	for _, one := range []struct {
		path string
		has  bool
	}{{pathTOTP, k.HasTotp}, {pathSMS, k.SmsAddress != ""}, {pathEmail, k.EmailAddress != ""}} {
		if one.has {
			paths = append(paths, one.path)
		}
	}
	return paths
}

// hasFactor reports whether the user proved a second factor in this session, or has
// none to prove (SEC-179).
func (k *browserSession) hasFactor(now time.Time) bool {
	return len(k.factors()) == 0 || !k.factorTime().Before(now.Add(-factorLifetime))
}

// complete reports whether the user is signed in with this session.
func (k *browserSession) complete(now time.Time) bool {
	return k.IsActive && k.isProven(now) && k.hasFactor(now) && !k.mustChange(now)
}

// authTime returns when the user last authenticated: since when all has been proven that
// is asked of them. A password that is proven anew does not make the second factor newer.
func (k *browserSession) authTime(now time.Time) time.Time {
	at := k.provenTime(now)
	if factor := k.factorTime(); !factor.IsZero() && factor.Before(at) {
		at = factor
	}
	return at
}

// factorTime returns when the user last proved one of their second factors.
func (k *browserSession) factorTime() (newest time.Time) {
	for _, one := range []struct {
		has bool
		at  *time.Time
	}{{k.HasTotp, k.TotpVerifiedAt}, {k.SmsAddress != "", k.OtpSmsVerifiedAt}, {k.EmailAddress != "", k.OtpEmailVerifiedAt}} {
		if one.has && one.at != nil && one.at.After(newest) {
			newest = *one.at
		}
	}
	return newest
}

// amrFederated is what there is instead of a method when somebody else authenticated the
// user: RFC 8176 has no name for that; this one is that of the field.
const amrFederated = "fed"

// amr returns what the user proved, as far as it still counts (RFC 8176). What an identity
// provider says of its own methods is not repeated: a second factor is one that was proven
// here (SEC-179).
func (k *browserSession) amr(now time.Time) (amr []string) {
	from := now.Add(-factorLifetime)
	if k.hasPassword(now) {
		amr = append(amr, "pwd")
	}
	if k.hasIntent(now) {
		amr = append(amr, amrFederated)
	}
	first := len(amr)
	if since(k.TotpVerifiedAt, from) || since(k.OtpEmailVerifiedAt, from) {
		amr = append(amr, "otp")
	}
	if since(k.OtpSmsVerifiedAt, from) {
		amr = append(amr, "sms")
	}
	if second := len(amr) - first; second > 0 && min(first, 1)+second > 1 {
		amr = append(amr, "mfa")
	}
	return amr
}

// session returns a complete session as the endpoints see it.
func (k *browserSession) session(now time.Time) *Session {
	return &Session{
		ID: k.ID, UserID: k.UserID, OrgID: k.OrgID, Generation: k.Generation, LoginName: k.LoginName, DisplayName: k.DisplayName,
		AuthTime: k.authTime(now), AMR: k.amr(now), IDPID: k.provider(now),
	}
}

// provider returns the identity provider with which the user signed in, if it is one.
func (k *browserSession) provider(now time.Time) string {
	if !k.hasIntent(now) {
		return ""
	}
	return k.IdpID
}

// read reads the sessions of a browser, the newest first.
func (p *Pages) read(ctx context.Context, instanceID string, tokens []string) ([]browserSession, error) {
	if len(tokens) == 0 {
		return nil, nil
	}
	hashes := make([][]byte, len(tokens))
	for i, token := range tokens {
		hash := secret.HashToken(token)
		hashes[i] = hash[:]
	}
	rows, err := p.queries.BrowserSessions(ctx, p.DB.Pool, db.BrowserSessionsParams{InstanceID: instanceID, Hashes: hashes, Now: p.Now()})
	if err != nil {
		return nil, err
	}
	var found []browserSession
	for i, hash := range hashes {
		for _, row := range rows {
			if string(row.TokenHash) != string(hash) {
				continue
			}
			lives, err := p.lives.Of(ctx, instanceID, row.OrgID)
			if err != nil {
				return nil, err
			}
			found = append(found, browserSession{row, tokens[i], lives.Session})
		}
	}
	return found, nil
}

// Browser returns the authenticated sessions of the browser, the newest first. It
// is one statement, or none without a cookie, and another one at most once an hour
// for a session that lives on because it is used.
func (p *Pages) Browser(r *http.Request, instance *policy.Instance) ([]Session, error) {
	all, err := p.read(r.Context(), instance.ID, readCookies(r, p.secure(r)).tokens)
	if err != nil {
		return nil, err
	}
	var complete []Session
	now := p.Now()
	for i := range all {
		if !all[i].complete(now) {
			continue
		}
		complete = append(complete, *all[i].session(now))
		if err := p.extend(r.Context(), instance.ID, &all[i], now); err != nil {
			return nil, err
		}
	}
	return complete, nil
}

// idle is how long sessions of users of an organization live while they are not used.
func (p *Pages) idle(ctx context.Context, instanceID, orgID string) (time.Duration, error) {
	lives, err := p.lives.Of(ctx, instanceID, orgID)
	return min(lives.SessionIdle, lives.Session), err
}

// extend lets a session live on that is used, at most once an hour or in a quarter of its
// life.
func (p *Pages) extend(ctx context.Context, instanceID string, k *browserSession, now time.Time) error {
	idle, err := p.idle(ctx, instanceID, k.OrgID)
	if err != nil {
		return err
	}
	due := now.Add(idle - min(extendEvery, idle/4))
	if k.ExpirationDate == nil || k.ExpirationDate.After(due) {
		return nil
	}
	return p.queries.ExtendSession(ctx, p.DB.Pool, db.ExtendSessionParams{
		InstanceID: instanceID, ID: k.ID, Now: now, Due: due, ExpirationDate: now.Add(idle),
	})
}

// secure reports whether a request was made over https.
func (p *Pages) secure(r *http.Request) bool { return strings.HasPrefix(p.Issuer(r), "https://") }

// as returns a context in which the product acts in the name of a user.
func (p *Pages) as(ctx context.Context, instance *policy.Instance, orgID, userID string) context.Context {
	return policy.As(ctx, policy.In(instance.ID, orgID), userID, p.Roles)
}

// SignOut ends sessions of the browser, all of them when session is "", and takes
// their cookies away. The browser gets another cookie: no form and no login that
// was begun before is good afterwards (SEC-132).
func (p *Pages) SignOut(w http.ResponseWriter, r *http.Request, instance *policy.Instance, session string) error {
	c := readCookies(r, p.secure(r))
	all, err := p.read(r.Context(), instance.ID, c.tokens)
	if err != nil {
		return err
	}
	var stay []string
	for i := range all {
		if session != "" && all[i].ID != session {
			stay = append(stay, all[i].token)
			continue
		}
		_, err := p.Sessions.DeleteSession(p.as(r.Context(), instance, "", all[i].UserID), &sessionv3.DeleteSessionRequest{Id: all[i].ID})
		if err != nil && reasonOf(err) != "NOT_FOUND" {
			return err
		}
	}
	c.tokens = stay
	c.keep(w)
	c.rebind(w)
	return nil
}

// reasonOf returns the reason of a refusal, "" when err is none.
func reasonOf(err error) string {
	if refusal, ok := errors.AsType[*fault.Error](err); ok {
		return refusal.Reason
	}
	return ""
}

// put makes a token the newest of the browser, instead of the one it had for the
// same session (SEC-141).
func (c *cookies) put(token, old string) {
	c.tokens = slices.DeleteFunc(c.tokens, func(one string) bool { return one == old })
	c.tokens = slices.Insert(c.tokens, 0, token)
}
