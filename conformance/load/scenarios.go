package load

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// scenario is an operation that every side does in its own way.
type scenario struct {
	name string
	// algorithm is what an instance has to sign with, "" when it does not matter.
	algorithm string
	// floor is what cannot be left out: for each request STEPS/BYTES (command
	// floor), and after a space what it stands for.
	floor []string
	// of returns the calls of the workers, or errMissing. It is asked before every
	// repetition, which lasts so long.
	of func(ctx context.Context, p *provider, length time.Duration) ([]call, error)
}

// errMissing is what a provider returns that does not have a scenario.
var errMissing = errors.New("it cannot do that")

// steps returns the requests of the floor, without what they stand for.
func (s scenario) steps() (steps []string) {
	for _, line := range s.floor {
		step, _, _ := strings.Cut(line, " ")
		steps = append(steps, step)
	}
	return steps
}

func scenarios() []scenario {
	all := []scenario{
		{"discovery", "", []string{"handler/3000 the document, from memory"}, fixed(func(p *provider) []byte {
			return get(p.ready.Issuer + "/.well-known/openid-configuration")
		})},
		{"keys", "", []string{"handler/1000 the document, from memory"}, fixed(func(p *provider) []byte { return get(p.endpoints.Keys) })},
		{"client_credentials, opaque", "", []string{"batch/250 the token, stored with those that come at the same time"}, clientCredentials("opaque")},
		{"client_credentials, opaque, for a project's API", "", []string{"batch/250 the token, stored with those that come at the same time"}, clientCredentials("for a project")},
		{"client_credentials, JWT RS256", "RS256", []string{"RS256/900 the token; nothing is stored"}, clientCredentials("RS256")},
		{"client_credentials, JWT ES256", "ES256", []string{"ES256/700 the token; nothing is stored"}, clientCredentials("ES256")},
		{"introspect, opaque, of a service", "", []string{"select/600 the token by its hash"}, introspectService},
		{"introspect, opaque, of a user", "RS256", []string{"select/600 the token by its hash"}, introspect("RS256")},
		{"introspect, JWT RS256", "RS256", []string{"select/600 the token by its jti; its signature is not verified"}, introspect("JWT RS256")},
		{"userinfo", "RS256", []string{"select/300 the token by its hash"}, userinfo},
		{"refresh, ID token RS256", "RS256", []string{"commit+RS256/1500 the new token for the old one; the ID token"}, refresh("RS256")},
		{"refresh, ID token ES256", "ES256", []string{"commit+ES256/1200 the new token for the old one; the ID token"}, refresh("ES256")},
	}
	for _, algorithm := range []string{"RS256", "ES256"} {
		all = append(all,
			scenario{"code + PKCE with a session, " + algorithm, algorithm, []string{
				"select/0 authorize: the session", "commit+" + algorithm + "/1500 token: the tokens; the ID token",
			}, withSession(algorithm)},
			scenario{"login without a session, " + algorithm, algorithm, []string{
				"handler/3000 the page for the login name", "select/3000 the page for the password, of that user",
				"commit/0 the session (the password hash is not in this floor)", "commit+" + algorithm + "/1500 token: the tokens; the ID token",
			}, withoutSession(algorithm)})
	}
	all = append(all, scenario{"revoke", "ES256", []string{"batch/0 that it is revoked"}, revoke})
	// Those of an algorithm together: an instance changes its key only once.
	var ordered []scenario
	for _, algorithm := range []string{"", "RS256", "ES256"} {
		for _, s := range all {
			if s.algorithm == algorithm {
				ordered = append(ordered, s)
			}
		}
	}
	return ordered
}

// same returns one call for every worker.
func same(c call) []call {
	calls := make([]call, connections)
	for i := range calls {
		calls[i] = c
	}
	return calls
}

// fixed sends one request again and again.
func fixed(of func(p *provider) []byte) func(context.Context, *provider, time.Duration) ([]call, error) {
	return func(_ context.Context, p *provider, _ time.Duration) ([]call, error) {
		request := of(p)
		return same(func(c *conn) error {
			_, err := c.expect(request, http.StatusOK)
			return err
		}), nil
	}
}

