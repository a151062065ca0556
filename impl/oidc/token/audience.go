package token

import (
	"context"
	"slices"

	"github.com/writ-id/writ/impl/oidc/client"
	"github.com/writ-id/writ/impl/oidc/scope"
)

// Whom a token is for is asked whenever one is issued, never copied: a project can be taken
// from an organization, and users take back what they let applications do.

// current leaves of an audience what a client may have tokens for now, about a user: itself,
// its project, other projects that its organization has, and the resource API, unless an
// application that held one of the origins may have no tokens for that any more.
func (e *Endpoint) current(ctx context.Context, x *request, of *client.Client, userID string, audience, origins []string) ([]string, error) {
	kept, err := e.had(ctx, x, of.OrgID, []string{of.ClientID, of.ProjectID}, audience)
	if err != nil || !slices.Contains(kept, scope.Platform) {
		return kept, err
	}
	consent, err := e.Subjects.Through(ctx, x.at, of, userID, origins)
	if err == nil && !consent.Counts() {
		kept = slices.DeleteFunc(kept, func(one string) bool { return one == scope.Platform })
	}
	return kept, err
}

// had leaves of an audience what an organization has: projects, and the clients of those. own
// is what needs no question, as are users.
func (e *Endpoint) had(ctx context.Context, x *request, orgID string, own, audience []string) ([]string, error) {
	projects := map[string]string{} // of what is asked about
	var asked []string
	for _, one := range audience {
		if one == scope.Platform || isUser(one) || slices.Contains(own, one) {
			continue
		}
		projects[one] = one
		named, err := e.Clients.Find(ctx, x.at.ID, one)
		if err != nil {
			return nil, err
		}
		if named != nil {
			projects[one] = named.ProjectID
		}
		if project := scope.Project + projects[one] + scope.AudienceSuffix; !slices.Contains(own, projects[one]) && !slices.Contains(asked, project) {
			asked = append(asked, project)
		}
	}
	var has []string
	if len(asked) > 0 {
		set, err := e.Clients.Grantable(ctx, x.at.ID, scope.Of(asked), nil, orgID)
		if err != nil {
			return nil, err
		}
		has = set.Projects
	}
	return slices.DeleteFunc(slices.Clone(audience), func(one string) bool {
		project, other := projects[one]
		return other && !slices.Contains(own, project) && !slices.Contains(has, project)
	}), nil
}
