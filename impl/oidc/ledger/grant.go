package ledger

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/api/lifetime"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/oidc/client"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/scope"
)

// row is a row of oauth_grants that is to be made, with its event.
type row struct {
	*tokenv1.AccessToken
	instanceID, orgID string
	userGeneration    int32  // in which the user authenticated
	parentID          string // the grant whose tokens were exchanged
	scopes            []string
	revoked           bool
	generation        int32
	idleDate, endsAt  time.Time
	payload           event.Payload
	event.Origin

	first bool // whether the row was made
}

// grantKey names a grant.
type grantKey struct {
	instanceID, id string
	revoked        bool
}

func (r *row) key() grantKey {
	return grantKey{r.instanceID, r.GetGrantId(), r.revoked}
}

// inOrder returns what is written together, sorted: nodes that lock the same rows do it
// in the same order, so that none waits for the other for ever.
func inOrder[T interface{ key() grantKey }](batch []T) []T {
	return slices.SortedStableFunc(slices.Values(batch), func(a, b T) int {
		x, y := a.key(), b.key()
		return cmp.Or(strings.Compare(x.instanceID, y.instanceID), strings.Compare(x.id, y.id))
	})
}

// writeGrants makes rows; of those with one ID it makes the first.
func (s *Ledger) writeGrants(ctx context.Context, batch []*row) error {
	batch = inOrder(batch)
	p := db.AddGrantsParams{Now: s.Now()}
	p.Grow(len(batch))
	asked := make(map[grantKey]*row, len(batch))
	for _, row := range batch {
		key := row.key()
		if asked[key] != nil {
			continue
		}
		asked[key] = row
		p.Add(db.AddGrantsEntry{
			InstanceID: row.instanceID, ID: row.GetGrantId(), OrgID: row.orgID, UserID: row.GetUserId(), UserGeneration: row.userGeneration,
			AppID: row.GetAppId(), SessionID: row.GetSessionId(), ParentID: row.parentID,
			ScopeList: separated(row.scopes), Audience: separated(row.GetAudience()), ClaimList: separated(row.GetClaims()),
			AuthTime: unix(row.GetAuthTime()), Amr: separated(row.GetAmr()), Actor: string(row.GetActor()), OriginList: separated(row.GetOrigins()),
			Revocation: row.revoked, Generation: row.generation, IdleDate: row.idleDate, ExpirationDate: row.endsAt,
			EventType: event.Type(row.payload), Payload: string(event.JSON(row.payload)), ClientAddress: row.ClientAddress, Traceparent: row.Traceparent,
		})
	}
	made, err := s.queries.AddGrants(ctx, s.DB.Pool, p)
	for _, row := range made {
		asked[grantKey{row.InstanceID, row.ID, row.Revoked}].first = true
	}
	return err
}

// separated is a list as AddGrants reads it.
func separated(list []string) string { return strings.Join(list, "\x1f") }

// Made is what a code was redeemed for, or a token exchanged.
type Made struct {
	Access         *tokenv1.AccessToken
	Scopes         []string
	OrgID          string // of the user
	UserGeneration int32
	ParentID       string // the grant whose tokens were exchanged
	Generation     int32  // of the refresh token; 0: there is none
	Lives          lifetime.Lives
}

// Grant stores what was made. It reports whether it was the first time, and user, session
// and parent are good still.
func (s *Ledger) Grant(ctx context.Context, at endpoint.Site, m *Made) (bool, error) {
	t := m.Access
	r := &row{
		AccessToken: t, instanceID: at.ID, orgID: m.OrgID, userGeneration: m.UserGeneration, parentID: m.ParentID, scopes: m.Scopes, generation: m.Generation,
		idleDate: at.Now.Add(min(m.Lives.RefreshIdle, m.Lives.Refresh)), endsAt: at.Now.Add(m.Lives.Refresh),
		payload: &eventv1.OIDCSessionAdded{UserId: t.GetUserId(), ClientId: t.GetClientId(), SessionId: t.GetSessionId(), Scopes: m.Scopes},
	}
	if m.Generation == 0 { // nothing of it lives longer
		r.idleDate = unix(t.GetExpiresAt())
		r.endsAt = r.idleDate
	}
	r.Origin = policy.OriginOf(ctx)
	if _, err := s.grants.Ask(lasting(ctx), r); err != nil { // then it may be written still
		return false, err
	}
	return r.first, nil
}

// voidFor is how long it is known of a code that it was spent: longer than it lives.
const voidFor = 2 * time.Minute

// Void stores a code as one that was revoked, for good, whatever the clock does. It
// reports whether nothing was stored of it before.
func (s *Ledger) Void(ctx context.Context, at endpoint.Site, code *tokenv1.Code, appID, orgID, reason string) (bool, error) {
	r := &row{
		AccessToken: &tokenv1.AccessToken{GrantId: code.GetId(), UserId: code.GetUserId(), AppId: appID, AuthTime: code.GetAuthTime()},
		instanceID:  at.ID, orgID: orgID, revoked: true, idleDate: at.Now, endsAt: at.Now.Add(voidFor),
		payload: &eventv1.OIDCSessionRefreshTokenRevoked{Reason: reason},
	}
	r.Origin = policy.OriginOf(ctx)
	_, err := s.grants.Ask(lasting(ctx), r)
	return r.first, err
}

