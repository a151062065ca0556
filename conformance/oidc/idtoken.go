package oidc

import (
	"slices"
	"strings"
	"time"
)

// skew is how far clocks may be apart.
const skew = 5 * time.Minute

// idToken checks an ID token (OpenID Connect Core 1.0 §2, §3.1.3.7) that
// answers q. One that is no JWT ends the module.
func (r *run) idToken(q *request, raw string) *jwt {
	t, err := parseJWT(raw)
	if err != nil {
		r.stop("the ID token %q: %v", raw, err)
	}
	if iss := text(t.claims, "iss"); iss != r.meta.text("issuer") {
		r.fail("ID token: iss is %q, want the issuer %q", iss, r.meta.text("issuer"))
	}
	if !slices.Contains(audience(t.claims["aud"]), q.client.ClientID) {
		r.fail("ID token: aud is %v, want the client %s", t.claims["aud"], q.client.ClientID)
	}
	r.checkTimes(t)
	if acr, ok := t.claims["acr"]; ok && text(t.claims, "acr") == "" {
		r.fail("ID token: acr is %v, want a string", acr)
	}
	if nonce, sent := q.params["nonce"]; sent && t.claims["nonce"] != nonce {
		r.fail("ID token: nonce is %v, want the one sent, %q", t.claims["nonce"], nonce)
	}
	r.checkSubject(t)
	r.checkClaimTypes("ID token", t.claims)
	if err := r.keys.verify(t); err != nil {
		r.fail("ID token: %v", err)
	}
	return t
}

func (r *run) checkSubject(t *jwt) {
	sub := text(t.claims, "sub")
	if sub == "" || len(sub) > 255 || strings.ContainsFunc(sub, func(c rune) bool { return c < 0x20 || c > 0x7E }) {
		r.fail("ID token: sub is %v, want 1 to 255 ASCII characters", t.claims["sub"])
	}
}

func (r *run) checkTimes(t *jwt) {
	now := time.Now()
	between := func(name string, required bool, from, to time.Time) {
		value, ok := t.claims[name]
		if !ok {
			if required {
				r.fail("ID token: no %s", name)
			}
			return
		}
		seconds, ok := number(value)
		at := time.Unix(int64(seconds), 0)
		if !ok || at.Before(from) || at.After(to) {
			r.fail("ID token: %s is %v, want a time from %d to %d", name, value, from.Unix(), to.Unix())
		}
	}
	between("exp", true, now.Add(-skew), now.AddDate(50, 0, 0))
	between("iat", true, now.Add(-skew), now.Add(skew))
	between("auth_time", false, now.AddDate(-1, 0, 0), now.Add(skew))
}

// audience returns aud as a list (RFC 7519 §4.1.3).
func audience(value any) []string {
	switch value := value.(type) {
	case string:
		return []string{value}
	case []any:
		return texts(value)
	}
	return nil
}

// checkHash checks at_hash or c_hash, when it is there.
func (r *run) checkHash(t *jwt, name, of string, required bool) {
	got, ok := t.claims[name]
	if !ok {
		if required {
			r.fail("ID token: no %s", name)
		}
		return
	}
	if want := halfHash(text(t.header, "alg"), of); got != want {
		r.fail("ID token: %s is %v, want %s", name, got, want)
	}
}

// What an ID token may have without a request for more claims.
var ownClaims = []string{
	"iss", "sub", "aud", "exp", "iat", "auth_time", "nonce", "acr", "amr", "azp", "at_hash", "c_hash", "s_hash", "nbf",
	"jti", "sid", "txn", "openbanking_intent_id",
}

// checkSlim warns of claims that nobody asked for.
func (r *run) checkSlim(t *jwt) {
	for name := range t.claims {
		if !slices.Contains(ownClaims, name) {
			r.warn("ID token: the claim %s was not asked for", name)
		}
	}
}
