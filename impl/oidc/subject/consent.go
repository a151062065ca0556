package subject

import (
	"context"
	"slices"
	"time"

	"github.com/writ-id/writ/gen/db"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/oidc/client"
	"github.com/writ-id/writ/impl/oidc/endpoint"
)

// Consent is what a user lets an application do for them at the resource API. Nobody gets the
// rights of others by making a client: a client is trusted, or each of its users has said yes.
type Consent struct {
	Trusted bool // by somebody who may give away all that there is, so nobody is asked
	Given   bool // by the user
	// Roles are those that the user handed over and still may, each as role@object.
	Roles []string
	// NeedTrust reports whether the settings leave roles to trusted applications.
	NeedTrust bool

	since time.Time
}

// Counts reports whether tokens of the application may be for the resource API.
func (c *Consent) Counts() bool { return c.Trusted || c.Given }

// covers reports whether a token is of the time since it was given.
func (c *Consent) covers(t *tokenv1.AccessToken) bool {
	return c.Trusted || c.Given && !time.Unix(t.GetIssuedAt(), 0).Before(c.since.Add(-client.ClockSkew))
}

// Consent reads what a user lets an application do. It costs a statement where nobody trusts
// the application.
func (s *Reader) Consent(ctx context.Context, at endpoint.Site, of *client.Client, userID string) (*Consent, error) {
	if of.Trusted || of.TrustedInOrganization {
		return &Consent{Trusted: true}, nil
	}
	row, err := s.queries.AppConsent(ctx, s.DB.Pool, db.AppConsentParams{InstanceID: at.ID, OrgID: of.OrgID, UserID: userID, AppID: of.ID})
	if err != nil {
		return nil, err
	}
	found := &Consent{NeedTrust: row.RolesNeedTrust}
	if row.CreationDate != nil {
		found.Given, found.since = true, *row.CreationDate
	}
	if !found.NeedTrust {
		found.Roles = row.Roles
	}
	return found, nil
}

// Role is a role that a user holds.
type Role struct{ Name, ObjectID, Place string }

// String is the role as a consent names it.
func (r Role) String() string { return r.Name + "@" + r.ObjectID }

// Handed returns the roles that an application is to get from a user: those held in its
// organization; none where they are for trusted applications.
func (s *Reader) Handed(ctx context.Context, at endpoint.Site, of *client.Client, userID string, consent *Consent) ([]Role, error) {
	if consent.NeedTrust {
		return nil, nil
	}
	rows, err := s.queries.RolesInOrganization(ctx, s.DB.Pool, db.RolesInOrganizationParams{InstanceID: at.ID, UserID: userID, OrgID: of.OrgID})
	var list []Role
	for _, row := range rows {
		for _, name := range row.Roles {
			list = append(list, Role{name, row.ObjectID, row.Place})
		}
	}
	return list, err
}

// Lacks reports whether a user holds roles that were not handed over.
func (c *Consent) Lacks(roles []Role) bool {
	return slices.ContainsFunc(roles, func(one Role) bool { return !slices.Contains(c.Roles, one.String()) })
}
