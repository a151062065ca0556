package policy

import (
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"github.com/writ-id/writ/gen/db"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
)

// Caller is who makes a call.
type Caller struct {
	UserID     string
	OrgID      string
	InstanceID string // "" for a user of the system
	expires    *time.Time
	grants     []grant
	root       bool // the product itself, for example applying a seed
	acting     bool // somebody else acts in the name of the user (RFC 8693)
	// within is the organization outside of which the caller has no rights: that of an
	// application which nobody trusts with more. "" is none.
	within string
	// withheld are the grants that the caller would have by another application.
	withheld []grant
	// handed are the roles that count there, each as role@object; nil: all of the user.
	handed []string
}

// Identity is whom an access token of the OpenID provider is about.
type Identity struct {
	UserID, OrgID string
	Expires       time.Time
	Acting        bool // somebody else acts in the name of the user
	// System are the roles of a user of the system, who is no row.
	System []string
	// Within is the organization of the application that the token was issued to, unless
	// that is trusted: rights elsewhere are none (SEC-235).
	Within string
	// Handed are the roles that the user handed over to the application, each as role@object;
	// nil are all of theirs.
	Handed []string
}

// Audience is that of access tokens for the resource API.
const Audience = "urn:service:iam:org:project:id:service"

// TokenPrefix marks personal access tokens, for secret scanners.
const TokenPrefix = "writ_pat_"

type tokenKey struct {
	instanceID string
	host       string // of tokens that are good at their issuer only
	hash       [sha256.Size]byte
}

// caller returns the user of a bearer token on an instance.
func (c *Chain) caller(ctx context.Context, authorization []string, instance *Instance) (*Caller, error) {
	if len(authorization) > 1 { // which of them counts would be anybody's guess
		return nil, fault.New(fault.Unauthenticated, "TOKEN_REPEATED", "the Authorization header is repeated")
	}
	if len(authorization) == 0 || authorization[0] == "" {
		return nil, fault.New(fault.Unauthenticated, "TOKEN_MISSING", "the Authorization header with a bearer token is missing")
	}
	scheme, token, _ := strings.Cut(authorization[0], " ")
	if !strings.EqualFold(scheme, "bearer") {
		return nil, fault.New(fault.Unauthenticated, "TOKEN_INVALID", "the Authorization header is not a bearer token")
	}
	load, key := c.loadCaller, tokenKey{instanceID: instance.ID, hash: secret.HashToken(token)}
	if !strings.HasPrefix(token, TokenPrefix) {
		host := RequestFrom(ctx).Host
		key.host = host
		load = func(ctx context.Context, _ tokenKey) (*Caller, error) { return c.loadUser(ctx, instance, host, token) }
	}
	caller, err := c.callers.Get(ctx, key, func(ctx context.Context) (*Caller, error) { return load(ctx, key) })
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
	caller := &Caller{UserID: row.UserID, OrgID: row.OrgID, InstanceID: row.InstanceID, expires: row.ExpirationDate}
	return caller, c.loadGrants(ctx, caller)
}

// loadUser reads who an access token of the OpenID provider is about; nil when it is
// not good here.
func (c *Chain) loadUser(ctx context.Context, instance *Instance, host, token string) (*Caller, error) {
	identity, err := c.AccessToken(ctx, instance, host, token)
	if err != nil || identity == nil {
		return nil, err
	}
	if identity.System != nil {
		return &Caller{UserID: identity.UserID, expires: &identity.Expires, grants: []grant{{policyv1.Level_LEVEL_SYSTEM, "", identity.System}}}, nil
	}
	caller := &Caller{UserID: identity.UserID, OrgID: identity.OrgID, InstanceID: instance.ID, expires: &identity.Expires, acting: identity.Acting, within: identity.Within, handed: identity.Handed}
	return caller, c.loadGrants(ctx, caller)
}

// loadGrants reads what a caller may do.
func (c *Chain) loadGrants(ctx context.Context, caller *Caller) error {
	memberships, err := db.New().MembershipPlaces(ctx, c.DB.Pool, db.MembershipPlacesParams{InstanceID: caller.InstanceID, UserID: caller.UserID})
	caller.hold(memberships)
	return err
}

// hold gives a caller the roles that its application lets it have.
func (caller *Caller) hold(memberships []db.MembershipPlacesRow) {
	for _, m := range memberships {
		held := &caller.grants
		if caller.within != "" && m.OrgID != caller.within {
			held = &caller.withheld
		}
		roles := m.Roles
		if held == &caller.grants && caller.handed != nil {
			kept, others := []string{}, []string{}
			for _, name := range roles {
				if slices.Contains(caller.handed, name+"@"+m.ObjectID) {
					kept = append(kept, name)
				} else {
					others = append(others, name)
				}
			}
			caller.withheld = append(caller.withheld, grant{policyv1.Level(m.Level), m.ObjectID, others})
			roles = kept
		}
		*held = append(*held, grant{policyv1.Level(m.Level), m.ObjectID, roles})
	}
}
