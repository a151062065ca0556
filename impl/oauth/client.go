package oauth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/writ-id/writ/gen/db"
	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	"github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/policy"
	"github.com/writ-id/writ/impl/resource"
	"github.com/writ-id/writ/impl/secret"
	"github.com/writ-id/writ/impl/store"
)

const (
	methodBasic = int16(appv3.AuthMethodType_AUTH_METHOD_TYPE_BASIC)
	methodPost  = int16(appv3.AuthMethodType_AUTH_METHOD_TYPE_POST)
	methodNone  = int16(appv3.AuthMethodType_AUTH_METHOD_TYPE_NONE)
	methodJWT   = int16(appv3.AuthMethodType_AUTH_METHOD_TYPE_PRIVATE_KEY_JWT)

	grantCode     = int16(appv3.GrantType_GRANT_TYPE_AUTHORIZATION_CODE)
	grantRefresh  = int16(appv3.GrantType_GRANT_TYPE_REFRESH_TOKEN)
	grantExchange = int16(appv3.GrantType_GRANT_TYPE_TOKEN_EXCHANGE)
	grantImplicit = int16(appv3.GrantType_GRANT_TYPE_IMPLICIT)

	jwtAccessTokens = int16(object.AccessTokenType_ACCESS_TOKEN_TYPE_JWT)
)

// assertionType is the only kind of client assertion (RFC 7523, section 2.2).
const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// client is an application that uses the endpoints.
type client struct {
	db.App
	assertRoles  bool // its project asserts roles
	checkRole    bool // its project asks users for a role
	checkProject bool // its project asks users to be of an organization that has it
	roles        []string
	keys         map[string]appKey
}

// appKey is a key that its assertions may be signed with.
type appKey struct {
	ID    string     `json:"id"`
	Key   string     `json:"key"`
	Until *time.Time `json:"until"`
}

func (c *client) may(grant int16) bool { return slices.Contains(c.GrantTypes, grant) }

func (c *client) isNative() bool {
	return c.ApplicationType == int16(appv3.ApplicationType_APPLICATION_TYPE_NATIVE)
}

