package login

import (
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/writ-id/writ/impl/api/provider"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/oidc/login/federation"
	"github.com/writ-id/writ/impl/oidc/login/flow"
	"github.com/writ-id/writ/impl/oidc/login/page"
)

// maxForm bounds the body of a form; a sealed flow is the longest of its fields.
const maxForm = 64 << 10

// problem is a page.Problem on the way to the error page.
type problem struct{ page.Problem }

// Error implements error.
func (p *problem) Error() string { return p.Code }

func refuse(status int, code string) error { return &problem{page.Problem{Status: status, Code: code}} }

// errExpired is the answer to a flow or a form that is too old, of another browser
// or none at all: which of them is not told.
var errExpired = refuse(http.StatusBadRequest, "login_expired")

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
// Sec-Fetch-Site decides, which no script can set. A client that sends neither is no
// browser of today, and still needs the cookie.
func sameOrigin(r *http.Request, issuer string) bool {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	if site != "" && site != "same-origin" {
		return false
	}
	return origin == "" || origin == "null" || strings.EqualFold(origin, issuer)
}

// fail shows the error page for what went wrong. An unexpected error is logged, and
// nothing of it is shown.
func (p *Pages) fail(w http.ResponseWriter, r *http.Request, err error) {
	if told, ok := errors.AsType[*problem](err); ok {
		p.Error(w, r, told.Problem)
		return
	}
	if errors.Is(err, federation.ErrTooLarge) {
		p.Error(w, r, page.Problem{Status: http.StatusRequestEntityTooLarge, Code: "too_large"})
		return
	}
	refusal, ok := errors.AsType[*fault.Error](err)
	if !ok {
		if refusal = store.Fault(err); refusal == nil {
			p.Logger.ErrorContext(r.Context(), "a login page failed", "path", r.URL.Path, policy.LogID(r.Context()), "err", err)
			p.Error(w, r, page.Problem{Status: http.StatusInternalServerError, Code: "server_error"})
			return
		}
	}
	if errors.Is(refusal, provider.ErrNoSMTP) || errors.Is(refusal, provider.ErrNoSMS) {
		p.Logger.WarnContext(r.Context(), "a page needs a provider that there is not", "path", r.URL.Path, policy.LogID(r.Context()), "reason", refusal.Reason)
		p.Error(w, r, page.Problem{Status: http.StatusServiceUnavailable, Code: strings.ToLower(refusal.Reason)})
		return
	}
	switch refusal.Kind {
	case fault.Canceled: // nobody reads an answer
		w.WriteHeader(http.StatusServiceUnavailable)
	case fault.Unavailable:
		p.Error(w, r, page.Problem{Status: http.StatusServiceUnavailable, Code: "temporarily_unavailable"})
	case fault.NotFound:
		p.Error(w, r, page.Problem{Status: http.StatusNotFound, Code: "not_found"})
	case fault.Blocked:
		p.Error(w, r, page.Problem{Status: http.StatusForbidden, Code: "instance_blocked"})
	case fault.InvalidArgument:
		p.Error(w, r, page.Problem{Status: http.StatusBadRequest, Code: "invalid_request"})
	default:
		p.Logger.ErrorContext(r.Context(), "a login page failed", "path", r.URL.Path, policy.LogID(r.Context()), "err", err)
		p.Error(w, r, page.Problem{Status: http.StatusInternalServerError, Code: "server_error"})
	}
}

// Error shows an error page.
func (p *Pages) Error(w http.ResponseWriter, r *http.Request, told page.Problem) {
	instance, err := p.Instance(r)
	if err != nil {
		instance = nil
	}
	if request := policy.RequestFrom(r.Context()); request.Reason == "" {
		request.Reason = told.Code
	}
	if told.Status == 0 {
		told.Status = http.StatusBadRequest
	}
	if told.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	p.show(w, r, p.words(r, instance, r.URL.Query().Get("ui_locales")).Error(told, policy.RequestFrom(r.Context()).ID), "'none'")
}

// Nowhere shows that there is no page at an address, and ways on: signing in, and the
// reference where it is shown.
func (p *Pages) Nowhere(w http.ResponseWriter, r *http.Request, reference bool) {
	instance, err := p.Instance(r)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	policy.RequestFrom(r.Context()).Reason = "PATH_UNKNOWN"
	words := p.words(r, instance, "")
	shown := words.Message("nowhere", page.Link{Text: words.Get("nowhere.signin"), Href: flow.PathName}).WithStatus(http.StatusNotFound)
	if reference {
		shown.Links = append(shown.Links, page.Link{Text: words.Get("nowhere.reference"), Href: "/docs"})
	}
	p.show(w, r, shown, "'none'")
}

// Post shows the page that posts an authorization response to the client
// (OAuth 2.0 Form Post Response Mode): by itself, and by a button without scripts.
func (p *Pages) Post(w http.ResponseWriter, r *http.Request, action string, params url.Values) {
	instance, err := p.Instance(r)
	if err != nil {
		instance = nil
	}
	targets := page.ClientTargets(action)
	if targets == "" { // no address of a client can be like that
		p.fail(w, r, fmt.Errorf("login: a response is to be posted to %q", action))
		return
	}
	p.show(w, r, p.words(r, instance, "").Post(action, secret.Random(), hidden(params)), targets)
}

func hidden(params url.Values) (list []page.Param) {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		for _, value := range params[name] {
			list = append(list, page.Param{Name: name, Value: value})
		}
	}
	return list
}

// words returns the texts for a page that belongs to no login.
func (p *Pages) words(r *http.Request, instance *policy.Instance, asked string) page.Words {
	id := ""
	if instance != nil {
		id = instance.ID
	}
	return p.renderer.Words(r.Context(), hostOf(r), id, "", asked, r.Header.Get("Accept-Language"))
}

// show writes a page. Its form may go to ourselves and to what targets allow.
func (p *Pages) show(w http.ResponseWriter, r *http.Request, shown *page.Page, targets string) {
	answer, err := p.renderer.Render(shown, p.secure(r), targets)
	if err != nil {
		p.Logger.ErrorContext(r.Context(), "a page cannot be shown", "path", r.URL.Path, policy.LogID(r.Context()), "err", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	maps.Copy(w.Header(), answer.Header)
	w.WriteHeader(answer.Status)
	_, _ = w.Write(answer.Body) // a client that is gone cannot be told
}

// serveStyle serves the stylesheet.
func serveStyle(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/css; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if r.URL.RequestURI() == page.StyleURL {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-cache")
	}
	page.Style.Serve(w, r)
}

// hostOf returns the host that a request was made to, without its port.
func hostOf(r *http.Request) string { return policy.CanonicalHost(r.Host) }

// secure reports whether a request was made over https.
func (p *Pages) secure(r *http.Request) bool { return strings.HasPrefix(p.Issuer(r), "https://") }
