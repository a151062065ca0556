package oauth

import (
	"encoding/json"
	"slices"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
)

const human = int16(userv3.UserType_USER_TYPE_HUMAN)

// about says what has to be good for a token to be good, and what is to be read of
// it; empty: there is none.
type about struct {
	user, token, grant, session string
	generation                  *int32   // of the user; nil: the grant says it, or any
	projects                    []string // whose roles are wanted
	parts                       part     // what else is read
}

// loginName is how the user signs in.
func (s *state) loginName() string {
	if s.Domain == "" {
		return s.Username
	}
	return s.Username + "@" + s.Domain
}

// belongs reports whether the user is of the organization that scopes ask for
// (SEC-018).
func (s *scopes) belongs(orgID, domain string) bool {
	return (s.org == "" || s.org == orgID) && (s.orgDomain == "" || s.orgDomain == domain)
}

// aboutToken is what has to be good for an access token.
func aboutToken(t *tokenv1.AccessToken, s *scopes) about {
	parts := s.parts()
	if len(t.GetClaims()) > 0 {
		parts |= withClaims
	}
	a := about{user: t.GetUserId(), token: t.GetId(), grant: t.GetGrantId(), session: t.GetSessionId(), parts: parts}
	_, _, a.generation = source(t.GetId())
	return a
}

func notNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// stateOf is state for a token, whose application has to be active too, who acts in the
// name of the user, and what it was exchanged for.
func (c *call) stateOf(t *tokenv1.AccessToken, a about) (*state, error) {
	if ended, err := c.ended(c.ctx(), t.GetOrigins()); err != nil || ended {
		return nil, err
	}
	if actor := actorOf(t.GetActor()); actor != "" {
		if acting, err := c.state(about{user: actor}); err != nil || acting == nil {
			return nil, err
		}
	}
	if t.GetAppId() != "" {
		of, err := c.client(t.GetClientId())
		if err != nil || of == nil || of.ID != t.GetAppId() {
			return nil, err
		}
	}
	return c.state(a)
}

// actorOf returns who acts, by the claim act; "" is nobody.
func actorOf(act []byte) string {
	var claim struct {
		Sub string `json:"sub"`
	}
	if len(act) > 0 {
		_ = json.Unmarshal(act, &claim) // what actClaim wrote
	}
	return claim.Sub
}

// parts is what the claims of scopes need.
func (s *scopes) parts() part {
	var parts part
	for _, scope := range s.list {
		switch scope {
		case scopeProfile, scopeEmail, scopePhone, scopeAddress, scopeOwner:
			parts |= withClaims
		case scopeMetadata:
			parts |= withMetadata
		}
	}
	if s.org != "" {
		parts |= withClaims
	}
	return parts
}

// appendClaims adds the claims that scopes, and requests by name, ask for.
func (s *state) appendClaims(o *claimSet, sc *scopes, named []string) {
	s.appendStandard(o, sc)
	for _, name := range named {
		s.appendClaim(o, name)
	}
	s.appendPlatform(o, sc)
}

// appendStandard adds the claims of the scopes of OpenID Connect (Core, section 5.4).
func (s *state) appendStandard(o *claimSet, sc *scopes) {
	if sc.has(scopeProfile) {
		for _, name := range profileClaims {
			s.appendClaim(o, name)
		}
	}
	if sc.has(scopeEmail) {
		s.appendClaim(o, "email")
		s.appendClaim(o, "email_verified")
	}
	if sc.has(scopePhone) {
		s.appendClaim(o, "phone_number")
		s.appendClaim(o, "phone_number_verified")
	}
	if sc.has(scopeAddress) {
		s.appendClaim(o, "address")
	}
}

// appendPlatform adds the claims of the scopes of the platform.
func (s *state) appendPlatform(o *claimSet, sc *scopes) {
	if sc.has(scopeOwner) || sc.org != "" {
		o.string(urn+"user:resourceowner:id", s.OrgID)
		o.string(urn+"user:resourceowner:name", s.OrgName)
		o.string(urn+"user:resourceowner:primary_domain", s.Domain)
	}
	if sc.org != "" {
		o.string(urn+"org:id", s.OrgID)
	}
	if sc.orgDomain != "" {
		o.string(urn+"org:domain:primary", s.Domain)
	}
	if sc.has(scopeMetadata) {
		o.raw(scopeMetadata, s.metadata)
	}
}

