// Package subject reads what a token is about, as it is now: its user and their
// organization, and whether the token, the grant, the session and the tokens it came
// from are good still. Nothing that was revoked or deactivated is good anywhere for
// longer than it takes to ask (SEC-096, SEC-118).
package subject

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/writ-id/writ/gen/db"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/core/cache"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/oidc/client"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/scope"
)

// About says what has to be good for a token to be good, and what is to be read of
// it; empty: there is none.
type About struct {
	User, Token, Grant, Session string
	Generation                  *int32   // of the user; nil: the grant says it, or any
	Projects                    []string // whose roles are wanted
	Metadata                    bool     // whether that of the user is wanted
}

// AboutToken is what has to be good for an access token.
func AboutToken(t *tokenv1.AccessToken) About {
	a := About{User: t.GetUserId(), Token: t.GetId(), Grant: t.GetGrantId(), Session: t.GetSessionId()}
	_, _, a.Generation = Source(t.GetId())
	return a
}

// Reader reads subjects. It is safe for concurrent use.
type Reader struct {
	DB      *store.DB
	Clients *client.Directory
	Roles   *policy.Roles

	queries *db.Queries
	batches batches
	orgs    *cache.Cache[place, *db.OAuthOrgRow]
}

// NewReader returns a Reader over a database.
func NewReader(s *store.DB, clients *client.Directory, roles *policy.Roles) *Reader {
	r := &Reader{DB: s, Clients: clients, Roles: roles, queries: db.New(), orgs: cache.New[place, *db.OAuthOrgRow](place.String)}
	r.batches = r.newBatches()
	return r
}

// Forget drops what is remembered of organizations.
func (s *Reader) Forget() { s.orgs.Drop() }

// place is an organization of an instance.
type place struct{ instanceID, orgID string }

// String is the place as a text.
func (p place) String() string { return p.instanceID + "\x00" + p.orgID }

// OfToken is Read for a token, whose application has to be active too, who acts in the
// name of the user, what it was exchanged for and, for the resource API, whether the user
// lets the application act for them.
func (s *Reader) OfToken(ctx context.Context, at endpoint.Site, t *tokenv1.AccessToken, a About) (*Subject, error) {
	if ended, err := s.Ended(ctx, at.ID, t.GetOrigins()); err != nil || ended {
		return nil, err
	}
	if may, err := s.mayAct(ctx, at, t); err != nil || !may {
		return nil, err
	}
	var consent *Consent
	if t.GetAppId() != "" {
		of, err := s.Clients.Find(ctx, at.ID, t.GetClientId())
		if err != nil || of == nil || of.ID != t.GetAppId() {
			return nil, err
		}
		if slices.Contains(t.GetAudience(), scope.Platform) {
			if consent, err = s.Through(ctx, at, of, t.GetUserId(), t.GetOrigins()); err != nil || !consent.covers(t) {
				return nil, err
			}
		}
	}
	found, err := s.Read(ctx, at, a)
	if found != nil {
		found.Consent = consent
	}
	return found, err
}

// org returns an organization, as it was a second ago at most; nil when it is not
// active.
func (s *Reader) org(ctx context.Context, instanceID, id string) (*db.OAuthOrgRow, error) {
	return s.orgs.Get(ctx, place{instanceID, id}, func(ctx context.Context) (*db.OAuthOrgRow, error) {
		row, err := s.queries.OAuthOrg(ctx, s.DB.Pool, db.OAuthOrgParams{InstanceID: instanceID, ID: id})
		if store.NoRow(err) {
			return nil, nil
		}
		return &row, err
	})
}

// Subject is what a token is about, as it is now.
type Subject struct {
	db.Subject
	Domain, OrgName string // of their organization

	Claims   []string // that were asked for by name when the grant was made
	Roles    []RoleGrant
	Metadata json.RawMessage
	// Consent is theirs to the application that a token for the resource API was issued to.
	Consent *Consent
}

// Grant is a grant whose refresh token is shown.
type Grant struct {
	db.OauthGrant
	LiveSessionID string // the session it was made in, while that lives
}

// LoginName is how the user signs in.
func (s *Subject) LoginName() string {
	if s.Domain == "" {
		return s.Username
	}
	return s.Username + "@" + s.Domain
}

// RoleGrant is roles that a user has in a project, and where they were given.
type RoleGrant struct {
	Project string   `json:"project"`
	Org     string   `json:"org"`
	Domain  string   `json:"domain"`
	Keys    []string `json:"keys"`
}
