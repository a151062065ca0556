package login

import (
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/api/provider"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/token"
)

// fail shows the error page for what went wrong. An unexpected error is logged, and
// nothing of it is shown.
func (p *Pages) fail(w http.ResponseWriter, r *http.Request, err error) {
	if told, ok := errors.AsType[*problem](err); ok {
		p.Error(w, r, told.Problem)
		return
	}
	refusal, ok := errors.AsType[*fault.Error](err)
	if !ok {
		if refusal = store.Fault(err); refusal == nil {
			p.Logger.ErrorContext(r.Context(), "a login page failed", "path", r.URL.Path, policy.LogID(r.Context()), "err", err)
			p.Error(w, r, Problem{Status: http.StatusInternalServerError, Code: "server_error"})
			return
		}
	}
	if errors.Is(refusal, provider.ErrNoSMTP) || errors.Is(refusal, provider.ErrNoSMS) {
		p.Logger.WarnContext(r.Context(), "a page needs a provider that there is not", "path", r.URL.Path, policy.LogID(r.Context()), "reason", refusal.Reason)
		p.Error(w, r, Problem{Status: http.StatusServiceUnavailable, Code: strings.ToLower(refusal.Reason)})
		return
	}
	switch refusal.Kind {
	case fault.Canceled: // nobody reads an answer
		w.WriteHeader(http.StatusServiceUnavailable)
	case fault.Unavailable:
		p.Error(w, r, Problem{Status: http.StatusServiceUnavailable, Code: "temporarily_unavailable"})
	case fault.NotFound:
		p.Error(w, r, Problem{Status: http.StatusNotFound, Code: "not_found"})
	case fault.Blocked:
		p.Error(w, r, Problem{Status: http.StatusForbidden, Code: "instance_blocked"})
	case fault.InvalidArgument:
		p.Error(w, r, Problem{Status: http.StatusBadRequest, Code: "invalid_request"})
	default:
		p.Logger.ErrorContext(r.Context(), "a login page failed", "path", r.URL.Path, policy.LogID(r.Context()), "err", err)
		p.Error(w, r, Problem{Status: http.StatusInternalServerError, Code: "server_error"})
	}
}

// Error shows an error page.
func (p *Pages) Error(w http.ResponseWriter, r *http.Request, told Problem) {
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
	words := p.wordsFor(r, instance, "", r.URL.Query().Get("ui_locales"))
	shown := &page{
		name: "message.html", status: told.Status, Words: words, Head: words.get("error.head"),
		Code: told.Code, RequestID: requestID(r),
	}
	if words.has("error." + told.Code) {
		shown.Lead = words.get("error." + told.Code)
	} else {
		shown.Lead = words.get("error.other")
	}
	shown.Notice = shorten(told.Description, 500)
	shown.Received, shown.Registered = shorten(told.Received, 500), told.Registered
	shown.Title = words.title(shown.Head, hostOf(r))
	p.show(w, r, shown, "'none'")
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
	words := p.wordsFor(r, instance, "", "")
	shown := &page{
		name: "message.html", status: http.StatusNotFound, Words: words, Head: words.get("nowhere.head"), Lead: words.get("nowhere.lead"),
		Links: []link{{words.get("nowhere.signin"), "/login"}},
	}
	if reference {
		shown.Links = append(shown.Links, link{words.get("nowhere.reference"), "/docs"})
	}
	shown.Title = words.title(shown.Head, hostOf(r))
	p.show(w, r, shown, "'none'")
}

