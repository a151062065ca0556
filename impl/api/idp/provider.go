package idp

import (
	"context"
	"slices"
	"strings"

	"github.com/writ-id/writ/gen/db"
	idpv3 "github.com/writ-id/writ/gen/proto/writ/idp/v3alpha"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/upstream"
)

// spoken is a type as package upstream knows it.
func spoken(of idpv3.ProviderType) upstream.Type {
	return upstream.Type(strings.TrimPrefix(of.String(), "PROVIDER_TYPE_"))
}

// Active returns the providers that users of a context can sign in with, the oldest first.
// An empty orgID is the instance itself.
func (s *Service) Active(ctx context.Context, instanceID, orgID string) ([]*upstream.Provider, error) {
	rows, err := s.idps.Effective(ctx, s.DB.Conn(), instanceID, orgID)
	if err != nil {
		return nil, err
	}
	found := make([]*upstream.Provider, len(rows))
	for i := range rows {
		if found[i], err = s.provider(&rows[i]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Provider returns a provider that users of a context can sign in with now; nil when they
// cannot (SEC-205).
func (s *Service) Provider(ctx context.Context, instanceID, orgID, id string) (*upstream.Provider, error) {
	rows, err := s.idps.Effective(ctx, s.DB.Conn(), instanceID, orgID)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(rows, func(row db.Idp) bool { return row.ID == id })
	if i < 0 {
		return nil, nil
	}
	return s.provider(&rows[i])
}

func (s *Service) provider(row *db.Idp) (*upstream.Provider, error) {
	hidden, err := secret.OpenStored(s.sealer, place(row), row.ClientSecret)
	if err != nil {
		return nil, err
	}
	key, err := secret.OpenStored(s.sealer, place(row), row.PrivateKey)
	if err != nil {
		return nil, err
	}
	p := known(row)
	p.ClientSecret, p.PrivateKey = string(hidden), key
	return p, nil
}

// known is a provider without its secrets.
func known(row *db.Idp) *upstream.Provider {
	return &upstream.Provider{
		InstanceID: row.InstanceID, OrgID: resource.Text(row.OrgID), ID: row.ID, Name: row.Name, Type: spoken(row.Type),
		ClientID: row.ClientID, Scopes: row.Scopes, Issuer: row.Issuer,
		AuthorizationEndpoint: row.AuthorizationEndpoint, TokenEndpoint: row.TokenEndpoint, UserEndpoint: row.UserEndpoint, IDAttribute: row.IDAttribute,
		Tenant: row.Tenant, EmailVerified: row.IsEmailVerified, IDTokenMapping: row.IsIDTokenMapping,
		TeamID: row.TeamID, KeyID: row.KeyID,
		Options: upstream.Options{
			Linking: row.IsLinkingAllowed, Creation: row.IsCreationAllowed, AutoCreation: row.IsAutoCreation, AutoUpdate: row.IsAutoUpdate,
			AutoLinking: upstream.AutoLinking(row.AutoLinking),
		},
	}
}
