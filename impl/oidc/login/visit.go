package login

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/token"
)

// flowLifetime is how long a login may take, and how long a form is good.
const flowLifetime = time.Hour

const (
	// maxFlow bounds a sealed flow, which has to fit into a URL.
	maxFlow = 16 << 10
	// maxForm bounds the body of a form; a sealed flow is the longest of its fields.
	maxForm = 64 << 10
)

// visit is one request to a page.
type visit struct {
	*Pages
	provider Provider // of the pages' own requests
	w        http.ResponseWriter
	r        *http.Request
	instance *policy.Instance
	began    time.Time // before anything is proven
	cookies  *cookies
	changed  bool // whether the browser is to get other session tokens
	flow     *tokenv1.Flow
	words    words
	form     url.Values       // of a POST
	sessions []browserSession // those of the browser, once they were read
	spent    bool             // whether the try counts: it was wrong, or had a message sent
}

// problem is a Problem on the way to the error page.
type problem struct{ Problem }

// Error implements error.
func (p *problem) Error() string { return p.Code }

func refuse(status int, code string) error { return &problem{Problem{Status: status, Code: code}} }

// errExpired is the answer to a flow or a form that is too old, of another browser
// or none at all: which of them is not told.
var errExpired = refuse(http.StatusBadRequest, "login_expired")

// serve serves a page.
func (p *Pages) serve(w http.ResponseWriter, r *http.Request, s step, provider Provider) error {
	instance, err := p.Instance(r)
	if err != nil {
		return err
	}
	policy.RequestFrom(r.Context()).Instance = instance.ID
	v := &visit{Pages: p, provider: provider, w: w, r: r, instance: instance, began: p.Now(), cookies: readCookies(r, p.secure(r)), flow: &tokenv1.Flow{}}
	v.words = p.wordsFor(r, instance, "", "")
	switch {
	case r.URL.Path == pathDoor:
		return serveDoor(v)
	case r.URL.Path == pathSignedOut && r.Method == http.MethodGet:
		return serveSignedOut(v)
	case strings.HasPrefix(r.URL.Path, pathCallback):
		return serveCallback(v)
	case r.URL.Path == pathBegin && r.Method == http.MethodGet:
		return takeUp(v, r.URL.Query().Get("flow"))
	case s.show != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		if r.URL.Query().Get("flow") == "" {
			if r.URL.Path != pathName { // a page by itself: begin at the first
				http.Redirect(w, r, pathName, http.StatusSeeOther)
				return nil
			}
			v.flow = &tokenv1.Flow{Browser: v.cookies.bind(w), StartedAt: p.Now().Unix()}
			signedIn, err := v.signedIn()
			if err != nil {
				return err
			}
			if signedIn {
				return v.due("") // the accounts say so
			}
		} else if err := v.open(r.URL.Query().Get("flow")); err != nil {
			return err
		}
	case r.Method == http.MethodPost && s.take != nil:
		if err := p.readForm(w, r); err != nil {
			return err
		}
		v.form = r.PostForm
		if err := v.open(v.form.Get("flow")); err != nil {
			return err
		}
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		return refuse(http.StatusMethodNotAllowed, "method_not_allowed")
	}
	v.words = p.wordsFor(r, instance, v.flow.GetOrgId(), v.flow.GetLanguage())
	if r.Method != http.MethodPost {
		return s.show(v)
	}
	if s.tried {
		giveBack, wait := p.Tries.Take(instance.ID, policy.RequestFrom(r.Context()).ClientAddress)
		if wait > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
			return refuse(http.StatusTooManyRequests, "too_many_tries")
		}
		defer func() {
			if !v.spent {
				giveBack()
			}
		}()
	}
	return s.take(v)
}

// readForm reads a form that one of our own pages sent (SEC-143).
func (p *Pages) readForm(w http.ResponseWriter, r *http.Request) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return refuse(http.StatusUnsupportedMediaType, "unsupported_media_type")
	}
	if !sameOrigin(r, p.Issuer(r)) {
		return refuse(http.StatusForbidden, "cross_site")
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		if _, long := errors.AsType[*http.MaxBytesError](err); long {
			return refuse(http.StatusRequestEntityTooLarge, "too_large")
		}
		return refuse(http.StatusBadRequest, "invalid_request")
	}
	return nil
}

// sameOrigin reports whether a page of ours sent a form. Our pages have no
// referrer, so browsers say that the origin is null; then, as when it is absent,
// Sec-Fetch-Site decides, which no script can set. Who sends neither is no browser
// of today, and still needs the cookie.
func sameOrigin(r *http.Request, issuer string) bool {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	if site != "" && site != "same-origin" {
		return false
	}
	return origin == "" || origin == "null" || strings.EqualFold(origin, issuer)
}

