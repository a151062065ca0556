package login

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/core/policy"
)

// Consent is what an application asks of a user before its tokens are for the resource API.
type Consent struct {
	AppID, AppName string
	Roles          []Handed // that it gets
}

// Handed is a role that is handed over.
type Handed struct{ Name, ID, Place string }

// ids returns the roles as they are stored.
func (c *Consent) ids() []string {
	list := make([]string, len(c.Roles))
	for i, one := range c.Roles {
		list[i] = one.ID
	}
	return list
}

// mark names what a page shows, and to whom: an answer is to that.
func (c *Consent) mark(userID string) string {
	sum := sha256.Sum256([]byte(strings.Join(append(c.ids(), c.AppID, userID), "\x00")))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// AskConsent sends the browser to the page on which the user of a session says whether an
// application may act for them; provider comes back by Finish. Where roles are handed over
// what proves the user has to be of this login: an old session is not enough.
func (p *Pages) AskConsent(w http.ResponseWriter, r *http.Request, instance *policy.Instance, flow *tokenv1.Flow, session *Session, asked *Consent) {
	v := &visit{Pages: p, w: w, r: r, instance: instance, cookies: readCookies(r, p.secure(r)), flow: flow}
	if flow.GetStartedAt() == 0 {
		flow.StartedAt = p.Now().Unix()
	}
	flow.Browser = v.cookies.bind(w)
	flow.SessionId, flow.LoginName, flow.Fresh, flow.Consent = session.ID, session.LoginName, false, true
	v.wantProof(asked)
	k, err := v.current()
	if err == nil {
		err = v.due(v.next(k))
	}
	if err != nil {
		p.fail(w, r, err)
	}
}

// wantProof has the flow ask for a proof of this login where roles are handed over.
func (v *visit) wantProof(asked *Consent) {
	if len(asked.Roles) > 0 {
		v.flow.NotBefore = max(v.flow.GetNotBefore(), v.flow.GetStartedAt())
	}
}

func showConsent(v *visit) error {
	k, asked, err := v.consent()
	if err != nil || k == nil {
		return err
	}
	return consentForm(v, k, asked)
}

// consent returns who is asked and what for; nobody when the browser was sent elsewhere,
// because another page is due or nothing is left to be asked.
func (v *visit) consent() (*browserSession, *Consent, error) {
	k, err := v.at(pathConsent)
	if err != nil || k == nil {
		return nil, nil, err
	}
	asked, err := v.provider.Asks(v.r, v.instance, v.flow, k.session(v.Now()))
	if err == nil && asked == nil {
		v.flow.Consent = false
		return nil, nil, v.advance()
	}
	if err != nil {
		return nil, nil, err
	}
	v.wantProof(asked) // of whoever is asked by now
	if next := v.next(k); next != pathConsent {
		return nil, nil, v.due(next)
	}
	return k, asked, nil
}

// takeConsent stores what the user was shown; who got other roles since is shown those.
func takeConsent(v *visit) error {
	k, asked, err := v.consent()
	if err != nil || k == nil {
		return err
	}
	if v.form.Get("shown") != asked.mark(k.UserID) {
		return v.to(pathConsent)
	}
	as := policy.As(v.r.Context(), policy.In(v.instance.ID, k.OrgID), k.UserID, v.Roles)
	if err := v.Users.GiveConsent(as, k.UserID, asked.AppID, asked.ids()); err != nil {
		return err
	}
	v.flow.Consent = false
	return v.advance()
}

func consentForm(v *visit, k *browserSession, asked *Consent) error {
	p := v.page("consent", pathConsent)
	p.Head = v.words.get("consent.head", asked.AppName)
	p.Who, p.Change = k.LoginName, v.link("change", pathName)
	if p.Lead = v.words.get("consent.lead"); len(asked.Roles) > 0 {
		p.Lead = v.words.get("consent.roles")
	}
	p.Hidden = []param{{"shown", asked.mark(k.UserID)}}
	for _, one := range asked.Roles {
		p.Handed = append(p.Handed, strings.TrimSpace(one.Name+" – "+one.Place))
	}
	return v.render(p, nil)
}
