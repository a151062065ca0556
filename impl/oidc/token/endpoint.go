// Package token serves the token endpoint (RFC 6749, section 3.2; document 2,
// "token_endpoint").
//
// Every grant goes the same way, which stands once, in Endpoint.grant:
//
//	parse → authenticate → allowed → present → scope → about → permit → draft → issue → write → still
//
// What differs is a row of the table (table.go), where it can be said, and an
// implementation of the interface grant, which has to have all of the steps, where it
// has to be done: one file for each grant.
package token

import (
	"context"
	"errors"
	"net/http"

	"github.com/writ-id/writ/gen/oauth"
	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/oidc/access"
	"github.com/writ-id/writ/impl/oidc/client"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/form"
	"github.com/writ-id/writ/impl/oidc/issue"
	"github.com/writ-id/writ/impl/oidc/ledger"
	"github.com/writ-id/writ/impl/oidc/subject"
)

// Endpoint issues tokens. It is safe for concurrent use; every field is required.
type Endpoint struct {
	*endpoint.Env
	// IsOn reports whether a feature is on for an instance (policy.Chain).
	IsOn     func(ctx context.Context, feature policyv1.Feature, instance *policy.Instance) (bool, error)
	Roles    *policy.Roles
	Clients  *client.Directory
	Proves   Authenticator
	Subjects *subject.Reader
	Tokens   *access.Reader
	Issuer   *issue.Issuer
	Ledger   *ledger.Ledger
}

// Authenticator finds out which application a request comes from, by what it shows: a
// client.Directory does.
type Authenticator interface {
	Authenticate(ctx context.Context, at endpoint.Site, shown client.Credentials, methods []appv3.AuthMethodType) (*client.Client, error)
}

// request is one that is under way: what the steps found out.
type request struct {
	at    endpoint.Site
	kind  *grantType
	form  *oauth.TokenRequest
	shown client.Credentials

	client  *client.Client  // nil when a service user asks
	service *client.Service // nil when an application asks

	issue.Issuance
	fixed      bool   // a refresh token that comes keeps to the form of the access token
	renewable  bool   // whether a refresh token may come
	apart      bool   // a refresh token begins a family of its own
	parentID   string // the grant that the family is below
	generation int32  // of the refresh token; 0: there is none
	issued     string // which type of token was asked for; "" where that is no question
}

// grant is what a grant does itself, in this order; a new value for each request.
type grant interface {
	// present checks what the request shows for a grant, and sets the scopes that it is
	// for.
	present(ctx context.Context, x *request) error
	// about reads whom the tokens are about, now that the scopes are known.
	about(ctx context.Context, x *request) error
	// draft begins the access token.
	draft(ctx context.Context, x *request) error
	// write stores what was granted, durably before it is answered. It decides which of
	// parallel requests was first.
	write(ctx context.Context, x *request) error
}

// Token answers a request for tokens.
func (e *Endpoint) Token(w http.ResponseWriter, r *http.Request) {
	at, ok := e.Begin(w, r)
	if !ok {
		return
	}
	var asked oauth.TokenRequest
	err := form.Body(w, r, &asked)
	var res *oauth.TokenReply
	x := &request{at: at, form: &asked}
	if err == nil {
		if res, err = e.grant(r, x); err != nil {
			e.doubt(x, err)
		}
	}
	grantType := "" // what is none of ours is a text of the request
	if x.kind != nil {
		grantType = x.kind.name
	}
	if err != nil {
		e.Telemetry.Token(r.Context(), grantType, e.Fail(w, r, at, err))
		return
	}
	e.Telemetry.Token(r.Context(), grantType, "")
	endpoint.Answer(w, http.StatusOK, res)
}

