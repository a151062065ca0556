package subject

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/writ-id/writ/impl/oauth/endpoint"
	"github.com/writ-id/writ/impl/store"
)

// Part is something that the statement of a subject reads beside the user and their
// organization. Tokens differ in what they depend on, and half of what a statement
// costs is what it might read: so there is one for each combination, made once.
type Part uint8

// The parts.
const (
	WithClaims   Part = 1 << iota // the standard claims
	WithGrant                     // all of the grant, not just whether it is good
	WithRoles                     // of projects
	WithMetadata                  // of the user
	ofToken                       // not one that was revoked
	ofGrant
	ofSession
	allParts = 1<<iota - 1
)

const (
	claimColumns = `, u.given_name, u.family_name, u.nick_name, u.display_name, u.preferred_language,
    u.email, u.phone, u.is_email_verified, u.is_email_proven, u.is_phone_verified, u.change_date, u.middle_name, u.profile_url, u.picture_url, u.website_url,
    u.gender, u.birthdate, u.zoneinfo, u.street_address, u.locality, u.region, u.postal_code, u.country`
	// The session of a grant counts while it lives.
	grantColumns = `, g.app_id, coalesce((SELECT gs.id FROM sessions gs WHERE gs.instance_id = g.instance_id AND gs.id = g.session_id AND (gs.expiration_date IS NULL OR gs.expiration_date > %s)), ''),
    g.scopes, g.audience, g.amr, g.auth_time, g.idle_date, g.expiration_date, g.actor, coalesce(g.origins, '{}'), g.generation`
	roleColumn = `, coalesce((
        SELECT jsonb_agg(jsonb_build_object('project', ug.project_id, 'org', ug.org_id, 'domain', coalesce(gd.domain, ''), 'keys', ug.role_keys))
        FROM user_grants ug
        JOIN projects p ON p.instance_id = ug.instance_id AND p.id = ug.project_id AND p.state = 1
        LEFT JOIN project_grants pg ON pg.instance_id = ug.instance_id AND pg.id = ug.project_grant_id
        LEFT JOIN domains gd ON gd.instance_id = ug.instance_id AND gd.org_id = ug.org_id AND gd.is_primary
        WHERE ug.instance_id = u.instance_id AND ug.user_id = u.id AND ug.state = 1 AND (ug.project_grant_id IS NULL OR pg.state = 1)
          AND ug.project_id = ANY (%s)), '[]')`
	metadataColumn = `, coalesce((
        SELECT jsonb_object_agg(m.id, translate(encode(m.value, 'base64'), E'+/=\n', '-_'))
        FROM user_metadata m WHERE m.instance_id = u.instance_id AND m.user_id = u.id), 'null')`
)

// stateQuery is one of the statements, and what its parameters are.
type stateQuery struct {
	sql    string
	params []func(endpoint.Site, *About) any
}

var stateQueries = func() (all [allParts + 1]*stateQuery) {
	for parts := range all {
		all[parts] = newStateQuery(Part(parts))
	}
	return all
}()