// open reads a flow, which has to be one of this browser (SEC-142).
func (v *visit) open(sealed string) error {
	if err := v.unseal(sealed); err != nil {
		return err
	}
	if !v.cookies.own(v.flow.GetBrowser()) {
		return errExpired
	}
	return nil
}

// unseal reads a flow.
func (v *visit) unseal(sealed string) error {
	flow := &tokenv1.Flow{}
	err := v.Box.Open(v.r.Context(), v.instance.ID, token.Flow, sealed, flow)
	if errors.Is(err, token.ErrInvalid) || err == nil && !recent(v.Now(), flow.GetStartedAt()) {
		return errExpired
	}
	v.flow = flow
	return err
}

// recent reports whether what was made at a time is good still.
func recent(now time.Time, at int64) bool {
	age := now.Sub(time.Unix(at, 0))
	return age < flowLifetime && age > -time.Minute
}

// sealed returns the flow as it travels.
func (v *visit) sealed() (string, error) {
	sealed, err := v.Box.Seal(v.r.Context(), v.instance.ID, token.Flow, v.flow)
	if len(sealed) > maxFlow {
		err = refuse(http.StatusRequestEntityTooLarge, "too_large")
	}
	return sealed, err
}

// to sends the browser to a page, with the flow as it is now.
func (v *visit) to(path string) error {
	sealed, err := v.sealed()
	if err != nil {
		return err
	}
	v.leave()
	http.Redirect(v.w, v.r, path+"?flow="+sealed, http.StatusSeeOther)
	return nil
}

// leave gives the browser the session tokens it is to keep; it comes before
// whatever writes the answer.
func (v *visit) leave() {
	if v.changed {
		v.cookies.keep(v.w)
		v.changed = false
	}
	v.w.Header().Set("Cache-Control", "no-store")
}

// load reads the sessions of the browser of those users who may sign in, and may do
// so here: sessions of others do not count on any road (SEC-018).
func (v *visit) load() error {
	all, err := v.read(v.r.Context(), v.instance.ID, v.cookies.tokens)
	v.sessions = nil
	for i := range all {
		if all[i].IsActive && (v.flow.GetOrgId() == "" || v.flow.GetOrgId() == all[i].OrgID) && (v.flow.GetUserId() == "" || v.flow.GetUserId() == all[i].UserID) {
			v.sessions = append(v.sessions, all[i])
		}
	}
	return err
}

// signedIn reports whether somebody is signed in with this browser.
func (v *visit) signedIn() (bool, error) {
	if err := v.load(); err != nil {
		return false, err
	}
	return slices.ContainsFunc(v.sessions, func(k browserSession) bool { return k.complete(v.Now()) }), nil
}

// find returns a session of the browser by its ID.
func (v *visit) find(id string) *browserSession {
	for i := range v.sessions {
		if v.sessions[i].ID == id && id != "" {
			return &v.sessions[i]
		}
	}
	return nil
}

// fresh reports whether the user proved who they are as late as the flow asks for; next asks
// the same of the second factor.
func (v *visit) fresh(k *browserSession) bool {
	at := k.provenTime(v.Now())
	return !v.flow.GetFresh() && !at.IsZero() && at.Unix() >= v.flow.GetNotBefore()
}

// next returns the page that a session needs next, "" when it needs none. It is the
// one place that decides; every page asks it, so none can be left out (SEC-144).
func (v *visit) next(k *browserSession) string {
	now := v.Now()
	switch {
	case v.flow.GetRegistering(): // whether or not there is a user (SEC-170)
		return pathVerify
	case k == nil && v.flow.GetLoginName() == "":
		return pathName
	case k == nil, !k.isProven(now), !v.fresh(k), v.flow.GetLinking() && !v.provedHere(k):
		return pathPassword
	case !k.hasFactor(now), len(k.factors()) > 0 && k.factorTime().Unix() < v.flow.GetNotBefore():
		return k.factors()[0]
	case k.mustChange(now) && !since(k.PasswordVerifiedAt, now.Add(-recentPassword)):
		return pathPassword
	case k.mustChange(now):
		return pathChange
	case v.flow.GetConsent():
		return pathConsent
	}
	return ""
}

// current reads the session that is being authenticated anew.
func (v *visit) current() (*browserSession, error) {
	if err := v.load(); err != nil {
		return nil, err
	}
	return v.find(v.flow.GetSessionId()), nil
}

// at reads the session that is being authenticated; nil when page is not what it
// needs, and the browser was sent to the page that is.
func (v *visit) at(page string) (*browserSession, error) {
	k, err := v.current()
	if err != nil {
		return nil, err
	}
	if next := v.next(k); next != page {
		return nil, v.due(next)
	}
	return k, nil
}

