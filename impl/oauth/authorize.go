package oauth

import (
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/gen/oauth"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/form"
	"github.com/writ-id/writ/impl/login"
	"github.com/writ-id/writ/impl/policy"
)

// Authorize begins a login for a client: document 2, "authorization_endpoint".
func (s *Server) Authorize(w http.ResponseWriter, r *http.Request) {
	if c := s.beginPage(w, r); c != nil {
		var req oauth.AuthorizationRequest
		err := form.Query(r.URL.RawQuery, &req)
		c.authorize(&req, err)
	}
}

// AuthorizeForm is Authorize with the parameters in a form.
func (s *Server) AuthorizeForm(w http.ResponseWriter, r *http.Request) {
	if c := s.beginPage(w, r); c != nil {
		var req oauth.AuthorizationRequest
		err := form.Body(w, r, &req)
		c.authorize(&req, err)
	}
}

// beginPage is begin for endpoints that people look at.
func (s *Server) beginPage(w http.ResponseWriter, r *http.Request) *call {
	if r.Method == http.MethodHead { // it has to change nothing, and these pages do nothing else
		s.RefuseMethod(w, r, "GET, POST")
		return nil
	}
	c := s.begin(w, r)
	if c != nil {
		w.Header()["Cache-Control"] = noStore
	}
	return c
}

// errorPage shows an error to the user: where it would have been sent is not known
// to be the client's (RFC 6749, section 4.1.2.1).
func (c *call) errorPage(err error) {
	refusal := c.refusalOf(c.r, err)
	told := login.Problem{Status: refusal.Status, Code: refusal.Code, Description: refusal.Description}
	if wrong, ok := errors.AsType[*unregistered](err); ok && c.Dev {
		told.Received, told.Registered = wrong.received, wrong.registered
	}
	c.Pages.Error(c.w, c.r, told)
}

// unregistered is the refusal of an address that a client did not register. In
// development its page shows what came and what is registered.
type unregistered struct {
	*Refusal
	received   string
	registered []string
}

// Unwrap returns the refusal.
func (u *unregistered) Unwrap() error { return u.Refusal }

// authorize answers an authorization request. bad is what is wrong with its
// parameters, if something is.
func (c *call) authorize(req *oauth.AuthorizationRequest, bad error) {
	a, err := c.target(req, bad)
	if err != nil {
		c.errorPage(err)
		return
	}
	if err = bad; err == nil {
		err = a.read()
	}
	if err == nil {
		err = a.proceed()
	}
	if err != nil {
		a.fail(err)
	}
}

// authorization is a request whose client and redirect URI are known to belong
// together: from here on errors go to the client.
type authorization struct {
	*call
	req    *oauth.AuthorizationRequest
	client *client
	mode   string
	scopes *scopes
	claims askedClaims
	prompt []string
	maxAge time.Duration // -1: none
}

// target finds the client of a request and the redirect URI it registered (SEC-001,
// SEC-004).
func (c *call) target(req *oauth.AuthorizationRequest, bad error) (*authorization, error) {
	if bad != nil {
		wrong, ok := errors.AsType[*form.Error](bad)
		if !ok || slices.Contains([]string{"", "client_id", "redirect_uri"}, wrong.Parameter) {
			return nil, bad
		}
	}
	if req.ClientId == "" {
		return nil, invalidRequest("client_id is missing")
	}
	of, err := c.client(req.ClientId)
	if err != nil {
		return nil, err
	}
	if of == nil {
		return nil, invalidRequest("client_id names no application that can be used")
	}
	c.from(of.ClientID)
	if req.RedirectUri == "" {
		return nil, invalidRequest("redirect_uri is missing")
	}
	if !of.registered(of.RedirectUris, req.RedirectUri) {
		return nil, &unregistered{invalidRequest("redirect_uri is not registered for the application"), req.RedirectUri, of.RedirectUris}
	}
	a := &authorization{call: c, req: req, client: of, maxAge: -1}
	a.mode = responseMode(req, of.ResponseTypes)
	return a, nil
}

// read reads the other parameters (OpenID Connect Core, sections 3.1.2.2 and
// 3.2.2.1).
func (a *authorization) read() error {
	req := a.req
	switch {
	case req.Request != "":
		return refuse("request_not_supported", "the parameter request is not supported")
	case req.RequestUri != "":
		return refuse("request_uri_not_supported", "the parameter request_uri is not supported")
	case req.ResponseType == "":
		return invalidRequest("response_type is missing")
	}
	kind := responseTypes[req.ResponseType]
	if kind == 0 {
		return refuse("unsupported_response_type", "response_type is none of code, id_token and id_token token")
	}
	if !slices.Contains(a.client.ResponseTypes, kind) || !a.client.may(a.grantType()) {
		return unauthorizedClient("the application may not use this response type")
	}
	var err error
	if err = a.readScopes(); err != nil {
		return err
	}
	if err = a.readProof(); err != nil {
		return err
	}
	switch { // what travels in tokens has bounds (SEC-295)
	case req.ResponseType != responseCode && req.Nonce == "":
		return invalidRequest("nonce is missing")
	case len(req.Nonce) > maxNonce:
		return invalidRequest("nonce is too long")
	case len(req.State) > maxState:
		return invalidRequest("state is too long")
	}
	if err = a.readPrompt(); err != nil {
		return err
	}
	a.claims, err = readClaims(req.Claims)
	return err
}

