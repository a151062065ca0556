package claims

import (
	"cmp"
	"slices"
	"strings"

	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/core/wire"
	"github.com/writ-id/writ/impl/oidc/scope"
	"github.com/writ-id/writ/impl/oidc/subject"
)

// The claims of roles (document 2): of the client's project, and of a named one.
const (
	claimRoles        = scope.URN + "org:project:roles"
	claimProjectRoles = scope.URN + "org:project:" // + ID + :roles
)

// Origins is a claim of access and ID tokens: what they were exchanged for.
const Origins = scope.URN + "token:origins"

// All adds the claims that scopes, and requests by name, ask for. reader is the
// organization of the client that is told.
func All(o *Set, s *subject.Subject, sc *scope.Set, named []string, reader string) {
	Standard(o, s, sc, reader)
	Named(o, s, named, reader)
	Platform(o, s, sc)
}

// Named adds claims that were asked for by name (OpenID Connect Core, section 5.5).
func Named(o *Set, s *subject.Subject, names []string, reader string) {
	for _, name := range names {
		add(o, s, name, reader)
	}
}

// Standard adds the claims of the scopes of OpenID Connect (Core, section 5.4).
func Standard(o *Set, s *subject.Subject, sc *scope.Set, reader string) {
	if sc.Has(scope.Profile) {
		Named(o, s, profileClaims, reader)
	}
	if sc.Has(scope.Email) {
		add(o, s, "email", reader)
		add(o, s, "email_verified", reader)
	}
	if sc.Has(scope.Phone) {
		add(o, s, "phone_number", reader)
		add(o, s, "phone_number_verified", reader)
	}
	if sc.Has(scope.Address) {
		add(o, s, "address", reader)
	}
}

// Platform adds the claims of the scopes of the platform.
func Platform(o *Set, s *subject.Subject, sc *scope.Set) {
	if sc.Has(scope.Owner) || sc.Org != "" {
		o.String(scope.URN+"user:resourceowner:id", s.OrgID)
		o.String(scope.URN+"user:resourceowner:name", s.OrgName)
		o.String(scope.URN+"user:resourceowner:primary_domain", s.Domain)
	}
	if sc.Org != "" {
		o.String(scope.URN+"org:id", s.OrgID)
	}
	if sc.OrgDomain != "" {
		o.String(scope.URN+"org:domain:primary", s.Domain)
	}
	if sc.Has(scope.Metadata) {
		o.Raw(scope.Metadata, s.Metadata)
	}
}

// profileClaims are those of the scope profile (OpenID Connect Core, section 5.4).
var profileClaims = []string{
	"name", "given_name", "family_name", "middle_name", "nickname", "preferred_username", "profile", "picture", "website",
	"gender", "birthdate", "zoneinfo", "locale", "updated_at",
}

// Supported are all that can be asked for by name.
var Supported = append(slices.Clone(profileClaims), "email", "email_verified", "phone_number", "phone_number_verified", "address")

// add adds one of the standard claims (OpenID Connect Core, section 5.1), if
// there is something to tell. Service users have few.
func add(o *Set, s *subject.Subject, name, reader string) {
	switch name {
	case "name":
		o.String(name, s.DisplayName)
		return
	case "preferred_username":
		o.String(name, s.LoginName())
		return
	case "updated_at":
		o.Number(name, s.ChangeDate.Unix())
		return
	}
	if userv3.UserType(s.UserType) != userv3.UserType_USER_TYPE_HUMAN {
		return
	}
	switch name {
	case "given_name":
		o.String(name, s.GivenName)
	case "family_name":
		o.String(name, s.FamilyName)
	case "middle_name":
		o.String(name, s.MiddleName)
	case "nickname":
		o.String(name, s.NickName)
	case "profile":
		o.String(name, s.ProfileUrl)
	case "picture":
		o.String(name, s.PictureUrl)
	case "website":
		o.String(name, s.WebsiteUrl)
	case "gender":
		o.String(name, s.Gender)
	case "birthdate":
		o.String(name, s.Birthdate)
	case "zoneinfo":
		o.String(name, s.Zoneinfo)
	case "locale":
		o.String(name, s.PreferredLanguage)
	case "email":
		o.String(name, s.Email)
	case "email_verified":
		if s.Email != "" {
			// The word of an administrator counts inside their organization only.
			o.Bool(name, s.IsEmailVerified && (s.IsEmailProven || reader == s.OrgID))
		}
	case "phone_number":
		o.String(name, s.Phone)
	case "phone_number_verified":
		if s.Phone != "" {
			o.Bool(name, s.IsPhoneVerified)
		}
	case "address":
		addAddress(o, s)
	}
}

