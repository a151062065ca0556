package foreign

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"strings"

	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
)

func (k *keycloak) client(o *jsonObject) {
	clientID := o.needed("clientId")
	switch protocol := o.text("protocol"); {
	case k.isBuiltInClient(clientID):
		k.Lost("apps", clientID, "Keycloak made it for itself")
		return
	case protocol != "" && protocol != "openid-connect":
		k.Lost("apps", clientID, fmt.Sprintf("it speaks %q: only OpenID Connect is supported", protocol))
		return
	}
	app := &transferv1.TransferApp{
		Id: either(o.text("id"), derived("app", k.id, clientID)), OrgId: k.OrgID, ProjectId: k.id, Name: k.clientName(o.text("name"), clientID),
		ClientId: clientID, State: object.EffectiveState_EFFECTIVE_STATE_ACTIVE,
	}
	if o.has("enabled") && !o.flag("enabled") {
		app.State = object.EffectiveState_EFFECTIVE_STATE_INACTIVE
	}
	attributes := o.member("attributes")
	attribute := attributes.text
	public, standard, implicit := o.flag("publicClient"), !o.has("standardFlowEnabled") || o.flag("standardFlowEnabled"), o.flag("implicitFlowEnabled")
	method := appv3.AuthMethodType_AUTH_METHOD_TYPE_SECRET
	switch authenticator := o.text("clientAuthenticatorType"); {
	case public:
		method = appv3.AuthMethodType_AUTH_METHOD_TYPE_NONE
	case authenticator == "client-jwt":
		method = appv3.AuthMethodType_AUTH_METHOD_TYPE_PRIVATE_KEY_JWT
		k.Lost("apps", clientID, "without its keys: add the public one")
	case authenticator != "" && authenticator != "client-secret":
		k.Lost("apps", clientID, fmt.Sprintf("it authenticates by %q, which is not supported: it needs a client secret", authenticator))
	default:
		if app.SecretHash = secretHash(o.text("secret")); app.SecretHash == nil && !o.flag("bearerOnly") {
			k.Lost("apps", clientID, "without a client secret: the file does not have it")
		}
	}
	if o.flag("bearerOnly") || !standard && !implicit {
		if method == appv3.AuthMethodType_AUTH_METHOD_TYPE_NONE {
			method = appv3.AuthMethodType_AUTH_METHOD_TYPE_SECRET
		}
		app.Config = &transferv1.TransferApp_Api{Api: &appv3.APIConfig{AuthMethodType: method}}
	} else {
		app.Config = &transferv1.TransferApp_Oidc{Oidc: k.oidc(o, attribute, clientID, public, standard, implicit, method)}
	}
	for flag, reason := range map[string]string{
		"directAccessGrantsEnabled":    "the grant of resource owners' passwords: there is none",
		"consentRequired":              "asking users for consent: nobody is asked",
		"authorizationServicesEnabled": "its authorization services: there are none",
		"alwaysDisplayInConsole":       "being shown in the account console always",
		"frontchannelLogout":           "front-channel logout: there is none",
	} {
		if o.flag(flag) {
			k.Lost("apps", clientID, "without "+reason)
		}
	}
	for name, reason := range map[string]string{
		"oauth2.device.authorization.grant.enabled": "the grant for devices: there is none",
		"oidc.ciba.grant.enabled":                   "backchannel authentication: there is none",
	} {
		if isTrue(attribute(name)) {
			k.Lost("apps", clientID, "without "+reason)
		}
	}
	if attribute("backchannel.logout.url") != "" {
		k.Lost("apps", clientID, "without back-channel logout: there is none")
	}
	attributes.ignore("realm_client", "client.secret.creation.time", "backchannel.logout.session.required", "backchannel.logout.revoke.offline.tokens", "pkce.code.challenge.method", "post.logout.redirect.uris", "use.refresh.tokens", "standard.token.exchange.enabled", "display.on.consent.screen", "access.token.header.type.rfc9068")
	attributes.done()
	for _, list := range []string{"protocolMappers", "defaultClientScopes", "optionalClientScopes"} {
		if len(o.values(list)) > 0 {
			k.often("clients[]."+list, "scopes and claims are those of OpenID Connect")
		}
	}
	o.ignore("surrogateAuthRequired", "notBefore", "bearerOnly", "serviceAccountsEnabled", "authenticationFlowBindingOverrides", "fullScopeAllowed", "nodeReRegistrationTimeout", "registeredNodes",
		"baseUrl", "adminUrl", "rootUrl", "id", "enabled", "redirectUris", "webOrigins", "secret", "clientAuthenticatorType", "access", "origin")
	if description := o.text("description"); description != "" {
		k.often("clients[].description", nowhere)
	}
	o.done()
	k.put("apps", clientID, app)
}