// lasting is the context of what has to be done to its end although the client went
// away: a thief must not be able to keep a family by hanging up.
func lasting(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

// endLimit bounds one try to end a family.
const endLimit = 10 * time.Second

// RevokeFamily ends all tokens that came from a code. While the database cannot write,
// the client learns that nothing is decided, and the family ends as soon as it can: what
// was found out is not forgotten with the request (SEC-092).
func (s *Ledger) RevokeFamily(ctx context.Context, at endpoint.Site, grantID, reason string) error {
	end := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, endLimit)
		defer cancel()
		return s.RevokeGrant(ctx, at, grantID, "", reason)
	}
	err := end(lasting(ctx))
	if err != nil {
		s.revocations.add(jobID{instanceID: at.ID, Use: Use{GrantID: grantID}}, end)
	}
	return err
}

// Doubt goes on with a use of a code or refresh token that nobody could look at, once the
// database is back: what it was the second use of ends then. may refuses whoever may not use
// what they showed, and by is what they showed for that, a value that can be compared: nil
// where they have proved that they may.
//
// The first use was by the clock of another node, maybe. Only one that was earlier by more than
// clocks differ makes this one the second: after an outage everybody tries again, and a first
// use must not end what came of it. A second one that follows closer is answered that nothing
// is decided, as all are; whoever has nothing from the first comes again, and is noticed.
func (s *Ledger) Doubt(at endpoint.Site, use Use, by any, may func(context.Context) error) {
	first := &eventv1.OIDCSessionRefreshTokenRenewed{Generation: uint32(use.Generation + 1)}
	p := db.GrantUsedBeforeParams{
		InstanceID: at.ID, ID: use.GrantID, By: at.Now.Add(-client.ClockSkew), Generation: use.Generation,
		EventType: event.Type(first), Payload: event.JSON(first),
	}
	s.doubts.add(jobID{at.ID, use, by}, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, endLimit)
		defer cancel()
		if may != nil {
			err = may(ctx)
		}
		if _, refused := errors.AsType[*endpoint.Refusal](err); refused {
			return nil
		}
		if err != nil {
			return err
		}
		if used, err := s.queries.GrantUsedBefore(ctx, s.DB.Pool, p); err != nil || !used {
			return err
		}
		return s.RevokeGrant(ctx, at, use.GrantID, "", "reuse")
	})
}

// Use is the use of a code, or of the refresh token of a generation.
type Use struct {
	GrantID    string
	Generation int32 // 0: of the code
}

// RevokeGrant ends a grant, of an application if one is named, and those below it.
// One that was made below it meanwhile is found the second time.
func (s *Ledger) RevokeGrant(ctx context.Context, at endpoint.Site, id, appID, reason string) error {
	payload := &eventv1.OIDCSessionRefreshTokenRevoked{Reason: reason}
	from := policy.OriginOf(ctx)
	p := db.RevokeGrantParams{
		InstanceID: at.ID, ID: id, AppID: appID, Audience: scope.Platform, EventType: event.Type(payload), Payload: event.JSON(payload), Now: at.Now,
		ClientAddress: from.ClientAddress, Traceparent: from.Traceparent,
	}
	platform := false
	for {
		var done db.RevokeGrantRow
		err := store.Retry(ctx, func() (err error) {
			done, err = s.queries.RevokeGrant(ctx, s.DB.Pool, p)
			return err
		})
		if err != nil {
			return err
		}
		platform = platform || done.HasAudience
		if done.Revoked > 0 {
			continue
		}
		if platform {
			return s.forgetCallers(ctx)
		}
		return nil
	}
}

// rotation is the use of a refresh token.
type rotation struct {
	instanceID, grantID string
	generation          int32 // that is used
	unusedUntil         time.Time
	event.Origin
	won bool
}

func (r *rotation) key() grantKey { return grantKey{r.instanceID, r.grantID, false} }

// writeRotations uses refresh tokens; of those that are the same it uses the first.
func (s *Ledger) writeRotations(ctx context.Context, batch []*rotation) error {
	batch = inOrder(batch)
	now := s.Now()
	p := db.RotateGrantsParams{EventType: event.Type(&eventv1.OIDCSessionRefreshTokenRenewed{}), Now: now}
	p.Grow(len(batch))
	asked := make(map[grantKey]*rotation, len(batch))
	for _, r := range batch {
		key := r.key()
		if asked[key] != nil { // one of two generations is wrong, or they are the same
			continue
		}
		asked[key] = r
		p.Add(db.RotateGrantsEntry{
			InstanceID: r.instanceID, ID: r.grantID, Generation: r.generation, UnusedUntil: r.unusedUntil,
			Payload:       string(event.JSON(&eventv1.OIDCSessionRefreshTokenRenewed{Generation: uint32(r.generation + 1)})),
			ClientAddress: r.ClientAddress, Traceparent: r.Traceparent,
		})
	}
	rotated, err := s.queries.RotateGrants(ctx, s.DB.Pool, p)
	for _, row := range rotated {
		asked[grantKey{row.InstanceID, row.ID, false}].won = true
	}
	return err
}

// Rotate uses a refresh token of a generation; the next is good for idle, unused. Of
// parallel uses one is told true.
func (s *Ledger) Rotate(ctx context.Context, at endpoint.Site, grantID string, generation int32, idle time.Duration) (bool, error) {
	use := &rotation{instanceID: at.ID, grantID: grantID, generation: generation, unusedUntil: at.Now.Add(idle), Origin: policy.OriginOf(ctx)}
	_, err := s.rotations.Ask(lasting(ctx), use)
	return use.won, err
}