// grant takes the steps of every grant.
func (e *Endpoint) grant(r *http.Request, x *request) (*oauth.TokenReply, error) {
	ctx := r.Context()
	if err := x.parse(r); err != nil {
		return nil, err
	}
	if err := e.authenticate(ctx, x); err != nil {
		return nil, err
	}
	if !x.allowed() {
		return nil, endpoint.UnauthorizedClient("%s", x.kind.denied)
	}
	g := x.kind.begin(e)
	if err := g.present(ctx, x); err != nil {
		return nil, err
	}
	if err := e.limit(ctx, x); err != nil {
		return nil, err
	}
	if err := g.about(ctx, x); err != nil {
		return nil, err
	}
	if err := e.permit(ctx, x); err != nil {
		return nil, err
	}
	if err := g.draft(ctx, x); err != nil {
		return nil, err
	}
	res, err := e.issue(ctx, x) // before anything is used up, so that a failure leaves it
	if err != nil {
		return nil, err
	}
	if err := g.write(ctx, x); err != nil {
		return nil, err
	}
	return res, e.still(ctx, x)
}

var errEnded = endpoint.InvalidGrant("the session or grant that the tokens came from has ended")

// still refuses tokens that have ended while targets of functions were asked: before that,
// everything was looked at a moment ago.
func (e *Endpoint) still(ctx context.Context, x *request) error {
	if !x.Asked {
		return nil
	}
	at := x.at
	at.Now = e.Now()
	found, err := e.Subjects.OfToken(ctx, at, x.Access, subject.AboutToken(x.Access))
	if err == nil && found == nil {
		err = errEnded
	}
	return err
}

// parse finds out which grant it is, and what authenticates its client.
func (x *request) parse(r *http.Request) (err error) {
	if x.form.GrantType == "" {
		return endpoint.InvalidRequest("grant_type is missing")
	}
	if x.kind = find(x.form.GrantType); x.kind == nil {
		return endpoint.Refuse(oauth.UnsupportedGrantType, "the grant type is not supported")
	}
	x.shown, err = client.Shown(r, client.Form{
		ID: x.form.ClientId, Secret: x.form.ClientSecret, Assertion: x.form.ClientAssertion, AssertionType: x.form.ClientAssertionType,
	})
	return err
}

// authenticate finds out who asks (RFC 6749, section 3.2.1), if the grant is switched on.
func (e *Endpoint) authenticate(ctx context.Context, x *request) (err error) {
	if x.kind.feature != policyv1.Feature_FEATURE_UNSPECIFIED {
		on, err := e.IsOn(ctx, x.kind.feature, x.at.Instance)
		if err == nil && !on { // SEC-100
			err = endpoint.Refuse(oauth.UnsupportedGrantType, "the grant type is switched off")
		}
		if err != nil {
			return err
		}
	}
	switch x.kind.by {
	case applications:
		x.client, err = e.Proves.Authenticate(ctx, x.at, x.shown, x.kind.methods)
		x.Client = x.client
	case services:
		x.service, err = e.Clients.AuthenticateService(ctx, x.at, x.shown)
		if errors.Is(err, endpoint.ErrClient) {
			if _, other := e.Proves.Authenticate(ctx, x.at, x.shown, x.kind.methods); other == nil {
				err = endpoint.UnauthorizedClient("applications have no tokens of their own; a service user does")
			}
		}
	case signers:
		x.service, err = e.signer(ctx, x)
	}
	if err != nil {
		return err
	}
	if x.client != nil {
		x.Lives = x.client.Lives
	} else {
		x.Lives, err = e.Clients.LivesOf(ctx, x.at, x.service)
	}
	return err
}

// signer returns the service user that signed the assertion (RFC 7523, section 2.1).
// Nobody has to authenticate beside it, but what is shown has to be right (RFC 7521,
// section 4.1).
func (e *Endpoint) signer(ctx context.Context, x *request) (*client.Service, error) {
	if x.form.Assertion == "" {
		return nil, endpoint.InvalidRequest("assertion is missing")
	}
	if !x.shown.Anonymous() {
		_, err := e.Clients.AuthenticateService(ctx, x.at, x.shown)
		if errors.Is(err, endpoint.ErrClient) {
			_, err = e.Proves.Authenticate(ctx, x.at, x.shown, x.kind.methods)
		}
		if err != nil {
			return nil, err
		}
	}
	found, err := e.Clients.ServiceByAssertion(ctx, x.at, x.form.Assertion)
	if err == nil && found == nil {
		err = endpoint.InvalidGrant("the assertion is not good")
	}
	return found, err
}