// clientName is what a client is called: names are unique here.
func (k *keycloak) clientName(name, clientID string) string {
	if name == "" || strings.HasPrefix(name, "${") {
		name = clientID
	}
	if k.names[strings.ToLower(name)] {
		name += " (" + clientID + ")"
	}
	k.names[strings.ToLower(name)] = true
	return name
}

func (k *keycloak) oidc(o *jsonObject, attribute func(string) string, clientID string, public, standard, implicit bool, method appv3.AuthMethodType) *appv3.OIDCConfig {
	redirects := k.addresses(clientID, "redirect URI", o.text("rootUrl"), o.texts("redirectUris"))
	config := &appv3.OIDCConfig{
		RedirectUris: redirects, AuthMethodType: method, AccessTokenType: object.AccessTokenType_ACCESS_TOKEN_TYPE_JWT, ApplicationType: appv3.ApplicationType_APPLICATION_TYPE_WEB,
		AccessTokenRoleAssertion: true, PlainJwtType: attribute("access.token.header.type.rfc9068") != "true",
	}
	if asked := attribute("id.token.signed.response.alg"); asked != "" {
		config.IdTokenSignedResponseAlg = object.SignatureAlgorithm(object.SignatureAlgorithm_value["SIGNATURE_ALGORITHM_"+strings.ToUpper(asked)])
		if config.GetIdTokenSignedResponseAlg() == 0 {
			k.Lost("apps", clientID, fmt.Sprintf("without ID tokens signed by %s: there is RS256, ES256 and EdDSA", asked))
		}
	}
	switch after := attribute("post.logout.redirect.uris"); after {
	case "", "-":
	case "+":
		config.PostLogoutRedirectUris = redirects
	default:
		config.PostLogoutRedirectUris = k.addresses(clientID, "redirect URI after logout", o.text("rootUrl"), strings.Split(after, "##"))
	}
	if public {
		config.ApplicationType = appv3.ApplicationType_APPLICATION_TYPE_USER_AGENT
		for _, address := range redirects {
			if !strings.HasPrefix(address, "https://") {
				config.ApplicationType = appv3.ApplicationType_APPLICATION_TYPE_NATIVE
			}
		}
	}
	if standard {
		config.ResponseTypes = append(config.ResponseTypes, appv3.ResponseType_RESPONSE_TYPE_CODE)
		config.GrantTypes = append(config.GrantTypes, appv3.GrantType_GRANT_TYPE_AUTHORIZATION_CODE)
		if attribute("use.refresh.tokens") != "false" {
			config.GrantTypes = append(config.GrantTypes, appv3.GrantType_GRANT_TYPE_REFRESH_TOKEN)
		}
	}
	if implicit {
		config.ResponseTypes = append(config.ResponseTypes, appv3.ResponseType_RESPONSE_TYPE_ID_TOKEN, appv3.ResponseType_RESPONSE_TYPE_ID_TOKEN_TOKEN)
		config.GrantTypes = append(config.GrantTypes, appv3.GrantType_GRANT_TYPE_IMPLICIT)
	}
	if isTrue(attribute("standard.token.exchange.enabled")) {
		config.GrantTypes = append(config.GrantTypes, appv3.GrantType_GRANT_TYPE_TOKEN_EXCHANGE)
	}
	for _, origin := range o.texts("webOrigins") {
		switch origin {
		case "+": // those of the redirect URIs, which are allowed anyhow
		case "*":
			k.Lost("apps", clientID, "without the web origin *: name the origins")
		default:
			config.AdditionalOrigins = append(config.AdditionalOrigins, origin)
		}
	}
	config.AdditionalOrigins = unique(config.AdditionalOrigins)
	return config
}

// addresses returns those that can be compared byte for byte; relative ones belong to root.
func (k *keycloak) addresses(clientID, what, root string, all []string) []string {
	var kept []string
	for _, address := range all {
		switch parsed, err := url.Parse(address); {
		case strings.Contains(address, "*"):
			k.Lost("apps", clientID, fmt.Sprintf("without the %s %q: addresses are compared byte for byte", what, address))
		case err == nil && parsed.Scheme == "" && strings.HasPrefix(address, "/") && strings.HasPrefix(root, "http"):
			kept = append(kept, strings.TrimSuffix(root, "/")+address)
		case err != nil || parsed.Scheme == "":
			k.Lost("apps", clientID, fmt.Sprintf("without the %s %q: it is not absolute", what, address))
		default:
			kept = append(kept, address)
		}
	}
	return unique(kept)
}

// secretHash is what is kept of a client secret; nil of none, and of one that the file hides.
func secretHash(text string) []byte {
	if strings.Trim(text, "*") == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}