// Post shows the page that posts an authorization response to the client
// (OAuth 2.0 Form Post Response Mode): by itself, and by a button without scripts.
func (p *Pages) Post(w http.ResponseWriter, r *http.Request, action string, params url.Values) {
	instance, err := p.Instance(r)
	if err != nil {
		instance = nil
	}
	words := p.wordsFor(r, instance, "", "")
	shown := &page{
		name: "post.html", status: http.StatusOK, Words: words, Head: words.get("post.head"), Lead: words.get("post.lead"),
		Submit: words.get("post.submit"), Hidden: hidden(params), Nonce: secret.Random(),
	}
	shown.Title = words.title(shown.Head, hostOf(r))
	targets := clientTargets(action)
	if targets == "" { // no address of a client can be like that
		p.fail(w, r, fmt.Errorf("login: a response is to be posted to %q", action))
		return
	}
	shown.Action = template.URL(action) //nolint:gosec // the registered address, whose scheme source admits
	p.show(w, r, shown, targets)
}

func hidden(params url.Values) (list []param) {
	for name, values := range params {
		for _, value := range values {
			list = append(list, param{name, value})
		}
	}
	slices.SortFunc(list, func(a, b param) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return list
}

// The fields of the form of ConfirmSignOut.
const (
	confirmField = "confirm"
	tokenField   = "form"
)

// ConfirmSignOut shows the page that asks whether to sign out; its form posts the
// parameters to the same address again, with confirm=yes and a token that
// SignOutConfirmed checks. It names the accounts of the sessions that would end, which are
// those of the browser that asks.
func (p *Pages) ConfirmSignOut(w http.ResponseWriter, r *http.Request, instance *policy.Instance, params url.Values, ending []Session) {
	c := readCookies(r, p.secure(r))
	form, err := p.Box.Seal(r.Context(), instance.ID, token.Form, &tokenv1.Form{Browser: c.bind(w), ShownAt: p.Now().Unix()})
	if err != nil {
		p.fail(w, r, err)
		return
	}
	words := p.wordsFor(r, instance, "", params.Get("ui_locales"))
	kept := url.Values{confirmField: {"yes"}, tokenField: {form}}
	for name, values := range params {
		if name != confirmField && name != tokenField {
			kept[name] = values
		}
	}
	shown := &page{
		name: "signout.html", status: http.StatusOK, Words: words, Head: words.get("signout.head"), Lead: words.get("signout.lead"),
		Submit: words.get("signout.submit"), Action: template.URL(r.URL.EscapedPath()), //nolint:gosec // our own path
		Hidden: hidden(kept),
	}
	for i := range ending {
		shown.Accounts = append(shown.Accounts, account{DisplayName: ending[i].DisplayName, LoginName: ending[i].LoginName, Initial: initial(ending[i].DisplayName)})
	}
	shown.Title = words.title(shown.Head, hostOf(r))
	targets := "'self'"
	if client := clientTargets(params.Get("post_logout_redirect_uri")); client != "" {
		targets += " " + client
	}
	if params.Has("idp_logout") {
		targets = p.beyond(r, targets)
	}
	p.show(w, r, shown, targets)
}

// SignOutConfirmed reports whether a request is the form of ConfirmSignOut, sent by
// the same browser.
func (p *Pages) SignOutConfirmed(r *http.Request, instance *policy.Instance, form url.Values) bool {
	if r.Method != http.MethodPost || form.Get(confirmField) != "yes" || !sameOrigin(r, p.Issuer(r)) {
		return false
	}
	shown := &tokenv1.Form{}
	if err := p.Box.Open(r.Context(), instance.ID, token.Form, form.Get(tokenField), shown); err != nil {
		return false
	}
	return readCookies(r, p.secure(r)).own(shown.GetBrowser()) && recent(p.Now(), shown.GetShownAt())
}

// SignedOut shows that the user is signed out.
func (p *Pages) SignedOut(w http.ResponseWriter, r *http.Request, instance *policy.Instance) {
	words := p.wordsFor(r, instance, "", "")
	shown := &page{
		name: "message.html", status: http.StatusOK, Words: words, Head: words.get("signedout.head"), Lead: words.get("signedout.lead"),
		Links: []link{{words.get("link.signin"), pathName}},
	}
	shown.Title = words.title(shown.Head, hostOf(r))
	p.show(w, r, shown, "'none'")
}