func newStateQuery(parts Part) *stateQuery {
	q := &stateQuery{}
	param := func(kind string, value func(endpoint.Site, *About) any) string {
		q.params = append(q.params, value)
		return fmt.Sprintf("$%d::%s", len(q.params), kind)
	}
	now := func(at endpoint.Site, _ *About) any { return at.Now }
	instance := param("text", func(at endpoint.Site, _ *About) any { return at.ID })
	user := param("text", func(_ endpoint.Site, a *About) any { return a.User })
	columns := "u.id, u.org_id, u.username, u.user_type, u.generation"
	from := "\nFROM users u"
	where := "\nWHERE u.instance_id = " + instance + " AND u.id = " + user + " AND u.state = 1"
	of := param("int", func(_ endpoint.Site, a *About) any { return a.Generation })
	where += " AND (" + of + " IS NULL OR u.generation = " + of + ")"
	if parts&WithClaims != 0 {
		columns += claimColumns
	}
	if parts&ofGrant != 0 {
		from += "\nJOIN oauth_grants g ON g.instance_id = " + instance + " AND g.id = " + param("text", func(_ endpoint.Site, a *About) any { return a.Grant }) + " AND g.user_id = u.id AND g.user_generation = u.generation AND NOT g.revoked"
		columns += ", g.claims"
		if parts&WithGrant != 0 {
			columns += fmt.Sprintf(grantColumns, param("timestamptz", now))
		}
	}
	if parts&WithRoles != 0 {
		projects := param("text[]", func(_ endpoint.Site, a *About) any { return append([]string{}, a.Projects...) })
		if parts&ofGrant != 0 && parts&WithGrant != 0 {
			projects += " || g.audience"
		}
		columns += fmt.Sprintf(roleColumn, projects)
	}
	if parts&WithMetadata != 0 {
		columns += metadataColumn
	}
	if parts&ofSession != 0 {
		from += "\nJOIN sessions s ON s.instance_id = " + instance + " AND s.id = " + param("text", func(_ endpoint.Site, a *About) any { return a.Session }) +
			" AND s.user_id = u.id AND (s.expiration_date IS NULL OR s.expiration_date > " + param("timestamptz", now) + ")"
	}
	if parts&ofToken != 0 {
		where += "\nAND NOT EXISTS (SELECT FROM revoked_tokens t WHERE t.instance_id = " + instance + " AND t.id = " + param("text", func(_ endpoint.Site, a *About) any { return a.Token }) + ")"
	}
	q.sql = strings.Join([]string{"SELECT ", columns, from, where}, "")
	return q
}

// Read reads what a token is about, in one statement; nil when any of it is not good
// any more: the user and their organization are active, and so is each of token,
// grant and session (SEC-096, SEC-118).
func (s *Reader) Read(ctx context.Context, at endpoint.Site, a About) (*Subject, error) {
	if a.Token != "" {
		a.Parts |= ofToken
	}
	if a.Grant != "" {
		a.Parts |= ofGrant
	}
	if a.Session != "" {
		a.Parts |= ofSession
	}
	q, found := stateQueries[a.Parts], &Subject{}
	args := make([]any, len(q.params))
	for i, value := range q.params {
		args[i] = value(at, &a)
	}
	var roles json.RawMessage
	err := s.DB.Pool.QueryRow(ctx, q.sql, args...).Scan(found.targets(a.Parts, &roles)...)
	if store.NoRow(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	org, err := s.org(ctx, at.ID, found.OrgID)
	if err != nil || org == nil {
		return nil, err
	}
	found.Domain, found.OrgName = org.Domain, org.Name
	if len(found.Claims) > 0 && a.Parts&WithClaims == 0 { // only the grant knew of them
		a.Parts |= WithClaims
		return s.Read(ctx, at, a)
	}
	if len(roles) > 0 {
		err = json.Unmarshal(roles, &found.Roles)
	}
	return found, err
}

// targets returns where the columns of a statement are scanned to, in their order.
func (s *Subject) targets(parts Part, roles *json.RawMessage) []any {
	targets := append(make([]any, 0, 48), &s.ID, &s.OrgID, &s.Username, &s.UserType, &s.Generation)
	if parts&WithClaims != 0 {
		targets = append(targets, &s.GivenName, &s.FamilyName, &s.NickName, &s.DisplayName, &s.PreferredLanguage,
			&s.Email, &s.Phone, &s.IsEmailVerified, &s.IsEmailProven, &s.IsPhoneVerified, &s.ChangeDate, &s.MiddleName, &s.ProfileURL, &s.PictureURL, &s.WebsiteURL,
			&s.Gender, &s.Birthdate, &s.Zoneinfo, &s.StreetAddress, &s.Locality, &s.Region, &s.PostalCode, &s.Country)
	}
	if parts&ofGrant != 0 {
		targets = append(targets, &s.Claims)
		if parts&WithGrant != 0 {
			targets = append(targets, &s.App, &s.Session, &s.Scopes, &s.Audience, &s.AMR, &s.AuthTime, &s.IdleDate, &s.EndsAt, &s.Actor, &s.Origins, &s.RefreshGeneration)
		}
	}
	if parts&WithRoles != 0 {
		targets = append(targets, roles)
	}
	if parts&WithMetadata != 0 {
		targets = append(targets, &s.Metadata)
	}
	return targets
}
