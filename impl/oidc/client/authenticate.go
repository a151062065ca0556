package client

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/oidc/endpoint"
)

// The methods of authentication, by short names.
const (
	basic     = appv3.AuthMethodType_AUTH_METHOD_TYPE_BASIC
	post      = appv3.AuthMethodType_AUTH_METHOD_TYPE_POST
	none      = appv3.AuthMethodType_AUTH_METHOD_TYPE_NONE
	assertion = appv3.AuthMethodType_AUTH_METHOD_TYPE_PRIVATE_KEY_JWT
	either    = appv3.AuthMethodType_AUTH_METHOD_TYPE_SECRET // basic or post: no method that a request shows
)

// methodNames are the names that clients know the methods by (RFC 7591, section 2).
var methodNames = map[appv3.AuthMethodType]string{
	basic: "client_secret_basic", post: "client_secret_post", none: "none", assertion: "private_key_jwt",
	either: "client_secret_basic or client_secret_post",
}

// takes reports whether an application that is configured for one method may show another:
// only one that has a secret, and was told no method, may show it either way.
func takes(configured, shown appv3.AuthMethodType) bool {
	return configured == shown || configured == either && slices.Contains(Secret, shown)
}

// What endpoints take. Every one names one of these lists.
var (
	// All are the methods of endpoints that applications use.
	All = []appv3.AuthMethodType{basic, post, assertion, none}
	// Secret are those that prove a secret.
	Secret = []appv3.AuthMethodType{basic, post}
	// Confidential are those that prove something.
	Confidential = []appv3.AuthMethodType{basic, post, assertion}
	// Introspecting are those of applications that introspect tokens, which are APIs.
	Introspecting = []appv3.AuthMethodType{basic, assertion}
)

// Names returns the names of methods, as the metadata lists them (OpenID Connect
// Discovery, section 3).
func Names(methods []appv3.AuthMethodType) (names []string) {
	for _, method := range methods {
		names = append(names, methodNames[method])
	}
	return names
}

// assertionType is the only kind of client assertion (RFC 7523, section 2.2).
const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// Credentials are what a request shows to authenticate its client.
type Credentials struct {
	method    appv3.AuthMethodType
	id        string
	secret    string
	assertion string
	again     bool // they were looked at before, or nearly
}

// Anonymous reports whether a request shows nothing.
func (c Credentials) Anonymous() bool { return c.method == none }

// Posted returns the client ID and the secret that came in the form, for an authenticator
// that knows another secret than that of the application.
func (c Credentials) Posted() (id, secret string, ok bool) { return c.id, c.secret, c.method == post }

// maxKept bounds what is kept of credentials: beyond what those are that we know.
const maxKept = 4 << 10

// Kept returns the credentials for another look at them, without the request that they came
// in. An assertion is good then although it counts as used: maybe that was the first look.
func (c Credentials) Kept() (Credentials, bool) {
	if len(c.id)+len(c.secret)+len(c.assertion) > maxKept {
		return Credentials{}, false
	}
	c.id, c.secret, c.assertion, c.again = strings.Clone(c.id), strings.Clone(c.secret), strings.Clone(c.assertion), true
	return c, true
}

// Form is what a form says of its client (RFC 6749, section 2.3.1; RFC 7521, section
// 4.2).
type Form struct{ ID, Secret, Assertion, AssertionType string }

// Shown returns the credentials of a request: of one mechanism only, and of one
// client (RFC 6749, section 2.3; SEC-051).
func Shown(r *http.Request, form Form) (Credentials, error) {
	shown := Credentials{method: none, id: form.ID}
	mechanisms := 0
	if form.Secret != "" {
		shown.method, shown.secret = post, form.Secret
		mechanisms++
	}
	if form.Assertion != "" || form.AssertionType != "" {
		if form.AssertionType != assertionType {
			return shown, endpoint.InvalidRequest("client_assertion_type has to be %s", assertionType)
		}
		if form.Assertion == "" {
			return shown, endpoint.InvalidRequest("client_assertion is missing")
		}
		shown.method, shown.assertion = assertion, form.Assertion
		mechanisms++
	}
	headers := r.Header["Authorization"]
	if len(headers) > 1 {
		return shown, endpoint.InvalidRequest("the Authorization header is repeated")
	}
	if len(headers) == 1 {
		mechanisms++
		id, value, ok := readBasic(headers[0])
		if !ok {
			endpoint.Note(r.Context(), "the Authorization header is no Basic credentials in base64, form-encoded")
			return shown, endpoint.ErrClient
		}
		if form.ID != "" && form.ID != id {
			return shown, endpoint.InvalidRequest("client_id differs from the client of the Authorization header")
		}
		shown.method, shown.id, shown.secret = basic, id, value
	}
	if mechanisms > 1 {
		return shown, endpoint.InvalidRequest("the client authenticates in more than one way")
	}
	return shown, nil
}

