package oidc

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The claims of the standard scopes (OpenID Connect Core 1.0 §5.4).
var scopeClaims = map[string][]string{
	"profile": {
		"name", "given_name", "family_name", "middle_name", "nickname", "preferred_username", "profile", "picture",
		"website", "gender", "birthdate", "zoneinfo", "locale", "updated_at",
	},
	"email":   {"email", "email_verified"},
	"address": {"address"},
	"phone":   {"phone_number", "phone_number_verified"},
}

// checkClaimTypes checks the standard claims (OpenID Connect Core 1.0 §5.1). A
// claim without a value has to be left out (§5.3.2).
func (r *run) checkClaimTypes(where string, claims map[string]any) {
	for name, value := range claims {
		switch name {
		case "sub", "name", "given_name", "family_name", "middle_name", "nickname", "preferred_username", "profile",
			"picture", "website", "email", "gender", "zoneinfo", "locale", "phone_number":
			if !isValue(value) {
				r.fail("%s: %s is %#v, want a string that says something", where, name, value)
			}
		case "email_verified", "phone_number_verified":
			if _, ok := value.(bool); !ok {
				r.fail("%s: %s is %#v, want a boolean", where, name, value)
			}
		case "updated_at":
			if _, ok := number(value); !ok {
				r.fail("%s: updated_at is %#v, want a number", where, value)
			}
		case "birthdate":
			if s, ok := value.(string); !ok || !isBirthdate(s) {
				r.fail("%s: birthdate is %#v, want YYYY-MM-DD, 0000-MM-DD or YYYY", where, value)
			}
		case "address":
			r.checkAddress(where, value)
		}
	}
}

func isValue(value any) bool {
	s, ok := value.(string)
	return ok && strings.TrimSpace(s) != "" && !strings.EqualFold(strings.TrimSpace(s), "null")
}

func isBirthdate(s string) bool {
	year := func(y int) bool { return y >= 1850 && y <= time.Now().Year() }
	if len(s) == 4 {
		y, err := strconv.Atoi(s)
		return err == nil && year(y)
	}
	if rest, ok := strings.CutPrefix(s, "0000-"); ok { // a leap year has every day
		_, err := time.Parse(time.DateOnly, "2000-"+rest)
		return err == nil
	}
	date, err := time.Parse(time.DateOnly, s)
	return err == nil && year(date.Year())
}

func (r *run) checkAddress(where string, value any) {
	address, ok := value.(map[string]any)
	if !ok || len(address) == 0 {
		r.fail("%s: address is %#v, want an object with members", where, value)
		return
	}
	for _, name := range []string{"formatted", "street_address", "locality", "region", "postal_code", "country"} {
		if value, ok := address[name]; ok && !isValue(value) {
			r.fail("%s: %s of address is %#v, want a string that says something", where, name, value)
		}
	}
}

// bearer returns the header of a call with an access token, with its type as
// the provider wrote it: the scheme is compared without case (RFC 9110 §11.1).
func bearer(f *flow) http.Header {
	return http.Header{"Authorization": {f.tokenType + " " + f.accessToken}}
}

// ping calls userinfo with the access token of f, which has to be good.
func (r *run) ping(f *flow) answer {
	a := r.call(http.MethodGet, r.meta.text("userinfo_endpoint"), bearer(f), nil)
	if a.status != http.StatusOK {
		r.fail("userinfo answered %d to the access token, want 200", a.status)
	}
	return a
}

// userinfo calls userinfo and checks the whole answer.
func (r *run) userinfo(f *flow) map[string]any { return r.claimsOf(f, r.ping(f)) }

// postUserinfo is userinfo by POST.
func (r *run) postUserinfo(header http.Header, form url.Values) answer {
	return r.call(http.MethodPost, r.meta.text("userinfo_endpoint"), header, form)
}

// claimsOf checks an answer of userinfo (OpenID Connect Core 1.0 §5.3.2).
func (r *run) claimsOf(f *flow, a answer) map[string]any {
	claims, err := parseObject(a.body)
	if err != nil {
		r.stop("userinfo: %v", err)
	}
	r.checkClaimTypes("userinfo", claims)
	sub := text(claims, "sub")
	if sub == "" {
		r.fail("userinfo: no sub")
	}
	for _, t := range []*jwt{f.front, f.back} {
		if t != nil && text(t.claims, "sub") != sub {
			r.fail("userinfo: sub is %q, but %q in the ID token", sub, text(t.claims, "sub"))
		}
	}
	if value, ok := number(claims["updated_at"]); ok {
		at := time.Unix(int64(value), 0)
		if at.Year() < 1990 || at.After(time.Now().Add(skew)) {
			r.fail("userinfo: updated_at is %v, want seconds since 1970", claims["updated_at"])
		}
	}
	r.checkDistributed(claims)
	return claims
}

// checkDistributed checks aggregated and distributed claims (§5.6.2).
func (r *run) checkDistributed(claims map[string]any) {
	names, hasNames := claims["_claim_names"].(map[string]any)
	sources, hasSources := claims["_claim_sources"].(map[string]any)
	if hasNames != hasSources {
		r.fail("userinfo: one of _claim_names and _claim_sources without the other")
	}
	used := []string{}
	for _, source := range names {
		s, _ := source.(string)
		used = append(used, s)
	}
	for source := range sources {
		if !slices.Contains(used, source) {
			r.fail("userinfo: no claim of _claim_names is from the source %q", source)
		}
	}
}

// missing returns what of want is not in claims.
func missing(claims map[string]any, want []string) []string {
	var absent []string
	for _, name := range want {
		if _, ok := claims[name]; !ok {
			absent = append(absent, name)
		}
	}
	return absent
}
