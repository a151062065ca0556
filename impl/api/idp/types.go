package idp

import (
	"context"

	"github.com/writ-id/writ/gen/db"
	idpv3 "github.com/writ-id/writ/gen/proto/writ/idp/v3alpha"
	"github.com/writ-id/writ/gen/storage"
)

// The types of providers that can be made.
const (
	gitLab           kind = kind(idpv3.ProviderType_PROVIDER_TYPE_GITLAB)
	gitLabSelfHosted kind = kind(idpv3.ProviderType_PROVIDER_TYPE_GITLAB_SELF_HOSTED)
	oidc             kind = kind(idpv3.ProviderType_PROVIDER_TYPE_OIDC)
	oauth            kind = kind(idpv3.ProviderType_PROVIDER_TYPE_OAUTH)
	gitHub           kind = kind(idpv3.ProviderType_PROVIDER_TYPE_GITHUB)
	gitHubES         kind = kind(idpv3.ProviderType_PROVIDER_TYPE_GITHUB_ES)
	google           kind = kind(idpv3.ProviderType_PROVIDER_TYPE_GOOGLE)
	azureAD          kind = kind(idpv3.ProviderType_PROVIDER_TYPE_AZURE_AD)
	apple            kind = kind(idpv3.ProviderType_PROVIDER_TYPE_APPLE)
)

// CreateGitLabIDP makes a provider of this type.
func (s *Service) CreateGitLabIDP(ctx context.Context, req *idpv3.CreateGitLabIDPRequest) (*idpv3.CreateGitLabIDPResponse, error) {
	details, err := s.create(ctx, gitLab, secrets{client: req.GetIdp().GetConfig().ClientSecret}, func(row *db.Idp) { storage.AssignGitLabIDP(row, req.GetIdp()) })
	return &idpv3.CreateGitLabIDPResponse{Details: details}, err
}

// PatchGitLabIDP changes the fields of one that are present.
func (s *Service) PatchGitLabIDP(ctx context.Context, req *idpv3.PatchGitLabIDPRequest) (*idpv3.PatchGitLabIDPResponse, error) {
	idp, given := req.GetIdp().GetIdp(), secrets{}
	if config := req.GetIdp().GetConfig(); config != nil {
		given = secrets{client: config.ClientSecret}
	}
	details, err := s.patch(ctx, gitLab, req.GetId(), idp, req.GetIdp().GetConfig(), given, func(row *db.Idp) { storage.AssignPatchGitLabIDP(row, req.GetIdp()) })
	return &idpv3.PatchGitLabIDPResponse{Details: details}, err
}

// GetGitLabIDP reads one.
func (s *Service) GetGitLabIDP(ctx context.Context, req *idpv3.GetGitLabIDPRequest) (*idpv3.GetGitLabIDPResponse, error) {
	row, view, err := s.get(ctx, gitLab, req.GetId())
	if err != nil {
		return nil, err
	}
	got := storage.NewGetGitLabIDP(row)
	show(view, &got.Details, &got.Parent, &got.State, got.GetIdp().GetIdp())
	return &idpv3.GetGitLabIDPResponse{Idp: got}, nil
}

// CreateGitLabSelfHostedIDP makes a provider of this type.
func (s *Service) CreateGitLabSelfHostedIDP(ctx context.Context, req *idpv3.CreateGitLabSelfHostedIDPRequest) (*idpv3.CreateGitLabSelfHostedIDPResponse, error) {
	details, err := s.create(ctx, gitLabSelfHosted, secrets{client: req.GetIdp().GetConfig().ClientSecret}, func(row *db.Idp) { storage.AssignGitLabSelfHostedIDP(row, req.GetIdp()) })
	return &idpv3.CreateGitLabSelfHostedIDPResponse{Details: details}, err
}

// PatchGitLabSelfHostedIDP changes the fields of one that are present.
func (s *Service) PatchGitLabSelfHostedIDP(ctx context.Context, req *idpv3.PatchGitLabSelfHostedIDPRequest) (*idpv3.PatchGitLabSelfHostedIDPResponse, error) {
	idp, given := req.GetIdp().GetIdp(), secrets{}
	if config := req.GetIdp().GetConfig(); config != nil {
		given = secrets{client: config.ClientSecret}
	}
	details, err := s.patch(ctx, gitLabSelfHosted, req.GetId(), idp, req.GetIdp().GetConfig(), given, func(row *db.Idp) { storage.AssignPatchGitLabSelfHostedIDP(row, req.GetIdp()) })
	return &idpv3.PatchGitLabSelfHostedIDPResponse{Details: details}, err
}

