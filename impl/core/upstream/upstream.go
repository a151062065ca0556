// Package upstream speaks to identity providers of others: it sends browsers there to
// sign in, and reads from what comes back who they are. It knows no database and no page.
//
//	Begin -> the browser at the provider -> Finish: code -> tokens -> ID token, userinfo -> Identity
//
// All types of providers are one code path over a table of differences (dialect.go):
// those with an issuer are found out by discovery and believed by their ID token
// (discovery.go, idtoken.go); the others are asked who the user is (profile.go). Every
// call goes through package outgoing. What the provider says is never shown: what went
// wrong is a Problem of a few kinds.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/core/secret"
)

// Type is what a provider is, by the names of the contract (PROVIDER_TYPE_…).
type Type string

// The types.
const (
	GitLab           Type = "GITLAB"
	GitLabSelfHosted Type = "GITLAB_SELF_HOSTED"
	OIDC             Type = "OIDC"
	OAuth            Type = "OAUTH"
	GitHub           Type = "GITHUB"
	GitHubES         Type = "GITHUB_ES"
	Google           Type = "GOOGLE"
	AzureAD          Type = "AZURE_AD"
	Apple            Type = "APPLE"
)

// AutoLinking is by what an unknown identity is taken for that of a user, who then has
// to say so.
type AutoLinking int

// The ways, with the numbers of the contract.
const (
	LinkNever AutoLinking = iota
	LinkByUsername
	LinkByEmail
)

// Options are what may become of an identity that no user is linked to.
type Options struct {
	Linking, Creation, AutoCreation, AutoUpdate bool
	AutoLinking                                 AutoLinking
}

// Provider is an identity provider as it is configured.
type Provider struct {
	InstanceID, ID, Name string
	// OrgID is the organization that it belongs to; empty when that is the instance or
	// the system.
	OrgID string
	Type  Type

	ClientID, ClientSecret string
	// Scopes are asked for; without any those of the type are.
	Scopes []string
	// Issuer is that of OIDC and GITLAB_SELF_HOSTED.
	Issuer string
	// The endpoints of OAUTH and GITHUB_ES, and the member of the user of the former that
	// never changes.
	AuthorizationEndpoint, TokenEndpoint, UserEndpoint, IDAttribute string
	// Tenant of AZURE_AD: common, organizations, consumers, or the one whose users may
	// sign in.
	Tenant string
	// EmailVerified takes addresses as verified of which the provider does not say.
	EmailVerified bool
	// IDTokenMapping takes everything from the ID token; the userinfo endpoint is not asked.
	IDTokenMapping bool
	// Of APPLE.
	TeamID, KeyID string
	PrivateKey    []byte // PEM of PKCS #8, as Apple gives it out

	Options
}

// Identity is who somebody is at a provider.
type Identity struct {
	// Subject never changes and is nobody else's there (SEC-201).
	Subject  string
	Username string
	Email    string
	// EmailVerified says that the provider vouches for the address.
	EmailVerified                                          bool
	GivenName, FamilyName, DisplayName, Nickname, Language string
	// AuthTime is when they authenticated there, if that is said.
	AuthTime time.Time
}

// Kind is what kind of a problem there was.
type Kind string

// The kinds.
const (
	Canceled    Kind = "canceled"    // the user did not want to
	Refused     Kind = "refused"     // the provider did not want to
	Unreachable Kind = "unreachable" // it did not answer, or not in time
	Invalid     Kind = "invalid"     // its answer cannot be relied on
	Setup       Kind = "setup"       // it cannot work like that: whoever runs this has to look
)

// Problem is why nobody was signed in.
type Problem struct {
	Kind  Kind
	cause error
}

// Error implements error. It is for logs: it has no secret and nothing of a user.
func (p *Problem) Error() string { return "upstream: " + string(p.Kind) + ": " + p.cause.Error() }

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.cause }

func problem(kind Kind, format string, args ...any) error {
	return &Problem{kind, fmt.Errorf(format, args...)}
}

// Limits of one provider (SEC-254).
const (
	// Timeout bounds all that Begin or Finish wait for.
	Timeout = 15 * time.Second
	// Lifetime is how long the user may take at the provider (SEC-200).
	Lifetime = 10 * time.Minute

	maxAnswer  = 256 << 10 // of a document
	maxParam   = 8 << 10   // of a parameter that the browser brings
	maxSubject = 255       // OpenID Connect Core, section 2
)

// Client speaks to providers. It is safe for concurrent use; New makes one.
type Client struct {
	out      *outgoing.Client
	now      func() time.Time
	metadata *memory[*metadata]
	keys     *memory[*keys]
}

