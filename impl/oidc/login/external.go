package login

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/writ-id/writ/gen/db"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/token"
	"github.com/writ-id/writ/impl/core/upstream"
)

// The round trip to an identity provider. Its state is the whole attempt, sealed: who
// brings it back has to be the browser that began it, within ten minutes, once, and at the
// address that it was sent to (SEC-200). Whether the provider may be used here is asked
// when its button is shown, when the trip begins and when it ends (SEC-205).

// maxState bounds a state, which travels in URLs of others.
const maxState = 4 << 10

// button is an identity provider on a page.
type button struct{ ID, Name string }

// home is the organization whose identity providers count in a login: the one that it is
// restricted to, or that a verified domain of the login name leads to; "" is the instance.
func (v *visit) home() string { return cmp.Or(v.flow.GetOrgId(), v.flow.GetDomainOrgId()) }

// offer returns the buttons of a page.
func (v *visit) offer() ([]button, error) {
	home := v.home()
	return v.buttons.GetOrLast(v.r.Context(), v.instance.ID+"\x00"+home, nil, func(ctx context.Context) (all []button, err error) {
		active, err := v.Upstreams.Active(ctx, v.instance.ID, home)
		for _, one := range active {
			all = append(all, button{one.ID, one.Name})
		}
		return all, err
	})
}

// upstreamOf returns a provider that is active in an organization, or nil.
func (v *visit) upstreamOf(orgID, id string) (*upstream.Provider, error) {
	if id == "" {
		return nil, nil
	}
	return v.Upstreams.Provider(v.r.Context(), v.instance.ID, orgID, id)
}

// discover notes which organization a verified domain of the login name leads to (SEC-222).
func (v *visit) discover(name string) error {
	v.flow.DomainOrgId = ""
	at := strings.LastIndexByte(name, '@')
	if at < 0 || v.flow.GetOrgId() != "" {
		return nil
	}
	domain := strings.ToLower(name[at+1:])
	owner, err := v.domains.Get(v.r.Context(), v.instance.ID+"\x00"+domain, func(ctx context.Context) (string, error) {
		owner, err := v.queries.OrgByDomain(ctx, v.DB.Pool, db.OrgByDomainParams{InstanceID: v.instance.ID, Domain: domain})
		if store.NoRow(err) {
			err = nil
		}
		return owner, err
	})
	v.flow.DomainOrgId = owner
	return err
}

// takeExternal begins a round trip.
func takeExternal(v *visit) error { return beginExternal(v, v.form.Get("idp")) }

// beginExternal sends the browser to an identity provider.
func beginExternal(v *visit, id string) error {
	p, err := v.upstreamOf(v.home(), id)
	if err != nil {
		return err
	}
	if p == nil {
		return v.back("idp_gone")
	}
	v.flow.External, v.flow.Linking, v.flow.Registering, v.flow.Notice, v.flow.IdpId = nil, false, false, "", ""
	attempt := upstream.Attempt{
		Pending:   &tokenv1.Upstream{Id: v.NewID(), Browser: v.cookies.bind(v.w), RedirectUri: v.Issuer(v.r) + callbackOf(p), Flow: v.flow},
		LoginHint: cmp.Or(v.flow.GetLoginName(), v.flow.GetLoginHint()), Languages: v.words.language,
		Anew: v.flow.GetFresh() || v.flow.GetNotBefore() != 0, Choose: v.flow.GetChoose(),
		Seal: func(pending *tokenv1.Upstream) (string, error) {
			sealed, err := v.Box.Seal(v.r.Context(), v.instance.ID, token.Upstream, pending)
			if len(sealed) > maxState {
				err = refuse(http.StatusRequestEntityTooLarge, "too_large")
			}
			return sealed, err
		},
	}
	var address string
	err = v.outside(func(ctx context.Context) (err error) {
		address, err = v.Upstream.Begin(ctx, p, attempt)
		return err
	})
	if err != nil {
		return v.failed(p, err)
	}
	v.leave()
	v.w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(v.w, v.r, address, http.StatusSeeOther)
	return nil
}

// outside runs what waits for a provider; that holds nobody's place.
func (v *visit) outside(do func(context.Context) error) error {
	return policy.RequestFrom(v.r.Context()).Outside(v.r.Context(), upstream.Timeout, do)
}

// callbackOf returns where a provider has to answer: at one address for all whose ID tokens
// bind the answer to the attempt, at their own for others (RFC 9700, section 4.4.2).
func callbackOf(p *upstream.Provider) string {
	if p.HasNonce() {
		return pathCallback
	}
	return pathCallback + "/" + url.PathEscape(p.ID)
}

// back shows the page before again, with why: whoever comes from a provider can choose
// another way there, or go back to the client.
func (v *visit) back(notice string) error {
	v.flow.Notice = notice
	policy.RequestFrom(v.r.Context()).Reason = notice
	if v.flow.GetLoginName() != "" {
		return v.to(pathPassword)
	}
	return v.to(pathName)
}

// failed shows that there was a problem with a provider, in our words; a log says more.
func (v *visit) failed(p *upstream.Provider, err error) error {
	told, ok := errors.AsType[*upstream.Problem](err)
	if !ok {
		return err
	}
	if told.Kind != upstream.Canceled {
		v.Logger.WarnContext(v.r.Context(), "an identity provider signed nobody in", "idp", p.ID, "instance", v.instance.ID, policy.LogID(v.r.Context()), "err", told)
	}
	return v.back("idp_" + string(told.Kind))
}

// answered are the parameters of an answer that are read.
var answered = []string{"state", "code", "iss", "error", "user"}

