// Package upstreamtest stands in for identity providers in tests. A Server answers as the
// public documentation of its type says: paths, documents, names and quirks are theirs.
// It is strict about what it is sent: a request that the provider would refuse is refused.
package upstreamtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"html"
	"html/template"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jws"

	"github.com/writ-id/writ/impl/core/upstream"
)

// The client that is registered with every Server.
const (
	ClientID     = "writ-at-provider"
	ClientSecret = "a secret/with+characters that are encoded"
)

// keyID is that of the key that signs ID tokens.
const keyID = "key-1"

// User is who signs in next, by the names of OpenID Connect. GitHub and others have their
// own for the same.
type User struct {
	Subject, Username, Email, GivenName, FamilyName string
	EmailVerified                                   bool
}

// Name is the whole name.
func (u User) Name() string { return strings.TrimSpace(u.GivenName + " " + u.FamilyName) }

// Server is a provider. The exported fields may be changed between requests.
type Server struct {
	*httptest.Server
	Type upstream.Type
	User User
	// Now is the clock; that of the machine if nil.
	Now func() time.Time
	// Post has the browser bring its answer in a form, whatever it asked for.
	Post bool
	// Deny is the error that the next answers have instead of a code.
	Deny string
	// Down has every request answered by 503.
	Down bool
	// Claims changes those of the next ID tokens.
	Claims func(map[string]any)
	// Sign signs the next ID tokens otherwise.
	Sign func(payload []byte) string
	// Userinfo changes what is told of the user there.
	Userinfo func(map[string]any)
	// Answer changes the parameters that the browser brings back.
	Answer func(url.Values)
	// Tenant is the tid of AZURE_AD.
	Tenant string
	// AppleKey is the private key of the client of APPLE, as PEM.
	AppleKey []byte

	t        testing.TB
	key      *rsa.PrivateKey
	apple    *ecdsa.PrivateKey
	mu       sync.Mutex
	codes    map[string]url.Values
	tokens   map[string]User
	named    bool // Apple tells the name once
	requests []string
	// LastAuthorization is what the browser brought last.
	LastAuthorization url.Values
}