// New returns a Client that calls by out.
func New(out *outgoing.Client, now func() time.Time) *Client {
	return &Client{out: out, now: now, metadata: newMemory[*metadata](now), keys: newMemory[*keys](now)}
}

// pool names the connections to a provider: tenants share none.
func (p *Provider) pool() string { return "idp/" + p.InstanceID + "/" + p.ID }

// Attempt is what a login wants of a provider.
type Attempt struct {
	// Pending holds the browser, the login, and where the provider has to answer; Begin
	// adds the rest.
	Pending *tokenv1.Upstream
	// Seal makes the state of it.
	Seal func(*tokenv1.Upstream) (string, error)
	// LoginHint is who the user is said to be.
	LoginHint string
	// Languages are those of the user, as ui_locales.
	Languages string
	// Anew asks the provider to authenticate the user although it knows them.
	Anew bool
	// Choose asks it to let them choose an account.
	Choose bool
}

// HasNonce reports whether the answers of a provider are bound to an attempt by an ID
// token. Those of others may only arrive at an address of their own, or one provider
// could have the code of another one sent to itself (RFC 9700, section 4.4).
func (p *Provider) HasNonce() bool { return p.dialect().issuer != nil }

// Begin returns where the browser goes to sign in.
func (c *Client) Begin(ctx context.Context, p *Provider, in Attempt) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	at, err := c.endpoints(ctx, p)
	if err != nil {
		return "", err
	}
	of, pending := p.dialect(), in.Pending
	pending.ProviderId, pending.Issuer, pending.StartedAt = p.ID, at.Issuer, c.now().Unix()
	pending.Nonce, pending.Verifier = secret.Random(), oauth2.GenerateVerifier()
	// Who does not know the parameter has to ignore it (RFC 6749, section 3.1).
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(pending.GetVerifier())}
	set := func(name, value string) { options = append(options, oauth2.SetAuthURLParam(name, value)) }
	for name, value := range of.params {
		set(name, value)
	}
	if of.issuer != nil {
		set("nonce", pending.GetNonce())
		if in.LoginHint != "" {
			set("login_hint", in.LoginHint)
		}
		if in.Languages != "" {
			set("ui_locales", in.Languages)
		}
		switch {
		case in.Anew:
			set("prompt", "login")
			set("max_age", "0")
		case in.Choose:
			set("prompt", "select_account")
		}
	}
	state, err := in.Seal(pending)
	if err != nil {
		return "", err
	}
	address := p.config(at, pending.GetRedirectUri(), "").AuthCodeURL(state, options...)
	return c.out.Origin(address), nil
}

// Realm is what gives the subjects of a provider their meaning: with another one they are
// somebody else.
func (p *Provider) Realm() string {
	return strings.Join([]string{string(p.Type), p.Issuer, p.Tenant, p.AuthorizationEndpoint, p.TokenEndpoint, p.UserEndpoint, p.IDAttribute}, "\x00")
}

// Scopes are what a type asks for when it is not configured otherwise.
func (t Type) Scopes() []string {
	d, _ := t.dialect()
	return slices.Clone(d.scopes)
}

// scopes are asked for.
func (p *Provider) scopes() []string {
	asked := slices.Clone(p.Scopes)
	if len(asked) == 0 {
		asked = slices.Clone(p.dialect().scopes)
	}
	if p.HasNonce() && !slices.Contains(asked, "openid") { // without it there is no ID token
		asked = slices.Insert(asked, 0, "openid")
	}
	return asked
}

func (p *Provider) config(at *metadata, redirectURI, clientSecret string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.ClientID, ClientSecret: clientSecret, RedirectURL: redirectURI, Scopes: p.scopes(),
		Endpoint: oauth2.Endpoint{AuthURL: at.AuthorizationEndpoint, TokenURL: at.TokenEndpoint, AuthStyle: at.authStyle(p.dialect())},
	}
}

// Finish returns who the browser came back as. params are those of the answer, in which
// each may be once; pending is what Begin made, and its state was compared already.
func (c *Client) Finish(ctx context.Context, p *Provider, pending *tokenv1.Upstream, params url.Values) (*Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if age := c.now().Unix() - pending.GetStartedAt(); pending.GetProviderId() != p.ID || age < -60 || age >= int64(Lifetime/time.Second) {
		return nil, problem(Invalid, "the attempt is of another provider, or too old")
	}
	for name, values := range params {
		if len(values) > 1 || len(values) == 1 && len(values[0]) > maxParam {
			return nil, problem(Invalid, "the parameter %s is there twice, or too long", strconv.Quote(name[:min(len(name), 50)]))
		}
	}
	at, err := c.endpoints(ctx, p)
	if err != nil {
		return nil, err
	}
	if at.Issuer != pending.GetIssuer() {
		return nil, problem(Invalid, "the issuer has changed meanwhile")
	}
	if err := at.answers(p, params); err != nil {
		return nil, err
	}
	tokens, err := c.exchange(ctx, p, at, pending, params.Get("code"))
	if err != nil {
		return nil, err
	}
	who, err := p.dialect().identify(ctx, c, p, at, pending, tokens, params)
	if err != nil {
		return nil, err
	}
	if who.Subject == "" || len(who.Subject) > maxSubject {
		return nil, problem(Invalid, "the subject is missing or too long")
	}
	return who, nil
}

