package seed

import (
	"context"
	"errors"
	"fmt"

	"github.com/writ-id/writ/gen/db"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
)

// project makes a project of an organization exist, with what belongs to it.
func (r *run) project(ctx context.Context, at place, project Project) error {
	name, _ := project.Body["name"].(string)
	id, _, err := r.ensure(ctx, projects, project.Body, Body{"name": Body{"name": name}})
	if err != nil {
		return err
	}
	applied := AppliedProject{ID: id, Name: name}
	for _, role := range project.Roles {
		body := with(role, "project_id", id)
		if _, _, err := r.ensure(ctx, roles, body, Body{"project_id": Body{"id": id}}, Body{"key": Body{"text": role["key"]}}); err != nil {
			return fmt.Errorf("role %q: %w", role["key"], err)
		}
	}
	for _, app := range project.Apps {
		made, err := r.app(ctx, id, at.path+".projects."+name, app)
		if err != nil {
			return fmt.Errorf("app %q: %w", app.Body["name"], err)
		}
		applied.Apps = append(applied.Apps, made)
	}
	for _, grant := range project.Grants {
		if err := r.projectGrant(ctx, at, id, grant); err != nil {
			return fmt.Errorf("grant to %q: %w", grant.Organization, err)
		}
	}
	for _, member := range project.Members {
		if err := r.member(ctx, at, id, member); err != nil {
			return fmt.Errorf("member %q: %w", member.User, err)
		}
	}
	r.applied.Projects = append(r.applied.Projects, applied)
	return nil
}

// with returns a copy of body with one more member.
func with(body Body, name string, value any) Body {
	more := Body{name: value}
	for name, value := range body {
		more[name] = value
	}
	return more
}

func (r *run) projectGrant(ctx context.Context, at place, projectID string, grant ProjectGrant) error {
	org, err := r.queries.OrgByName(ctx, r.tx, db.OrgByNameParams{InstanceID: at.InstanceID, Name: grant.Organization})
	if err != nil {
		return errors.New("there is no such organization; it has to come before the project")
	}
	_, _, err = r.ensure(ctx, projectGrants, Body{"project_id": projectID, "granted_org_id": org, "role_keys": grant.RoleKeys},
		Body{"project_id": Body{"id": projectID}}, Body{"granted_org_id": Body{"id": org}})
	return err
}

func (r *run) member(ctx context.Context, at place, projectID string, member Member) error {
	user, err := r.userID(ctx, at, member.User)
	if err != nil {
		return err
	}
	_, _, err = r.ensure(ctx, memberships, Body{"user_id": user, "roles": member.Roles, "project_id": projectID},
		Body{"user_id": Body{"id": user}}, Body{"object_id": Body{"id": projectID}}, Body{"level": Body{"level": int(policyv1.Level_LEVEL_PROJECT)}})
	return err
}

func (r *run) userID(ctx context.Context, at place, username string) (string, error) {
	id, err := r.queries.UserByUsername(ctx, r.tx, db.UserByUsernameParams{
		InstanceID: at.InstanceID, OrgID: &at.OrgID, UsernameFolded: resource.Fold(username),
	})
	if err != nil {
		return "", fmt.Errorf("there is no user %q in the organization", username)
	}
	return id, nil
}

// userGrants gives users roles of projects; all organizations are there already.
func (r *run) userGrants(ctx context.Context, at place, instance Instance) error {
	for _, org := range instance.Organizations {
		id, err := r.queries.OrgByName(ctx, r.tx, db.OrgByNameParams{InstanceID: at.InstanceID, Name: org.Name})
		if err != nil {
			return err
		}
		in := place{policy.Context{Level: policyv1.Level_LEVEL_ORG, InstanceID: at.InstanceID, OrgID: id}, at.path}
		for _, grant := range org.UserGrants {
			if err := r.userGrant(r.in(ctx, in.Context), in, grant); err != nil {
				return fmt.Errorf("organization %q: user grant of %q: %w", org.Name, grant.User, err)
			}
		}
	}
	return nil
}

func (r *run) userGrant(ctx context.Context, at place, grant UserGrant) error {
	user, err := r.userID(ctx, at, grant.User)
	if err != nil {
		return err
	}
	owner := at.OrgID
	if grant.Organization != "" {
		if owner, err = r.queries.OrgByName(ctx, r.tx, db.OrgByNameParams{InstanceID: at.InstanceID, Name: grant.Organization}); err != nil {
			return fmt.Errorf("there is no organization %q", grant.Organization)
		}
	}
	project, err := r.queries.ProjectByName(ctx, r.tx, db.ProjectByNameParams{InstanceID: at.InstanceID, OrgID: owner, Name: grant.Project})
	if err != nil {
		return fmt.Errorf("there is no project %q", grant.Project)
	}
	body := Body{"user_id": user, "project_id": project, "role_keys": grant.RoleKeys}
	filters := []Body{{"user_id": Body{"id": user}}, {"project_id": Body{"id": project}}}
	if owner != at.OrgID {
		granted, err := r.queries.GrantOfProject(ctx, r.tx, db.GrantOfProjectParams{InstanceID: at.InstanceID, ProjectID: project, GrantedOrgID: at.OrgID})
		if err != nil {
			return fmt.Errorf("the project %q is not granted to the organization", grant.Project)
		}
		body["project_grant_id"] = granted
		filters = append(filters, Body{"project_grant_id": Body{"id": granted}})
	}
	_, _, err = r.ensure(ctx, userGrants, body, filters...)
	return err
}

// app makes an app of a project exist, with its secret and keys.
func (r *run) app(ctx context.Context, projectID, path string, app App) (AppliedApp, error) {
	name, _ := app.Body["name"].(string)
	path += ".apps." + name
	id, answer, err := r.ensure(ctx, apps, with(app.Body, "project_id", projectID),
		Body{"project_id": Body{"id": projectID}}, Body{"name": Body{"name": name}})
	if err != nil {
		return AppliedApp{}, err
	}
	row, err := r.Apps.Find(ctx, id)
	if err != nil {
		return AppliedApp{}, err
	}
	applied := AppliedApp{
		ID: id, Name: name, ClientID: row.ClientID, RedirectURIs: row.RedirectUris, PostLogoutRedirectURIs: row.PostLogoutRedirectUris,
	}
	for _, asked := range []struct{ wanted, has, inOrganization bool }{
		{app.TrustedInOrganization, row.TrustedInOrganization || row.Trusted, true}, {app.Trusted, row.Trusted, false},
	} {
		if !asked.wanted || asked.has {
			continue
		}
		if _, err := r.call(ctx, apps, "TrustApp", Body{"id": id, "organization_only": asked.inOrganization}); err != nil {
			return applied, err
		}
	}
	if app.Secret != nil {
		value := app.Secret.Value
		switch {
		case value != "":
		case answer != nil:
			value = text(answer, "client_secret")
			r.keep(path+".secret", value)
		default:
			value = r.unknown(path+".secret", row.SecretHash != nil, secret.Random)
		}
		applied.Secret = value
		if value != "" { // an unknown one stays
			if err := r.Apps.SetSecret(ctx, id, value); err != nil {
				return applied, err
			}
		}
	}
	for i, key := range app.Keys {
		value, err := r.key(ctx, apps, "AppKey", id, path, key)
		if err != nil {
			return applied, fmt.Errorf("key %q: %w", key.Name, err)
		}
		if i == 0 {
			applied.Key = value
		}
	}
	return applied, nil
}