// serveCallback ends a round trip. Its state says which login goes on.
func serveCallback(v *visit) error {
	switch v.r.Method {
	case http.MethodGet:
	case http.MethodPost:
		return bringByGet(v)
	default:
		v.w.Header().Set("Allow", "GET, POST")
		return refuse(http.StatusMethodNotAllowed, "method_not_allowed")
	}
	params := v.r.URL.Query()
	pending := &tokenv1.Upstream{}
	if len(params["state"]) != 1 {
		return errExpired
	}
	err := v.Box.Open(v.r.Context(), v.instance.ID, token.Upstream, params.Get("state"), pending)
	if errors.Is(err, token.ErrInvalid) {
		return errExpired
	}
	if err != nil {
		return err
	}
	age := v.Now().Sub(time.Unix(pending.GetStartedAt(), 0))
	if age >= upstream.Lifetime || age < -time.Minute || !v.cookies.own(pending.GetBrowser()) || !v.cookies.own(pending.GetFlow().GetBrowser()) ||
		pending.GetRedirectUri() != v.Issuer(v.r)+v.r.URL.EscapedPath() || !recent(v.Now(), pending.GetFlow().GetStartedAt()) {
		return errExpired
	}
	v.flow = pending.GetFlow()
	v.words = v.wordsFor(v.r, v.instance, v.flow.GetOrgId(), v.flow.GetLanguage())
	first, err := v.once(v.DB.Pool, "attempt", pending.GetId())
	if err != nil {
		return err
	}
	if !first {
		return v.back("idp_again")
	}
	p, err := v.upstreamOf(v.home(), pending.GetProviderId())
	if err != nil {
		return err
	}
	if p == nil {
		return v.back("idp_gone")
	}
	only := url.Values{}
	for _, name := range answered {
		if values, ok := params[name]; ok {
			only[name] = values
		}
	}
	var who *upstream.Identity
	if err := v.outside(func(ctx context.Context) (err error) {
		who, err = v.Upstream.Finish(ctx, p, pending, only)
		return err
	}); err != nil {
		return v.failed(p, err)
	}
	return recognize(v, p, pending, who)
}

// bringByGet answers an answer that is posted (OAuth 2.0 Form Post Response Mode): a form of
// another site comes without our cookies, which are Lax, the GET that follows brings them.
func bringByGet(v *visit) error {
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
	if err := v.r.ParseForm(); err != nil {
		return refuse(http.StatusBadRequest, "invalid_request")
	}
	query := url.Values{}
	for _, name := range answered {
		if values := v.r.PostForm[name]; len(values) == 1 && len(values[0]) <= maxState {
			query.Set(name, values[0])
		}
	}
	v.leave()
	v.w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(v.w, v.r, v.r.URL.EscapedPath()+"?"+query.Encode(), http.StatusSeeOther)
	return nil
}

// onceIn uses something up that is good once, on all nodes; it reports whether it was the
// first to.
func (p *Pages) onceIn(ctx context.Context, tx db.DBTX, instanceID, kind, id string) (bool, error) {
	hash := sha256.Sum256([]byte("\x02" + kind + "\x00" + id))
	n, err := p.queries.UseAssertion(ctx, tx, db.UseAssertionParams{InstanceID: instanceID, Hash: hash[:], ExpirationDate: p.Now().Add(flowLifetime)})
	return n == 1, err
}

func (v *visit) once(tx db.DBTX, kind, id string) (bool, error) {
	return v.onceIn(v.r.Context(), tx, v.instance.ID, kind, id)
}

// vouched reports whether an address that a provider says is verified counts as such: one of
// an organization speaks for the verified domains of that only (SEC-174).
func (v *visit) vouched(p *upstream.Provider, who *upstream.Identity) (bool, error) {
	if !who.EmailVerified || p.OrgID == "" {
		return who.EmailVerified, nil
	}
	owner, err := v.queries.OrgByDomain(v.r.Context(), v.DB.Pool, db.OrgByDomainParams{
		InstanceID: v.instance.ID, Domain: strings.ToLower(who.Email[strings.LastIndexByte(who.Email, '@')+1:]),
	})
	if store.NoRow(err) {
		return false, nil
	}
	return err == nil && owner == p.OrgID, err
}

// candidate is whom an unknown identity may be, by the way that the provider allows
// (SEC-202): only where it is active; several are none.
func candidate(v *visit, p *upstream.Provider, who *tokenv1.External) (db.LinkCandidatesRow, error) {
	params := db.LinkCandidatesParams{InstanceID: v.instance.ID, OnlyOrg: cmp.Or(v.flow.GetOrgId(), p.OrgID), OnlyUser: v.flow.GetUserId(), DefaultOrg: cmp.Or(p.OrgID, v.home(), v.instance.DefaultOrg)}
	switch {
	case !p.Linking:
		return db.LinkCandidatesRow{}, nil
	case p.AutoLinking == upstream.LinkByEmail && who.GetIsEmailVerified():
		params.EmailFolded = resource.Fold(who.GetEmail())
	case p.AutoLinking == upstream.LinkByUsername && who.GetUsername() != "":
		params.UsernameFolded = resource.Fold(who.GetUsername())
	default:
		return db.LinkCandidatesRow{}, nil
	}
	found, err := v.queries.LinkCandidates(v.r.Context(), v.DB.Pool, params)
	if err != nil {
		return db.LinkCandidatesRow{}, err
	}
	if len(found) != 1 {
		return db.LinkCandidatesRow{}, nil
	}
	there, err := v.upstreamOf(found[0].OrgID, p.ID)
	if err != nil || there == nil {
		return db.LinkCandidatesRow{}, err
	}
	return found[0], nil
}