// due sends the browser to the page that is due. A page that is opened out of turn
// finishes nothing: then the accounts are next.
func (v *visit) due(next string) error {
	if next == "" {
		next = pathAccounts
	}
	return v.to(next)
}

// advance goes on after a proof, by what is stored now: to the next page, or back
// to who began the login.
func (v *visit) advance() error {
	k, err := v.current()
	if err != nil {
		return err
	}
	if next := v.next(k); next != "" {
		if k != nil && slices.Contains(k.factors(), next) {
			err = challenge(v, k, next)
		}
		if err != nil {
			return err
		}
		return v.to(next)
	}
	if v.flow.GetLinking() {
		if linked, err := linkExternal(v, k); err != nil || !linked {
			return err
		}
	}
	if v.flow.GetRequest() == "" {
		return v.to(pathAccounts)
	}
	v.leave()
	v.provider.Finish(v.w, v.r, v.instance, v.flow, k.session(v.Now()))
	return nil
}

// takeCancel goes back to who began the login, without a user. It is a form, because
// browsers follow links before anybody does (prefetch), and one of its own, because
// who leaves need not fill anything in. What was proven so far stays in the session,
// as when the window is closed.
func takeCancel(v *visit) error {
	if v.flow.GetRequest() == "" { // nobody waits
		return v.to(pathName)
	}
	v.leave()
	v.provider.Cancel(v.w, v.r, v.instance, v.flow)
	return nil
}

// Begin sends the browser to the first page of a login: flow holds what the
// request asks for.
func (p *Pages) Begin(w http.ResponseWriter, r *http.Request, instance *policy.Instance, flow *tokenv1.Flow) {
	if err := p.begin(w, r, instance, flow); err != nil {
		p.fail(w, r, err)
	}
}

func (p *Pages) begin(w http.ResponseWriter, r *http.Request, instance *policy.Instance, flow *tokenv1.Flow) error {
	v := &visit{Pages: p, w: w, r: r, instance: instance, cookies: readCookies(r, p.secure(r)), flow: flow}
	flow.Browser, flow.StartedAt = nil, p.Now().Unix()
	flow.SessionId, flow.LoginName, flow.External, flow.Linking, flow.Consent = "", "", nil, false, false
	if len(flow.GetLoginHint()) > maxName {
		flow.LoginHint = ""
	}
	if len(flow.GetLanguage()) > maxLanguageText {
		flow.Language = ""
	}
	if r.Method == http.MethodPost && v.cookies.browser == "" {
		// A form of another site comes without our cookies, which are Lax. The GET that
		// follows brings them, so that none is overwritten and no session overlooked.
		return v.to(pathBegin)
	}
	return v.first()
}

// takeUp begins a login whose request came without cookies. Its flow is bound to no
// browser yet: until it is, it is worth as much as the request, which anybody can
// make.
func takeUp(v *visit, sealed string) error {
	if err := v.unseal(sealed); err != nil {
		return err
	}
	if len(v.flow.GetBrowser()) > 0 || v.Now().Sub(time.Unix(v.flow.GetStartedAt(), 0)) > time.Minute {
		return errExpired
	}
	return v.first()
}

// first sends the browser to the first page of a login.
func (v *visit) first() error {
	flow := v.flow
	flow.Browser = v.cookies.bind(v.w)
	if err := v.load(); err != nil {
		return err
	}
	switch {
	case flow.GetIdpId() != "":
		return beginExternal(v, flow.GetIdpId())
	case flow.GetCreate() && v.instance.AllowRegistration:
		return v.to(pathRegister)
	case len(v.sessions) > 1, flow.GetChoose() && len(v.sessions) > 0:
		return v.to(pathAccounts)
	case len(v.sessions) == 1 && v.r.URL.Path == pathBegin && v.next(&v.sessions[0]) == "" && flow.GetRequest() != "":
		// The endpoint would have found this session, had the request come with cookies.
		v.provider.Finish(v.w, v.r, v.instance, flow, v.sessions[0].session(v.Now()))
		return nil
	case len(v.sessions) == 1 && flow.GetLoginHint() == "":
		flow.LoginHint = v.sessions[0].LoginName // to sign in again
	}
	return v.to(pathName)
}

// inTime runs what must not tell by its time what it found, and answers at the next
// multiple of a quantum (SEC-170).
func inTime(ctx context.Context, do func() error) error {
	begun, quantum := time.Now(), secret.Quantum()
	err := do()
	timer := time.NewTimer(quantum - time.Since(begun)%quantum)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return err
}
