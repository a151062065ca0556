package oauth

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/event"
)

// grantRow is a row of oauth_grants that is to be made, with its event.
type grantRow struct {
	*tokenv1.AccessToken
	instanceID, orgID string
	userGeneration    int32  // in which the user authenticated
	parentID          string // the grant whose tokens were exchanged
	scopes            []string
	revoked           bool
	generation        int32
	idleDate, endsAt  time.Time
	payload           event.Payload

	first bool // whether the row was made
}

// grantKey names a grant.
type grantKey struct {
	instanceID, id string
	revoked        bool
}

func (row *grantRow) key() grantKey {
	return grantKey{row.instanceID, row.GetGrantId(), row.revoked}
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
func (s *Server) writeGrants(ctx context.Context, batch []*grantRow) error {
	batch = inOrder(batch)
	p := db.AddGrantsParams{Now: s.Now()}
	asked := make(map[grantKey]*grantRow, len(batch))
	for _, row := range batch {
		key := row.key()
		if asked[key] != nil {
			continue
		}
		asked[key] = row
		p.InstanceIds = append(p.InstanceIds, row.instanceID)
		p.Ids = append(p.Ids, row.GetGrantId())
		p.OrgIds = append(p.OrgIds, row.orgID)
		p.UserIds = append(p.UserIds, row.GetUserId())
		p.UserGenerations = append(p.UserGenerations, row.userGeneration)
		p.AppIds = append(p.AppIds, row.GetAppId())
		p.SessionIds = append(p.SessionIds, row.GetSessionId())
		p.ParentIds = append(p.ParentIds, row.parentID)
		p.ScopeLists = append(p.ScopeLists, separated(row.scopes))
		p.Audiences = append(p.Audiences, separated(row.GetAudience()))
		p.ClaimLists = append(p.ClaimLists, separated(row.GetClaims()))
		p.AuthTimes = append(p.AuthTimes, unix(row.GetAuthTime()))
		p.Amrs = append(p.Amrs, separated(row.GetAmr()))
		p.Actors = append(p.Actors, string(row.GetActor()))
		p.OriginLists = append(p.OriginLists, separated(row.GetOrigins()))
		p.Revocations = append(p.Revocations, row.revoked)
		p.Generations = append(p.Generations, row.generation)
		p.IdleDates = append(p.IdleDates, row.idleDate)
		p.ExpirationDates = append(p.ExpirationDates, row.endsAt)
		p.EventTypes = append(p.EventTypes, event.Type(row.payload))
		p.Payloads = append(p.Payloads, string(event.JSON(row.payload)))
	}
	made, err := s.queries.AddGrants(ctx, s.DB.Pool, p)
	for _, row := range made {
		asked[grantKey{row.InstanceID, row.ID, row.Revoked}].first = true
	}
	return err
}

// separated is a list as AddGrants reads it.
func separated(list []string) string { return strings.Join(list, "\x1f") }

// addGrant stores what a code was redeemed for, or a token of the grant parentID was
// exchanged for. It reports whether it was the first time, and user, session and parent
// are good still.
func (c *call) addGrant(i *issuance, parentID string, generation int32) (bool, error) {
	t := i.access
	payload := &eventv1.OIDCSessionAdded{UserId: t.GetUserId(), ClientId: t.GetClientId(), SessionId: t.GetSessionId(), Scopes: i.scopes.list}
	row := &grantRow{
		AccessToken: t, instanceID: c.instance.ID, orgID: i.state.OrgID, userGeneration: i.state.Generation, parentID: parentID, scopes: i.scopes.list, generation: generation,
		idleDate: c.now.Add(refreshIdle), endsAt: c.now.Add(refreshLife), payload: payload,
	}
	if generation == 0 { // nothing of it lives longer
		row.idleDate = unix(t.GetExpiresAt())
		row.endsAt = row.idleDate
	}
	if err := c.grants.add(c.lasting(), row); err != nil { // then it may be written still
		return false, err
	}
	return row.first, nil
}

// spend makes a code useless. If it was used already, what came from it ends too.
func (c *call) spend(code *tokenv1.Code, of *client) error {
	first, err := c.void(code, of, "verifier")
	if err == nil && !first {
		err = c.revokeFamily(code.GetId(), "verifier")
	}
	return err
}

// void stores a code as one that was revoked. It reports whether nothing was stored of it
// before.
func (c *call) void(code *tokenv1.Code, of *client, reason string) (bool, error) {
	row := &grantRow{
		AccessToken: &tokenv1.AccessToken{GrantId: code.GetId(), UserId: code.GetUserId(), AppId: of.ID, AuthTime: code.GetAuthTime()},
		instanceID:  c.instance.ID, orgID: of.OrgID, revoked: true, idleDate: c.now, endsAt: c.now.Add(2 * codeLife),
		payload: &eventv1.OIDCSessionRefreshTokenRevoked{Reason: reason},
	}
	err := c.grants.add(c.lasting(), row)
	return row.first, err
}

// lasting is the context of what has to be done to its end although the client went
// away: a thief must not be able to keep a family by hanging up.
func (c *call) lasting() context.Context { return context.WithoutCancel(c.ctx()) }

// revokeFamily ends all tokens that came from a code. While the database cannot write,
// the client learns that nothing is decided, and the family ends as soon as it can: what
// was found out is not forgotten with the request (SEC-092).
func (c *call) revokeFamily(grantID, reason string) error {
	end := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, batchLimit)
		defer cancel()
		return c.revokeGrant(ctx, grantID, "", reason)
	}
	err := end(c.lasting())
	if err != nil {
		c.overdue.add(end)
	}
	return err
}