// answers judges the parameters of an answer before anything is done with them.
func (at *metadata) answers(p *Provider, params url.Values) error {
	// Who answers comes first: an error of somebody else is none (RFC 9207, section 2.4).
	iss, sent := params.Get("iss"), params.Has("iss")
	switch known := p.dialect().names(at); {
	case sent && known != nil && !known(iss):
		return problem(Invalid, "iss is another issuer")
	case !sent && at.IssuerInResponses:
		return problem(Invalid, "iss is missing")
	}
	switch said := params.Get("error"); {
	case said == "access_denied" || strings.HasPrefix(said, "user_cancel"): // Apple has a code of its own
		return problem(Canceled, "the answer is %s", strconv.Quote(said[:min(len(said), 50)]))
	case said == "temporarily_unavailable" || said == "server_error":
		return problem(Unreachable, "the answer is %s", said)
	case said != "":
		return problem(Refused, "the answer is %s", strconv.Quote(said[:min(len(said), 100)]))
	case params.Get("code") == "":
		return problem(Invalid, "the answer has no code")
	}
	return nil
}

// exchange redeems a code.
func (c *Client) exchange(ctx context.Context, p *Provider, at *metadata, pending *tokenv1.Upstream, code string) (*oauth2.Token, error) {
	clientSecret := p.ClientSecret
	if of := p.dialect(); of.secret != nil {
		var err error
		if clientSecret, err = of.secret(p, c.now()); err != nil {
			return nil, &Problem{Setup, err}
		}
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, c.out.HTTP(p.pool(), maxAnswer))
	tokens, err := p.config(at, pending.GetRedirectUri(), clientSecret).Exchange(ctx, code, oauth2.VerifierOption(pending.GetVerifier()))
	refused, answered := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case err == nil && !strings.EqualFold(tokens.Type(), "Bearer"):
		return nil, problem(Invalid, "the access token is of another type")
	case err == nil:
		return tokens, nil
	case !answered:
		return nil, unreachable(err)
	case refused.Response.StatusCode >= http.StatusInternalServerError || refused.Response.StatusCode == http.StatusTooManyRequests:
		return nil, problem(Unreachable, "the token endpoint answers %d", refused.Response.StatusCode)
	case slices.Contains([]string{"invalid_client", "unauthorized_client", "incorrect_client_credentials", "redirect_uri_mismatch"}, refused.ErrorCode):
		return nil, problem(Setup, "the token endpoint answers %s", refused.ErrorCode)
	}
	return nil, problem(Refused, "the token endpoint answers %d %s", refused.Response.StatusCode, strconv.Quote(refused.ErrorCode[:min(len(refused.ErrorCode), 100)]))
}

// unreachable says why there was no answer, or none that can be read.
func unreachable(err error) error {
	if errors.Is(err, outgoing.ErrForbidden) {
		return &Problem{Setup, outgoing.ErrForbidden}
	}
	if wrong, ok := errors.AsType[*url.Error](err); ok { // which names the address and what is in it
		err = wrong.Err
	}
	return &Problem{Unreachable, err}
}

// EndSession returns where the browser goes to sign out of the provider as well, and comes
// back from to an address with a state (OpenID Connect RP-Initiated Logout); "" when the
// provider has no such place. No ID token is kept to be a hint: the provider may ask.
func (c *Client) EndSession(ctx context.Context, p *Provider, redirectURI, state string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	at, err := c.endpoints(ctx, p)
	if err != nil || at.EndSessionEndpoint == "" {
		return "", err
	}
	to, err := url.Parse(at.EndSessionEndpoint)
	if err != nil {
		return "", &Problem{Setup, err}
	}
	query := to.Query()
	query.Set("client_id", p.ClientID)
	query.Set("post_logout_redirect_uri", redirectURI)
	query.Set("state", state)
	to.RawQuery = query.Encode()
	return c.out.Origin(to.String()), nil
}

// kindOf returns the kind of a Problem, "" of other errors.
func kindOf(err error) Kind {
	if told, ok := errors.AsType[*Problem](err); ok {
		return told.Kind
	}
	return ""
}
