package login

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/token"
	"github.com/writ-id/writ/impl/core/upstream"
	"github.com/writ-id/writ/impl/oidc/login/browser"
	"github.com/writ-id/writ/impl/oidc/login/flow"
	"github.com/writ-id/writ/impl/oidc/login/page"
)

// Browser returns the authenticated sessions of the browser, the newest first. It
// is one statement, or none without a cookie, and another one at most once an hour
// for a session that lives on because it is used.
func (p *Pages) Browser(r *http.Request, instance *policy.Instance) ([]Session, error) {
	b := p.browser(r, instance)
	all, err := b.Read(r.Context())
	if err != nil {
		return nil, err
	}
	var complete []Session
	now := p.Now()
	for i := range all {
		if !all[i].IsComplete(now) {
			continue
		}
		complete = append(complete, *sessionOf(&all[i].Session, now))
		if err := b.Extend(r.Context(), &all[i]); err != nil {
			return nil, err
		}
	}
	return complete, nil
}

// SignOut ends sessions of the browser, all of them when session is "", and takes
// their cookies away.
func (p *Pages) SignOut(w http.ResponseWriter, r *http.Request, instance *policy.Instance, session string) error {
	b := p.browser(r, instance)
	if err := b.SignOut(r.Context(), session); err != nil {
		return err
	}
	for _, one := range b.Jar.Cookies() {
		http.SetCookie(w, one)
	}
	return nil
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
	jar := browser.NewJar(r.Cookies(), p.secure(r))
	form, err := p.Box.Seal(r.Context(), instance.ID, token.Form, &tokenv1.Form{Browser: jar.Bind(), ShownAt: p.Now().Unix()})
	if err != nil {
		p.fail(w, r, err)
		return
	}
	kept := url.Values{confirmField: {"yes"}, tokenField: {form}}
	for name, values := range params {
		if name != confirmField && name != tokenField {
			kept[name] = values
		}
	}
	shown := p.words(r, instance, params.Get("ui_locales")).Confirm("signout", r.URL.EscapedPath(), hidden(kept)...)
	for i := range ending {
		shown.Accounts = append(shown.Accounts, page.NewAccount("", ending[i].DisplayName, ending[i].LoginName))
	}
	targets := "'self'"
	if client := page.ClientTargets(params.Get("post_logout_redirect_uri")); client != "" {
		targets += " " + client
	}
	if params.Has("idp_logout") {
		targets = page.Beyond(targets, p.secure(r))
	}
	leave(w, jar)
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
	return browser.NewJar(r.Cookies(), p.secure(r)).Owns(shown.GetBrowser()) && flow.Recent(p.Now(), shown.GetShownAt())
}

// SignedOut shows that the user is signed out.
func (p *Pages) SignedOut(w http.ResponseWriter, r *http.Request, instance *policy.Instance) {
	words := p.words(r, instance, "")
	p.show(w, r, words.Message("signedout", words.Link("signin", flow.PathName)), "'none'")
}

// Onward returns where a browser signs out of the identity provider too that a session was
// begun with; it comes back from there and goes to an address, which the caller has found
// registered, or stays when that is empty. It is "" when there is no such place: a logout
// here does not fail for one elsewhere.
func (p *Pages) Onward(r *http.Request, instance *policy.Instance, session *Session, to string) string {
	ctx := r.Context()
	state, err := p.Box.Seal(ctx, instance.ID, token.SignedOut, &tokenv1.SignedOut{To: to, StartedAt: p.Now().Unix()})
	if err == nil {
		to, err = p.federation.EndSession(ctx, instance.ID, session.OrgID, session.IDPID, p.Issuer(r), state)
	}
	if err != nil {
		p.Logger.WarnContext(ctx, "the logout does not lead on to the identity provider", "idp", session.IDPID, "instance", instance.ID, policy.LogID(ctx), "err", err)
		return ""
	}
	return to
}

// signedOut takes a browser on that comes back from there. What it brings was sealed
// here: it leads nowhere but to where a logout may lead (SEC-130).
func (p *Pages) signedOut(w http.ResponseWriter, r *http.Request, instance *policy.Instance, _ Provider) error {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET")
		return refuse(http.StatusMethodNotAllowed, "method_not_allowed")
	}
	out := &tokenv1.SignedOut{}
	if err := p.Box.Open(r.Context(), instance.ID, token.SignedOut, r.URL.Query().Get("state"), out); errors.Is(err, token.ErrInvalid) {
		out.Reset() // it leads nowhere
	} else if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	if out.GetTo() == "" || p.Now().Sub(time.Unix(out.GetStartedAt(), 0)) >= upstream.Lifetime {
		p.SignedOut(w, r, instance)
		return nil
	}
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, out.GetTo(), http.StatusSeeOther)
	return nil
}