// revokeGrant ends a grant, of an application if one is named, and those below it.
// One that was made below it meanwhile is found the second time.
func (c *call) revokeGrant(ctx context.Context, id, appID, reason string) error {
	payload := &eventv1.OIDCSessionRefreshTokenRevoked{Reason: reason}
	p := db.RevokeGrantParams{
		InstanceID: c.instance.ID, ID: id, AppID: appID, Audience: Platform, EventType: event.Type(payload), Payload: event.JSON(payload), Now: c.now,
	}
	platform := false
	for {
		done, err := c.queries.RevokeGrant(ctx, c.DB.Pool, p)
		if err != nil {
			return err
		}
		platform = platform || done.HasAudience
		if done.Revoked > 0 {
			continue
		}
		if platform {
			return c.forgetCallers(ctx)
		}
		return nil
	}
}

// rotation is the use of a refresh token.
type rotation struct {
	instanceID, grantID string
	generation          int32 // that is used
	won                 bool
}

func (r *rotation) key() grantKey { return grantKey{r.instanceID, r.grantID, false} }

// writeRotations uses refresh tokens; of those that are the same it uses the first.
func (s *Server) writeRotations(ctx context.Context, batch []*rotation) error {
	batch = inOrder(batch)
	now := s.Now()
	p := db.RotateGrantsParams{EventType: event.Type(&eventv1.OIDCSessionRefreshTokenRenewed{}), UnusedUntil: now.Add(refreshIdle), Now: now}
	asked := make(map[grantKey]*rotation, len(batch))
	for _, r := range batch {
		key := r.key()
		if asked[key] != nil { // one of two generations is wrong, or they are the same
			continue
		}
		asked[key] = r
		p.InstanceIds = append(p.InstanceIds, r.instanceID)
		p.Ids = append(p.Ids, r.grantID)
		p.Generations = append(p.Generations, r.generation)
		p.Payloads = append(p.Payloads, string(event.JSON(&eventv1.OIDCSessionRefreshTokenRenewed{Generation: uint32(r.generation + 1)})))
	}
	rotated, err := s.queries.RotateGrants(ctx, s.DB.Pool, p)
	for _, row := range rotated {
		asked[grantKey{row.InstanceID, row.ID, false}].won = true
	}
	return err
}
