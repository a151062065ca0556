package claims

import (
	"slices"
	"strings"

	"github.com/writ-id/writ/impl/oidc/scope"
)

// own are claims of the standards beside those that tell of the user: whoever reads a
// token decides by them (RFC 7519, 7662, 7800, 8693, 9068; OpenID Connect Core and its
// logout specifications).
var own = []string{
	"iss", "sub", "aud", "exp", "nbf", "iat", "jti",
	"azp", "nonce", "auth_time", "at_hash", "c_hash", "s_hash", "acr", "amr", "sub_jwk", "sid", "events", "_claim_names", "_claim_sources",
	"act", "may_act", "scope", "client_id", "cnf", "active", "token_type", "username", "token_introspection", "authorization_details",
}

// Reserved reports whether nobody but the provider writes a claim, there or not: those of
// the standards and of the platform, whatever their case, because many who read JSON into a
// structure do not tell Sub from sub and take what comes last.
func Reserved(name string) bool {
	same := func(one string) bool { return strings.EqualFold(one, name) }
	return strings.HasPrefix(strings.ToLower(name), scope.URN) || slices.ContainsFunc(own, same) || slices.ContainsFunc(Supported, same)
}