// readBasic reads client credentials from an Authorization header. Both are
// form-encoded, once (RFC 6749, section 2.3.1; SEC-052).
func readBasic(header string) (id, value string, ok bool) {
	scheme, encoded, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "basic") {
		return "", "", false
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if err != nil {
		return "", "", false
	}
	first, second, found := strings.Cut(string(text), ":")
	id, idErr := url.QueryUnescape(first)
	value, valueErr := url.QueryUnescape(second)
	ok = found && idErr == nil && valueErr == nil && id != "" && utf8.ValidString(id) && utf8.ValidString(value) && strings.IndexByte(id, 0) < 0
	return id, value, ok
}

// Authenticate returns the application that a request comes from. Only what is configured
// is good (SEC-050), and it has to be one of those that the endpoint takes.
func (d *Directory) Authenticate(ctx context.Context, at endpoint.Site, shown Credentials, methods []appv3.AuthMethodType) (*Client, error) {
	if shown.method == assertion {
		return d.byAssertion(ctx, at, shown, methods)
	}
	found, err := d.Find(ctx, at.ID, shown.id)
	if err != nil {
		return nil, err
	}
	known := found
	if known == nil {
		known = &Client{} // takes as long (SEC-053)
	}
	right := shown.method == none || secret.IsGood(shown.secret, known.SecretHash, known.OldSecretHash, known.OldSecretUntil, at.Now)
	if found == nil || !right || !takes(found.AuthMethodType, shown.method) || !slices.Contains(methods, shown.method) {
		noteClient(ctx, found, shown.method, methods)
		return nil, endpoint.ErrClient
	}
	endpoint.From(ctx, found.ClientID)
	return found, nil
}

// noteClient notes why an application was not authenticated.
func noteClient(ctx context.Context, found *Client, shown appv3.AuthMethodType, taken []appv3.AuthMethodType) {
	if found == nil {
		endpoint.Note(ctx, "no active application has this client_id")
		return
	}
	policy.RequestFrom(ctx).Client = found.ClientID
	switch {
	case !takes(found.AuthMethodType, shown):
		endpoint.Note(ctx, "the application is configured for %s, the request came with %s", methodNames[found.AuthMethodType], methodNames[shown])
	case !slices.Contains(taken, shown):
		endpoint.Note(ctx, "this endpoint does not take %s", methodNames[shown])
	case shown == assertion:
		endpoint.Note(ctx, "the assertion is not good: its signature, key, issuer, subject, audience or times, or it was used before")
	default:
		endpoint.Note(ctx, "the secret is not that of the application")
	}
}

// AuthenticateService returns the service user that shows its secret.
func (d *Directory) AuthenticateService(ctx context.Context, at endpoint.Site, shown Credentials) (*Service, error) {
	if !slices.Contains(Secret, shown.method) || len(shown.id) > maxID {
		endpoint.Note(ctx, "service users show a secret by client_secret_basic or client_secret_post; the request came with %s", methodNames[shown.method])
		return nil, endpoint.ErrClient
	}
	rows, err := d.candidates(ctx, at, shown.id)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		secret.IsGood(shown.secret, nil, nil, nil, at.Now)
		endpoint.Note(ctx, "no service user has this name")
		return nil, endpoint.ErrClient
	}
	var found *Service
	for i := range rows {
		row := &rows[i]
		if secret.IsGood(shown.secret, row.SecretHash, row.OldSecretHash, row.OldSecretUntil, at.Now) {
			found = &Service{row.ID, row.OrgID, row.Username, row.Generation, isJWT(row.AccessTokenType)}
		}
	}
	if found == nil {
		endpoint.Note(ctx, "the secret is not that of the service user")
		return nil, endpoint.ErrClient
	}
	endpoint.From(ctx, found.Username)
	return found, nil
}

// ServiceOf returns the service user that a request comes from, by a secret or a key.
func (d *Directory) ServiceOf(ctx context.Context, at endpoint.Site, shown Credentials) (*Service, error) {
	if shown.method != assertion {
		return d.AuthenticateService(ctx, at, shown)
	}
	found, err := d.ServiceByAssertion(ctx, at, shown.assertion)
	if err == nil && found == nil {
		endpoint.Note(ctx, "no service user signed the assertion")
	}
	if err == nil && (found == nil || shown.id != "" && shown.id != found.Username && shown.id != found.UserID) {
		err = endpoint.ErrClient
	}
	return found, err
}