func (p *provider) credentials(kind string) ([]byte, error) {
	s, ok := p.services[kind]
	if !ok {
		return nil, errMissing
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	for name, values := range s.ask {
		form[name] = values
	}
	return post(p.endpoints.Token, form, "Authorization", s.basic()), nil
}

func clientCredentials(kind string) func(context.Context, *provider, time.Duration) ([]call, error) {
	return func(_ context.Context, p *provider, _ time.Duration) ([]call, error) {
		request, err := p.credentials(kind)
		if err != nil {
			return nil, err
		}
		c, err := dial(p.addr)
		if err != nil {
			return nil, err
		}
		defer c.close()
		a, err := c.expect(request, http.StatusOK)
		if err != nil {
			return nil, err
		}
		token, err := member(a.body, "access_token")
		if err != nil {
			return nil, err
		}
		if isJWT := strings.Count(token, ".") == 2; isJWT != strings.HasSuffix(kind, "S256") {
			return nil, fmt.Errorf("a token that should be %s: %.40s…", kind, token)
		}
		return same(func(c *conn) error {
			_, err := c.expect(request, http.StatusOK)
			return err
		}), nil
	}
}

// logins logs every worker in.
func logins(ctx context.Context, p *provider, kind string) (registered, []tokens, error) {
	app, ok := p.apps[kind]
	if !ok {
		return app, nil, errMissing
	}
	all := make([]tokens, connections)
	return app, all, together(connections, func(worker int) error {
		c, err := dial(p.addr)
		if err != nil {
			return err
		}
		defer c.close()
		all[worker], err = p.login(ctx, c, app, p.people[worker])
		return err
	})
}

// introspectService introspects one token for each worker, of client_credentials.
func introspectService(_ context.Context, p *provider, _ time.Duration) ([]call, error) {
	kind := "for a project"
	if _, ok := p.services[kind]; !ok { // whose tokens are for nobody in particular
		kind = "opaque"
	}
	request, err := p.credentials(kind)
	if err != nil {
		return nil, err
	}
	c, err := dial(p.addr)
	if err != nil {
		return nil, err
	}
	defer c.close()
	all := make([]tokens, connections)
	for i := range all {
		a, err := c.expect(request, http.StatusOK)
		if err == nil {
			all[i].access, err = member(a.body, "access_token")
		}
		if err != nil {
			return nil, err
		}
	}
	return p.introspections(all), nil
}

func introspect(kind string) func(context.Context, *provider, time.Duration) ([]call, error) {
	return func(ctx context.Context, p *provider, _ time.Duration) ([]call, error) {
		_, all, err := logins(ctx, p, kind)
		if err != nil {
			return nil, err
		}
		return p.introspections(all), nil
	}
}

func (p *provider) introspections(all []tokens) []call {
	auth := p.ready.Clients["api"].basic()
	return each(all, func(t tokens) call {
		request := post(p.endpoints.Introspection, url.Values{"token": {t.access}}, "Authorization", auth)
		return func(c *conn) error {
			a, err := c.expect(request, http.StatusOK)
			if err == nil && !strings.Contains(string(a.body[:min(len(a.body), 2000)]), `"active":true`) {
				err = fmt.Errorf("the token is not active: %.200s", a.body)
			}
			return err
		}
	})
}

func each(all []tokens, of func(tokens) call) []call {
	calls := make([]call, len(all))
	for i, t := range all {
		calls[i] = of(t)
	}
	return calls
}

func userinfo(ctx context.Context, p *provider, _ time.Duration) ([]call, error) {
	_, all, err := logins(ctx, p, "RS256")
	if err != nil {
		return nil, err
	}
	return each(all, func(t tokens) call {
		request := get(p.endpoints.Userinfo, "Authorization", "Bearer "+t.access)
		return func(c *conn) error {
			_, err := c.expect(request, http.StatusOK)
			return err
		}
	}), nil
}

// refresh lets every worker use the refresh token of its last answer.
func refresh(algorithm string) func(context.Context, *provider, time.Duration) ([]call, error) {
	return func(ctx context.Context, p *provider, _ time.Duration) ([]call, error) {
		app, all, err := logins(ctx, p, algorithm)
		if err != nil {
			return nil, err
		}
		auth := app.basic()
		return each(all, func(t tokens) call {
			token := t.refresh
			return func(c *conn) error {
				a, err := c.expect(post(p.endpoints.Token, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}, "Authorization", auth), http.StatusOK)
				if err != nil {
					return err
				}
				token, err = member(a.body, "refresh_token")
				return err
			}
		}), nil
	}
}

// silent returns the call that gets tokens with the cookies of a session, and
// what it is given to do with them.
func (p *provider) silent(app registered, cookies string, then func(answer) error) call {
	start, auth := get(p.authorize(app, "none"), "Cookie", cookies), app.basic()
	return func(c *conn) error {
		a, err := c.send(start)
		for hops := 0; err == nil && !strings.HasPrefix(a.location, app.RedirectURI); hops++ {
			if a.status/100 != 3 || hops == 5 {
				return fmt.Errorf("authorize: %d, to %q: %.200s", a.status, a.location, a.body)
			}
			next, parseErr := url.Parse(p.endpoints.Authorization)
			if parseErr == nil {
				next, parseErr = next.Parse(a.location)
			}
			if parseErr != nil {
				return parseErr
			}
			a, err = c.send(get(next.String(), "Cookie", cookies))
		}
		if err != nil {
			return err
		}
		back, err := url.Parse(a.location)
		if err != nil {
			return err
		}
		code := back.Query().Get("code")
		if code == "" {
			return fmt.Errorf("no code: %s", a.location)
		}
		a, err = p.redeem(c, app, auth, code)
		if err == nil && then != nil {
			err = then(a)
		}
		return err
	}
}