// GetGitLabSelfHostedIDP reads one.
func (s *Service) GetGitLabSelfHostedIDP(ctx context.Context, req *idpv3.GetGitLabSelfHostedIDPRequest) (*idpv3.GetGitLabSelfHostedIDPResponse, error) {
	row, view, err := s.get(ctx, gitLabSelfHosted, req.GetId())
	if err != nil {
		return nil, err
	}
	got := storage.NewGetGitLabSelfHostedIDP(row)
	show(view, &got.Details, &got.Parent, &got.State, got.GetIdp().GetIdp())
	return &idpv3.GetGitLabSelfHostedIDPResponse{Idp: got}, nil
}

// CreateOIDCIDP makes a provider of this type.
func (s *Service) CreateOIDCIDP(ctx context.Context, req *idpv3.CreateOIDCIDPRequest) (*idpv3.CreateOIDCIDPResponse, error) {
	details, err := s.create(ctx, oidc, secrets{client: req.GetIdp().GetConfig().ClientSecret}, func(row *db.Idp) { storage.AssignOIDCIDP(row, req.GetIdp()) })
	return &idpv3.CreateOIDCIDPResponse{Details: details}, err
}

// PatchOIDCIDP changes the fields of one that are present.
func (s *Service) PatchOIDCIDP(ctx context.Context, req *idpv3.PatchOIDCIDPRequest) (*idpv3.PatchOIDCIDPResponse, error) {
	idp, given := req.GetIdp().GetIdp(), secrets{}
	if config := req.GetIdp().GetConfig(); config != nil {
		given = secrets{client: config.ClientSecret}
	}
	details, err := s.patch(ctx, oidc, req.GetId(), idp, req.GetIdp().GetConfig(), given, func(row *db.Idp) { storage.AssignPatchOIDCIDP(row, req.GetIdp()) })
	return &idpv3.PatchOIDCIDPResponse{Details: details}, err
}

// GetOIDCIDP reads one.
func (s *Service) GetOIDCIDP(ctx context.Context, req *idpv3.GetOIDCIDPRequest) (*idpv3.GetOIDCIDPResponse, error) {
	row, view, err := s.get(ctx, oidc, req.GetId())
	if err != nil {
		return nil, err
	}
	got := storage.NewGetOIDCIDP(row)
	show(view, &got.Details, &got.Parent, &got.State, got.GetIdp().GetIdp())
	return &idpv3.GetOIDCIDPResponse{Idp: got}, nil
}

// CreateOAuthIDP makes a provider of this type.
func (s *Service) CreateOAuthIDP(ctx context.Context, req *idpv3.CreateOAuthIDPRequest) (*idpv3.CreateOAuthIDPResponse, error) {
	details, err := s.create(ctx, oauth, secrets{client: req.GetIdp().GetConfig().ClientSecret}, func(row *db.Idp) { storage.AssignOAuthIDP(row, req.GetIdp()) })
	return &idpv3.CreateOAuthIDPResponse{Details: details}, err
}

// PatchOAuthIDP changes the fields of one that are present.
func (s *Service) PatchOAuthIDP(ctx context.Context, req *idpv3.PatchOAuthIDPRequest) (*idpv3.PatchOAuthIDPResponse, error) {
	idp, given := req.GetIdp().GetIdp(), secrets{}
	if config := req.GetIdp().GetConfig(); config != nil {
		given = secrets{client: config.ClientSecret}
	}
	details, err := s.patch(ctx, oauth, req.GetId(), idp, req.GetIdp().GetConfig(), given, func(row *db.Idp) { storage.AssignPatchOAuthIDP(row, req.GetIdp()) })
	return &idpv3.PatchOAuthIDPResponse{Details: details}, err
}

// GetOAuthIDP reads one.
func (s *Service) GetOAuthIDP(ctx context.Context, req *idpv3.GetOAuthIDPRequest) (*idpv3.GetOAuthIDPResponse, error) {
	row, view, err := s.get(ctx, oauth, req.GetId())
	if err != nil {
		return nil, err
	}
	got := storage.NewGetOAuthIDP(row)
	show(view, &got.Details, &got.Parent, &got.State, got.GetIdp().GetIdp())
	return &idpv3.GetOAuthIDPResponse{Idp: got}, nil
}

