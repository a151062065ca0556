package oidc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const wellKnown = "/.well-known/openid-configuration"

// metadata is the discovery document.
type metadata struct {
	from    string
	answer  answer
	members map[string]any
}

func (m *metadata) text(name string) string { return text(m.members, name) }

// list returns a member that is an array of strings; false when it is absent.
func (m *metadata) list(name string) ([]string, bool) {
	values, ok := m.members[name].([]any)
	if !ok {
		return nil, false
	}
	return texts(values), true
}

// supports says whether an array has a value.
func (m *metadata) supports(name, value string) bool {
	list, _ := m.list(name)
	return slices.Contains(list, value)
}

func texts(values []any) []string {
	list := make([]string, 0, len(values))
	for _, value := range values {
		list = append(list, fmt.Sprint(value))
	}
	return list
}

// answer is the answer to a call that no browser makes.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// kind returns the media type without its parameters.
func (a answer) kind() string {
	kind, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	return kind
}

// noStore says whether caches have to leave the answer alone.
func (a answer) noStore() bool {
	for _, value := range a.header.Values("Cache-Control") {
		for directive := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(directive), "no-store") {
				return true
			}
		}
	}
	return false
}

// call makes a request without cookies; redirects are not followed. No answer
// ends the module.
func (r *run) call(method, to string, header http.Header, form url.Values) answer {
	ctx, cancel := context.WithTimeout(r.ctx, r.suite.timeout)
	defer cancel()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, to, body)
	if err != nil {
		r.stop("cannot request %q: %v", to, err)
	}
	req.Header.Set("Accept", "application/json")
	if form != nil {
		req.Header.Set("Content-Type", urlEncoded)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := r.log.RoundTrip(req)
	if err != nil {
		r.stop("no answer from %s: %v", to, err)
	}
	read, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		r.stop("no whole answer from %s: %v", to, err)
	}
	return answer{resp.StatusCode, resp.Header, read}
}

// discover reads the discovery document.
func (r *run) discover() {
	r.meta = &metadata{from: strings.TrimSuffix(r.suite.config.Issuer, "/") + wellKnown}
	r.meta.answer = r.call(http.MethodGet, r.meta.from, nil, nil)
	members, err := parseObject(r.meta.answer.body)
	if err != nil {
		r.stop("the discovery document: %v", err)
	}
	r.meta.members = members
}

// setup is what precedes a module: the provider's metadata and keys, and what
// they have to say for the flow at hand.
func (r *run) setup() {
	r.discover()
	for _, name := range []string{"issuer", "authorization_endpoint", "token_endpoint"} {
		if u, err := url.Parse(r.meta.text(name)); err != nil || !u.IsAbs() {
			r.stop("discovery: %s is no URL: %q", name, r.meta.text(name))
		}
	}
	r.readKeys()
	seen := map[string]bool{}
	for i, key := range r.keys.keys {
		kid := key.text("kid")
		if strings.TrimSpace(kid) == "" {
			r.fail("JWKS: key %d has no kid", i)
		} else if seen[kid] {
			r.fail("JWKS: the kid %q occurs twice", kid)
		}
		seen[kid] = true
	}
	const methods = "token_endpoint_auth_methods_supported"
	_, listed := r.meta.list(methods)
	if !r.meta.supports(methods, r.client.auth) && (listed || r.client.auth != authBasic) {
		r.fail("discovery: %s does not list %s", methods, r.client.auth)
	}
	if r.meta.text("userinfo_endpoint") == "" {
		r.stop("discovery: no userinfo_endpoint, which certification requires")
	}
}

// readKeys reads the JWKS and holds it to RFC 7517.
func (r *run) readKeys() {
	a := r.call(http.MethodGet, r.meta.text("jwks_uri"), nil, nil)
	object, err := parseObject(a.body)
	if err != nil || a.status != http.StatusOK {
		r.stop("JWKS: status %d, %v", a.status, err)
	}
	keys, ok := object["keys"].([]any)
	if !ok {
		r.fail("JWKS: no array keys")
	}
	r.keys = &keySet{}
	for i, entry := range keys {
		members, ok := entry.(map[string]any)
		if !ok {
			r.fail("JWKS: key %d is no object", i)
			continue
		}
		for _, private := range []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"} {
			if _, ok := members[private]; ok {
				r.fail("JWKS: key %d shows the private member %s", i, private)
			}
		}
		if members["kty"] == "oct" {
			r.fail("JWKS: key %d is symmetric", i)
		}
		key := publicKey{members: members}
		if key.public, err = parseKey(members); errors.Is(err, errUnknown) {
			r.warn("JWKS: key %d: %v", i, err)
		} else if err != nil {
			r.fail("JWKS: key %d: %v", i, err)
		}
		if alg := key.text("alg"); alg != "" && hashes[alg] == 0 && key.text("use") != "enc" {
			r.warn("JWKS: key %d has the unknown alg %q", i, alg)
		}
		leaf, err := key.leaf()
		if err != nil {
			r.fail("JWKS: x5c of key %d: %v", i, err)
		} else if leaf != nil && !samePublic(leaf, key.public) {
			r.fail("JWKS: x5c of key %d is of another key", i)
		}
		r.keys.keys = append(r.keys.keys, key)
	}
}