// grantType is the grant that a response type belongs to.
func (a *authorization) grantType() int16 {
	if a.req.ResponseType == responseCode {
		return grantCode
	}
	return grantImplicit
}

func (a *authorization) readScopes() error {
	if len(spaceless(a.req.Scope)) == 0 {
		return invalidRequest("scope is missing")
	}
	var err error
	if a.scopes, err = readScopes(a.req.Scope); err != nil {
		return err
	}
	if !a.scopes.has(scopeOpenID) {
		return invalidScope("scope lacks openid")
	}
	if a.req.ResponseType != responseCode { // refresh tokens come with codes only (OpenID Connect Core, section 11)
		a.scopes = a.scopes.without(func(scope string) bool { return scope == scopeOffline })
	}
	a.scopes, err = a.grantable(a.scopes, a.client.roles, a.client.OrgID)
	return err
}

const (
	maxNonce = 1000
	maxState = 8000
)

const methodS256 = "S256"

// readProof reads the code challenge (RFC 7636, section 4.3). Public clients need
// one (SEC-007).
func (a *authorization) readProof() error {
	challenge, method := a.req.CodeChallenge, a.req.CodeChallengeMethod
	switch {
	case challenge == "" && method == "":
		if a.req.ResponseType == responseCode && a.client.AuthMethodType == methodNone {
			return invalidRequest("code_challenge is missing")
		}
		return nil
	case challenge == "":
		return invalidRequest("code_challenge is missing")
	case method != methodS256:
		return invalidRequest("code_challenge_method has to be S256")
	case len(challenge) != 43 || strings.Trim(challenge, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "":
		return invalidRequest("code_challenge is not the base64url form of a SHA-256")
	}
	return nil
}

// The values of prompt.
const (
	promptNone   = "none"
	promptLogin  = "login"
	promptSelect = "select_account"
	promptCreate = "create"
)

func (a *authorization) readPrompt() error {
	a.prompt = spaceless(a.req.Prompt)
	for _, value := range a.prompt {
		switch value {
		case promptNone:
			if len(a.prompt) > 1 {
				return invalidRequest("prompt has none together with another value")
			}
		case promptLogin, promptSelect, promptCreate, "consent": // nothing asks for consent
		default:
			return invalidRequest("prompt has an unknown value")
		}
	}
	if a.req.MaxAge == "" {
		return nil
	}
	seconds := int64(0)
	for _, digit := range a.req.MaxAge {
		if digit < '0' || digit > '9' || seconds > 1<<32 {
			return invalidRequest("max_age is not a number of seconds")
		}
		seconds = seconds*10 + int64(digit-'0')
	}
	a.maxAge = time.Duration(min(seconds, 1<<32)) * time.Second
	return nil
}

func (a *authorization) asks(prompt string) bool { return slices.Contains(a.prompt, prompt) }

// notBefore is since when the user has to have authenticated; zero: whenever.
func (a *authorization) notBefore() time.Time {
	switch {
	case a.asks(promptLogin) || a.maxAge == 0:
		return a.now
	case a.maxAge > 0:
		return a.now.Add(-a.maxAge)
	}
	return time.Time{}
}

// proceed answers with the session of the browser, when one fits and nothing has to
// be asked; else it sends the browser to the pages.
func (a *authorization) proceed() error {
	hinted, err := a.hinted(a.req.IdTokenHint)
	if err != nil {
		return err
	}
	expected := hinted
	if wanted := a.claims.user; wanted != "" {
		if expected != "" && expected != wanted {
			return refuse("login_required", "claims and id_token_hint are about different users")
		}
		expected = wanted
	}
	sessions, err := a.Pages.Browser(a.r, a.instance)
	if err != nil {
		return err
	}
	since := a.notBefore()
	fits := slices.DeleteFunc(slices.Clone(sessions), func(session login.Session) bool {
		return expected != "" && session.UserID != expected || session.AuthTime.Before(since) || a.scopes.org != "" && session.OrgID != a.scopes.org
	})
	if len(fits) > 1 && a.req.LoginHint != "" {
		if i := slices.IndexFunc(fits, func(s login.Session) bool { return strings.EqualFold(s.LoginName, a.req.LoginHint) }); i >= 0 {
			fits = fits[i : i+1]
		}
	}
	ask := a.asks(promptLogin) || a.asks(promptSelect) || a.asks(promptCreate)
	switch {
	case len(fits) == 1 && !ask:
		return a.complete(&fits[0])
	case a.asks(promptNone) && len(fits) > 1:
		return refuse("interaction_required", "the user has to choose an account")
	case a.asks(promptNone):
		return refuse("login_required", "the user has to sign in")
	}
	flow := &tokenv1.Flow{
		StartedAt: a.now.Unix(), Request: encode(a.req), AppName: a.client.Name, LoginHint: a.req.LoginHint, Language: a.req.UiLocales,
		Fresh: a.asks(promptLogin), OrgId: a.scopes.org, Choose: a.asks(promptSelect) || len(sessions) > 1, Create: a.asks(promptCreate), UserId: expected,
	}
	if !since.IsZero() {
		flow.NotBefore = since.Unix()
	}
	// Nobody else can sign in, so their name is there already; but whoever asks for a user
	// by a claim has only guessed an ID, which is to tell nothing (SEC-170).
	if hinted != "" && flow.LoginHint == "" {
		found, err := a.state(about{user: hinted})
		if err != nil {
			return err
		}
		if found != nil {
			flow.LoginHint = found.loginName()
		}
	}
	a.Pages.Begin(a.w, a.r, a.instance, flow)
	return nil
}

// Finish goes on with a request when the pages have authenticated the user. It is
// the Finish of package login.
func (s *Server) Finish(w http.ResponseWriter, r *http.Request, instance *policy.Instance, flow *tokenv1.Flow, session *login.Session) {
	a := s.resume(w, r, instance, flow)
	if a == nil {
		return
	}
	err := a.read()
	if err == nil {
		err = a.complete(session)
	}
	if err != nil {
		a.fail(err)
	}
}

// Cancel answers a request whose user does not want to sign in (RFC 6749, section
// 4.1.2.1). It is the Cancel of package login.
func (s *Server) Cancel(w http.ResponseWriter, r *http.Request, instance *policy.Instance, flow *tokenv1.Flow) {
	if a := s.resume(w, r, instance, flow); a != nil {
		a.fail(refuse(oauth.AccessDenied, "the user canceled the login"))
	}
}

// resume returns the request that a flow holds. When it has no client to answer to
// any more, because the application has changed since, the user is told and it is nil.
func (s *Server) resume(w http.ResponseWriter, r *http.Request, instance *policy.Instance, flow *tokenv1.Flow) *authorization {
	c := s.callOf(w, r, instance)
	w.Header()["Cache-Control"] = noStore
	var req oauth.AuthorizationRequest
	err := form.Query(flow.GetRequest(), &req)
	if err == nil {
		var a *authorization
		if a, err = c.target(&req, nil); err == nil {
			return a
		}
	}
	c.errorPage(err)
	return nil
}

// complete answers with what the client asked for, about the user of a session.
func (a *authorization) complete(session *login.Session) error {
	if may, err := a.mayUse(a.client, session.UserID, session.OrgID); err != nil || !may {
		return orElse(err, refuse(oauth.AccessDenied, "the user may not use the application"))
	}
	if a.scopes.orgDomain != "" {
		found, err := a.state(about{user: session.UserID})
		if err != nil {
			return err
		}
		if found == nil || !a.scopes.belongs(found.OrgID, found.Domain) {
			return refuse(oauth.AccessDenied, "the user does not belong to the organization")
		}
	}
	if !a.scopes.belongs(session.OrgID, a.scopes.orgDomain) {
		return refuse(oauth.AccessDenied, "the user does not belong to the organization")
	}
	if a.claims.user != "" && session.UserID != a.claims.user {
		return refuse("login_required", "the user is not the one that claims asks for")
	}
	if len(a.claims.acrs) > 0 && !slices.Contains(a.claims.acrs, acr(session.AMR)) {
		return refuse(oauth.AccessDenied, "the user did not authenticate in the way that claims asks for")
	}
	if a.req.ResponseType == responseCode {
		return a.sendCode(session)
	}
	return a.sendTokens(session)
}

// mayUse reports whether a user may use an application, by what its project asks.
func (c *call) mayUse(of *client, userID, orgID string) (bool, error) {
	if !of.checkRole && !of.checkProject {
		return true, nil
	}
	return c.queries.MayUseProject(c.ctx(), c.DB.Pool, db.MayUseProjectParams{
		InstanceID: c.instance.ID, UserID: userID, ProjectID: of.ProjectID, OrgID: orgID, RoleCheck: of.checkRole, ProjectCheck: of.checkProject,
	})
}

// orElse is err, or when there is none another one.
func orElse(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// encode returns a request as a query, without what has done its work.
func encode(req *oauth.AuthorizationRequest) string {
	query := url.Values{}
	v := reflect.ValueOf(req).Elem()
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if value := v.Field(i).String(); value != "" && name != "id_token_hint" && name != "prompt" && name != "max_age" {
			query.Set(name, value)
		}
	}
	return query.Encode()
}
