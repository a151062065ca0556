// Package metadata serves what anybody may know of an issuer: its discovery document
// (OpenID Connect Discovery, section 4; RFC 8414) and its keys (RFC 7517). Both are
// prepared bytes, from memory.
package metadata

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/writ-id/writ/gen/oauth"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/signing"
	"github.com/writ-id/writ/impl/oidc/authorize"
	"github.com/writ-id/writ/impl/oidc/claims"
	"github.com/writ-id/writ/impl/oidc/client"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/issue"
	"github.com/writ-id/writ/impl/oidc/scope"
	"github.com/writ-id/writ/impl/oidc/token"
)

// Endpoint serves the documents. It is safe for concurrent use.
type Endpoint struct {
	*endpoint.Env
	// IsOn reports whether a feature is on for an instance (policy.Chain).
	IsOn func(ctx context.Context, feature policyv1.Feature, instance *policy.Instance) (bool, error)
	Keys *signing.Set

	mu        sync.RWMutex
	documents map[documentKey]*document
}

// document is a prepared discovery document.
type document struct {
	text []byte
	etag string
}

// GetConfiguration serves the discovery document of an issuer (OpenID Connect
// Discovery, section 4): prepared bytes, from memory.
func (e *Endpoint) GetConfiguration(w http.ResponseWriter, r *http.Request, params oauth.GetConfigurationParams) {
	instance, err := e.Instance(r.Context(), r.Host)
	if err != nil {
		e.Refuse(w, r, err)
		return
	}
	exchange, err := e.IsOn(r.Context(), policyv1.Feature_FEATURE_OIDC_TOKEN_EXCHANGE, instance)
	if err != nil {
		e.Refuse(w, r, err)
		return
	}
	prepared, err := e.document(documentKey{
		issuer: e.Issuer(r.Host, instance), locales: strings.Join(e.Pages.Languages(r, instance), " "),
		exchange: exchange, create: instance.AllowRegistration,
	})
	if err != nil {
		e.Refuse(w, r, err)
		return
	}
	servePublic(w, prepared.text, prepared.etag, params.IfNoneMatch)
}

// documentKey is all that a document depends on.
type documentKey struct {
	issuer, locales  string
	exchange, create bool // whether tokens are exchanged, and people can register
}

// maxDocuments bounds what is kept: hosts are chosen by requests (SEC-293).
const maxDocuments = 1000

func (e *Endpoint) document(key documentKey) (*document, error) {
	e.mu.RLock()
	known := e.documents[key]
	e.mu.RUnlock()
	if known != nil {
		return known, nil
	}
	text, err := json.Marshal(configuration(key))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	made := &document{text, `"` + hex.EncodeToString(sum[:12]) + `"`}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.documents == nil || len(e.documents) >= maxDocuments {
		e.documents = map[documentKey]*document{}
	}
	e.documents[key] = made
	return made, nil
}

func configuration(key documentKey) *oauth.ProviderMetadata {
	issuer, locales := key.issuer, strings.Fields(key.locales)
	// All that a key of the instance may ever sign with: clients keep the document for
	// longer than a key signs.
	signs, foreign := names(signing.Algorithms), names(client.Algorithms)
	all, few := client.Names(client.All), client.Names(client.Introspecting)
	acrs := []string{issue.ACROne, issue.ACRMany}
	grants := token.Types(func(policyv1.Feature) bool { return key.exchange })
	grants = slices.Insert(grants, 1, authorize.GrantImplicit)
	prompts := []string{authorize.PromptNone, authorize.PromptLogin, authorize.PromptSelect}
	if key.create {
		prompts = append(prompts, authorize.PromptCreate)
	}
	return &oauth.ProviderMetadata{
		Issuer:                issuer,
		AuthorizationEndpoint: issuer + endpoint.PathAuthorize,
		TokenEndpoint:         issuer + endpoint.PathToken,
		IntrospectionEndpoint: issuer + endpoint.PathIntrospect,
		UserinfoEndpoint:      issuer + endpoint.PathUserInfo,
		RevocationEndpoint:    issuer + endpoint.PathRevoke,
		EndSessionEndpoint:    issuer + endpoint.PathEndSession,
		JwksUri:               issuer + endpoint.PathKeys,

		ScopesSupported:                  scope.Standard,
		ResponseTypesSupported:           authorize.ResponseTypes,
		ResponseModesSupported:           authorize.ResponseModes,
		GrantTypesSupported:              grants,
		SubjectTypesSupported:            []string{"public"},
		IdTokenSigningAlgValuesSupported: signs,
		AcrValuesSupported:               &acrs,

		TokenEndpointAuthMethodsSupported:                  all,
		TokenEndpointAuthSigningAlgValuesSupported:         foreign,
		RevocationEndpointAuthMethodsSupported:             all,
		RevocationEndpointAuthSigningAlgValuesSupported:    foreign,
		IntrospectionEndpointAuthMethodsSupported:          few,
		IntrospectionEndpointAuthSigningAlgValuesSupported: foreign,

		ClaimsSupported: append([]string{
			"sub", "aud", "exp", "iat", "iss", "auth_time", "nonce", "acr", "amr", "azp", "at_hash", "sid", "act", "client_id",
		}, claims.Supported...),
		UiLocalesSupported:                         &locales,
		ClaimTypesSupported:                        []string{"normal"},
		CodeChallengeMethodsSupported:              []string{authorize.MethodS256},
		PromptValuesSupported:                      prompts,
		ClaimsParameterSupported:                   true,
		RequestParameterSupported:                  false,
		RequestUriParameterSupported:               false,
		AuthorizationResponseIssParameterSupported: true,
	}
}

func names[A any](algorithms []A) []string {
	list := make([]string, len(algorithms))
	for i, name := range algorithms {
		list[i] = fmt.Sprint(name)
	}
	return list
}
