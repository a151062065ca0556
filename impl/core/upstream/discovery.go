package upstream

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"
)

// metadata is where a provider is asked (OpenID Connect Discovery, section 3; RFC 8414).
type metadata struct {
	Issuer                string   `json:"issuer"`
	AuthorizationEndpoint string   `json:"authorization_endpoint"`
	TokenEndpoint         string   `json:"token_endpoint"`
	UserinfoEndpoint      string   `json:"userinfo_endpoint"`
	EndSessionEndpoint    string   `json:"end_session_endpoint"`
	KeysURI               string   `json:"jwks_uri"`
	AuthMethods           []string `json:"token_endpoint_auth_methods_supported"`
	IssuerInResponses     bool     `json:"authorization_response_iss_parameter_supported"`
}

// authStyle is how the client authenticates: by a header unless the provider does not
// take that. What says nothing about itself is tried.
func (at *metadata) authStyle(d dialect) oauth2.AuthStyle {
	switch {
	case d.inBody, len(at.AuthMethods) > 0 && !slices.Contains(at.AuthMethods, "client_secret_basic"):
		return oauth2.AuthStyleInParams
	case d.issuer == nil:
		return oauth2.AuthStyleAutoDetect
	}
	return oauth2.AuthStyleInHeader
}

// endpoints returns where a provider is asked.
func (c *Client) endpoints(ctx context.Context, p *Provider) (*metadata, error) {
	of, ok := p.Type.dialect()
	if !ok {
		return nil, problem(Setup, "providers of the type %s are not known", p.Type)
	}
	if of.issuer == nil {
		at := of.endpoints(p)
		return at, at.check()
	}
	issuer := of.issuer(p)
	return c.metadata.get(ctx, p.pool()+" "+issuer, false, func(ctx context.Context) (*metadata, error) {
		at := &metadata{}
		if err := c.document(ctx, p, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration", at); err != nil {
			return nil, err
		}
		same := strings.TrimSuffix(at.Issuer, "/") == strings.TrimSuffix(issuer, "/")
		if of.isIssuer != nil {
			same = of.isIssuer(p, at.Issuer, "")
		}
		if !same {
			return nil, problem(Setup, "the document names another issuer")
		}
		if !secure(at.KeysURI) {
			return nil, problem(Setup, "the address of the keys is not one of https")
		}
		return at, at.check()
	})
}

// check refuses endpoints that nothing secret may be sent to.
func (at *metadata) check() error {
	for name, address := range map[string]string{"authorization": at.AuthorizationEndpoint, "token": at.TokenEndpoint, "userinfo": at.UserinfoEndpoint, "end session": at.EndSessionEndpoint} {
		if (address != "" || name == "authorization" || name == "token") && !secure(address) {
			return problem(Setup, "the address of the %s endpoint is not one of https", name)
		}
	}
	return nil
}

// secure reports whether an address can be a provider's: one of https, or of a server on
// this machine, which package outgoing reaches in development only.
func secure(address string) bool {
	at, err := url.Parse(address)
	if err != nil || at.Host == "" || at.User != nil || at.Fragment != "" {
		return false
	}
	host := at.Hostname()
	return at.Scheme == "https" || at.Scheme == "http" && (host == "localhost" || host == "127.0.0.1" || host == "::1")
}

// document reads a JSON document of a provider.
func (c *Client) document(ctx context.Context, p *Provider, address string, into any) error {
	if !secure(address) {
		return problem(Setup, "the address of the provider is not one of https")
	}
	answer, err := c.out.Fetch(ctx, p.pool(), address, http.Header{"Accept": {"application/json"}}, maxAnswer)
	if err != nil {
		return unreachable(err)
	}
	if answer.Status != http.StatusOK {
		return problem(Unreachable, "the answer has the status %d", answer.Status)
	}
	if err := json.Unmarshal(answer.Body, into); err != nil {
		return problem(Invalid, "the answer is not the JSON that was expected")
	}
	return nil
}

// How long things are remembered. What is asked for anew, because a key is not known,
// is asked for once in renewEvery; what could not be had, once in failedFor.
const (
	rememberedFor = time.Hour
	renewEvery    = 5 * time.Second // a provider that rotates its keys is not waited for longer
	failedFor     = 5 * time.Second
	// maxRemembered bounds what tenants can make a node remember (SEC-293).
	maxRemembered = 2000
)

// memory remembers documents. Who asks at the same time waits for one answer.
type memory[T any] struct {
	now     func() time.Time
	mu      sync.Mutex
	entries map[string]remembered[T]
	group   singleflight.Group
}

type remembered[T any] struct {
	value T
	err   error
	at    time.Time
}

func newMemory[T any](now func() time.Time) *memory[T] {
	return &memory[T]{now: now, entries: map[string]remembered[T]{}}
}

// get returns what is remembered, or loads it; anew asks for something newer.
func (m *memory[T]) get(ctx context.Context, key string, anew bool, load func(context.Context) (T, error)) (T, error) {
	m.mu.Lock()
	kept, ok := m.entries[key]
	m.mu.Unlock()
	age := m.now().Sub(kept.at)
	switch {
	case !ok || age < 0:
	case kept.err != nil && age < failedFor, kept.err == nil && anew && age < renewEvery, kept.err == nil && !anew && age < rememberedFor:
		return kept.value, kept.err
	}
	done := m.group.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Timeout)
		defer cancel()
		value, err := load(ctx)
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.entries) >= maxRemembered {
			clear(m.entries)
		}
		m.entries[key] = remembered[T]{value, err, m.now()}
		return value, err
	})
	select {
	case result := <-done:
		value, _ := result.Val.(T)
		return value, result.Err
	case <-ctx.Done():
		var none T
		return none, unreachable(ctx.Err())
	}
}
