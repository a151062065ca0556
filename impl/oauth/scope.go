package oauth

import (
	"slices"
	"strings"

	"github.com/writ-id/writ/gen/db"
)

// The scopes of OpenID Connect (Core, sections 5.4 and 11), and those of the
// platform.
const (
	scopeOpenID  = "openid"
	scopeProfile = "profile"
	scopeEmail   = "email"
	scopePhone   = "phone"
	scopeAddress = "address"
	scopeOffline = "offline_access"

	urn               = "urn:service:iam:"
	scopeRole         = urn + "org:project:role:"   // + key
	scopeRoles        = urn + "org:projects:roles"  // of every project in the audience
	scopeProject      = urn + "org:project:id:"     // + ID + :aud
	scopeOrg          = urn + "org:id:"             // + ID
	scopeDomain       = urn + "org:domain:primary:" // + domain
	scopeGrantingOrg  = urn + "org:roles:id:"       // + ID
	scopeMetadata     = urn + "user:metadata"
	scopeOwner        = urn + "user:resourceowner"
	audienceSuffix    = ":aud"
	platform          = "service" // as a project: the resource API
	claimRoles        = urn + "org:project:roles"
	claimProjectRoles = urn + "org:project:"  // + ID + :roles
	claimOrigins      = urn + "token:origins" // of a JWT: what it was exchanged for

	// Platform is the audience of tokens for the resource API.
	Platform = scopeProject + platform
)

// plain are the scopes that are only names.
var plain = []string{scopeOpenID, scopeProfile, scopeEmail, scopePhone, scopeAddress, scopeOffline, scopeRoles, scopeMetadata, scopeOwner}

// scopes is what a list of scopes asks for.
type scopes struct {
	list      []string // without repetitions, in order
	roles     []string // single roles of the client's project
	projects  []string // more projects for the audience
	orgs      []string // the only organizations whose grants count in role claims
	org       string   // the user has to belong to
	orgDomain string
	platform  bool
}

func (s *scopes) has(scope string) bool { return slices.Contains(s.list, scope) }

// maxScopes bounds the work that a request makes (SEC-293).
const (
	maxScopes    = 100
	maxScopeText = 4000
)

// readScopes reads a list of scopes. What is not known is left out: the answer says
// what was granted (SEC-019).
func readScopes(text string) (*scopes, error) {
	for i := range len(text) { // RFC 6749, section 3.3
		if c := text[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			return nil, invalidScope("scope has a character that no scope has")
		}
	}
	asked := spaceless(text)
	if len(asked) > maxScopes || len(text) > maxScopeText {
		return nil, invalidScope("scope names too many scopes")
	}
	return sortScopes(asked), nil
}

// sortScopes says what scopes ask for; it leaves out what is none.
func sortScopes(asked []string) *scopes {
	s := &scopes{}
	for _, scope := range asked {
		if slices.Contains(s.list, scope) || !s.take(scope) {
			continue
		}
		s.list = append(s.list, scope)
	}
	return s
}

func (s *scopes) take(scope string) bool {
	if slices.Contains(plain, scope) {
		return true
	}
	if !strings.HasPrefix(scope, urn) {
		return false
	}
	after := func(prefix string) (string, bool) {
		rest, ok := strings.CutPrefix(scope, prefix)
		return rest, ok && rest != "" && len(rest) <= 300
	}
	if role, ok := after(scopeRole); ok {
		s.roles = append(s.roles, role)
		return true
	}
	if project, ok := after(scopeProject); ok {
		project, ok = strings.CutSuffix(project, audienceSuffix)
		if project == platform {
			s.platform = ok
		} else if ok {
			s.projects = append(s.projects, project)
		}
		return ok
	}
	if org, ok := after(scopeOrg); ok {
		if s.org != "" && s.org != org {
			return false
		}
		s.org = org
		return true
	}
	if domain, ok := after(scopeDomain); ok {
		s.orgDomain = strings.ToLower(domain)
		return true
	}
	if org, ok := after(scopeGrantingOrg); ok {
		s.orgs = append(s.orgs, org)
		return true
	}
	return false
}

// without returns the scopes without some of them.
func (s *scopes) without(drop func(string) bool) *scopes {
	return sortScopes(slices.DeleteFunc(slices.Clone(s.list), drop))
}

// grantable leaves of scopes what a client may have: roles that its project has,
// projects that its organization has or was granted (SEC-019).
func (c *call) grantable(s *scopes, roles []string, orgID string) (*scopes, error) {
	if len(s.roles) > 0 {
		s = s.without(func(scope string) bool {
			role, ok := strings.CutPrefix(scope, scopeRole)
			return ok && !slices.Contains(roles, role)
		})
	}
	if len(s.projects) == 0 {
		return s, nil
	}
	allowed, err := c.queries.ProjectsFor(c.ctx(), c.DB.Pool, db.ProjectsForParams{InstanceID: c.instance.ID, Ids: s.projects, OrgID: orgID})
	if err != nil {
		return nil, err
	}
	return s.without(func(scope string) bool {
		project, ok := strings.CutPrefix(scope, scopeProject)
		project = strings.TrimSuffix(project, audienceSuffix)
		return ok && project != platform && !slices.Contains(allowed, project)
	}), nil
}

// audience returns whom tokens are for: those of old and what scopes add.
func (s *scopes) audience(old ...string) []string {
	list := append([]string{}, old...)
	for _, project := range s.projects {
		if !slices.Contains(list, project) {
			list = append(list, project)
		}
	}
	if s.platform && !slices.Contains(list, Platform) {
		list = append(list, Platform)
	}
	return list
}
