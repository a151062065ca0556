// Package client knows the applications and service users that use the endpoints, and
// authenticates them (RFC 6749, section 2.3; RFC 7523).
package client

import (
	"context"
	"crypto"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/writ-id/writ/gen/db"
	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/api/lifetime"
	"github.com/writ-id/writ/impl/core/cache"
	"github.com/writ-id/writ/impl/core/key"
	"github.com/writ-id/writ/impl/core/redirect"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/scope"
)

// Client is an application that uses the endpoints.
type Client struct {
	db.App
	AssertRoles bool     // its project asserts roles
	Roles       []string // of its project
	Lives       lifetime.Lives

	checkRole    bool // its project asks users for a role
	checkProject bool // its project asks users to be of an organization that has it
	keys         map[string]appKey
}

// appKey is a key that its assertions may be signed with.
type appKey struct {
	ID    string     `json:"id"`
	Key   string     `json:"key"`
	Until *time.Time `json:"until"`
}

// MayUse reports whether a grant is configured for the client.
func (c *Client) MayUse(grant appv3.GrantType) bool { return slices.Contains(c.GrantTypes, grant) }

// MayAsk reports whether a response type is configured for the client.
func (c *Client) MayAsk(kind appv3.ResponseType) bool { return slices.Contains(c.ResponseTypes, kind) }

// HasJWT reports whether its access tokens are JWTs.
func (c *Client) HasJWT() bool { return isJWT(c.AccessTokenType) }

// Skew is by how many seconds its tokens give way to its clock.
func (c *Client) Skew() int64 {
	return int64(time.Duration(c.ClockSkewNanos).Round(time.Second).Seconds())
}

// Registered reports whether the client registered an address (package redirect).
func (c *Client) Registered(addresses []string, asked string) bool {
	native := c.ApplicationType == appv3.ApplicationType_APPLICATION_TYPE_NATIVE
	for _, address := range addresses {
		if c.DevelopmentMode && redirect.MatchDevelopment(address, asked, native) || redirect.Match(address, asked, native) {
			return true
		}
	}
	return false
}

// key returns a key that the client registered, if it is good now (SEC-056); no key
// verifies nothing.
func (c *Client) key(id string, now time.Time) (crypto.PublicKey, error) {
	registered, ok := c.keys[id]
	if !ok || registered.Until != nil && !now.Before(*registered.Until) {
		return nil, nil
	}
	public, _, err := key.Parse(registered.Key)
	return public, err
}

// Config holds what a Directory needs.
type Config struct {
	DB *store.DB
	// TokenEndpointAudience accepts assertions of clients that name the token
	// endpoint instead of the issuer, as RFC 7523 had it (SEC-054).
	TokenEndpointAudience bool
	// System are the users of the installation, who sign their tokens themselves.
	System SystemUsers
}

// Directory finds and authenticates clients. What it remembers of them is a second old
// at most. It is safe for concurrent use.
type Directory struct {
	Config

	queries  *db.Queries
	lives    *lifetime.Reader
	clients  *cache.Cache[named, *Client]
	services *cache.Cache[named, []db.ServiceClientsRow]
	keys     *cache.Cache[named, *serviceKey]
	projects *cache.Cache[named, []string] // for an organization, of those that were asked for
}

// NewDirectory returns a Directory over c.
func NewDirectory(c Config) *Directory {
	return &Directory{
		Config: c, queries: db.New(), lives: lifetime.NewReader(c.DB),
		clients:  cache.New[named, *Client](named.String),
		services: cache.New[named, []db.ServiceClientsRow](named.String),
		keys:     cache.New[named, *serviceKey](named.String),
		projects: cache.New[named, []string](named.String),
	}
}

// Forget drops what is remembered.
func (d *Directory) Forget() {
	d.lives.Drop()
	d.clients.Drop()
	d.services.Drop()
	d.keys.Drop()
	d.projects.Drop()
}

// named is a client ID or a key ID of an instance.
type named struct{ instanceID, id string }

// String is the name as a text.
func (n named) String() string { return n.instanceID + "\x00" + n.id }

// Bounds of what is looked up (SEC-293).
const (
	maxID    = 400
	maxKeyID = 200
)

