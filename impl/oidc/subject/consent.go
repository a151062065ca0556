package subject

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/writ-id/writ/gen/db"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/core/policy"
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
	// Within is the organization in which the application acts; "" is everywhere.
	Within string
	// Raised reports that the application is trusted further than one that held a token before
	// it was exchanged.
	Raised bool
	// NeedTrust reports whether the settings leave roles to trusted applications.
	NeedTrust bool

	rank  int
	since time.Time
}

// How far an application is trusted.
const (
	inOrganization = iota + 1
	everywhere
)

// Counts reports whether tokens of the application may be for the resource API.
func (c *Consent) Counts() bool { return c.Trusted || c.Given }

// Bound leaves an identity the rights that its user has by the application.
func (c *Consent) Bound(who *policy.Identity) {
	if who.Within = c.Within; !c.Trusted {
		who.Handed = append([]string{}, c.Roles...)
	}
}

// covers reports whether a token is of the time since it was given.
func (c *Consent) covers(t *tokenv1.AccessToken) bool {
	return c.Counts() && !time.Unix(t.GetIssuedAt(), 0).Before(c.since.Add(-client.ClockSkew))
}

// and returns the rights that both c and before give: c is about the application that has a
// token, before about one that held a token exchanged for it, sameUser reports whether both
// tokens are about one user (SEC-235).
func (c *Consent) and(before *Consent, sameUser bool) *Consent {
	if !before.Counts() || c.Within != "" && before.Within != "" && c.Within != before.Within {
		return &Consent{}
	}
	both := *c
	both.Within = cmp.Or(c.Within, before.Within)
	both.Raised = c.Raised || c.rank > before.rank
	if before.since.After(c.since) {
		both.since = before.since
	}
	switch {
	case before.Trusted:
	case !c.Trusted && sameUser:
		both.Roles = slices.DeleteFunc(slices.Clone(c.Roles), func(one string) bool { return !slices.Contains(before.Roles, one) })
	case c.Trusted && sameUser:
		both.Trusted, both.Given, both.Roles = false, true, before.Roles
	case c.Trusted: // an actor's consent hands over no role of the subject
		both.Trusted, both.Given, both.Roles = false, true, nil
	}
	return &both
}

// Consent reads what a user lets an application do. It costs a statement where nobody trusts
// the application.
func (s *Reader) Consent(ctx context.Context, at endpoint.Site, of *client.Client, userID string) (*Consent, error) {
	switch {
	case of.Trusted:
		return &Consent{Trusted: true, rank: everywhere}, nil
	case of.TrustedInOrganization:
		return &Consent{Trusted: true, rank: inOrganization, Within: of.OrgID}, nil
	}
	row, err := s.queries.AppConsent(ctx, s.DB.Pool, db.AppConsentParams{InstanceID: at.ID, OrgID: of.OrgID, UserID: userID, AppID: of.ID})
	if err != nil {
		return nil, err
	}
	found := &Consent{NeedTrust: row.RolesNeedTrust, Within: of.OrgID}
	if row.CreationDate != nil {
		found.Given, found.since = true, *row.CreationDate
	}
	if !found.NeedTrust {
		found.Roles = row.Roles
	}
	return found, nil
}

// Through is Consent for a token with origins: it leaves the rights that each application
// has, today, that held one of the tokens exchanged for it.
func (s *Reader) Through(ctx context.Context, at endpoint.Site, of *client.Client, userID string, origins []string) (*Consent, error) {
	found, err := s.Consent(ctx, at, of, userID)
	for _, one := range origins {
		if err != nil || !found.Counts() {
			return found, err
		}
		earlier, ok := readUse(one)
		if !ok || earlier == (use{userID, of.ClientID}) {
			continue
		}
		app, err := s.Clients.Find(ctx, at.ID, earlier.clientID)
		if err != nil || app == nil {
			return &Consent{}, err
		}
		before, err := s.Consent(ctx, at, app, earlier.userID)
		if err != nil {
			return nil, err
		}
		found = found.and(before, earlier.userID == userID)
	}
	return found, err
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
