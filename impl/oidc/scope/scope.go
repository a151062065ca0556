// Package scope reads lists of scopes: those of OpenID Connect, and those of the
// platform that ask for roles, projects, organizations and metadata (document 2,
// "Reserved scopes").
package scope

import (
	"slices"
	"strings"

	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/oidc/endpoint"
)

// The scopes of OpenID Connect (Core, sections 5.4 and 11), and those of the
// platform.
const (
	OpenID  = "openid"
	Profile = "profile"
	Email   = "email"
	Phone   = "phone"
	Address = "address"
	Offline = "offline_access"

	URN         = "urn:service:iam:"
	Role        = URN + "org:project:role:"   // + key
	Roles       = URN + "org:projects:roles"  // of every project in the audience
	Project     = URN + "org:project:id:"     // + ID + :aud
	Org         = URN + "org:id:"             // + ID
	OrgDomain   = URN + "org:domain:primary:" // + domain
	GrantingOrg = URN + "org:roles:id:"       // + ID
	IDP         = URN + "org:idp:id:"         // + ID
	Metadata    = URN + "user:metadata"
	Owner       = URN + "user:resourceowner"

	// AudienceSuffix ends the scopes that begin with Project.
	AudienceSuffix = ":aud"

	platform = "service" // as a project: the resource API
	// Platform is the audience of tokens for the resource API.
	Platform = policy.Audience
)

// Standard are the scopes of OpenID Connect.
var Standard = []string{OpenID, Profile, Email, Phone, Address, Offline}

// plain are the scopes that are only names.
var plain = append(slices.Clone(Standard), Roles, Metadata, Owner)

// IsIdentity reports whether a scope asks for nothing but who the user is.
func IsIdentity(one string) bool { return one != Offline && slices.Contains(Standard, one) }

// Set is what a list of scopes asks for.
type Set struct {
	List      []string // without repetitions, in order
	Roles     []string // single roles of the client's project
	Projects  []string // more projects for the audience
	Orgs      []string // the only organizations whose grants count in role claims
	Org       string   // the user has to belong to
	OrgDomain string
	IDP       string // the identity provider that users go to at once
	platform  bool
}

// Has reports whether a scope is there.
func (s *Set) Has(scope string) bool { return slices.Contains(s.List, scope) }

// String is the set as OAuth writes it (RFC 6749, section 3.3).
func (s *Set) String() string { return strings.Join(s.List, " ") }

// The work that a request makes is bounded (SEC-293).
const (
	maxScopes = 100
	maxText   = 4000
	maxName   = 300
)

// Read reads a list of scopes. What is not known is left out: the answer says
// what was granted (SEC-019).
func Read(text string) (*Set, error) {
	for i := range len(text) { // RFC 6749, section 3.3
		if c := text[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			return nil, endpoint.InvalidScope("scope has a character that no scope has")
		}
	}
	asked := strings.Fields(text)
	if len(asked) > maxScopes || len(text) > maxText {
		return nil, endpoint.InvalidScope("scope names too many scopes")
	}
	return Of(asked), nil
}

// Of says what scopes ask for; it leaves out what is none.
func Of(asked []string) *Set {
	s := &Set{List: make([]string, 0, len(asked))}
	for _, scope := range asked {
		if !slices.Contains(s.List, scope) && s.take(scope) {
			s.List = append(s.List, scope)
		}
	}
	return s
}

func (s *Set) take(scope string) bool {
	if slices.Contains(plain, scope) {
		return true
	}
	if !strings.HasPrefix(scope, URN) {
		return false
	}
	after := func(prefix string) (string, bool) {
		rest, ok := strings.CutPrefix(scope, prefix)
		return rest, ok && rest != "" && len(rest) <= maxName
	}
	if role, ok := after(Role); ok {
		s.Roles = append(s.Roles, role)
		return true
	}
	if project, ok := after(Project); ok {
		project, ok = strings.CutSuffix(project, AudienceSuffix)
		if project == platform {
			s.platform = ok
		} else if ok {
			s.Projects = append(s.Projects, project)
		}
		return ok
	}
	if org, ok := after(Org); ok {
		if s.Org != "" && s.Org != org {
			return false
		}
		s.Org = org
		return true
	}
	if domain, ok := after(OrgDomain); ok {
		s.OrgDomain = strings.ToLower(domain)
		return true
	}
	if idp, ok := after(IDP); ok {
		if s.IDP != "" && s.IDP != idp {
			return false
		}
		s.IDP = idp
		return true
	}
	if org, ok := after(GrantingOrg); ok {
		s.Orgs = append(s.Orgs, org)
		return true
	}
	return false
}

// Without returns the scopes without some of them.
func (s *Set) Without(drop func(string) bool) *Set {
	return Of(slices.DeleteFunc(slices.Clone(s.List), drop))
}

// Online returns the scopes without offline_access.
func (s *Set) Online() *Set {
	if !s.Has(Offline) {
		return s
	}
	return s.Without(func(scope string) bool { return scope == Offline })
}

// Belongs reports whether a user is of the organization that scopes ask for
// (SEC-018).
func (s *Set) Belongs(orgID, domain string) bool {
	return (s.Org == "" || s.Org == orgID) && (s.OrgDomain == "" || s.OrgDomain == domain)
}

// Grantable leaves of scopes those roles and those projects.
func (s *Set) Grantable(roles, projects []string) *Set {
	if len(s.Roles) > 0 {
		s = s.Without(func(scope string) bool {
			role, ok := strings.CutPrefix(scope, Role)
			return ok && !slices.Contains(roles, role)
		})
	}
	if len(s.Projects) == 0 {
		return s
	}
	return s.Without(func(scope string) bool {
		project, ok := strings.CutPrefix(scope, Project)
		project = strings.TrimSuffix(project, AudienceSuffix)
		return ok && project != platform && !slices.Contains(projects, project)
	})
}

// Audience returns whom tokens are for: those of old and what scopes add.
func (s *Set) Audience(old ...string) []string {
	list := append([]string{}, old...)
	for _, project := range s.Projects {
		if !slices.Contains(list, project) {
			list = append(list, project)
		}
	}
	if s.platform && !slices.Contains(list, Platform) {
		list = append(list, Platform)
	}
	return list
}
