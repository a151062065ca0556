package oidc

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/language"
)

// The members of a discovery document by their type (OpenID Connect Discovery
// 1.0 §3, RFC 8414 §2 and its registry). Those that end in _endpoint are URLs,
// those that end in _supported lists, unless they are named here.
var (
	textMembers = []string{"issuer", "jwks_uri", "service_documentation", "op_policy_uri", "op_tos_uri", "check_session_iframe"}
	boolMembers = []string{
		"claims_parameter_supported", "request_parameter_supported", "request_uri_parameter_supported",
		"require_request_uri_registration", "frontchannel_logout_supported", "frontchannel_logout_session_supported",
		"backchannel_logout_supported", "backchannel_logout_session_supported", "require_pushed_authorization_requests",
		"require_signed_request_object", "authorization_response_iss_parameter_supported",
		"tls_client_certificate_bound_access_tokens", "client_id_metadata_document_supported",
	}
	listMembers = []string{
		"acr_values_supported", "scopes_supported", "response_types_supported", "response_modes_supported",
		"grant_types_supported", "subject_types_supported", "claims_supported", "claim_types_supported",
		"display_values_supported", "prompt_values_supported", "ui_locales_supported", "claims_locales_supported",
		"code_challenge_methods_supported", "id_token_signing_alg_values_supported",
		"id_token_encryption_alg_values_supported", "id_token_encryption_enc_values_supported",
		"userinfo_signing_alg_values_supported", "userinfo_encryption_alg_values_supported",
		"userinfo_encryption_enc_values_supported", "request_object_signing_alg_values_supported",
		"request_object_encryption_alg_values_supported", "request_object_encryption_enc_values_supported",
		"token_endpoint_auth_methods_supported", "token_endpoint_auth_signing_alg_values_supported",
		"revocation_endpoint_auth_methods_supported", "revocation_endpoint_auth_signing_alg_values_supported",
		"introspection_endpoint_auth_methods_supported", "introspection_endpoint_auth_signing_alg_values_supported",
		"introspection_signing_alg_values_supported", "introspection_encryption_alg_values_supported",
		"introspection_encryption_enc_values_supported", "authorization_signing_alg_values_supported",
		"authorization_encryption_alg_values_supported", "authorization_encryption_enc_values_supported",
		"dpop_signing_alg_values_supported", "authorization_details_types_supported",
		"backchannel_token_delivery_modes_supported", "backchannel_authentication_request_signing_alg_values_supported",
		"client_registration_types_supported", "request_authentication_signing_alg_values_supported",
		"grant_management_actions_supported", "protected_resources", "identity_assurance_methods_supported",
	}
	endpointMembers = []string{
		"authorization_endpoint", "token_endpoint", "userinfo_endpoint", "registration_endpoint", "end_session_endpoint",
		"introspection_endpoint", "revocation_endpoint", "device_authorization_endpoint",
		"pushed_authorization_request_endpoint", "backchannel_authentication_endpoint", "grant_management_endpoint",
		"federation_registration_endpoint", "challenge_endpoint",
	}
	otherMembers = []string{
		"mtls_endpoint_aliases", "signed_metadata", "organization_name", "jwks", "signed_jwks_uri", "contacts", "logo_uri",
		"backchannel_user_code_parameter_supported", "request_authentication_methods_supported", "verified_claims_supported",
		"trust_frameworks_supported", "evidence_supported", "documents_supported", "documents_methods_supported",
		"documents_check_methods_supported", "electronic_records_supported", "claims_in_verified_claims_supported",
		"attachments_supported", "digest_algorithms_supported", "grant_management_action_required", "nfv_token_signing_alg_values_supported",
		"nfv_token_encryption_alg_values_supported", "nfv_token_encryption_enc_values_supported",
		"pre-authorized_grant_anonymous_access_supported",
	}
)

// discoveryVerification is the config plan.
func discoveryVerification(r *run) {
	r.discover()
	a := r.meta.answer
	if a.status != http.StatusOK {
		r.fail("the discovery document has status %d, want 200", a.status)
	}
	if a.kind() != "application/json" {
		r.fail("the discovery document has the type %q, want application/json", a.header.Get("Content-Type"))
	}
	r.checkIssuerURL()
	r.checkMemberTypes()
	r.checkMemberValues()
	r.checkEndpoints()
	r.readKeys()
}

func (r *run) checkIssuerURL() {
	if !strings.HasPrefix(r.meta.from, "https://") {
		r.fail("%s is not https", r.meta.from)
	}
	issuer := r.meta.text("issuer")
	if strings.TrimSuffix(issuer, "/") != strings.TrimSuffix(r.meta.from, wellKnown) {
		r.fail("discovery: issuer is %q, but the document is at %s", issuer, r.meta.from)
	}
	u, err := url.Parse(issuer)
	if err != nil {
		r.fail("discovery: issuer: %v", err)
		return
	}
	port, err := strconv.Atoi("0" + u.Port())
	if u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.User != nil || err != nil || port > 65535 {
		r.fail("discovery: issuer %q is not https with a host and without query, fragment and user", issuer)
	}
}

