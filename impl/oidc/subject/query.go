package subject

import (
	"context"
	"encoding/json"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/scope"
)

// Read reads what a token is about, in one statement; nil when any of it is not good any
// more: the user and their organization are active, and so is each of token, grant and
// session. Tokens differ in what they depend on, and what a statement may read it sets
// up: so there is one for each kind (sql/queries/oauth.sql).
func (s *Reader) Read(ctx context.Context, at endpoint.Site, a About) (*Subject, error) {
	projects := resource.NotNull(a.Projects)
	var user db.Subject
	var claims []string
	var roles, metadata json.RawMessage
	var err error
	switch {
	case a.Session != "" && a.Grant == "" && a.Token == "" && a.Generation != nil:
		var row db.SubjectOfSessionRow
		row, err = s.queries.SubjectOfSession(ctx, s.DB.Pool, db.SubjectOfSessionParams{
			InstanceID: at.ID, UserID: a.User, Generation: *a.Generation, SessionID: a.Session, Projects: projects, WithMetadata: a.Metadata, Now: at.Now,
		})
		user, roles, metadata = row.Subject, row.Roles, row.Metadata
	case a.Grant != "" && a.Session != "" && a.Generation == nil: // which the grant says
		var row db.SubjectOfLoginRow
		row, err = s.queries.SubjectOfLogin(ctx, s.DB.Pool, db.SubjectOfLoginParams{
			InstanceID: at.ID, UserID: a.User, GrantID: a.Grant, SessionID: a.Session, TokenID: a.Token, Projects: projects, WithMetadata: a.Metadata, Now: at.Now,
		})
		user, claims, roles, metadata = row.Subject, row.Claims, row.Roles, row.Metadata
	case a.Grant != "" || a.Session != "":
		var row db.SubjectOfHalfLoginRow
		row, err = s.queries.SubjectOfHalfLogin(ctx, s.DB.Pool, db.SubjectOfHalfLoginParams{
			InstanceID: at.ID, UserID: a.User, Generation: a.Generation, GrantID: a.Grant, SessionID: a.Session, TokenID: a.Token,
			Projects: projects, WithMetadata: a.Metadata, Now: at.Now,
		})
		user, claims, roles, metadata = row.Subject, row.Claims, row.Roles, row.Metadata
	case a.Token != "":
		var row db.SubjectOfTokenRow
		row, err = s.queries.SubjectOfToken(ctx, s.DB.Pool, db.SubjectOfTokenParams{
			InstanceID: at.ID, UserID: a.User, Generation: a.Generation, TokenID: a.Token, Projects: projects, WithMetadata: a.Metadata,
		})
		user, roles, metadata = row.Subject, row.Roles, row.Metadata
	default:
		var row db.SubjectOfUserRow
		row, err = s.queries.SubjectOfUser(ctx, s.DB.Pool, db.SubjectOfUserParams{
			InstanceID: at.ID, UserID: a.User, Generation: a.Generation, Projects: projects, WithMetadata: a.Metadata,
		})
		user, roles, metadata = row.Subject, row.Roles, row.Metadata
	}
	if store.NoRow(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return s.whole(ctx, at, &Subject{Subject: user, Claims: claims, Metadata: metadata}, roles)
}

// ReadGrant reads a grant whose refresh token is shown, and what it is about, likewise;
// with the roles in the projects that it is for, if they are asked for.
func (s *Reader) ReadGrant(ctx context.Context, at endpoint.Site, userID, grantID string, roles bool) (*Subject, *Grant, error) {
	row, err := s.queries.SubjectOfGrant(ctx, s.DB.Pool, db.SubjectOfGrantParams{
		InstanceID: at.ID, UserID: userID, GrantID: grantID, WithRoles: roles, MetadataScope: scope.Metadata, Now: at.Now,
	})
	if store.NoRow(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	found, err := s.whole(ctx, at, &Subject{Subject: row.Subject, Claims: row.OauthGrant.Claims, Metadata: row.Metadata}, row.Roles)
	return found, &Grant{row.OauthGrant, row.LiveSessionID}, err
}

// whole completes a subject by what is remembered of its organization; nil when that is
// not active.
func (s *Reader) whole(ctx context.Context, at endpoint.Site, found *Subject, roles json.RawMessage) (*Subject, error) {
	org, err := s.org(ctx, at.ID, found.OrgID)
	if err != nil || org == nil {
		return nil, err
	}
	found.Domain, found.OrgName = org.Domain, org.Name
	if len(roles) > 0 {
		err = json.Unmarshal(roles, &found.Roles)
	}
	return found, err
}
