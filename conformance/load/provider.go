package load

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/writ-id/writ/conformance/interop/browser"
)

// ready is what a ready file says, ours or the peer's.
type ready struct {
	Issuer     string `json:"issuer"`
	Addr       string `json:"addr"`
	InstanceID string `json:"instance_id"`
	OrgID      string `json:"org_id"`
	ProjectID  string `json:"project_id"`
	AdminToken string `json:"admin_token"`
	User       struct {
		LoginName string `json:"login_name"`
	} `json:"user"`
	ServiceUser registered            `json:"service_user"`
	Clients     map[string]registered `json:"clients"`
}

func readReady(path string) (r ready, err error) {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}

// registered is a confidential client of the token endpoint.
type registered struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	RedirectURI  string `json:"redirect_uri"`
}

// basic returns the Authorization header of a client (RFC 6749 §2.3.1).
func (r registered) basic() string {
	pair := url.QueryEscape(r.ClientID) + ":" + url.QueryEscape(r.ClientSecret)
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair))
}

// service is a client of the grant client_credentials and what it asks for.
type service struct {
	registered
	ask url.Values
}

// provider is an OpenID provider under measurement. Everything but what it is
// called is learned from its discovery document.
type provider struct {
	name      string
	of        processes
	addr      string
	ready     ready
	endpoints endpoints
	debug     string // URL of its pprof, "" when it has none
	// services by the kind of their tokens ("opaque", "RS256",
	// "ES256"), and "project" for opaque ones that are for an API.
	services map[string]service
	// apps by the algorithm of their ID tokens, and "JWT RS256", "JWT ES256" for
	// those whose access tokens are JWTs that can be introspected.
	apps map[string]registered
	// people has somebody for each worker: a provider may well refuse many logins of
	// one user at a time.
	people [connections]person
	// use makes the instance sign with an algorithm, where that is not the matter
	// of the client.
	use func(ctx context.Context, algorithm string) error
	// settle makes a provider what it is after having run for some time.
	settle func(ctx context.Context) error
}

type person struct{ loginName, password string }

type endpoints struct {
	Issuer        string `json:"issuer"`
	Authorization string `json:"authorization_endpoint"`
	Token         string `json:"token_endpoint"`
	Introspection string `json:"introspection_endpoint"`
	Userinfo      string `json:"userinfo_endpoint"`
	Revocation    string `json:"revocation_endpoint"`
	Keys          string `json:"jwks_uri"`
}

func newProvider(name string, of processes, file string) (*provider, error) {
	p := &provider{
		name: name, of: of, services: map[string]service{}, apps: map[string]registered{},
		use: func(context.Context, string) error { return nil }, settle: func(context.Context) error { return nil },
	}
	var err error
	if p.ready, err = readReady(file); err != nil {
		return nil, err
	}
	p.addr = strings.TrimPrefix(p.ready.Issuer, "http://")
	err = p.fetch(p.ready.Issuer+"/.well-known/openid-configuration", &p.endpoints)
	return p, err
}

func (p *provider) fetch(address string, into any) error {
	res, err := client.Get(address)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", address, res.Status)
	}
	return json.NewDecoder(res.Body).Decode(into)
}

// create makes a resource over the API of Writ and decodes the answer.
func (p *provider) create(ctx context.Context, path, body string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.ready.Issuer+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+p.ready.AdminToken)
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("POST %s: %s: %s", path, res.Status, text)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// setUpWrit makes the clients of the scenarios with the resource API.
func (p *provider) setUpWrit(ctx context.Context) error {
	scope, run := url.Values{"scope": {"openid"}}, strings.ToLower(rand.Text()) // databases may be used again
	var user struct{ Details struct{ ID string } }
	if err := p.create(ctx, "/resources/v3alpha/users",
		`{"username":"load-jwt-`+run+`","service":{"name":"Load","accessTokenType":"ACCESS_TOKEN_TYPE_JWT"}}`, &user); err != nil {
		return err
	}
	var secret struct{ ClientID, ClientSecret string }
	if err := p.create(ctx, "/resources/v3alpha/users/"+user.Details.ID+"/secret", `{}`, &secret); err != nil {
		return err
	}
	jwt := service{registered{ClientID: secret.ClientID, ClientSecret: secret.ClientSecret}, scope}
	project := url.Values{"scope": {"openid urn:service:iam:org:project:id:" + p.ready.ProjectID + ":aud"}}
	p.services = map[string]service{"opaque": {p.ready.ServiceUser, scope}, "project": {p.ready.ServiceUser, project}, "RS256": jwt, "ES256": jwt}

	const password = "Correct-Horse-Battery-1"
	for i := range p.people {
		name := fmt.Sprintf("load-%d-%s", i, run)
		body, err := json.Marshal(map[string]any{"username": name, "human": map[string]any{
			"profile":  map[string]any{"givenName": "Load", "familyName": "Default"},
			"email":    map[string]any{"address": name + "@load.example", "isVerified": true},
			"password": map[string]any{"plain": password},
		}})
		if err != nil {
			return err
		}
		if err := p.create(ctx, "/resources/v3alpha/users", string(body), &user); err != nil {
			return err
		}
		_, domain, _ := strings.Cut(p.ready.User.LoginName, "@")
		p.people[i] = person{name + "@" + domain, password}
	}

	const redirectURI = "http://localhost:9999/callback"
	for name, form := range map[string]string{"load": "ACCESS_TOKEN_TYPE_BEARER", "load-jwt": "ACCESS_TOKEN_TYPE_JWT"} {
		body, err := json.Marshal(map[string]any{"projectId": p.ready.ProjectID, "name": name + "-" + run, "oidc": map[string]any{
			"applicationType": "APPLICATION_TYPE_WEB", "authMethodType": "AUTH_METHOD_TYPE_BASIC", "accessTokenType": form, "developmentMode": true,
			"grantTypes":    []string{"GRANT_TYPE_AUTHORIZATION_CODE", "GRANT_TYPE_REFRESH_TOKEN"},
			"responseTypes": []string{"RESPONSE_TYPE_CODE"}, "redirectUris": []string{redirectURI},
		}})
		if err != nil {
			return err
		}
		var app struct{ ClientID, ClientSecret string }
		if err := p.create(ctx, "/resources/v3alpha/apps", string(body), &app); err != nil {
			return err
		}
		made := registered{app.ClientID, app.ClientSecret, redirectURI}
		prefix := map[string]string{"load": "", "load-jwt": "JWT "}[name]
		p.apps[prefix+"RS256"], p.apps[prefix+"ES256"] = made, made
	}
	return nil
}