// addAddress adds the claim address (OpenID Connect Core, section 5.1.1).
func addAddress(o *Set, s *subject.Subject) {
	address := NewSet()
	address.String("street_address", s.StreetAddress)
	address.String("locality", s.Locality)
	address.String("region", s.Region)
	address.String("postal_code", s.PostalCode)
	address.String("country", s.Country)
	if len(address.names) > 0 {
		o.Raw("address", address.End())
	}
}

// Roles adds the claims of roles: for project, that of a client, its short
// name too. only, if not empty, are the single roles that were asked for.
func Roles(o *Set, s *subject.Subject, sc *scope.Set, project string, projects, only []string) {
	for _, id := range projects {
		var held []heldRole
		for i := range s.Roles {
			grant := &s.Roles[i]
			if grant.Project != id || len(sc.Orgs) > 0 && !slices.Contains(sc.Orgs, grant.Org) {
				continue
			}
			held = slices.Grow(held, len(grant.Keys))
			for _, key := range grant.Keys {
				if len(only) == 0 || slices.Contains(only, key) {
					held = append(held, heldRole{key, grant})
				}
			}
		}
		if len(held) == 0 {
			continue
		}
		text := rolesText(held)
		if id == project {
			o.Raw(claimRoles, text)
		}
		o.Raw(claimProjectRoles+id+":roles", text)
	}
}

// heldRole is a role of a user, and where it was given.
type heldRole struct {
	key   string
	grant *subject.RoleGrant
}

// rolesText is roles as the claim has them: an object for each, of the organizations where it
// was given and their domains. A user may have thousands, so it is written in one pass.
func rolesText(held []heldRole) []byte {
	slices.SortStableFunc(held, func(a, b heldRole) int {
		return cmp.Or(strings.Compare(a.key, b.key), strings.Compare(a.grant.Org, b.grant.Org))
	})
	text := append(make([]byte, 0, 64*len(held)), '{')
	for i, one := range held {
		switch {
		case i > 0 && held[i-1].key == one.key && held[i-1].grant.Org == one.grant.Org:
			continue
		case i > 0 && held[i-1].key == one.key:
			text = append(text, ',')
		case i > 0:
			text = append(text, "},"...)
		}
		if i == 0 || held[i-1].key != one.key {
			text = append(wire.AppendString(text, one.key), ":{"...)
		}
		text = append(wire.AppendString(text, one.grant.Org), ':')
		text = wire.AppendString(text, one.grant.Domain)
	}
	return append(text, "}}"...)
}

// RoleProjects returns the projects whose roles a token tells of, and whether only
// single roles were asked for.
func RoleProjects(sc *scope.Set, project string, asserted bool, audience []string) (projects, only []string) {
	switch {
	case sc.Has(scope.Roles):
		return audience, nil
	case asserted:
		return []string{project}, nil
	case len(sc.Roles) > 0:
		return []string{project}, sc.Roles
	}
	return nil, nil
}

// Where a claim was asked for by name (OpenID Connect Core, section 5.5).
const (
	AtUserInfo = "userinfo:"
	AtIDToken  = "id_token:"
)

// At returns the names that were asked for at a place.
func At(claims []string, place string) []string {
	var names []string
	for _, claim := range claims {
		if name, ok := strings.CutPrefix(claim, place); ok {
			names = append(names, name)
		}
	}
	return names
}
