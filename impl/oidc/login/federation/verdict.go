package federation

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/writ-id/writ/gen/db"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/api/session"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/upstream"
	"github.com/writ-id/writ/impl/oidc/login/browser"
	"github.com/writ-id/writ/impl/oidc/login/flow"
	"github.com/writ-id/writ/impl/oidc/login/registration"
	"github.com/writ-id/writ/impl/oidc/login/rule"
)

// What becomes of somebody whom an identity provider has authenticated. An account is the
// provider and its subject, never an address or a name (SEC-201): the user who is linked to
// that is signed in. All others are strangers, who may link it to a user that they prove to
// be, or become a new one, as far as the options of the provider say so (SEC-202).

// judge returns the verdict on an identity.
func (s *Service) judge(ctx context.Context, l *Login, p *upstream.Provider, pending *tokenv1.Upstream, who *upstream.Identity) (flow.Event, error) {
	at, since := s.authenticated(l.Flow, pending, who)
	if at.Unix() < since {
		return flow.Refused{Reason: "idp_stale"}, nil
	}
	linked, err := s.queries.LinkedUser(ctx, s.DB.Pool, db.LinkedUserParams{InstanceID: l.instance(), IdpID: p.ID, ExternalUserID: who.Subject})
	if store.NoRow(err) {
		return s.stranger(ctx, l, p, pending, who, at)
	}
	if err != nil {
		return nil, err
	}
	if linked.IsRegistering { // they made an account before, and have to verify their address still
		return s.verify(ctx, l, &linked)
	}
	return s.signIn(ctx, l, p, who, &linked, at, since)
}

// authenticated returns when the user authenticated at the provider, and since when the login
// asks for that. A provider that does not say when is believed to have done it now.
func (s *Service) authenticated(f *flow.Flow, pending *tokenv1.Upstream, who *upstream.Identity) (at time.Time, since int64) {
	at, since = s.Now(), f.Proof().Since
	if f.Proof().Fresh {
		since = max(since, pending.GetStartedAt())
	}
	if !who.AuthTime.IsZero() && who.AuthTime.Before(at) {
		at = who.AuthTime
	}
	if at.Unix() < since && at.Add(time.Minute).Unix() >= since { // clocks differ
		at = time.Unix(since, 0).UTC()
	}
	return at, since
}

// verify sends another code to a linked user whose address is not verified yet.
func (s *Service) verify(ctx context.Context, l *Login, linked *db.LinkedUserRow) (flow.Event, error) {
	at, err := s.Registrations.At(ctx, l.Browser, registration.Where{Before: linked.ID, Language: l.Language}, linked.Email)
	if err != nil {
		return nil, err
	}
	return flow.Registered{UserID: linked.ID, Address: linked.Email}, s.Registrations.Resend(ctx, at, linked.ID, linked.Email)
}

// signIn signs in the user who is linked to an identity.
func (s *Service) signIn(ctx context.Context, l *Login, p *upstream.Provider, who *upstream.Identity, linked *db.LinkedUserRow, at time.Time, since int64) (flow.Event, error) {
	unsuitable := flow.Refused{Reason: "idp_unsuitable"}
	ok, err := s.isEligible(ctx, l, p, linked)
	if err != nil {
		return nil, err
	}
	if !ok {
		return unsuitable, nil
	}
	if err := s.refresh(ctx, l, p, who, linked); err != nil {
		return nil, err
	}
	id, err := l.Browser.SignInBy(ctx, l.Flow, linked.OrgID, linked.ID, session.Intent{IDPID: p.ID, ExternalUserID: who.Subject, AuthTime: at})
	if browser.ReasonOf(err) == "CHECK_FAILED" { // they were ended, or unlinked, meanwhile
		return unsuitable, nil
	}
	if err != nil {
		return nil, err
	}
	return flow.Proved{SessionID: id, LoginName: linked.LoginName, Since: since}, l.Browser.Remember(ctx, linked.ID, linked.Generation)
}