func withSession(algorithm string) func(context.Context, *provider, time.Duration) ([]call, error) {
	return func(ctx context.Context, p *provider, _ time.Duration) ([]call, error) {
		app, all, err := logins(ctx, p, algorithm)
		if err != nil {
			return nil, err
		}
		return each(all, func(t tokens) call { return p.silent(app, t.cookies, nil) }), nil
	}
}

func withoutSession(algorithm string) func(context.Context, *provider, time.Duration) ([]call, error) {
	return func(ctx context.Context, p *provider, _ time.Duration) ([]call, error) {
		app, ok := p.apps[algorithm]
		if !ok {
			return nil, errMissing
		}
		calls := make([]call, connections)
		for i, who := range p.people {
			calls[i] = func(c *conn) error {
				_, err := p.login(ctx, c, app, who)
				return err
			}
		}
		return calls, nil
	}
}

// pool is a heap of access tokens that many workers take from.
type pool struct {
	mu     sync.Mutex
	tokens []string
	next   atomic.Int64
}

func (s *pool) add(a answer) error {
	token, err := member(a.body, "access_token")
	if err == nil {
		s.mu.Lock()
		s.tokens = append(s.tokens, token)
		s.mu.Unlock()
	}
	return err
}

// revoke revokes tokens that are made before, for as long as they will be
// revoked: by client_credentials, or where a service cannot revoke with a session.
func revoke(ctx context.Context, p *provider, length time.Duration) ([]call, error) {
	c, err := dial(p.addr)
	if err != nil {
		return nil, err
	}
	defer c.close()
	stock := &pool{}
	auth, makers, err := p.tokenMakers(ctx, c, stock)
	if err != nil {
		return nil, err
	}
	made, err := measureOn(p, makers, length)
	if err != nil {
		return nil, fmt.Errorf("making tokens to revoke: %w", err)
	}
	last := stock.tokens[len(stock.tokens)-1]
	if active, err := p.active(c, last); err != nil || !active {
		return nil, fmt.Errorf("of %d tokens the last is not active (%w)", made.calls, err)
	}
	return same(func(c *conn) error {
		i := stock.next.Add(1) - 1
		if i >= int64(len(stock.tokens)) {
			return errDone
		}
		_, err := c.expect(post(p.endpoints.Revocation, url.Values{"token": {stock.tokens[i]}}, "Authorization", auth), http.StatusOK)
		return err
	}), nil
}

// tokenMakers returns calls that put access tokens into stock, and who may
// revoke them.
func (p *provider) tokenMakers(ctx context.Context, c *conn, stock *pool) (auth string, makers []call, err error) {
	request, err := p.credentials("opaque")
	if err != nil {
		return "", nil, err
	}
	a, err := c.expect(request, http.StatusOK)
	if err != nil {
		return "", nil, err
	}
	token, err := member(a.body, "access_token")
	if err != nil {
		return "", nil, err
	}
	auth = p.services["opaque"].basic()
	before, err := p.active(c, token)
	if err != nil {
		return "", nil, err
	}
	a, err = c.send(post(p.endpoints.Revocation, url.Values{"token": {token}}, "Authorization", auth))
	if err != nil {
		return "", nil, err
	}
	after, err := p.active(c, token)
	if err != nil {
		return "", nil, err
	}
	if a.status == http.StatusOK && before && !after {
		return auth, same(func(c *conn) error {
			a, err := c.expect(request, http.StatusOK)
			if err != nil {
				return err
			}
			return stock.add(a)
		}), nil
	}
	app, all, err := logins(ctx, p, "ES256")
	if err != nil {
		return "", nil, err
	}
	return app.basic(), each(all, func(t tokens) call { return p.silent(app, t.cookies, stock.add) }), nil
}

// measureOn measures calls on new connections to a provider.
func measureOn(p *provider, calls []call, length time.Duration) (sample, error) {
	return measureAt(p.addr, p.of, calls, length)
}

func measureAt(addr string, of processes, calls []call, length time.Duration) (sample, error) {
	conns := make([]*conn, len(calls))
	for i := range conns {
		c, err := dial(addr)
		if err != nil {
			return sample{}, err
		}
		defer c.close()
		conns[i] = c
	}
	return measure(of, calls, conns, length)
}
