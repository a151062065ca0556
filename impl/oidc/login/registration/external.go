package registration

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	idpv3 "github.com/writ-id/writ/gen/proto/writ/idp/v3alpha"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/api/idplink"
	"github.com/writ-id/writ/impl/api/user"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/oidc/login/rule"
)

// External is an account at an identity provider, with which somebody becomes a user.
type External struct {
	*tokenv1.External
	// Asked is set when the user was asked who they are: then an address that the provider
	// does not vouch for is verified by a code. What nobody was asked for is stored as
	// unverified, which it counts for nothing as.
	Asked bool
	// Use uses the account up, which is good once; it reports whether it was.
	Use func(context.Context, pgx.Tx) (bool, error)
}

// ErrKnown refuses an address that the provider vouches for and another user has proven.
// Who has proven it there may know.
var ErrKnown = errors.New("registration: the address is another user's")

// ErrUsed refuses what was used before.
var ErrUsed = errors.New("registration: the identity was used before")

// Adopt makes a user who signs in with an account at an identity provider. They can sign in
// at once, unless an address has to be verified: then it is as with Register.
func (s *Service) Adopt(ctx context.Context, at Where, said Form, from External) (*Begun, error) {
	if !from.Asked {
		said = said.mended()
	}
	by := proof{external: &from, vouched: from.GetIsEmailVerified() && said.Email != "" && resource.Fold(said.Email) == resource.Fold(from.GetEmail())}
	if by.code = from.Asked && !by.vouched; by.code {
		return s.register(ctx, at, said, by)
	}
	return s.enroll(ctx, at, said, by)
}

// mended leaves out what a user cannot have.
func (f Form) mended() Form {
	if !rule.IsEmail(f.Email) {
		f.Email = ""
	}
	if _, err := user.Canonical(f.LoginName); err != nil || !isUsername(f.LoginName) {
		f.LoginName = ""
	}
	return f
}

// link uses the account up and links it to a user.
func (e *External) link(ctx context.Context, tx pgx.Tx, links *idplink.Service, userID string) error {
	first, err := e.Use(ctx, tx)
	if err == nil && !first {
		err = ErrUsed
	}
	if err != nil {
		return err
	}
	_, err = links.AddIDPLink(ctx, &idpv3.AddIDPLinkRequest{UserId: userID, Link: &idpv3.IDPLink{
		IdpId: e.GetProviderId(), ExternalUserId: e.GetSubject(), ExternalUsername: e.GetUsername(),
	}})
	return err
}