// profileClaims are those of the scope profile (OpenID Connect Core, section 5.4).
var profileClaims = []string{
	"name", "given_name", "family_name", "middle_name", "nickname", "preferred_username", "profile", "picture", "website",
	"gender", "birthdate", "zoneinfo", "locale", "updated_at",
}

// standardClaims are all that can be asked for by name.
var standardClaims = append(slices.Clone(profileClaims), "email", "email_verified", "phone_number", "phone_number_verified", "address")

// appendClaim adds one of the standard claims (OpenID Connect Core, section 5.1), if
// there is something to tell. Service users have few.
func (s *state) appendClaim(o *claimSet, name string) {
	switch name {
	case "name":
		o.string(name, s.DisplayName)
		return
	case "preferred_username":
		o.string(name, s.loginName())
		return
	case "updated_at":
		o.number(name, s.ChangeDate.Unix())
		return
	}
	if s.UserType != human {
		return
	}
	switch name {
	case "given_name":
		o.string(name, s.GivenName)
	case "family_name":
		o.string(name, s.FamilyName)
	case "middle_name":
		o.string(name, s.MiddleName)
	case "nickname":
		o.string(name, s.NickName)
	case "profile":
		o.string(name, s.ProfileURL)
	case "picture":
		o.string(name, s.PictureURL)
	case "website":
		o.string(name, s.WebsiteURL)
	case "gender":
		o.string(name, s.Gender)
	case "birthdate":
		o.string(name, s.Birthdate)
	case "zoneinfo":
		o.string(name, s.Zoneinfo)
	case "locale":
		o.string(name, s.PreferredLanguage)
	case "email":
		o.string(name, s.Email)
	case "email_verified":
		if s.Email != "" {
			// The word of an administrator counts inside their organization only.
			o.bool(name, s.IsEmailVerified && (s.IsEmailProven || s.reader == s.OrgID))
		}
	case "phone_number":
		o.string(name, s.Phone)
	case "phone_number_verified":
		if s.Phone != "" {
			o.bool(name, s.IsPhoneVerified)
		}
	case "address":
		s.appendAddress(o)
	}
}

// appendAddress adds the claim address (OpenID Connect Core, section 5.1.1).
func (s *state) appendAddress(o *claimSet) {
	address := newClaimSet()
	address.string("street_address", s.StreetAddress)
	address.string("locality", s.Locality)
	address.string("region", s.Region)
	address.string("postal_code", s.PostalCode)
	address.string("country", s.Country)
	if len(address.names) > 0 {
		o.raw("address", address.end())
	}
}

// appendRoles adds the claims of roles: for project, that of a client, its short
// name too. only, if not empty, are the single roles that were asked for.
func (s *state) appendRoles(o *claimSet, sc *scopes, project string, projects, only []string) {
	for _, id := range projects {
		roles := map[string]map[string]string{}
		for _, grant := range s.roles {
			if grant.Project != id || len(sc.orgs) > 0 && !slices.Contains(sc.orgs, grant.Org) {
				continue
			}
			for _, key := range grant.Keys {
				if len(only) > 0 && !slices.Contains(only, key) {
					continue
				}
				if roles[key] == nil {
					roles[key] = map[string]string{}
				}
				roles[key][grant.Org] = grant.Domain
			}
		}
		if len(roles) == 0 {
			continue
		}
		if id == project {
			o.value(claimRoles, roles)
		}
		o.value(claimProjectRoles+id+":roles", roles)
	}
}

// roleProjects returns the projects whose roles a token tells of, and whether only
// single roles were asked for.
func roleProjects(sc *scopes, project string, asserted bool, audience []string) (projects, only []string) {
	switch {
	case sc.has(scopeRoles):
		return audience, nil
	case asserted:
		return []string{project}, nil
	case len(sc.roles) > 0:
		return []string{project}, sc.roles
	}
	return nil, nil
}
