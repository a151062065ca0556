package upstream

import (
	"context"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/core/token"
)

// dialect is what is particular to a type of providers.
type dialect struct {
	// scopes are asked for unless the provider is configured otherwise.
	scopes []string
	// params go along with the authorization request.
	params map[string]string
	// inBody has the client authenticate in the body of the token request.
	inBody bool
	// secret makes the client secret of one request.
	secret func(*Provider, time.Time) (string, error)

	// issuer is that of an OpenID provider; nil where there is none.
	issuer func(*Provider) string
	// isIssuer reports whether what a document or an ID token names is the issuer; nil:
	// when it is the same. tenant is a claim of the ID token, "" of a document.
	isIssuer func(p *Provider, named, tenant string) bool
	// onlyIDToken is set where the ID token says all there is to know.
	onlyIDToken bool
	// mend changes what was read to what it means with this type.
	mend func(*Provider, token.Claims, url.Values, *Identity)

	// endpoints are those of a provider without an issuer, and named is what it calls
	// itself in answers, if it does.
	endpoints func(*Provider) *metadata
	named     string
	// identify finds out who the user is.
	identify func(context.Context, *Client, *Provider, *metadata, *tokenv1.Upstream, *oauth2.Token, url.Values) (*Identity, error)
}

// openID are the scopes of an OpenID provider.
var openID = []string{"openid", "profile", "email"}

// dialect returns what is particular to a type, as its providers document themselves.
func (t Type) dialect() (d dialect, known bool) {
	switch t {
	case OIDC, GitLabSelfHosted:
		return dialect{scopes: openID, issuer: own, identify: byIDToken}, true
	case GitLab:
		return dialect{scopes: openID, issuer: fixed("https://gitlab.com"), identify: byIDToken}, true
	case Google:
		return dialect{scopes: openID, issuer: fixed("https://accounts.google.com"), inBody: true, onlyIDToken: true, identify: byIDToken}, true
	case AzureAD:
		return dialect{scopes: openID, issuer: azureIssuer, isIssuer: isAzureIssuer, inBody: true, mend: mendAzure, identify: byIDToken}, true
	case Apple:
		return dialect{
			scopes: []string{"openid", "name", "email"}, issuer: fixed("https://appleid.apple.com"), inBody: true, onlyIDToken: true,
			params: map[string]string{"response_mode": "form_post"}, // which these scopes need
			secret: appleSecret, mend: mendApple, identify: byIDToken,
		}, true
	case GitHub:
		return dialect{
			scopes: []string{"read:user", "user:email"}, inBody: true, identify: byGitHub, named: "https://github.com/login/oauth",
			endpoints: func(*Provider) *metadata {
				return &metadata{
					AuthorizationEndpoint: "https://github.com/login/oauth/authorize", TokenEndpoint: "https://github.com/login/oauth/access_token",
					UserinfoEndpoint: "https://api.github.com/user",
				}
			},
		}, true
	case GitHubES:
		return dialect{scopes: []string{"read:user", "user:email"}, inBody: true, identify: byGitHub, endpoints: configured}, true
	case OAuth:
		return dialect{identify: byUserEndpoint, endpoints: configured}, true
	}
	return dialect{}, false
}

// dialect is that of its type; nothing, if that is not known.
func (p *Provider) dialect() dialect {
	d, _ := p.Type.dialect()
	return d
}

func own(p *Provider) string { return p.Issuer }

func fixed(issuer string) func(*Provider) string { return func(*Provider) string { return issuer } }

func configured(p *Provider) *metadata {
	return &metadata{AuthorizationEndpoint: p.AuthorizationEndpoint, TokenEndpoint: p.TokenEndpoint, UserinfoEndpoint: p.UserEndpoint}
}

// names returns what judges the iss of an answer; nil when the type has no name for
// itself, so that what it says means nothing. It answers at an address of its own.
func (d dialect) names(at *metadata) func(string) bool {
	name := d.named
	if at.Issuer != "" {
		name = at.Issuer
	}
	switch {
	case name == "":
		return nil
	case strings.Contains(name, tenantID):
		before, after, _ := strings.Cut(name, tenantID)
		return func(said string) bool { return strings.HasPrefix(said, before) && strings.HasSuffix(said, after) }
	}
	return func(said string) bool { return said == name }
}