// isEligible reports whether a linked user may sign in here and now: the login may be for
// others only, the provider switched off where they are (SEC-018, SEC-205).
func (s *Service) isEligible(ctx context.Context, l *Login, p *upstream.Provider, linked *db.LinkedUserRow) (bool, error) {
	isActive := linked.State == userv3.UserState_USER_STATE_ACTIVE && linked.OrgState == 1
	if !l.Flow.Admits(&flow.Session{IsActive: isActive, OrgID: linked.OrgID, UserID: linked.ID}) {
		return false, nil
	}
	there, err := s.provider(ctx, l, linked.OrgID, p.ID)
	return there != nil, err
}

// refresh brings a user up to date with what the provider says, if it is to.
func (s *Service) refresh(ctx context.Context, l *Login, p *upstream.Provider, who *upstream.Identity, linked *db.LinkedUserRow) error {
	as := l.Browser.As(ctx, linked.OrgID, linked.ID)
	if name := who.Username; name != "" && name != linked.ExternalUsername {
		if err := s.Links.Rename(as, linked.LinkID, name); err != nil && browser.ReasonOf(err) != "NOT_FOUND" {
			return err
		}
	}
	if !p.AutoUpdate {
		return nil
	}
	patch := &userv3.PatchHuman{Profile: &userv3.PatchProfile{}}
	for _, one := range []struct {
		to   **string
		said string
	}{{&patch.Profile.GivenName, who.GivenName}, {&patch.Profile.FamilyName, who.FamilyName}, {&patch.Profile.NickName, who.Nickname}, {&patch.Profile.DisplayName, who.DisplayName}} {
		if one.said != "" { // what it does not say stays
			*one.to = &one.said
		}
	}
	address, err := s.ownAddress(ctx, l, p, who, linked.ID)
	if err != nil {
		return err
	}
	if address != "" {
		yes := true
		patch.Email = &userv3.PatchEmail{Address: &address, IsVerified: &yes}
	}
	_, err = s.Users.PatchUser(as, &userv3.PatchUserRequest{Id: linked.ID, User: &userv3.PatchUser{Type: &userv3.PatchUser_Human{Human: patch}}})
	if refusal, ok := errors.AsType[*fault.Error](err); ok && refusal.Kind == fault.InvalidArgument {
		s.Logger.WarnContext(ctx, "what an identity provider says of a user cannot be stored", "idp", p.ID, "user", linked.ID, policy.LogID(ctx), "err", err)
		return nil
	}
	return err
}

// ownAddress returns the address of a user if the provider vouches for it and it is nobody
// else's.
func (s *Service) ownAddress(ctx context.Context, l *Login, p *upstream.Provider, who *upstream.Identity, userID string) (string, error) {
	vouched, err := s.vouches(ctx, l, p, who)
	if err != nil || !vouched || !rule.IsEmail(who.Email) {
		return "", err
	}
	owner, err := s.queries.UserOfEmail(ctx, s.DB.Pool, db.UserOfEmailParams{InstanceID: l.instance(), EmailFolded: resource.Fold(who.Email)})
	if store.NoRow(err) || err == nil && owner.ID == userID {
		return who.Email, nil
	}
	return "", err
}

// vouches reports whether an address that a provider says is verified counts as such: one of
// an organization speaks for the verified domains of that only (SEC-174).
func (s *Service) vouches(ctx context.Context, l *Login, p *upstream.Provider, who *upstream.Identity) (bool, error) {
	if !who.EmailVerified || p.OrgID == "" {
		return who.EmailVerified, nil
	}
	owner, err := s.queries.OrgByDomain(ctx, s.DB.Pool, db.OrgByDomainParams{
		InstanceID: l.instance(), Domain: strings.ToLower(who.Email[strings.LastIndexByte(who.Email, '@')+1:]),
	})
	if store.NoRow(err) {
		return false, nil
	}
	return err == nil && owner == p.OrgID, err
}
