package oidc

// ownModules are those of no official plan: the rules of RFC 6749, 6750, 7009,
// 7523, 7636, 7662, 9207 and 9700 that a provider keeps beside OpenID Connect,
// and the traps that no official module is set on.
func ownModules() []module {
	return []module{
		// Clients and how they authenticate.
		{name: "writ-client-auth-basic", run: clientAuth(authBasic)},
		{name: "writ-client-auth-post", run: clientAuth(authPost), client: rolePost},
		{name: "writ-client-auth-none-pkce", run: clientAuth(authNone), client: rolePublic},
		{name: "writ-client-auth-private-key-jwt", run: clientAuth(authJWT), client: roleJWT},
		{name: "writ-client-auth-two-methods", run: twoMethods},
		{name: "writ-client-auth-challenge", run: challengeOn401},
		{name: "writ-client-assertion-token-endpoint-audience", run: assertionForTokenEndpoint, client: roleJWT},
		{name: "writ-client-assertion-refused", run: badAssertions, client: roleJWT},
		{name: "writ-client-assertion-replayed", run: replayedAssertion, client: roleJWT},
		{name: "writ-client-assertion-clock-skew", run: assertionSkew, client: roleJWT},

		// Codes and the token endpoint.
		{name: "writ-pkce-wrong-verifier", run: pkceVerifier("wrong")},
		{name: "writ-pkce-missing-verifier", run: pkceVerifier("")},
		{name: "writ-pkce-short-verifier", run: pkceVerifier("short")},
		{name: "writ-pkce-verifier-without-challenge", run: pkceDowngrade},
		{name: "writ-pkce-required-of-public-clients", run: pkceRequired, client: rolePublic},
		{name: "writ-pkce-plain-refused-to-public-clients", run: pkcePlain, client: rolePublic},
		{name: "writ-code-bound-to-client", run: codeOfAnotherClient},
		{name: "writ-code-bound-to-redirect-uri", run: codeOfAnotherRedirectURI},
		{name: "writ-code-reuse-revokes", run: codeReuseRevokes},
		{name: "writ-code-redeemed-at-once", run: codeRace},
		{name: "writ-code-lifetime", run: codeLifetime, waits: 62},
		{name: "writ-token-endpoint-headers", run: tokenHeaders},
		{name: "writ-token-endpoint-refusals", run: tokenRefusals},
		{name: "writ-token-endpoint-get", run: tokenByGet},
		{name: "writ-refresh-token-rotation", run: refreshRotation},
		{name: "writ-refresh-token-scope", run: refreshScope},
		{name: "writ-refresh-token-needs-client", run: refreshWithoutClient},

		// Services, without a user.
		{name: "writ-client-credentials", run: clientCredentials},
		{name: "writ-client-credentials-refused", run: clientCredentialsOfAnApplication},
		{name: "writ-jwt-grant", run: jwtGrant},
		{name: "writ-jwt-grant-refused", run: badGrants},

		// What a token opens.
		{name: "writ-token-strength", run: tokenStrength},
		{name: "writ-userinfo-bearer", run: userinfoBearer},
		{name: "writ-userinfo-id-token-refused", run: userinfoIDToken},
		{name: "writ-userinfo-tampered-token-refused", run: userinfoTampered},
		{name: "writ-introspection", run: introspection},
		{name: "writ-revocation", run: revocation},
		{name: "writ-revocation-of-another-client", run: revokeForeign},
		{name: "writ-revocation-of-refresh-token", run: revokeRefresh},

		// The authorization endpoint.
		{name: "writ-discovery-strength", run: discoveryStrength},
		{name: "writ-authorize-without-cors", run: authorizeCORS},
		{name: "writ-idtoken-signature", run: idTokenSignature},
		{name: "writ-redirect-uri-variants", run: redirectVariants},
		{name: "writ-unknown-client", run: unknownClient},
		{name: "writ-response-type-token", run: responseTypeToken},
		{name: "writ-duplicate-parameter", run: duplicateParameter},
		{name: "writ-prompt-none-combined", run: promptNoneCombined},
		{name: "writ-request-uri-refused", run: requestURI},
		{name: "writ-unknown-values-are-harmless", run: unknownValues},
		{name: "writ-post-request-in-a-session", run: postInSession},
		{name: "writ-scope-order", run: scopeOrder},
		{name: "writ-without-state", run: withoutState},
		{name: "writ-long-state-and-nonce", run: longStateAndNonce},
		{name: "writ-state-of-all-characters", run: stateOfAllCharacters},
		{name: "writ-prompt-none-wrong-hint", run: promptNoneWrongHint},
		{name: "writ-user-cancels", run: userCancels},

		// Pages.
		{name: "writ-login-page-protected", run: loginPage},
		{name: "writ-login-form-needs-its-page", run: loginCSRF},
		{name: "writ-session-cookies", run: sessionCookies},
		{name: "writ-wrong-password", run: wrongPassword},
		{name: "writ-credentials-not-repeated", run: credentialsNotRepeated},
		{name: "writ-error-page-escapes", run: errorPageEscapes},

		// Logout.
		{name: "writ-logout-post", run: logoutByPost},
		{name: "writ-logout-client-id", run: logoutClientID},
		{name: "writ-logout-client-id-of-another", run: logoutOtherClient},
		{name: "writ-logout-state-escaped", run: logoutEscapes},
		{name: "writ-logout-twice", run: logoutTwice},
	}
}

// ownVariants are the own modules that depend on how the response travels.
func ownVariants() []step {
	var list []step
	for _, v := range []variant{{"code", false}, {"code", true}, {"id_token", false}, {"id_token", true}, {"id_token token", false}, {"id_token token", true}} {
		role := ""
		if !v.codeFlow() {
			role = roleImplicit
		}
		list = append(list,
			module{name: "writ-issuer-in-response", run: issuerInResponse, client: role}.of(v),
			module{name: "writ-policies-let-the-flow-pass", run: policies, client: role}.of(v),
		)
		if v.givesAccessToken() {
			list = append(list, module{name: "writ-idtoken-slim", run: slimIDToken, client: role}.of(v))
		}
		if v.formPost {
			list = append(list, module{name: "writ-form-post-page", run: formPostPage, client: role}.of(v))
		}
	}
	return list
}
