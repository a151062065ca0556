package authorize

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/writ-id/writ/gen/oauth"
	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	"github.com/writ-id/writ/impl/oidc/claims"
	"github.com/writ-id/writ/impl/oidc/client"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/scope"
)

// authorization is a request whose client and redirect URI are known to belong
// together: from here on errors go to the client.
type authorization struct {
	at     endpoint.Site
	req    *oauth.AuthorizationRequest
	client *client.Client
	mode   string
	scopes *scope.Set
	claims claims.Asked
	prompt []string
	maxAge time.Duration // -1: none
}

// read reads the other parameters (OpenID Connect Core, sections 3.1.2.2 and
// 3.2.2.1).
func (e *Endpoint) read(ctx context.Context, a *authorization) error {
	req := a.req
	switch {
	case req.Request != "":
		return endpoint.Refuse(oauth.RequestNotSupported, "the parameter request is not supported")
	case req.RequestUri != "":
		return endpoint.Refuse(oauth.RequestUriNotSupported, "the parameter request_uri is not supported")
	case req.ResponseType == "":
		return endpoint.InvalidRequest("response_type is missing")
	}
	kind, known := responseTypes[req.ResponseType]
	if !known {
		return endpoint.Refuse(oauth.UnsupportedResponseType, "response_type is none of code, id_token and id_token token")
	}
	if !a.client.MayAsk(kind) || !a.client.MayUse(a.grantType()) {
		return endpoint.UnauthorizedClient("the application may not use this response type")
	}
	var err error
	if err = e.readScopes(ctx, a); err != nil {
		return err
	}
	if err = a.readProof(); err != nil {
		return err
	}
	switch { // what travels in tokens has bounds (SEC-295)
	case req.ResponseType != responseCode && req.Nonce == "":
		return endpoint.InvalidRequest("nonce is missing")
	case len(req.Nonce) > maxNonce:
		return endpoint.InvalidRequest("nonce is too long")
	case len(req.State) > maxState:
		return endpoint.InvalidRequest("state is too long")
	}
	if err = a.readPrompt(); err != nil {
		return err
	}
	a.claims, err = claims.Read(req.Claims)
	return err
}

// grantType is the grant that a response type belongs to.
func (a *authorization) grantType() appv3.GrantType {
	if a.req.ResponseType == responseCode {
		return appv3.GrantType_GRANT_TYPE_AUTHORIZATION_CODE
	}
	return appv3.GrantType_GRANT_TYPE_IMPLICIT
}

func (e *Endpoint) readScopes(ctx context.Context, a *authorization) error {
	if len(strings.Fields(a.req.Scope)) == 0 {
		return endpoint.InvalidRequest("scope is missing")
	}
	var err error
	if a.scopes, err = scope.Read(a.req.Scope); err != nil {
		return err
	}
	if !a.scopes.Has(scope.OpenID) {
		return endpoint.InvalidScope("scope lacks openid")
	}
	if a.req.ResponseType != responseCode { // refresh tokens come with codes only (OpenID Connect Core, section 11)
		a.scopes = a.scopes.Online()
	}
	a.scopes, err = e.Clients.Grantable(ctx, a.at.ID, a.scopes, a.client.Roles, a.client.OrgID)
	return err
}

const (
	maxNonce = 1000
	maxState = 8000
)

// MethodS256 is the only method of code challenges (RFC 7636, section 4.2).
const MethodS256 = "S256"

// readProof reads the code challenge (RFC 7636, section 4.3). Public clients need
// one (SEC-007).
func (a *authorization) readProof() error {
	challenge, method := a.req.CodeChallenge, a.req.CodeChallengeMethod
	switch {
	case challenge == "" && method == "":
		if a.req.ResponseType == responseCode && a.client.AuthMethodType == appv3.AuthMethodType_AUTH_METHOD_TYPE_NONE {
			return endpoint.InvalidRequest("code_challenge is missing")
		}
		return nil
	case challenge == "":
		return endpoint.InvalidRequest("code_challenge is missing")
	case method != MethodS256:
		return endpoint.InvalidRequest("code_challenge_method has to be S256")
	case len(challenge) != 43 || strings.Trim(challenge, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "":
		return endpoint.InvalidRequest("code_challenge is not the base64url form of a SHA-256")
	}
	return nil
}

// The values of prompt (OpenID Connect Core, section 3.1.2.1; Initiating User
// Registration 1.0).
const (
	PromptNone   = "none"
	PromptLogin  = "login"
	PromptSelect = "select_account"
	PromptCreate = "create"

	promptConsent = "consent"
)

func (a *authorization) readPrompt() error {
	a.prompt = strings.Fields(a.req.Prompt)
	for _, value := range a.prompt {
		switch value {
		case PromptNone:
			if len(a.prompt) > 1 {
				return endpoint.InvalidRequest("prompt has none together with another value")
			}
		case PromptLogin, PromptSelect, PromptCreate, promptConsent: // nothing asks for consent
		default:
			return endpoint.InvalidRequest("prompt has an unknown value")
		}
	}
	if a.req.MaxAge == "" {
		return nil
	}
	seconds := int64(0)
	for _, digit := range a.req.MaxAge {
		if digit < '0' || digit > '9' || seconds > 1<<32 {
			return endpoint.InvalidRequest("max_age is not a number of seconds")
		}
		seconds = seconds*10 + int64(digit-'0')
	}
	a.maxAge = time.Duration(min(seconds, 1<<32)) * time.Second
	return nil
}

func (a *authorization) asks(prompt string) bool { return slices.Contains(a.prompt, prompt) }

// notBefore is since when the user has to have authenticated; zero: whenever.
func (a *authorization) notBefore() time.Time {
	switch {
	case a.asks(PromptLogin) || a.maxAge == 0:
		return a.at.Now
	case a.maxAge > 0:
		return a.at.Now.Add(-a.maxAge)
	}
	return time.Time{}
}

// encode returns a request as a query, without what has done its work.
func encode(req *oauth.AuthorizationRequest) string {
	query := url.Values{}
	req.Each(func(name, value string) {
		if name != "id_token_hint" && name != "prompt" && name != "max_age" {
			query.Set(name, value)
		}
	})
	return query.Encode()
}