// Find returns an active application by its client ID; nil when there is none.
func (d *Directory) Find(ctx context.Context, instanceID, id string) (*Client, error) {
	if id == "" || len(id) > maxID {
		return nil, nil
	}
	return d.clients.Get(ctx, named{instanceID, id}, func(ctx context.Context) (*Client, error) {
		row, err := d.queries.OAuthClient(ctx, d.DB.Pool, db.OAuthClientParams{InstanceID: instanceID, ClientID: id})
		if store.NoRow(err) || err == nil && !row.Active {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		lives, err := d.lives.Of(ctx, instanceID, row.App.OrgID)
		if err != nil {
			return nil, err
		}
		found := &Client{
			Lives: lives.For(&row.App),
			App:   row.App, AssertRoles: row.ProjectRoleAssertion, Roles: row.RoleKeys,
			checkRole: row.ProjectRoleCheck, checkProject: row.HasProjectCheck, keys: map[string]appKey{},
		}
		var keys []appKey
		if err := json.Unmarshal(row.Keys, &keys); err != nil {
			return nil, err
		}
		for _, key := range keys {
			found.keys[key.ID] = key
		}
		return found, nil
	})
}

// Admits reports whether a user may use an application, by what its project asks.
func (d *Directory) Admits(ctx context.Context, c *Client, userID, orgID string) (bool, error) {
	if !c.checkRole && !c.checkProject {
		return true, nil
	}
	return d.queries.MayUseProject(ctx, d.DB.Pool, db.MayUseProjectParams{
		InstanceID: c.InstanceID, UserID: userID, ProjectID: c.ProjectID, OrgID: orgID, RoleCheck: c.checkRole, ProjectCheck: c.checkProject,
	})
}

// Grantable leaves of scopes what a client of an organization may have: roles that its
// project has, projects that its organization has or was granted (SEC-019).
func (d *Directory) Grantable(ctx context.Context, instanceID string, asked *scope.Set, roles []string, orgID string) (*scope.Set, error) {
	if len(asked.Projects) == 0 {
		return asked.Grantable(roles, nil), nil
	}
	key := named{instanceID, orgID + "\x00" + strings.Join(asked.Projects, "\x00")}
	read := func(ctx context.Context) ([]string, error) {
		return d.queries.ProjectsFor(ctx, d.DB.Pool, db.ProjectsForParams{InstanceID: instanceID, Ids: asked.Projects, OrgID: orgID})
	}
	var projects []string
	var err error
	if len(key.id) <= maxID {
		projects, err = d.projects.Get(ctx, key, read)
	} else { // too long to be remembered
		projects, err = read(ctx)
	}
	if err != nil {
		return nil, err
	}
	return asked.Grantable(roles, projects), nil
}

// Service is a service user as a client: its client ID is its username or login
// name.
type Service struct {
	UserID, OrgID, Username string
	Generation              int32
	JWT                     bool // its access tokens are JWTs
}

// LivesOf returns how long the tokens of a service user are good.
func (d *Directory) LivesOf(ctx context.Context, at endpoint.Site, s *Service) (lifetime.Lives, error) {
	return d.lives.Of(ctx, at.ID, s.OrgID)
}

// candidates returns the service users that a client ID may mean.
func (d *Directory) candidates(ctx context.Context, at endpoint.Site, id string) ([]db.ServiceClientsRow, error) {
	return d.services.Get(ctx, named{at.ID, id}, func(ctx context.Context) ([]db.ServiceClientsRow, error) {
		params := db.ServiceClientsParams{InstanceID: at.ID, ClientID: resource.Fold(id)}
		if i := strings.LastIndexByte(id, '@'); i >= 0 {
			params.Username, params.Domain = resource.Fold(id[:i]), strings.ToLower(id[i+1:])
		}
		return d.queries.ServiceClients(ctx, d.DB.Pool, params)
	})
}

// serviceKey is a key of a service user.
type serviceKey struct {
	db.ServiceKeyRow
	public crypto.PublicKey
}

// serviceKey returns a key by ID; nil when there is none.
func (d *Directory) serviceKey(ctx context.Context, at endpoint.Site, id string) (*serviceKey, error) {
	if id == "" || len(id) > maxKeyID {
		return nil, nil
	}
	return d.keys.Get(ctx, named{at.ID, id}, func(ctx context.Context) (*serviceKey, error) {
		row, err := d.queries.ServiceKey(ctx, d.DB.Pool, db.ServiceKeyParams{InstanceID: at.ID, ID: id})
		if store.NoRow(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		public, _, err := key.Parse(row.PublicKey)
		return &serviceKey{row, public}, err
	})
}

func isJWT(kind object.AccessTokenType) bool {
	return kind == object.AccessTokenType_ACCESS_TOKEN_TYPE_JWT
}