// client returns an active application by its client ID; nil when there is none.
func (c *call) client(id string) (*client, error) {
	if id == "" || len(id) > 400 {
		return nil, nil
	}
	return c.clients.Get(c.ctx(), clientKey{c.instance.ID, id}, func(ctx context.Context) (*client, error) {
		row, err := c.queries.OAuthClient(ctx, c.DB.Pool, db.OAuthClientParams{InstanceID: c.instance.ID, ClientID: id})
		if store.NoRow(err) || err == nil && !row.Active {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		found := &client{
			App: row.App, assertRoles: row.ProjectRoleAssertion, checkRole: row.ProjectRoleCheck, checkProject: row.HasProjectCheck,
			roles: row.RoleKeys, keys: map[string]appKey{},
		}
		var keys []appKey
		if err := json.Unmarshal(row.Keys, &keys); err != nil {
			return nil, err
		}
		for _, key := range keys {
			found.keys[key.ID] = key
		}
		return found, nil
	})
}

// credentials are what a request shows to authenticate its client.
type credentials struct {
	method    int16
	id        string
	secret    string
	assertion string
}

// shown returns the credentials of a request: of one mechanism only, and of one
// client (RFC 6749, section 2.3; SEC-051).
func (c *call) shown(id, formSecret, assertion, kind string) (credentials, error) {
	shown := credentials{method: methodNone, id: id}
	mechanisms := 0
	if formSecret != "" {
		shown.method, shown.secret = methodPost, formSecret
		mechanisms++
	}
	if assertion != "" || kind != "" {
		if kind != assertionType {
			return shown, invalidRequest("client_assertion_type has to be %s", assertionType)
		}
		if assertion == "" {
			return shown, invalidRequest("client_assertion is missing")
		}
		shown.method, shown.assertion = methodJWT, assertion
		mechanisms++
	}
	headers := c.r.Header["Authorization"]
	if len(headers) > 1 {
		return shown, invalidRequest("the Authorization header is repeated")
	}
	if len(headers) == 1 {
		mechanisms++
		c.basic = true
		named, value, ok := basic(headers[0])
		if !ok {
			c.note("the Authorization header is no Basic credentials in base64, form-encoded")
			return shown, errClient
		}
		if id != "" && id != named {
			return shown, invalidRequest("client_id differs from the client of the Authorization header")
		}
		shown.method, shown.id, shown.secret = methodBasic, named, value
	}
	if mechanisms > 1 {
		return shown, invalidRequest("the client authenticates in more than one way")
	}
	return shown, nil
}

// basic reads client credentials from an Authorization header. Both are
// form-encoded, once (RFC 6749, section 2.3.1; SEC-052).
func basic(header string) (id, value string, ok bool) {
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

// authenticate returns the application that a request comes from. The method that
// is configured is the only one that is good (SEC-050), and it has to be one of
// those that the endpoint takes.
func (c *call) authenticate(shown credentials, methods ...int16) (*client, error) {
	if shown.method == methodJWT {
		return c.byAssertion(shown, methods)
	}
	found, err := c.client(shown.id)
	if err != nil {
		return nil, err
	}
	known := found
	if known == nil {
		known = &client{} // takes as long (SEC-053)
	}
	right := shown.method == methodNone || secret.IsGood(shown.secret, known.SecretHash, known.OldSecretHash, known.OldSecretUntil, c.now)
	if found == nil || !right || found.AuthMethodType != shown.method || !slices.Contains(methods, shown.method) {
		c.noteClient(found, shown.method, methods)
		return nil, errClient
	}
	c.from(found.ClientID)
	return found, nil
}

// methodNames are the names that clients know the methods by.
var methodNames = map[int16]string{
	methodBasic: "client_secret_basic", methodPost: "client_secret_post", methodNone: "none", methodJWT: "private_key_jwt",
}

// noteClient notes why an application was not authenticated.
func (c *call) noteClient(found *client, shown int16, taken []int16) {
	if found == nil {
		c.note("no active application has this client_id")
		return
	}
	policy.RequestFrom(c.ctx()).Client = found.ClientID
	switch {
	case found.AuthMethodType != shown:
		c.note("the application is configured for %s, the request came with %s", methodNames[found.AuthMethodType], methodNames[shown])
	case !slices.Contains(taken, shown):
		c.note("this endpoint does not take %s", methodNames[shown])
	case shown == methodJWT:
		c.note("the assertion is not good: its signature, key, issuer, subject, audience or times, or it was used before")
	default:
		c.note("the secret is not that of the application")
	}
}

// service is a service user as a client: its client ID is its username or login
// name.
type service struct {
	userID, orgID, username string
	generation              int32
	jwt                     bool
}

// serviceOf returns the service user that a request comes from, by a secret or a key.
func (c *call) serviceOf(shown credentials) (*service, error) {
	if shown.method != methodJWT {
		return c.authenticateService(shown)
	}
	found, err := c.serviceByAssertion(shown.assertion)
	if err == nil && found == nil {
		c.note("no service user signed the assertion")
	}
	if err == nil && (found == nil || shown.id != "" && shown.id != found.username && shown.id != found.userID) {
		err = errClient
	}
	return found, err
}

// authenticateService returns the service user that shows its secret.
func (c *call) authenticateService(shown credentials) (*service, error) {
	if shown.method != methodBasic && shown.method != methodPost || len(shown.id) > 400 {
		c.note("service users show a secret by client_secret_basic or client_secret_post; the request came with %s", methodNames[shown.method])
		return nil, errClient
	}
	rows, err := c.services.Get(c.ctx(), clientKey{c.instance.ID, shown.id}, func(ctx context.Context) ([]db.ServiceClientsRow, error) {
		params := db.ServiceClientsParams{InstanceID: c.instance.ID, ClientID: resource.Fold(shown.id)}
		if at := strings.LastIndexByte(shown.id, '@'); at >= 0 {
			params.Username, params.Domain = resource.Fold(shown.id[:at]), strings.ToLower(shown.id[at+1:])
		}
		return c.queries.ServiceClients(ctx, c.DB.Pool, params)
	})
	if err != nil {
		return nil, err
	}
	var found *service
	for i := range rows {
		row := &rows[i]
		if secret.IsGood(shown.secret, row.SecretHash, row.OldSecretHash, row.OldSecretUntil, c.now) {
			found = &service{row.ID, row.OrgID, row.Username, row.Generation, row.AccessTokenType == jwtAccessTokens}
		}
	}
	if len(rows) == 0 {
		secret.IsGood(shown.secret, nil, nil, nil, c.now)
	}
	if found == nil {
		if len(rows) == 0 {
			c.note("no service user has this name")
		} else {
			c.note("the secret is not that of the service user")
		}
		return nil, errClient
	}
	c.from(found.username)
	return found, nil
}
