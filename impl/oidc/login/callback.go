package login

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/oidc/login/browser"
	"github.com/writ-id/writ/impl/oidc/login/federation"
	"github.com/writ-id/writ/impl/oidc/login/flow"
	"github.com/writ-id/writ/impl/oidc/login/page"
	"github.com/writ-id/writ/impl/oidc/login/step"
)

// callback serves the end of a round trip to an identity provider.
func (p *Pages) callback(w http.ResponseWriter, r *http.Request, instance *policy.Instance, provider Provider) error {
	switch r.Method {
	case http.MethodGet:
		return p.visit(w, r, instance, provider).callback()
	case http.MethodPost:
		return bringByGet(w, r)
	}
	w.Header().Set("Allow", "GET, POST")
	return refuse(http.StatusMethodNotAllowed, "method_not_allowed")
}

// bringByGet answers an answer that is posted (OAuth 2.0 Form Post Response Mode): a form of
// another site comes without our cookies, which are Lax; the GET that follows brings them.
func bringByGet(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return refuse(http.StatusBadRequest, "invalid_request")
	}
	query := url.Values{}
	for _, name := range federation.Answered {
		if values := r.PostForm[name]; len(values) == 1 && len(values[0]) <= federation.MaxState {
			query.Set(name, values[0])
		}
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, r.URL.EscapedPath()+"?"+query.Encode(), http.StatusSeeOther)
	return nil
}

// callback ends a round trip. Its state says which login goes on.
func (v *visit) callback() error {
	ctx, answer := v.r.Context(), v.r.URL.Query()
	l := &federation.Login{Browser: v.browser}
	pending, err := v.federation.Open(ctx, l, v.r.URL.EscapedPath(), answer)
	if errors.Is(err, federation.ErrExpired) {
		return errExpired
	}
	if err != nil {
		return err
	}
	v.resume(l.Flow)
	l.Language = v.words.Language()
	verdict, err := v.federation.Finish(ctx, l, pending, answer)
	if err != nil {
		return err
	}
	return v.answer(step.Answer{Event: verdict})
}

// door shows what the link of a message does, and does it when that is confirmed: programs
// that scan mail follow links, too.
func (p *Pages) door(w http.ResponseWriter, r *http.Request, instance *policy.Instance, _ Provider) error {
	sealed, b := r.URL.Query().Get("door"), p.browser(r, instance)
	if r.Method == http.MethodPost {
		if err := p.readForm(w, r); err != nil {
			return err
		}
		sealed = r.PostForm.Get("door")
	}
	door, err := b.Open(r.Context(), sealed)
	if errors.Is(err, browser.ErrDoorClosed) {
		return refuse(http.StatusBadRequest, "door_closed")
	}
	if err != nil {
		return err
	}
	if r.Method != http.MethodPost {
		p.show(w, r, p.words(r, instance, "").Confirm("door", flow.PathDoor, page.Param{Name: "door", Value: sealed}), "'self'")
		return nil
	}
	if err := b.Enter(r.Context(), door); err != nil {
		return err
	}
	leave(w, b.Jar)
	http.Redirect(w, r, flow.PathName, http.StatusSeeOther)
	return nil
}