// CreateGitHubIDP makes a provider of this type.
func (s *Service) CreateGitHubIDP(ctx context.Context, req *idpv3.CreateGitHubIDPRequest) (*idpv3.CreateGitHubIDPResponse, error) {
	details, err := s.create(ctx, gitHub, secrets{client: req.GetIdp().GetConfig().ClientSecret}, func(row *db.Idp) { storage.AssignGitHubIDP(row, req.GetIdp()) })
	return &idpv3.CreateGitHubIDPResponse{Details: details}, err
}

// PatchGitHubIDP changes the fields of one that are present.
func (s *Service) PatchGitHubIDP(ctx context.Context, req *idpv3.PatchGitHubIDPRequest) (*idpv3.PatchGitHubIDPResponse, error) {
	idp, given := req.GetIdp().GetIdp(), secrets{}
	if config := req.GetIdp().GetConfig(); config != nil {
		given = secrets{client: config.ClientSecret}
	}
	details, err := s.patch(ctx, gitHub, req.GetId(), idp, req.GetIdp().GetConfig(), given, func(row *db.Idp) { storage.AssignPatchGitHubIDP(row, req.GetIdp()) })
	return &idpv3.PatchGitHubIDPResponse{Details: details}, err
}

// GetGitHubIDP reads one.
func (s *Service) GetGitHubIDP(ctx context.Context, req *idpv3.GetGitHubIDPRequest) (*idpv3.GetGitHubIDPResponse, error) {
	row, view, err := s.get(ctx, gitHub, req.GetId())
	if err != nil {
		return nil, err
	}
	got := storage.NewGetGitHubIDP(row)
	show(view, &got.Details, &got.Parent, &got.State, got.GetIdp().GetIdp())
	return &idpv3.GetGitHubIDPResponse{Idp: got}, nil
}

// CreateGitHubESIDP makes a provider of this type.
func (s *Service) CreateGitHubESIDP(ctx context.Context, req *idpv3.CreateGitHubESIDPRequest) (*idpv3.CreateGitHubESIDPResponse, error) {
	details, err := s.create(ctx, gitHubES, secrets{client: req.GetIdp().GetConfig().ClientSecret}, func(row *db.Idp) { storage.AssignGitHubESIDP(row, req.GetIdp()) })
	return &idpv3.CreateGitHubESIDPResponse{Details: details}, err
}

// PatchGitHubESIDP changes the fields of one that are present.
func (s *Service) PatchGitHubESIDP(ctx context.Context, req *idpv3.PatchGitHubESIDPRequest) (*idpv3.PatchGitHubESIDPResponse, error) {
	idp, given := req.GetIdp().GetIdp(), secrets{}
	if config := req.GetIdp().GetConfig(); config != nil {
		given = secrets{client: config.ClientSecret}
	}
	details, err := s.patch(ctx, gitHubES, req.GetId(), idp, req.GetIdp().GetConfig(), given, func(row *db.Idp) { storage.AssignPatchGitHubESIDP(row, req.GetIdp()) })
	return &idpv3.PatchGitHubESIDPResponse{Details: details}, err
}

// GetGitHubESIDP reads one.
func (s *Service) GetGitHubESIDP(ctx context.Context, req *idpv3.GetGitHubESIDPRequest) (*idpv3.GetGitHubESIDPResponse, error) {
	row, view, err := s.get(ctx, gitHubES, req.GetId())
	if err != nil {
		return nil, err
	}
	got := storage.NewGetGitHubESIDP(row)
	show(view, &got.Details, &got.Parent, &got.State, got.GetIdp().GetIdp())
	return &idpv3.GetGitHubESIDPResponse{Idp: got}, nil
}

// CreateGoogleIDP makes a provider of this type.
func (s *Service) CreateGoogleIDP(ctx context.Context, req *idpv3.CreateGoogleIDPRequest) (*idpv3.CreateGoogleIDPResponse, error) {
	details, err := s.create(ctx, google, secrets{client: req.GetIdp().GetConfig().ClientSecret}, func(row *db.Idp) { storage.AssignGoogleIDP(row, req.GetIdp()) })
	return &idpv3.CreateGoogleIDPResponse{Details: details}, err
}

// PatchGoogleIDP changes the fields of one that are present.
func (s *Service) PatchGoogleIDP(ctx context.Context, req *idpv3.PatchGoogleIDPRequest) (*idpv3.PatchGoogleIDPResponse, error) {
	idp, given := req.GetIdp().GetIdp(), secrets{}
	if config := req.GetIdp().GetConfig(); config != nil {
		given = secrets{client: config.ClientSecret}
	}
	details, err := s.patch(ctx, google, req.GetId(), idp, req.GetIdp().GetConfig(), given, func(row *db.Idp) { storage.AssignPatchGoogleIDP(row, req.GetIdp()) })
	return &idpv3.PatchGoogleIDPResponse{Details: details}, err
}

