package oauth

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/writ-id/writ/gen/oauth"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/signing"
)

const (
	configurationPath = "/.well-known/openid-configuration"

	authorizePath  = "/oauth/v2/authorize"
	introspectPath = "/oauth/v2/introspect"
	revokePath     = "/oauth/v2/revoke"
	keysPath       = "/oauth/v2/keys"
	userinfoPath   = "/oidc/v1/userinfo"
	endSessionPath = "/oidc/v1/end_session"
)

// document is a prepared discovery document.
type document struct {
	text []byte
	etag string
}

// GetConfiguration serves the discovery document of an issuer (OpenID Connect
// Discovery, section 4): prepared bytes, from memory.
func (s *Server) GetConfiguration(w http.ResponseWriter, r *http.Request, params oauth.GetConfigurationParams) {
	instance, err := s.Instance(r.Context(), r.Host)
	if err != nil {
		s.Refuse(w, r, err)
		return
	}
	err = s.Enabled(r.Context(), policyv1.Feature_FEATURE_OIDC_TOKEN_EXCHANGE, instance)
	if err != nil && !isOff(err) {
		s.Refuse(w, r, err)
		return
	}
	prepared, err := s.document(documentKey{
		issuer: s.Issuer(r.Host, instance), locales: strings.Join(s.Pages.Languages(r, instance), " "),
		exchange: err == nil, create: instance.AllowRegistration,
	})
	if err != nil {
		s.Refuse(w, r, err)
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

func (s *Server) document(key documentKey) (*document, error) {
	s.mu.RLock()
	known := s.documents[key]
	s.mu.RUnlock()
	if known != nil {
		return known, nil
	}
	text, err := json.Marshal(configuration(key))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	made := &document{text, `"` + hex.EncodeToString(sum[:12]) + `"`}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.documents == nil || len(s.documents) >= maxDocuments {
		s.documents = map[documentKey]*document{}
	}
	s.documents[key] = made
	return made, nil
}

func configuration(key documentKey) *oauth.ProviderMetadata {
	issuer, locales := key.issuer, spaceless(key.locales)
	// All that a key of the instance may ever sign with: clients keep the document for
	// longer than a key signs.
	signs, foreign := names(signing.Algorithms), names(signing.Foreign)
	all := []string{"client_secret_basic", "client_secret_post", "private_key_jwt", "none"}
	few := []string{"client_secret_basic", "private_key_jwt"}
	acrs := []string{acrOne, acrMany}
	grants := []string{typeCode, "implicit", typeRefresh, typeCredentials, typeAssertion}
	if key.exchange {
		grants = append(grants, typeExchange)
	}
	prompts := []string{promptNone, promptLogin, promptSelect}
	if key.create {
		prompts = append(prompts, promptCreate)
	}
	return &oauth.ProviderMetadata{
		Issuer:                issuer,
		AuthorizationEndpoint: issuer + authorizePath,
		TokenEndpoint:         issuer + tokenPath,
		IntrospectionEndpoint: issuer + introspectPath,
		UserinfoEndpoint:      issuer + userinfoPath,
		RevocationEndpoint:    issuer + revokePath,
		EndSessionEndpoint:    issuer + endSessionPath,
		JwksUri:               issuer + keysPath,

		ScopesSupported:                  []string{scopeOpenID, scopeProfile, scopeEmail, scopePhone, scopeAddress, scopeOffline},
		ResponseTypesSupported:           []string{responseCode, responseIDToken, responseBoth},
		ResponseModesSupported:           []string{modeQuery, modeFragment, modeForm},
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
			"sub", "aud", "exp", "iat", "iss", "auth_time", "nonce", "acr", "amr", "azp", "at_hash", "c_hash", "sid", "act", "client_id",
		}, standardClaims...),
		UiLocalesSupported:                         &locales,
		ClaimTypesSupported:                        []string{"normal"},
		CodeChallengeMethodsSupported:              []string{methodS256},
		PromptValuesSupported:                      prompts,
		ClaimsParameterSupported:                   true,
		RequestParameterSupported:                  false,
		RequestUriParameterSupported:               false,
		AuthorizationResponseIssParameterSupported: true,
	}
}

func names(algorithms []signing.Algorithm) []string {
	list := make([]string, len(algorithms))
	for i, name := range algorithms {
		list[i] = string(name)
	}
	return list
}
