package login

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	sessionv3 "github.com/writ-id/writ/gen/proto/writ/session/v3alpha"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/token"
	"github.com/writ-id/writ/impl/oidc/login/browser"
	"github.com/writ-id/writ/impl/oidc/login/federation"
	"github.com/writ-id/writ/impl/oidc/login/flow"
	"github.com/writ-id/writ/impl/oidc/login/page"
	"github.com/writ-id/writ/impl/oidc/login/step"
)

// maxFlow bounds a sealed flow, which has to fit into a URL.
const maxFlow = 16 << 10

// visit is one request to a page: it reads the request, has a step taken, and writes what
// comes of it.
type visit struct {
	*Pages
	provider Provider
	w        http.ResponseWriter
	r        *http.Request
	browser  *browser.Browser
	flow     *flow.Flow
	words    page.Words
}

// browser returns the browser of a request.
func (p *Pages) browser(r *http.Request, instance *policy.Instance) *browser.Browser {
	return p.browsers.Of(browser.Request{
		Instance: instance, Jar: browser.NewJar(r.Cookies(), p.secure(r)), Host: r.Host,
		Origin: func(host string) string {
			other := *r
			other.Host = host
			return p.Issuer(&other)
		},
		Agent: &sessionv3.UserAgent{Ip: policy.RequestFrom(r.Context()).ClientAddress, Description: page.Shorten(r.UserAgent(), 500)},
	})
}

// visit returns a request to a page, of a login that is not read yet.
func (p *Pages) visit(w http.ResponseWriter, r *http.Request, instance *policy.Instance, provider Provider) *visit {
	v := &visit{Pages: p, provider: provider, w: w, r: r, browser: p.browser(r, instance), flow: flow.New(flow.Asked{}, flow.Proof{}, "", p.Now())}
	v.words = p.words(r, instance, "")
	return v
}

// resume goes on with a login that was read.
func (v *visit) resume(f *flow.Flow) {
	v.flow = f
	asked := f.Asked()
	v.words = v.renderer.Words(v.r.Context(), hostOf(v.r), v.browser.Instance.ID, asked.OrgID, asked.Language, v.r.Header.Get("Accept-Language"))
}

// open reads a flow.
func (v *visit) open(sealed string) error {
	m := &tokenv1.Flow{}
	err := v.Box.Open(v.r.Context(), v.browser.Instance.ID, token.Flow, sealed, m)
	if errors.Is(err, token.ErrInvalid) {
		return errExpired
	}
	if err != nil {
		return err
	}
	f := flow.Of(m)
	if !f.IsRecent(v.Now()) {
		return errExpired
	}
	v.resume(f)
	return nil
}

// serve serves a page of a login: GET shows it, POST takes an answer.
func (v *visit) serve(p *flow.Page) error {
	if v.r.Method == http.MethodPost {
		if err := v.readForm(v.w, v.r); err != nil {
			return err
		}
	}
	sealed := v.r.URL.Query().Get("flow")
	switch {
	case v.r.Method == http.MethodPost:
		sealed = v.r.PostForm.Get("flow")
	case sealed == "" && p.Path != flow.PathName: // a page by itself: begin at the first
		http.Redirect(v.w, v.r, flow.PathName, http.StatusSeeOther)
		return nil
	case sealed == "":
		v.flow.Bind(v.browser.Jar.Bind())
		sessions, err := v.browser.Load(v.r.Context(), v.flow)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(sessions, func(k browser.Session) bool { return k.IsComplete(v.Now()) }) {
			return v.to(flow.PathAccounts) // they say who is signed in
		}
		return v.step(p, nil)
	}
	if err := v.open(sealed); err != nil {
		return err
	}
	if !v.browser.Jar.Owns(v.flow.Browser()) { // SEC-142
		return errExpired
	}
	if v.r.Method != http.MethodPost {
		return v.step(p, nil)
	}
	return v.step(p, v.r.PostForm)
}

// step has a page show itself or take an answer, if it may be opened; else the browser goes to
// the page that is due. form is nil when it shows.
func (v *visit) step(p *flow.Page, form url.Values) error {
	var k *browser.Session
	var err error
	if _, signsIn := v.flow.State().(flow.SignIn); signsIn && p.NeedsSession() {
		if k, err = v.browser.Current(v.r.Context(), v.flow); err != nil {
			return err
		}
	}
	due := flow.Next(v.flow, stateOf(k), v.Now())
	if !p.MayOpen(v.flow, stateOf(k), due) {
		return v.to(due.Path())
	}
	q, handler := &step.Request{Flow: v.flow, Browser: v.browser, Session: k, Form: form, Words: v.words}, v.steps.Of(p)
	q.Asks = func(ctx context.Context, k *flow.Session) (*step.Consent, error) {
		return v.provider.Asks(ctx, v.r.Host, v.browser.Instance, v.flow, sessionOf(k, v.Now()))
	}
	if form == nil {
		answer, err := handler.Show(v.r.Context(), q)
		if err != nil {
			return err
		}
		return v.answer(answer)
	}
	answer, err := v.take(p, func() (step.Answer, error) { return handler.Take(v.r.Context(), q) })
	if err != nil {
		return err
	}
	return v.answer(answer)
}