// GetGoogleIDP reads one.
func (s *Service) GetGoogleIDP(ctx context.Context, req *idpv3.GetGoogleIDPRequest) (*idpv3.GetGoogleIDPResponse, error) {
	row, view, err := s.get(ctx, google, req.GetId())
	if err != nil {
		return nil, err
	}
	got := storage.NewGetGoogleIDP(row)
	show(view, &got.Details, &got.Parent, &got.State, got.GetIdp().GetIdp())
	return &idpv3.GetGoogleIDPResponse{Idp: got}, nil
}

// CreateAzureADIDP makes a provider of this type.
func (s *Service) CreateAzureADIDP(ctx context.Context, req *idpv3.CreateAzureADIDPRequest) (*idpv3.CreateAzureADIDPResponse, error) {
	details, err := s.create(ctx, azureAD, secrets{client: req.GetIdp().GetConfig().ClientSecret}, func(row *db.Idp) { storage.AssignAzureADIDP(row, req.GetIdp()) })
	return &idpv3.CreateAzureADIDPResponse{Details: details}, err
}

// PatchAzureADIDP changes the fields of one that are present.
func (s *Service) PatchAzureADIDP(ctx context.Context, req *idpv3.PatchAzureADIDPRequest) (*idpv3.PatchAzureADIDPResponse, error) {
	idp, given := req.GetIdp().GetIdp(), secrets{}
	if config := req.GetIdp().GetConfig(); config != nil {
		given = secrets{client: config.ClientSecret}
	}
	details, err := s.patch(ctx, azureAD, req.GetId(), idp, req.GetIdp().GetConfig(), given, func(row *db.Idp) { storage.AssignPatchAzureADIDP(row, req.GetIdp()) })
	return &idpv3.PatchAzureADIDPResponse{Details: details}, err
}

// GetAzureADIDP reads one.
func (s *Service) GetAzureADIDP(ctx context.Context, req *idpv3.GetAzureADIDPRequest) (*idpv3.GetAzureADIDPResponse, error) {
	row, view, err := s.get(ctx, azureAD, req.GetId())
	if err != nil {
		return nil, err
	}
	got := storage.NewGetAzureADIDP(row)
	show(view, &got.Details, &got.Parent, &got.State, got.GetIdp().GetIdp())
	return &idpv3.GetAzureADIDPResponse{Idp: got}, nil
}

// CreateAppleIDP makes a provider of this type.
func (s *Service) CreateAppleIDP(ctx context.Context, req *idpv3.CreateAppleIDPRequest) (*idpv3.CreateAppleIDPResponse, error) {
	if req.GetIdp().GetConfig().GetPrivateKey() == "" {
		return nil, errKeyMissing
	}
	details, err := s.create(ctx, apple, secrets{key: req.GetIdp().GetConfig().PrivateKey}, func(row *db.Idp) { storage.AssignAppleIDP(row, req.GetIdp()) })
	return &idpv3.CreateAppleIDPResponse{Details: details}, err
}

// PatchAppleIDP changes the fields of one that are present.
func (s *Service) PatchAppleIDP(ctx context.Context, req *idpv3.PatchAppleIDPRequest) (*idpv3.PatchAppleIDPResponse, error) {
	idp, given := req.GetIdp().GetIdp(), secrets{}
	if config := req.GetIdp().GetConfig(); config != nil {
		given = secrets{key: config.PrivateKey}
	}
	details, err := s.patch(ctx, apple, req.GetId(), idp, req.GetIdp().GetConfig(), given, func(row *db.Idp) { storage.AssignPatchAppleIDP(row, req.GetIdp()) })
	return &idpv3.PatchAppleIDPResponse{Details: details}, err
}

// GetAppleIDP reads one.
func (s *Service) GetAppleIDP(ctx context.Context, req *idpv3.GetAppleIDPRequest) (*idpv3.GetAppleIDPResponse, error) {
	row, view, err := s.get(ctx, apple, req.GetId())
	if err != nil {
		return nil, err
	}
	got := storage.NewGetAppleIDP(row)
	show(view, &got.Details, &got.Parent, &got.State, got.GetIdp().GetIdp())
	return &idpv3.GetAppleIDPResponse{Idp: got}, nil
}
