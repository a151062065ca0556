package oidc

// plan is a certification plan: which modules, in which variant.
type plan struct {
	name   string
	client string // the role of its client
	steps  []step
}

// step is a module in the variant that the plan fixes.
type step struct {
	module
	variant
}

// module is one test of a plan.
type module struct {
	name    string
	run     func(*run)
	client  string // a role other than the plan's
	dynamic bool   // wants a client that registers itself
	bare    bool   // begins without the setup
	waits   int    // how many seconds it does nothing
}

func (m module) of(v variant) step { return step{m, v} }

func plans() []plan {
	steps := func(modules []module, v variant) []step {
		list := make([]step, len(modules))
		for i, m := range modules {
			list[i] = m.of(v)
		}
		return list
	}
	implicit := func(formPost bool) []step {
		list := steps(implicitModules(), variant{"id_token", formPost})
		list = append(list, steps(implicitModules(), variant{"id_token token", formPost})...)
		return append(list, steps(tokenModules(), variant{"id_token token", formPost})...)
	}
	code := variant{responseType: "code"}
	return []plan{
		{"oidcc-basic-certification-test-plan", roleMain, steps(basicModules(), code)},
		{"oidcc-implicit-certification-test-plan", roleImplicit, implicit(false)},
		{"oidcc-config-certification-test-plan", roleMain, steps([]module{
			{name: "oidcc-discovery-endpoint-verification", run: discoveryVerification, bare: true},
		}, code)},
		{"oidcc-formpost-basic-certification-test-plan", roleMain, steps(basicModules(), variant{"code", true})},
		{"oidcc-formpost-implicit-certification-test-plan", roleImplicit, implicit(true)},
		{"oidcc-rp-initiated-logout-certification-test-plan", roleMain, steps(logoutModules(), code)},
		{"writ-own-rules", roleMain, append(steps(ownModules(), code), ownVariants()...)},
	}
}

// basicModules are those of the basic plan, in its order.
func basicModules() []module {
	return []module{
		{name: "oidcc-server", run: server},
		{name: "oidcc-response-type-missing", run: responseTypeMissing},
		{name: "oidcc-idtoken-signature", dynamic: true},
		{name: "oidcc-idtoken-unsigned", dynamic: true},
		{name: "oidcc-userinfo-get", run: userinfoGet},
		{name: "oidcc-userinfo-post-header", run: userinfoPostHeader},
		{name: "oidcc-userinfo-post-body", run: userinfoPostBody},
		{name: "oidcc-ensure-request-without-nonce-succeeds-for-code-flow", run: withoutNonceSucceeds},
		{name: "oidcc-scope-profile", run: scope("profile")},
		{name: "oidcc-scope-email", run: scope("email")},
		{name: "oidcc-scope-address", run: scope("address")},
		{name: "oidcc-scope-phone", run: scope("phone")},
		{name: "oidcc-scope-all", run: scope("email", "phone", "address", "profile")},
		{name: "oidcc-alternate-happy-flow", run: alternateHappyFlow},
		{name: "oidcc-display-page", run: withParameter("display", "page")},
		{name: "oidcc-display-popup", run: withParameter("display", "popup")},
		{name: "oidcc-prompt-login", run: promptLogin, waits: 1},
		{name: "oidcc-prompt-none-not-logged-in", run: promptNoneNotLoggedIn},
		{name: "oidcc-prompt-none-logged-in", run: promptNoneLoggedIn},
		{name: "oidcc-max-age-1", run: maxAge1, waits: 2},
		{name: "oidcc-max-age-10000", run: maxAge10000},
		{name: "oidcc-ensure-request-with-unknown-parameter-succeeds", run: withParameter("extra", "foobar")},
		{name: "oidcc-id-token-hint", run: idTokenHint},
		{name: "oidcc-login-hint", run: loginHint},
		{name: "oidcc-ui-locales", run: uiLocales},
		{name: "oidcc-claims-locales", run: withParameter("claims_locales", "se")},
		{name: "oidcc-ensure-request-with-acr-values-succeeds", run: acrValues},
		{name: "oidcc-codereuse", run: codeReuse},
		{name: "oidcc-codereuse-30seconds", run: codeReuse30Seconds, waits: 30},
		{name: "oidcc-ensure-registered-redirect-uri", run: registeredRedirectURI},
		{name: "oidcc-ensure-post-request-succeeds", run: postRequest},
		{name: "oidcc-server-client-secret-post", run: func(r *run) { r.complete(r.request()) }, client: rolePost},
		{name: "oidcc-request-uri-unsigned-supported-correctly-or-rejected-as-unsupported", dynamic: true},
		{name: "oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported", run: unsignedRequestObject},
		{name: "oidcc-claims-essential", run: claimsEssential},
		{name: "oidcc-ensure-request-object-with-redirect-uri", run: requestObjectWithRedirectURI},
		{name: "oidcc-refresh-token", run: refreshToken, waits: 2},
		{name: "oidcc-ensure-request-with-valid-pkce-succeeds", run: validPKCE},
	}
}

// tokenModules are those that the implicit plan runs only for id_token token.
func tokenModules() []module {
	return pick(basicModules(), func(name string) bool {
		switch name {
		case "oidcc-userinfo-get", "oidcc-userinfo-post-header", "oidcc-userinfo-post-body", "oidcc-response-type-missing":
			return true
		}
		return false
	})
}

// implicitModules are those of the implicit plan for each response type.
func implicitModules() []module {
	list := pick(basicModules(), func(name string) bool {
		switch name {
		case "oidcc-userinfo-get", "oidcc-userinfo-post-header", "oidcc-userinfo-post-body", "oidcc-response-type-missing",
			"oidcc-idtoken-unsigned", "oidcc-ensure-request-without-nonce-succeeds-for-code-flow", "oidcc-codereuse",
			"oidcc-codereuse-30seconds", "oidcc-ensure-post-request-succeeds", "oidcc-server-client-secret-post",
			"oidcc-refresh-token", "oidcc-ensure-request-with-valid-pkce-succeeds":
			return false
		}
		return true
	})
	return append(list, module{name: "oidcc-ensure-request-without-nonce-fails", run: withoutNonceFails})
}

func pick(from []module, take func(name string) bool) []module {
	var list []module
	for _, m := range from {
		if take(m.name) {
			list = append(list, m)
		}
	}
	return list
}
