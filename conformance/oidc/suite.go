package oidc

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Suite runs plans against one provider.
type Suite struct {
	// Only, when set, chooses the modules to run.
	Only func(plan, module, variant string) bool
	// Slow also runs the modules that take more than a minute.
	Slow bool

	config  *Config
	client  *http.Transport
	slots   *semaphore.Weighted
	masks   *masks
	timeout time.Duration // of one request
}

// Limits of a run: modules at a time, and how long one may take.
const (
	atOnce      = 8
	moduleLimit = 3 * time.Minute
)

// New returns a suite for the provider of c.
func New(c *Config) (*Suite, error) {
	if err := c.prepare(); err != nil {
		return nil, err
	}
	s := &Suite{
		config: c, slots: semaphore.NewWeighted(atOnce), timeout: 20 * time.Second, masks: &masks{},
		client: &http.Transport{
			// The official suite trusts every certificate too: what is tested is the
			// protocol, and a provider under test may have made its own.
			TLSClientConfig:     &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, //nolint:gosec // see above
			MaxIdleConnsPerHost: 2 * atOnce,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		},
	}
	if c.Connect != "" {
		s.client.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, c.Connect)
		}
	}
	s.masks.secret("password", c.User.Password)
	for _, client := range c.Clients {
		s.masks.basic(client)
	}
	if c.Service != nil {
		s.masks.basic(c.Service)
	}
	return s, nil
}

// Run runs all plans, several modules at a time, and returns the results in the
// order of the plans.
func (s *Suite) Run(ctx context.Context) []Result {
	type job struct {
		plan plan
		step step
	}
	var jobs []job
	for _, p := range plans() {
		for _, step := range p.steps {
			if s.Only == nil || s.Only(p.name, step.name, step.String()) {
				jobs = append(jobs, job{p, step})
			}
		}
	}
	results := make([]Result, len(jobs))
	order := make([]int, len(jobs))
	for i, job := range jobs {
		order[i] = i
		results[i] = Result{
			Plan: job.plan.name, Module: job.step.name, Variant: job.step.String(), Verdict: Fail,
			Findings: []Finding{{Verdict: Fail, Text: "the run ended before the module began"}},
		}
	}
	// Those that wait start first, so that the others run meanwhile.
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(jobs[b].step.waits, jobs[a].step.waits) })
	var all sync.WaitGroup
	for _, i := range order {
		if s.slots.Acquire(ctx, 1) != nil {
			break
		}
		all.Go(func() {
			defer s.slots.Release(1)
			results[i] = s.runModule(ctx, jobs[i].plan, jobs[i].step)
		})
	}
	all.Wait()
	return results
}

// runModule runs one module with fresh cookies.
func (s *Suite) runModule(ctx context.Context, p plan, m step) Result {
	ctx, cancel := context.WithTimeout(ctx, moduleLimit)
	defer cancel()
	start := time.Now()
	r := &run{variant: m.variant, ctx: ctx, suite: s, log: &transcript{base: s.client}}
	r.browser = r.newBrowser()
	r.execute(func(r *run) {
		role := cmp.Or(m.client, p.client)
		if m.dynamic {
			r.skip("no dynamic registration (document 2 offers none)")
		}
		if m.waits >= 60 && !s.Slow {
			r.skip("waits %d s: only when asked for (-slow)", m.waits)
		}
		if r.client = s.config.Clients[role]; r.client == nil {
			r.skip("no client is configured as %q", role)
		}
		if !m.bare {
			r.setup()
		}
		m.run(r)
	})
	return Result{
		Plan: p.name, Module: m.name, Variant: m.String(), Verdict: r.verdict(),
		Findings: r.findings, Took: time.Since(start), exchanges: r.log.exchanges,
	}
}

// isClient says whether a URL belongs to a client: its origin, or where a client
// shares that with the provider, the beginning of its path.
func (s *Suite) isClient(u *url.URL) bool {
	issuer, _ := url.Parse(s.config.Issuer)
	for _, client := range s.config.Clients {
		for _, own := range []string{client.RedirectURI, client.PostLogoutRedirectURI} {
			of, err := url.Parse(own)
			if own == "" || err != nil || !sameOrigin(of, u) {
				continue
			}
			if !sameOrigin(of, issuer) || of.Path == u.Path {
				return true
			}
		}
	}
	return false
}
