package policy

import (
	"context"
	"crypto/sha256"
	"strings"
	"time"

	"github.com/writ-id/writ/gen/db"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/fault"
	"github.com/writ-id/writ/impl/store"
)

// Caller is who makes a call.
type Caller struct {
	UserID     string
	OrgID      string
	InstanceID string // "" for a user of the system
	expires    *time.Time
	grants     []grant
	root       bool // the product itself, for example applying a seed
}

// TokenPrefix marks personal access tokens, for secret scanners.
const TokenPrefix = "writ_pat_"

// HashToken returns what is stored of a token. Tokens hold 256 random bits, so
// one hash is enough.
func HashToken(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }

type tokenKey struct {
	instanceID string
	hash       [sha256.Size]byte
}

// caller returns the user of a bearer token on an instance.
func (c *Chain) caller(ctx context.Context, authorization string, instance *Instance) (*Caller, error) {
	if authorization == "" {
		return nil, fault.New(fault.Unauthenticated, "TOKEN_MISSING", "the Authorization header with a bearer token is missing")
	}
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "bearer") {
		return nil, fault.New(fault.Unauthenticated, "TOKEN_INVALID", "the Authorization header is not a bearer token")
	}
	if !strings.HasPrefix(token, TokenPrefix) {
		return nil, errTokenInvalid
	}
	key := tokenKey{instance.ID, HashToken(token)}
	caller, err := c.callers.Get(key, func() (*Caller, error) { return c.loadCaller(ctx, key) })
	if err != nil {
		return nil, err
	}
	if caller == nil || caller.expires != nil && !c.Now().Before(*caller.expires) {
		return nil, errTokenInvalid
	}
	return caller, nil
}

var errTokenInvalid = fault.New(fault.Unauthenticated, "TOKEN_INVALID", "the token is unknown, expired or revoked")

// loadCaller reads who a token belongs to; nil when it is not good.
func (c *Chain) loadCaller(ctx context.Context, key tokenKey) (*Caller, error) {
	q := db.New()
	row, err := q.CallerByToken(ctx, c.DB.Pool, db.CallerByTokenParams{InstanceID: key.instanceID, TokenHash: key.hash[:]})
	if store.NoRow(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	memberships, err := q.MembershipsOfUser(ctx, c.DB.Pool, db.MembershipsOfUserParams{InstanceID: row.InstanceID, UserID: row.UserID})
	if err != nil {
		return nil, err
	}
	caller := &Caller{UserID: row.UserID, OrgID: row.OrgID, InstanceID: row.InstanceID, expires: row.ExpirationDate}
	for _, m := range memberships {
		caller.grants = append(caller.grants, grant{policyv1.Level(m.Level), m.ObjectID, m.Roles})
	}
	return caller, nil
}