// setUpPeer names the clients that the peer starts with. It cannot introspect
// JWTs, so it has no app for them.
func (p *provider) setUpPeer() {
	for i := range p.people {
		p.people[i] = person{fmt.Sprintf("load-%d@default.localhost", i), "any"}
	}
	ask := func(resource string) url.Values {
		values := url.Values{"scope": {"call"}}
		if resource != "" {
			values.Set("resource", resource)
		}
		return values
	}
	p.services = map[string]service{
		"opaque": {p.ready.ServiceUser, ask("")}, "RS256": {p.ready.ServiceUser, ask("urn:peer:RS256")}, "ES256": {p.ready.ServiceUser, ask("urn:peer:ES256")},
	}
	p.apps = map[string]registered{"RS256": p.ready.Clients["web"], "ES256": p.ready.Clients["es256"]}
}

const verifier = "a-code-verifier-of-the-benchmark-that-is-long-enough"

// authorize returns the URL that starts a login with PKCE.
func (p *provider) authorize(app registered, prompt string) string {
	challenge := sha256.Sum256([]byte(verifier))
	query := url.Values{
		"client_id": {app.ClientID}, "redirect_uri": {app.RedirectURI}, "response_type": {"code"},
		"scope": {"openid profile email offline_access"}, "state": {"some-state"}, "nonce": {"some-nonce"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}
	if prompt != "" {
		query.Set("prompt", prompt)
	}
	return p.endpoints.Authorization + "?" + query.Encode()
}

// redeem exchanges a code for tokens.
func (p *provider) redeem(c *conn, app registered, auth, code string) (answer, error) {
	return c.expect(post(p.endpoints.Token, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {app.RedirectURI}, "code_verifier": {verifier},
	}, "Authorization", auth), http.StatusOK)
}

// tokens are what a login came to.
type tokens struct{ access, refresh, cookies string }

// pages is the transport of the logins with pages.
var pages = &http.Transport{MaxIdleConns: 64, MaxIdleConnsPerHost: 64, DisableCompression: true}

// login logs somebody in with a new browser over the pages.
func (p *provider) login(ctx context.Context, c *conn, app registered, who person) (tokens, error) {
	agent := browser.New(pages, who.loginName, who.password)
	back, page, err := agent.Visit(ctx, p.authorize(app, ""), app.RedirectURI)
	if err != nil {
		return tokens{}, err
	}
	code := back.Query().Get("code")
	if code == "" {
		return tokens{}, fmt.Errorf("the login ended at %s, without a code: %.300s", back, page)
	}
	a, err := p.redeem(c, app, app.basic(), code)
	if err != nil {
		return tokens{}, err
	}
	var t tokens
	if t.access, err = member(a.body, "access_token"); err != nil {
		return t, err
	}
	if t.refresh, err = member(a.body, "refresh_token"); err != nil {
		return t, err
	}
	t.cookies, err = agent.Cookies(p.endpoints.Authorization)
	return t, err
}

// active says whether anybody takes a token.
func (p *provider) active(c *conn, token string) (bool, error) {
	a, err := c.send(get(p.endpoints.Userinfo, "Authorization", "Bearer "+token))
	if err != nil || a.status == http.StatusOK {
		return err == nil, err
	}
	a, err = c.expect(post(p.endpoints.Introspection, url.Values{"token": {token}}, "Authorization", p.ready.Clients["api"].basic()), http.StatusOK)
	return bytes.Contains(a.body, []byte(`"active":true`)), err
}
