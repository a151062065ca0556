package login

import (
	"net/http"
	"time"

	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/oidc/login/flow"
	"github.com/writ-id/writ/impl/oidc/login/step"
)

// Begin sends the browser to the first page of a login.
func (p *Pages) Begin(w http.ResponseWriter, r *http.Request, instance *policy.Instance, f *flow.Flow) {
	v := p.visit(w, r, instance, nil)
	v.resume(f)
	var err error
	if r.Method == http.MethodPost && !v.browser.Jar.IsKnown() {
		// A form of another site comes without our cookies, which are Lax. The GET that
		// follows brings them, so that none is overwritten and no session overlooked.
		err = v.to(flow.PathBegin)
	} else {
		err = v.begin()
	}
	if err != nil {
		p.fail(w, r, err)
	}
}

// AskConsent sends the browser to the page on which the user of a session says whether an
// application may act for them; provider comes back by Finish.
func (p *Pages) AskConsent(w http.ResponseWriter, r *http.Request, instance *policy.Instance, f *flow.Flow, session *Session, asked *step.Consent) {
	v := p.visit(w, r, instance, nil)
	v.resume(f)
	f.Bind(v.browser.Jar.Bind())
	f.On(flow.Proved{SessionID: session.ID, LoginName: session.LoginName})
	f.On(asked.Due())
	k, err := v.browser.Current(r.Context(), f)
	if err == nil {
		err = v.to(flow.Next(f, stateOf(k), p.Now()).Path())
	}
	if err != nil {
		p.fail(w, r, err)
	}
}

// takeUp begins a login whose request came without cookies. Its flow is bound to no
// browser yet: until it is, it is worth as much as the request, which anybody can
// make.
func (p *Pages) takeUp(w http.ResponseWriter, r *http.Request, instance *policy.Instance, provider Provider) error {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET")
		return refuse(http.StatusMethodNotAllowed, "method_not_allowed")
	}
	v := p.visit(w, r, instance, provider)
	if err := v.open(r.URL.Query().Get("flow")); err != nil {
		return err
	}
	if len(v.flow.Browser()) > 0 || p.Now().Sub(v.flow.StartedAt()) > time.Minute {
		return errExpired
	}
	return v.begin()
}

// begin sends the browser to the first page of a login.
func (v *visit) begin() error {
	ctx, asked := v.r.Context(), v.flow.Asked()
	v.flow.Bind(v.browser.Jar.Bind())
	sessions, err := v.browser.Load(ctx, v.flow)
	if err != nil {
		return err
	}
	switch {
	case asked.IDPID != "":
		answer, err := v.steps.Leave(ctx, &step.Request{Flow: v.flow, Browser: v.browser, Words: v.words}, asked.IDPID)
		if err != nil {
			return err
		}
		return v.answer(answer)
	case asked.Create && v.browser.Instance.AllowRegistration:
		return v.to(flow.PathRegister)
	case len(sessions) > 1, asked.Choose && len(sessions) > 0:
		return v.to(flow.PathAccounts)
	case len(sessions) == 0:
		return v.to(flow.PathName)
	}
	k := &sessions[0].Session
	chosen := v.flow.After(flow.Chose{SessionID: k.ID, LoginName: k.LoginName})
	if v.provider != nil && asked.Request != "" && flow.Next(chosen, k, v.Now()) == flow.Nothing {
		// The endpoint would have found this session, had the request come with cookies.
		v.provider.Finish(v.w, v.r, v.browser.Instance, chosen, sessionOf(k, v.Now()))
		return nil
	}
	if v.flow.Hint() == "" {
		v.flow.On(flow.Hinted{LoginName: k.LoginName}) // to sign in again
	}
	return v.to(flow.PathName)
}