// allowed reports whether the grant is configured for the application (RFC 6749,
// section 5.2). Service users have theirs by what they are.
func (x *request) allowed() bool { return x.client == nil || x.client.MayUse(x.kind.needs) }

// limit leaves of the scopes what the client may have (SEC-019, SEC-098).
func (e *Endpoint) limit(ctx context.Context, x *request) (err error) {
	if x.kind.scopes == sealed {
		return nil
	}
	if x.client != nil {
		x.Scopes, err = e.Clients.Grantable(ctx, x.at.ID, x.Scopes, x.client.Roles, x.client.OrgID)
	} else { // a service user is in no project, so it has no roles of one
		x.Scopes, err = e.Clients.Grantable(ctx, x.at.ID, x.Scopes, nil, x.service.OrgID)
	}
	if err == nil && len(x.Scopes.List) == 0 {
		err = endpoint.InvalidScope("%s", x.kind.nothing)
	}
	return err
}

// permit refuses tokens about a user who is not of the organization that scopes name
// (SEC-018), or may not use the application (SEC-093).
func (e *Endpoint) permit(ctx context.Context, x *request) error {
	orgID, domain := "", ""
	if x.service != nil {
		orgID = x.service.OrgID
	}
	if x.Subject != nil {
		orgID, domain = x.Subject.OrgID, x.Subject.Domain
	}
	if !x.Scopes.Belongs(orgID, domain) {
		return x.kind.stranger
	}
	if x.client == nil {
		return nil
	}
	if may, err := e.Clients.Admits(ctx, x.client, x.Subject.ID, orgID); err != nil || !may {
		return endpoint.OrElse(err, x.kind.barred)
	}
	return nil
}

// issue makes the answer (RFC 6749, section 5.1; RFC 8693, section 2.2).
func (e *Endpoint) issue(ctx context.Context, x *request) (*oauth.TokenReply, error) {
	if x.issued == typeIDToken {
		text, err := e.Issuer.ID(ctx, x.at, &x.Issuance, "")
		return &oauth.TokenReply{
			AccessToken: text, TokenType: oauth.TokenReplyTokenTypeNA, ExpiresIn: x.IDLife(x.at), IssuedTokenType: x.issued, Scope: x.Scopes.String(),
		}, err
	}
	switch x.kind.refresh {
	case rotated:
		x.generation++
	case offline:
		if x.renewable && x.Scopes.Has("offline_access") && x.client.MayUse(appv3.GrantType_GRANT_TYPE_REFRESH_TOKEN) {
			x.generation = 1
			if x.apart {
				e.separate(x)
			}
		} else {
			x.Scopes = x.Scopes.Online()
		}
	case never:
	}
	if x.generation > 0 {
		var err error
		if x.Refresh, err = e.Issuer.Refresh(ctx, x.at, x.Access, x.generation, x.fixed); err != nil {
			return nil, err
		}
	}
	res, err := e.Issuer.Reply(ctx, x.at, &x.Issuance)
	if err == nil {
		res.IssuedTokenType = x.issued
	}
	return res, err
}

// separate begins a family of tokens.
func (e *Endpoint) separate(x *request) {
	x.Access.GrantId = e.NewID()
	x.Access.Id = subject.TokenID(x.Access.GetGrantId(), "", 0, e.NewID())
}

// made is what is stored of a request that begins a family.
func (x *request) made() *ledger.Made {
	return &ledger.Made{
		Access: x.Access, Scopes: x.Scopes.List, OrgID: x.Subject.OrgID, UserGeneration: x.Subject.Generation,
		ParentID: x.parentID, Generation: x.generation, Lives: x.Lives,
	}
}