func (r *run) checkMemberTypes() {
	for name, value := range r.meta.members {
		switch {
		case slices.Contains(textMembers, name), strings.HasSuffix(name, "_endpoint"):
			if _, ok := value.(string); !ok {
				r.fail("discovery: %s is %v, want a string", name, value)
			}
		case slices.Contains(boolMembers, name):
			if _, ok := value.(bool); !ok {
				r.fail("discovery: %s is %v, want a boolean", name, value)
			}
		case slices.Contains(listMembers, name):
			list, ok := value.([]any)
			if !ok || slices.ContainsFunc(list, func(item any) bool { _, ok := item.(string); return !ok }) {
				r.fail("discovery: %s is %v, want an array of strings", name, value)
			}
		case name == "mtls_endpoint_aliases":
			if _, ok := value.(map[string]any); !ok {
				r.fail("discovery: %s is %v, want an object", name, value)
			}
		case slices.Contains(otherMembers, name):
		default:
			r.warn("discovery: the member %s is not registered", name)
		}
		if strings.HasSuffix(name, "_endpoint") && !slices.Contains(endpointMembers, name) {
			r.warn("discovery: the member %s is not registered", name)
		}
	}
}

func (r *run) checkMemberValues() {
	m := r.meta
	types, _ := m.list("response_types_supported")
	if !slices.ContainsFunc(types, func(t string) bool {
		words := strings.Fields(t)
		slices.Sort(words)
		return slices.Contains([]string{"code", "id_token", "id_token token", "code id_token", "code token", "code id_token token"}, strings.Join(words, " "))
	}) {
		r.fail("discovery: response_types_supported has no response type of OpenID Connect: %v", types)
	}
	if !m.supports("subject_types_supported", "public") && !m.supports("subject_types_supported", "pairwise") {
		r.fail("discovery: subject_types_supported has neither public nor pairwise")
	}
	if !m.supports("id_token_signing_alg_values_supported", "RS256") {
		r.fail("discovery: id_token_signing_alg_values_supported has no RS256")
	}
	for _, name := range []string{"request_parameter_supported", "request_uri_parameter_supported", "claims_parameter_supported"} {
		if m.members[name] != true {
			r.info("discovery: %s is %v", name, m.members[name])
		}
	}
	if list, ok := m.list("request_object_signing_alg_values_supported"); ok && !slices.Contains(list, "RS256") {
		r.warn("discovery: request_object_signing_alg_values_supported has no RS256")
	}
	if _, ok := m.list("claims_supported"); !ok {
		r.warn("discovery: no array claims_supported")
	}
	if _, present := m.members["grant_types_supported"]; present {
		if list, ok := m.list("grant_types_supported"); !ok || len(list) == 0 {
			r.fail("discovery: grant_types_supported is no array with entries")
		}
	}
	scopes, ok := m.list("scopes_supported")
	if !ok {
		r.warn("discovery: no array scopes_supported")
	} else if !slices.Contains(scopes, "openid") {
		r.fail("discovery: scopes_supported has no openid")
	}
	for _, scope := range scopes {
		if scope == "" || !isErrorText(scope, false) || strings.Contains(scope, " ") {
			r.fail("discovery: %q of scopes_supported is no scope (RFC 6749 §3.3)", scope)
		}
	}
	for _, name := range []string{"ui_locales_supported", "claims_locales_supported"} {
		r.checkLocales(name)
	}
	if value, present := m.members["code_challenge_methods_supported"]; present {
		list, ok := m.list("code_challenge_methods_supported")
		if !ok || len(list) > 0 && !slices.Contains(list, "S256") && !slices.Contains(list, "plain") {
			r.fail("discovery: code_challenge_methods_supported is %v, want S256 or plain in it", value)
		}
	}
}

// checkLocales checks language tags (BCP 47) against the registry that the
// x/text module carries.
func (r *run) checkLocales(name string) {
	if _, present := r.meta.members[name]; !present {
		return
	}
	list, ok := r.meta.list(name)
	if !ok {
		r.fail("discovery: %s is no array", name)
	}
	for _, tag := range list {
		parsed, err := language.Raw.Parse(tag)
		var unknown language.ValueError
		switch {
		case errors.As(err, &unknown):
			r.fail("discovery: %q of %s has a subtag that is not registered", tag, name)
		case err != nil || strings.Contains(tag, "_"):
			r.fail("discovery: %q of %s is no language tag", tag, name)
		case parsed.String() != tag:
			r.warn("discovery: %q of %s is usually written %s", tag, name, parsed)
		}
	}
}

// checkEndpoints checks that what a browser or a client opens is https.
func (r *run) checkEndpoints() {
	for _, name := range []string{"authorization_endpoint", "token_endpoint", "jwks_uri"} {
		if r.meta.text(name) == "" {
			r.fail("discovery: no %s", name)
		}
	}
	if r.meta.text("userinfo_endpoint") == "" {
		r.warn("discovery: no userinfo_endpoint")
	}
	r.checkHTTPS()
}

func (r *run) checkHTTPS() {
	for name := range r.meta.members {
		if !strings.HasSuffix(name, "_endpoint") && name != "jwks_uri" {
			continue
		}
		if u, err := url.Parse(r.meta.text(name)); err != nil || u.Scheme != "https" || u.Host == "" {
			r.fail("discovery: %s is %q, want an https URL", name, r.meta.text(name))
		}
	}
}