// keyOnce is the key of all servers: making one takes a while.
var keyOnce = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// New starts a provider of a type.
func New(t testing.TB, of upstream.Type) *Server {
	s := &Server{
		Type: of, t: t, key: keyOnce(), codes: map[string]url.Values{}, tokens: map[string]User{}, Now: time.Now, Tenant: "8eaef023-2b34-4da1-9baa-8bc8c9d6a490",
		User: User{Subject: "248289761001", Username: "ada", Email: "ada@mail.example", EmailVerified: true, GivenName: "Ada", FamilyName: "Lovelace"},
	}
	var err error
	if s.apple, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(s.apple)
	if err != nil {
		t.Fatal(err)
	}
	s.AppleKey = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

// place is where a type of providers has its endpoints.
type place struct {
	origins                                             []string // that the server stands in for
	issuer, discovery, authorize, token, userinfo, keys string
	endSession                                          string
	methods                                             []string
}

func (s *Server) place() place {
	switch s.Type {
	case upstream.Google:
		return place{
			origins: []string{"https://accounts.google.com", "https://oauth2.googleapis.com", "https://openidconnect.googleapis.com", "https://www.googleapis.com"},
			issuer:  "https://accounts.google.com", discovery: "/.well-known/openid-configuration",
			authorize: "https://accounts.google.com/o/oauth2/v2/auth", token: "https://oauth2.googleapis.com/token",
			userinfo: "https://openidconnect.googleapis.com/v1/userinfo", keys: "https://www.googleapis.com/oauth2/v3/certs",
			methods: []string{"client_secret_post", "client_secret_basic"},
		}
	case upstream.AzureAD:
		const at = "https://login.microsoftonline.com"
		return place{
			origins: []string{at, "https://graph.microsoft.com"}, issuer: at + "/{tenantid}/v2.0", discovery: "/common/v2.0/.well-known/openid-configuration",
			authorize: at + "/common/oauth2/v2.0/authorize", token: at + "/common/oauth2/v2.0/token", userinfo: "https://graph.microsoft.com/oidc/userinfo",
			keys: at + "/common/discovery/v2.0/keys", endSession: at + "/common/oauth2/v2.0/logout", methods: []string{"client_secret_post", "private_key_jwt", "client_secret_basic"},
		}
	case upstream.Apple:
		const at = "https://appleid.apple.com"
		return place{
			origins: []string{at}, issuer: at, discovery: "/.well-known/openid-configuration",
			authorize: at + "/auth/authorize", token: at + "/auth/token", keys: at + "/auth/keys", methods: []string{"client_secret_post"},
		}
	case upstream.GitHub:
		return place{
			origins:   []string{"https://github.com", "https://api.github.com"},
			authorize: "https://github.com/login/oauth/authorize", token: "https://github.com/login/oauth/access_token", userinfo: "https://api.github.com/user",
		}
	case upstream.GitHubES:
		return place{authorize: s.URL + "/login/oauth/authorize", token: s.URL + "/login/oauth/access_token", userinfo: s.URL + "/api/v3/user"}
	case upstream.GitLab, upstream.GitLabSelfHosted:
		at, origins := s.URL, []string(nil)
		if s.Type == upstream.GitLab {
			at, origins = "https://gitlab.com", []string{"https://gitlab.com"}
		}
		return place{
			origins: origins, issuer: at, discovery: "/.well-known/openid-configuration", authorize: at + "/oauth/authorize", token: at + "/oauth/token",
			userinfo: at + "/oauth/userinfo", keys: at + "/oauth/discovery/keys", methods: []string{"client_secret_basic", "client_secret_post"},
		}
	case upstream.OAuth:
		return place{authorize: s.URL + "/oauth/authorize", token: s.URL + "/oauth/token", userinfo: s.URL + "/api/me"}
	}
	return place{
		issuer: s.URL, discovery: "/.well-known/openid-configuration", authorize: s.URL + "/authorize", token: s.URL + "/token",
		userinfo: s.URL + "/userinfo", keys: s.URL + "/keys", endSession: s.URL + "/logout", methods: []string{"client_secret_basic"},
	}
}

// Origins are those that the server stands in for (outgoing.Config).
func (s *Server) Origins() map[string]string {
	all := map[string]string{}
	for _, one := range s.place().origins {
		all[one] = s.URL
	}
	return all
}

// Provider is the server as it is configured with all its options.
func (s *Server) Provider(id string) *upstream.Provider {
	p := &upstream.Provider{
		InstanceID: "i", ID: id, Name: "The " + string(s.Type), Type: s.Type, ClientID: ClientID, ClientSecret: ClientSecret,
		Options: upstream.Options{Linking: true, Creation: true, AutoCreation: true, AutoUpdate: true},
	}
	switch at := s.place(); s.Type {
	case upstream.OIDC, upstream.GitLabSelfHosted:
		p.Issuer = s.URL
	case upstream.OAuth, upstream.GitHubES:
		p.AuthorizationEndpoint, p.TokenEndpoint, p.UserEndpoint, p.IDAttribute = at.authorize, at.token, at.userinfo, "id"
	case upstream.Apple:
		p.TeamID, p.KeyID, p.PrivateKey, p.ClientSecret = "TEAM123456", "KEY1234567", s.AppleKey, ""
	case upstream.AzureAD:
		p.Tenant = "common"
	}
	return p
}

// Requests returns the paths that were asked for, in order.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

// path is that of an address.
func path(address string) string {
	at, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return at.Path
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.URL.Path)
	if s.Down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	at := s.place()
	switch r.URL.Path {
	case at.discovery:
		s.discover(w, at)
	case path(at.authorize):
		s.authorize(w, r, at)
	case path(at.token):
		s.exchange(w, r, at)
	case path(at.keys):
		s.publish(w)
	case path(at.userinfo):
		s.tell(w, r)
	case path(at.userinfo) + "/emails":
		s.tellEmails(w, r)
	case path(at.endSession):
		query := r.URL.Query()
		http.Redirect(w, r, query.Get("post_logout_redirect_uri")+"?state="+url.QueryEscape(query.Get("state")), http.StatusFound)
	default:
		http.NotFound(w, r)
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (s *Server) discover(w http.ResponseWriter, at place) {
	document := map[string]any{
		"issuer": at.issuer, "authorization_endpoint": at.authorize, "token_endpoint": at.token, "jwks_uri": at.keys,
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{"RS256"}, "token_endpoint_auth_methods_supported": at.methods,
	}
	if at.userinfo != "" {
		document["userinfo_endpoint"] = at.userinfo
	}
	if at.endSession != "" {
		document["end_session_endpoint"] = at.endSession
	}
	if s.Type == upstream.OIDC {
		document["authorization_response_iss_parameter_supported"] = true
	}
	answer(w, http.StatusOK, document)
}

// wants is what an authorization request has to have.
func (s *Server) wants(q url.Values) string {
	openID := s.place().issuer != ""
	switch {
	case q.Get("client_id") != ClientID:
		return "client_id"
	case q.Get("response_type") != "code":
		return "response_type"
	case q.Get("redirect_uri") == "":
		return "redirect_uri"
	case q.Get("state") == "":
		return "state"
	case q.Get("code_challenge") == "" || q.Get("code_challenge_method") != "S256":
		return "code_challenge"
	case openID && (!strings.Contains(" "+q.Get("scope")+" ", " openid ") || q.Get("nonce") == ""):
		return "scope and nonce"
	case s.Type == upstream.Apple && q.Get("response_mode") != "form_post":
		return "response_mode must be form_post when name or email scope is requested"
	}
	return ""
}

var post = template.Must(template.New("").Parse(`<!doctype html><title>Provider</title><form method="post" action="{{.To}}">
{{range $name, $values := .Values}}<input type="hidden" name="{{$name}}" value="{{index $values 0}}">{{end}}<button id="go">Continue</button></form><script>document.forms[0].submit()</script>`))

// authorize signs the user in without asking.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request, at place) {
	q := r.URL.Query()
	s.LastAuthorization = q
	if wrong := s.wants(q); wrong != "" {
		http.Error(w, "invalid_request: "+wrong, http.StatusBadRequest)
		return
	}
	back := url.Values{"state": {q.Get("state")}}
	if s.Deny != "" {
		back.Set("error", s.Deny)
		back.Set("error_description", "<script>alert(1)</script>")
	} else {
		code := random()
		s.codes[code] = q
		back.Set("code", code)
	}
	if s.Type == upstream.OIDC {
		back.Set("iss", at.issuer)
	}
	if s.Type == upstream.Apple && s.Deny == "" && !s.named {
		s.named = true
		user, _ := json.Marshal(map[string]any{"name": map[string]string{"firstName": s.User.GivenName, "lastName": s.User.FamilyName}, "email": s.User.Email})
		back.Set("user", string(user))
	}
	if s.Answer != nil {
		s.Answer(back)
	}
	if s.Post || q.Get("response_mode") == "form_post" {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = post.Execute(w, map[string]any{"To": q.Get("redirect_uri"), "Values": map[string][]string(back)})
		return
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

func random() string {
	bits := make([]byte, 16)
	_, _ = rand.Read(bits)
	return base64.RawURLEncoding.EncodeToString(bits)
}

// authenticates reports whether a token request is the client's.
func (s *Server) authenticates(r *http.Request) bool {
	id, shown := r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	if user, password, ok := r.BasicAuth(); ok {
		if s.Type == upstream.Apple || s.Type == upstream.GitHub {
			return false
		}
		id, _ = url.QueryUnescape(user)
		shown, _ = url.QueryUnescape(password)
	}
	if s.Type != upstream.Apple {
		return id == ClientID && shown == ClientSecret
	}
	payload, err := jws.Verify([]byte(shown), jws.WithKey(jwa.ES256(), s.apple.Public()))
	var claims struct {
		Iss, Sub, Aud string
		Iat, Exp      int64
	}
	message, parsed := jws.Parse([]byte(shown))
	if err != nil || parsed != nil || json.Unmarshal(payload, &claims) != nil {
		return false
	}
	kid, _ := message.Signatures()[0].ProtectedHeaders().KeyID()
	now := s.Now().Unix()
	return kid == "KEY1234567" && claims.Iss == "TEAM123456" && claims.Sub == ClientID && claims.Aud == "https://appleid.apple.com" &&
		claims.Iat <= now+5 && claims.Exp > now && claims.Exp <= now+15777000
}

// exchange redeems a code.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request, at place) {
	_ = r.ParseForm()
	refuse := func(status int, code string) {
		if s.Type == upstream.GitHub || s.Type == upstream.GitHubES { // which answers 200, and a form
			w.Header().Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
			_, _ = w.Write([]byte(url.Values{"error": {code}, "error_description": {"it is"}}.Encode()))
			return
		}
		answer(w, status, map[string]string{"error": code})
	}
	if !s.authenticates(r) {
		refuse(http.StatusUnauthorized, "invalid_client")
		return
	}
	code := r.PostForm.Get("code")
	asked, ok := s.codes[code]
	delete(s.codes, code)
	challenge := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
	if !ok || r.PostForm.Get("redirect_uri") != asked.Get("redirect_uri") || base64.RawURLEncoding.EncodeToString(challenge[:]) != asked.Get("code_challenge") {
		refuse(http.StatusBadRequest, "invalid_grant")
		return
	}
	access := random()
	s.tokens[access] = s.User
	if s.Type == upstream.GitHub || s.Type == upstream.GitHubES {
		w.Header().Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
		_, _ = w.Write([]byte(url.Values{"access_token": {access}, "scope": {"read:user,user:email"}, "token_type": {"bearer"}}.Encode()))
		return
	}
	res := map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": 3600}
	if at.issuer != "" {
		res["id_token"] = s.idToken(asked, at)
	}
	answer(w, http.StatusOK, res)
}

// idToken makes an ID token with what the provider tells in it.
func (s *Server) idToken(asked url.Values, at place) string {
	now := s.Now().Unix()
	claims := map[string]any{"iss": at.issuer, "sub": s.User.Subject, "aud": ClientID, "exp": now + 3600, "iat": now, "nonce": asked.Get("nonce")}
	switch s.Type {
	case upstream.Google:
		maps.Copy(claims, map[string]any{"azp": ClientID, "email": s.User.Email, "email_verified": s.User.EmailVerified, "name": s.User.Name(), "given_name": s.User.GivenName, "family_name": s.User.FamilyName})
	case upstream.Apple: // which sends booleans as text
		maps.Copy(claims, map[string]any{"email": s.User.Email, "email_verified": fmt.Sprint(s.User.EmailVerified), "auth_time": now, "nonce_supported": true})
	case upstream.AzureAD:
		claims["iss"] = strings.ReplaceAll(at.issuer, "{tenantid}", s.Tenant)
		maps.Copy(claims, map[string]any{"tid": s.Tenant, "oid": "6b2c", "ver": "2.0", "name": s.User.Name(), "preferred_username": s.User.Email, "email": s.User.Email})
	case upstream.OIDC:
		claims["auth_time"] = now
	}
	if s.Claims != nil {
		s.Claims(claims)
	}
	for name, value := range claims {
		if value == nil {
			delete(claims, name)
		}
	}
	payload, _ := json.Marshal(claims)
	if s.Sign != nil {
		return s.Sign(payload)
	}
	return s.Signed(payload, keyID)
}

// Signed signs a payload with the key of the provider, under an ID.
func (s *Server) Signed(payload []byte, id string) string {
	header := jws.NewHeaders()
	_ = header.Set(jws.KeyIDKey, id)
	signed, err := jws.Sign(payload, jws.WithKey(jwa.RS256(), s.key, jws.WithProtectedHeaders(header)))
	if err != nil {
		s.t.Error(err)
	}
	return string(signed)
}

// PublicKey is that of the provider.
func (s *Server) PublicKey() *rsa.PublicKey { return &s.key.PublicKey }

func (s *Server) publish(w http.ResponseWriter) {
	key, err := jwk.Import(s.key.Public())
	if err != nil {
		s.t.Error(err)
	}
	_ = key.Set(jwk.KeyIDKey, keyID)
	_ = key.Set(jwk.AlgorithmKey, jwa.RS256())
	_ = key.Set(jwk.KeyUsageKey, "sig")
	unknown := map[string]string{"kty": "OKP", "crv": "X-tomorrow", "kid": "new", "x": "AA"}
	answer(w, http.StatusOK, map[string]any{"keys": []any{unknown, key}})
}

// whose returns whose access token a request has.
func (s *Server) whose(w http.ResponseWriter, r *http.Request) (User, bool) {
	user, ok := s.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	if !ok {
		answer(w, http.StatusUnauthorized, map[string]string{"message": "Bad credentials"})
	}
	return user, ok
}

func (s *Server) tell(w http.ResponseWriter, r *http.Request) {
	user, ok := s.whose(w, r)
	if !ok {
		return
	}
	told := map[string]any{"sub": user.Subject, "name": user.Name(), "given_name": user.GivenName, "family_name": user.FamilyName, "preferred_username": user.Username, "email": user.Email, "email_verified": user.EmailVerified, "locale": "de-CH"}
	switch s.Type {
	case upstream.GitHub, upstream.GitHubES:
		told = map[string]any{"login": user.Username, "id": json.Number(user.Subject), "node_id": "MDQ6VXNlcjE=", "type": "User", "name": user.Name(), "email": nil}
	case upstream.GitLab, upstream.GitLabSelfHosted:
		told["nickname"] = user.Username
		delete(told, "given_name")
		delete(told, "family_name")
	case upstream.AzureAD:
		told = map[string]any{"sub": user.Subject, "name": user.Name(), "given_name": user.GivenName, "family_name": user.FamilyName, "email": user.Email}
	case upstream.OAuth:
		told = map[string]any{"id": json.Number(user.Subject), "username": user.Username, "preferred_username": user.Username, "email": user.Email, "name": user.Name()}
	}
	if s.Userinfo != nil {
		s.Userinfo(told)
	}
	answer(w, http.StatusOK, told)
}

func (s *Server) tellEmails(w http.ResponseWriter, r *http.Request) {
	if user, ok := s.whose(w, r); ok {
		answer(w, http.StatusOK, []map[string]any{
			{"email": "old@mail.example", "primary": false, "verified": true, "visibility": nil},
			{"email": user.Email, "primary": true, "verified": user.EmailVerified, "visibility": "private"},
		})
	}
}

// Form reads the form of a page that posts itself.
func Form(t testing.TB, page io.Reader) url.Values {
	t.Helper()
	text, err := io.ReadAll(page)
	if err != nil {
		t.Fatal(err)
	}
	values := url.Values{}
	for _, one := range input.FindAllStringSubmatch(string(text), -1) {
		values.Set(html.UnescapeString(one[1]), html.UnescapeString(one[2]))
	}
	return values
}

var input = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)