// take has an answer taken, as the table says: counted for the address that it comes from
// unless it is right, and answered in time.
func (v *visit) take(p *flow.Page, take func() (step.Answer, error)) (answer step.Answer, err error) {
	if p.Tried {
		giveBack, wait := v.Tries.Take(v.browser.Instance.ID, policy.RequestFrom(v.r.Context()).ClientAddress)
		if wait > 0 {
			v.w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
			return answer, refuse(http.StatusTooManyRequests, "too_many_tries")
		}
		defer func() {
			if !answer.Counts {
				giveBack()
			}
		}()
	}
	if !p.InTime {
		return take()
	}
	err = inTime(v.r.Context(), v.Users.Hashes.Quantum(), func() (err error) {
		answer, err = take()
		return err
	})
	return answer, err
}

// answer writes what comes of a step.
func (v *visit) answer(a step.Answer) error {
	if a.Event != nil {
		v.flow.On(a.Event)
		if is, ok := a.Event.(flow.Refused); ok {
			policy.RequestFrom(v.r.Context()).Reason = is.Reason
		}
	}
	switch {
	case a.Page != nil:
		return v.render(a.Page, a.Mistakes)
	case a.Address != "":
		v.w.Header().Set("Referrer-Policy", "no-referrer")
		v.redirect(a.Address)
		return nil
	case a.To != "":
		return v.to(a.To)
	case a.Cancel:
		leave(v.w, v.browser.Jar)
		v.provider.Cancel(v.w, v.r, v.browser.Instance, v.flow)
		return nil
	}
	return v.advance()
}

// advance goes on by what is stored now: to the page that is due, or back to who began the
// login.
func (v *visit) advance() error {
	ctx := v.r.Context()
	k, err := v.browser.Current(ctx, v.flow)
	if err != nil {
		return err
	}
	due := flow.Next(v.flow, stateOf(k), v.Now())
	if due == flow.LinkIt {
		event, err := v.federation.Link(ctx, &federation.Login{Flow: v.flow, Browser: v.browser, Language: v.words.Language()}, k)
		if err != nil {
			return err
		}
		return v.answer(step.Answer{Event: event})
	}
	event, err := v.steps.Challenge(ctx, v.browser, k, due)
	if err != nil {
		return err
	}
	if event != nil {
		v.flow.On(event)
	}
	if due != flow.Nothing || v.flow.Asked().Request == "" {
		return v.to(due.Path())
	}
	leave(v.w, v.browser.Jar)
	v.provider.Finish(v.w, v.r, v.browser.Instance, v.flow, sessionOf(&k.Session, v.Now()))
	return nil
}

// to sends the browser to a page, with the flow as it is now.
func (v *visit) to(path string) error {
	sealed, err := v.seal(v.r.Context(), v.browser.Instance.ID, v.flow)
	if err == nil {
		v.redirect(path + "?flow=" + sealed)
	}
	return err
}

// redirect sends the browser to an address.
func (v *visit) redirect(address string) {
	leave(v.w, v.browser.Jar)
	http.Redirect(v.w, v.r, address, http.StatusSeeOther)
}

// render shows a page of the login with the mistakes that were made on it.
func (v *visit) render(p *page.Page, mistakes []page.Mistake) error {
	v.flow.Told()
	sealed, err := v.seal(v.r.Context(), v.browser.Instance.ID, v.flow)
	if err != nil {
		return err
	}
	for _, one := range mistakes {
		policy.RequestFrom(v.r.Context()).Reason = one.Key
	}
	p.Login(v.flow, sealed, mistakes)
	leave(v.w, v.browser.Jar)
	targets := page.FormTargets(v.flow.Asked().Request)
	if len(p.Providers) > 0 {
		targets = page.Beyond(targets, v.secure(v.r))
	}
	v.show(v.w, v.r, p, targets)
	return nil
}

// leave gives the browser the cookies that it is to keep; it comes before whatever writes the
// answer.
func leave(w http.ResponseWriter, jar *browser.Jar) {
	for _, one := range jar.Cookies() {
		http.SetCookie(w, one)
	}
	w.Header().Set("Cache-Control", "no-store")
}

// seal returns a flow as it travels.
func (p *Pages) seal(ctx context.Context, instanceID string, f *flow.Flow) (string, error) {
	sealed, err := p.Box.Seal(ctx, instanceID, token.Flow, f.Message())
	if len(sealed) > maxFlow {
		err = refuse(http.StatusRequestEntityTooLarge, "too_large")
	}
	return sealed, err
}

// stateOf returns what a flow knows of a session.
func stateOf(k *browser.Session) *flow.Session {
	if k == nil {
		return nil
	}
	return &k.Session
}

// inTime runs what must not tell by its time what it found, and answers at the next
// multiple of a quantum (SEC-170).
func inTime(ctx context.Context, quantum time.Duration, do func() error) error {
	begun := time.Now()
	err := do()
	timer := time.NewTimer(quantum - time.Since(begun)%quantum)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return err
}
