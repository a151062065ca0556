package transfer

import (
	_ "embed"

	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/sqltext"
	"github.com/writ-id/writ/impl/core/transfer"
)

//go:embed staged.sql
var stagedSQL string

var statements = sqltext.Read(stagedSQL)

// beyond are further marks of kinds: what no reference says.
var beyond = map[*transfer.Kind][]string{
	storage.MovedUsers:          {statements.SQL("UsersOfAnotherName")},
	storage.MovedUserMetadata:   {statements.SQL("UserMetadataApartFromUsers")},
	storage.MovedAuthenticators: {statements.SQL("AuthenticatorsApartFromUsers")},
	storage.MovedIdpLinks:       {statements.SQL("IdpLinksApartFromUsers"), statements.SQL("IdpLinksApartFromIdps")},
	storage.MovedProjectRoles:   {statements.SQL("ProjectRolesApartFromProjects")},
	storage.MovedApps:           {statements.SQL("AppsApartFromProjects")},
	storage.MovedProjectGrants:  {statements.SQL("ProjectGrantsApartFromProjects")},
	storage.MovedUserGrants:     {statements.SQL("UserGrantsApartFromProjects"), statements.SQL("UserGrantsApartFromOrganizationsGrant")},
	storage.MovedMemberships:    {statements.SQL("MembershipsApartFromOrganizationsProject"), statements.SQL("MembershipsApartFromOrganizationsGrant")},
}
