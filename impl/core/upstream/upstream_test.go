package upstream_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jws"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/core/upstream"
	"github.com/writ-id/writ/impl/core/upstream/upstreamtest"
)

// world is a provider, and us as its client.
type world struct {
	*upstreamtest.Server
	client   *upstream.Client
	provider *upstream.Provider
	now      time.Time
}

func newWorld(t *testing.T, of upstream.Type) *world {
	w := &world{Server: upstreamtest.New(t, of), now: time.Now()}
	w.Now = func() time.Time { return w.now }
	w.client = upstream.New(outgoing.New(outgoing.Config{Allow: outgoing.Loopback, Origins: w.Origins()}), w.Now)
	w.provider = w.Provider("p1")
	return w
}

// begin returns where the browser goes, and what is remembered of it.
func (w *world) begin(t *testing.T, in upstream.Attempt) (*url.URL, *tokenv1.Upstream) {
	t.Helper()
	in.Pending = &tokenv1.Upstream{RedirectUri: "https://id.example/login/idp/callback"}
	in.Seal = func(*tokenv1.Upstream) (string, error) { return "the-state", nil }
	address, err := w.client.Begin(t.Context(), w.provider, in)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return to, in.Pending
}

// visit is the browser at the provider; it returns what it brings back.
func visit(t *testing.T, to *url.URL) url.Values {
	t.Helper()
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := browser.Get(to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	back, err := res.Location()
	if err != nil {
		t.Fatalf("the provider answers %s", res.Status)
	}
	return back.Query()
}

// round makes a whole round trip.
func (w *world) round(t *testing.T) (*upstream.Identity, error) {
	t.Helper()
	to, pending := w.begin(t, upstream.Attempt{})
	var params url.Values
	if w.Type == upstream.Apple {
		params = w.form(t, to)
	} else {
		params = visit(t, to)
	}
	return w.client.Finish(t.Context(), w.provider, pending, params)
}

// form reads the form that Apple posts.
func (w *world) form(t *testing.T, to *url.URL) url.Values {
	t.Helper()
	res, err := http.Get(to.String()) //nolint:noctx // a stand-in
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return upstreamtest.Form(t, res.Body)
}

func kind(err error) upstream.Kind {
	if told, ok := errors.AsType[*upstream.Problem](err); ok {
		return told.Kind
	}
	return ""
}

// TestEachTypeOfProviderTellsWhoSomebodyIs makes a round trip with each.
func TestEachTypeOfProviderTellsWhoSomebodyIs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		of   upstream.Type
		want upstream.Identity
		says []string // parameters of the authorization request
	}{
		{upstream.OIDC, upstream.Identity{Username: "ada", EmailVerified: true, GivenName: "Ada", FamilyName: "Lovelace", DisplayName: "Ada Lovelace", Language: "de-CH"}, []string{"scope=openid+profile+email"}},
		{upstream.GitLab, upstream.Identity{Username: "ada", Nickname: "ada", EmailVerified: true, DisplayName: "Ada Lovelace", Language: "de-CH"}, nil},
		{upstream.GitLabSelfHosted, upstream.Identity{Username: "ada", Nickname: "ada", EmailVerified: true, DisplayName: "Ada Lovelace", Language: "de-CH"}, nil},
		{upstream.GitHub, upstream.Identity{Username: "ada", EmailVerified: true, GivenName: "Ada", FamilyName: "Lovelace", DisplayName: "Ada Lovelace"}, []string{"scope=read%3Auser+user%3Aemail"}},
		{upstream.GitHubES, upstream.Identity{Username: "ada", EmailVerified: true, GivenName: "Ada", FamilyName: "Lovelace", DisplayName: "Ada Lovelace"}, nil},
		{upstream.Google, upstream.Identity{EmailVerified: true, GivenName: "Ada", FamilyName: "Lovelace", DisplayName: "Ada Lovelace"}, nil},
		{upstream.AzureAD, upstream.Identity{Username: "ada@mail.example", GivenName: "Ada", FamilyName: "Lovelace", DisplayName: "Ada Lovelace"}, nil},
		{upstream.Apple, upstream.Identity{EmailVerified: true, GivenName: "Ada", FamilyName: "Lovelace"}, []string{"response_mode=form_post"}},
		{upstream.OAuth, upstream.Identity{Username: "ada", DisplayName: "Ada Lovelace"}, nil},
	} {
		t.Run(string(test.of), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, test.of)
			got, err := w.round(t)
			if err != nil {
				t.Fatal(err)
			}
			test.want.Subject, test.want.Email = w.User.Subject, w.User.Email
			got.AuthTime = time.Time{}
			if *got != test.want {
				t.Errorf("got  %+v\nwant %+v", *got, test.want)
			}
			for _, one := range append(test.says, "code_challenge_method=S256", "state=the-state") {
				if !strings.Contains(w.LastAuthorization.Encode(), one) {
					t.Errorf("the request %q lacks %s", w.LastAuthorization.Encode(), one)
				}
			}
			if _, err := w.round(t); err != nil {
				t.Errorf("the second time: %v", err)
			}
		})
	}
}

// TestSEC204_AnIDTokenIsValidatedToTheLastClaim changes one thing of it at a time; SEC-074
// says so for missing ones.
func TestSEC204_AnIDTokenIsValidatedToTheLastClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t, upstream.OIDC)
	if _, err := w.round(t); err != nil {
		t.Fatalf("the control: %v", err)
	}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	now := w.now.Unix()
	set := func(name string, value any) func(map[string]any) {
		return func(claims map[string]any) { claims[name] = value }
	}
	for _, test := range []struct {
		name   string
		claims func(map[string]any)
		sign   func([]byte) string
		good   bool
	}{
		{name: "another issuer", claims: set("iss", "https://evil.example")},
		{name: "no issuer", claims: set("iss", nil)},
		{name: "another audience", claims: set("aud", "another-app")},
		{name: "no audience", claims: set("aud", nil)},
		{name: "two audiences and no azp", claims: set("aud", []string{upstreamtest.ClientID, "another-app"})},
		{name: "two audiences and ours as azp", claims: func(c map[string]any) {
			c["aud"], c["azp"] = []string{upstreamtest.ClientID, "another-app"}, upstreamtest.ClientID
		}, good: true},
		{name: "another azp", claims: set("azp", "another-app")},
		{name: "an azp that is no text", claims: set("azp", 7)},
		{name: "ended", claims: set("exp", now-61)},
		{name: "no end", claims: set("exp", nil)},
		{name: "an end that is text", claims: set("exp", "2099-01-01")},
		{name: "issued in the future", claims: set("iat", now+120)},
		{name: "issued long before", claims: set("iat", now-3600)},
		{name: "no iat", claims: set("iat", nil)},
		{name: "not begun", claims: set("nbf", now+120)},
		{name: "begun", claims: set("nbf", now), good: true},
		{name: "another nonce", claims: set("nonce", "of somebody else")},
		{name: "no nonce", claims: set("nonce", nil)},
		{name: "no subject", claims: set("sub", nil)},
		{name: "an empty subject", claims: set("sub", "")},
		{name: "a subject with NUL", claims: set("sub", "a\x00b")},
		{name: "a subject that is too long", claims: set("sub", strings.Repeat("x", 256))},
		{name: "signed by another key", sign: func(payload []byte) string {
			header := jws.NewHeaders()
			_ = header.Set(jws.KeyIDKey, "key-1")
			signed, _ := jws.Sign(payload, jws.WithKey(jwa.RS256(), other, jws.WithProtectedHeaders(header)))
			return string(signed)
		}},
		{name: "signed under an ID that is not there", sign: func(payload []byte) string { return w.Signed(payload, "key-2") }},
		{name: "not signed", sign: func(payload []byte) string {
			signed, _ := jws.Sign(payload, jws.WithInsecureNoSignature())
			return string(signed)
		}},
		{name: "signed with the public key as a secret", sign: func(payload []byte) string {
			der, _ := x509.MarshalPKIXPublicKey(w.PublicKey())
			signed, _ := jws.Sign(payload, jws.WithKey(jwa.HS256(), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
			return string(signed)
		}},
		{name: "signed with the client secret", sign: func(payload []byte) string {
			signed, _ := jws.Sign(payload, jws.WithKey(jwa.HS256(), []byte(upstreamtest.ClientSecret)))
			return string(signed)
		}},
		{name: "no token at all", sign: func([]byte) string { return "" }},
	} {
		w.Claims, w.Sign = test.claims, test.sign
		_, err := w.round(t)
		if test.good != (err == nil) || err != nil && kind(err) != upstream.Invalid {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// TestSEC200_AnAttemptIsBoundToItsProviderAndTime finishes attempts where they do not belong.
func TestSEC200_AnAttemptIsBoundToItsProviderAndTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, upstream.OIDC)
	to, first := w.begin(t, upstream.Attempt{})
	_, second := w.begin(t, upstream.Attempt{})
	if first.GetNonce() == second.GetNonce() || first.GetVerifier() == second.GetVerifier() || len(first.GetNonce()) < 43 {
		t.Error("two attempts have something in common")
	}
	params := visit(t, to)
	finish := func(p *upstream.Provider, pending *tokenv1.Upstream, params url.Values) upstream.Kind {
		_, err := w.client.Finish(t.Context(), p, pending, params)
		return kind(err)
	}
	if got := finish(w.provider, second, params); got != upstream.Refused { // its verifier is another one
		t.Errorf("the code of another attempt: %v", got)
	}
	other := *w.provider
	other.ID = "p2"
	if got := finish(&other, first, visit(t, to)); got != upstream.Invalid {
		t.Errorf("at another provider: %v", got)
	}
	moved := *w.provider
	moved.Issuer = newWorld(t, upstream.OIDC).URL
	if got := finish(&moved, first, visit(t, to)); got != upstream.Invalid {
		t.Errorf("with another issuer: %v", got)
	}
	w.now = w.now.Add(upstream.Lifetime)
	if got := finish(w.provider, first, visit(t, to)); got != upstream.Invalid {
		t.Errorf("after ten minutes: %v", got)
	}
}

// TestSEC200_WhoAnswersIsChecked covers RFC 9207 and parameters that are there twice.
func TestSEC200_WhoAnswersIsChecked(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		of     upstream.Type
		answer func(url.Values)
		want   upstream.Kind
	}{
		{"iss of another issuer", upstream.OIDC, func(v url.Values) { v.Set("iss", "https://evil.example") }, upstream.Invalid},
		{"an empty iss", upstream.OIDC, func(v url.Values) { v.Set("iss", "") }, upstream.Invalid},
		{"no iss of who sends one", upstream.OIDC, func(v url.Values) { v.Del("iss") }, upstream.Invalid},
		{"an error of another issuer", upstream.OIDC, func(v url.Values) { v.Set("iss", "https://evil.example"); v.Set("error", "access_denied") }, upstream.Invalid},
		{"two codes", upstream.OIDC, func(v url.Values) { v.Add("code", "x") }, upstream.Invalid},
		{"no code", upstream.OIDC, func(v url.Values) { v.Del("code") }, upstream.Invalid},
		{"a code of nobody", upstream.OIDC, func(v url.Values) { v.Set("code", "guessed") }, upstream.Refused},
		{"no iss of who sends none", upstream.GitLab, func(url.Values) {}, ""},
		{"the iss of GitHub", upstream.GitHub, func(v url.Values) { v.Set("iss", "https://github.com/login/oauth") }, ""},
		{"another iss at GitHub", upstream.GitHub, func(v url.Values) { v.Set("iss", "https://evil.example") }, upstream.Invalid},
		{"a code of nobody at GitHub, which answers 200", upstream.GitHub, func(v url.Values) { v.Set("code", "guessed") }, upstream.Refused},
	} {
		w := newWorld(t, test.of)
		w.Answer = test.answer
		if _, err := w.round(t); kind(err) != test.want || (err == nil) != (test.want == "") {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// TestAProblemIsOfAKindAndTellsNothingOfTheProvider covers what users are told of.
func TestAProblemIsOfAKindAndTellsNothingOfTheProvider(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]upstream.Kind{
		"access_denied": upstream.Canceled, "user_cancelled_authorize": upstream.Canceled, "login_required": upstream.Refused,
		"temporarily_unavailable": upstream.Unreachable, "<script>": upstream.Refused,
	} {
		w := newWorld(t, upstream.OIDC)
		w.Deny = said
		_, err := w.round(t)
		if kind(err) != want {
			t.Errorf("%s: %v", said, err)
		}
		if err != nil && strings.Contains(err.Error(), "alert(1)") {
			t.Errorf("what the provider describes is repeated: %v", err)
		}
	}
	w := newWorld(t, upstream.OIDC)
	to, pending := w.begin(t, upstream.Attempt{})
	params := visit(t, to)
	w.provider.ClientSecret = "wrong"
	if _, err := w.client.Finish(t.Context(), w.provider, pending, params); kind(err) != upstream.Setup || strings.Contains(err.Error(), "wrong") {
		t.Errorf("a wrong secret: %v", err)
	}
	w.Down = true
	if _, err := w.client.Finish(t.Context(), w.provider, pending, params); kind(err) != upstream.Unreachable {
		t.Errorf("a provider that is down: %v", err)
	}
	w.Close()
	if _, err := w.client.Finish(t.Context(), w.provider, pending, params); kind(err) != upstream.Unreachable || strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("a provider that is gone: %v", err)
	}
}

// TestSEC206_AddressesOfProvidersPassTheRulesOfOutgoingCalls covers what tenants may name.
func TestSEC206_AddressesOfProvidersPassTheRulesOfOutgoingCalls(t *testing.T) {
	t.Parallel()
	server := upstreamtest.New(t, upstream.OIDC)
	strict := upstream.New(outgoing.New(outgoing.Config{}), time.Now)
	seal := func(*tokenv1.Upstream) (string, error) { return "s", nil }
	begin := func(p *upstream.Provider) error {
		_, err := strict.Begin(t.Context(), p, upstream.Attempt{Pending: &tokenv1.Upstream{}, Seal: seal})
		return err
	}
	for _, issuer := range []string{server.URL, "http://10.0.0.1", "http://idp.example", "https://10.0.0.1", "https://[::1]", "https://user:secret@idp.example", "file:///etc/passwd", ""} {
		p := server.Provider("p")
		p.Issuer = issuer
		if err := begin(p); kind(err) != upstream.Setup {
			t.Errorf("%q: %v", issuer, err)
		}
	}
	if len(server.Requests()) > 0 {
		t.Errorf("the private address was asked for %v", server.Requests())
	}
	p := upstreamtest.New(t, upstream.OAuth).Provider("p")
	p.TokenEndpoint = "http://idp.example/token"
	if err := begin(p); kind(err) != upstream.Setup {
		t.Errorf("a token endpoint without TLS: %v", err)
	}
}

// TestKeysAreFetchedOnceAndAgainForAnUnknownOne counts what a provider is asked.
func TestKeysAreFetchedOnceAndAgainForAnUnknownOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, upstream.OIDC)
	asked := func(path string) int {
		return len(slices.DeleteFunc(w.Requests(), func(one string) bool { return one != path }))
	}
	for range 3 {
		if _, err := w.round(t); err != nil {
			t.Fatal(err)
		}
	}
	if asked("/keys") != 1 || asked("/.well-known/openid-configuration") != 1 {
		t.Errorf("three logins asked %v", w.Requests())
	}
	w.Sign = func(payload []byte) string { return w.Signed(payload, "key-2") }
	for range 3 {
		if _, err := w.round(t); kind(err) != upstream.Invalid {
			t.Fatal(err)
		}
	}
	if asked("/keys") != 1 {
		t.Errorf("within five seconds the keys were asked for %d times", asked("/keys"))
	}
	w.now = w.now.Add(6 * time.Second)
	for range 3 {
		_, _ = w.round(t)
	}
	if asked("/keys") != 2 {
		t.Errorf("after it the keys were asked for %d times", asked("/keys"))
	}
}

// TestSEC202_AnAddressIsVerifiedOnlyWhenTheProviderSaysSo covers the ways to say it.
func TestSEC202_AnAddressIsVerifiedOnlyWhenTheProviderSaysSo(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		of      upstream.Type
		prepare func(*world)
		want    bool
	}{
		{"unverified", upstream.OIDC, func(w *world) { w.User.EmailVerified = false }, false},
		{"nothing said", upstream.OIDC, func(w *world) { w.Userinfo = func(m map[string]any) { delete(m, "email_verified") } }, false},
		{"nothing said, and that is configured", upstream.OIDC, func(w *world) {
			w.Userinfo, w.provider.EmailVerified = func(m map[string]any) { delete(m, "email_verified") }, true
		}, true},
		{"unverified, and the other configured", upstream.OIDC, func(w *world) { w.User.EmailVerified, w.provider.EmailVerified = false, true }, false},
		{"verified with no address", upstream.OIDC, func(w *world) { w.User.Email = "" }, false},
		{"a number", upstream.OIDC, func(w *world) { w.Userinfo = func(m map[string]any) { m["email_verified"] = 1 } }, false},
		{"unverified at GitHub", upstream.GitHub, func(w *world) { w.User.EmailVerified = false }, false},
		{"unverified at Apple, as text", upstream.Apple, func(w *world) { w.User.EmailVerified = false }, false},
		{"of Azure", upstream.AzureAD, func(*world) {}, false},
		{"of Azure, whose domain was proven", upstream.AzureAD, func(w *world) { w.Claims = func(m map[string]any) { m["xms_edov"] = true } }, true},
		{"of Azure, configured", upstream.AzureAD, func(w *world) { w.provider.EmailVerified = true }, true},
	} {
		w := newWorld(t, test.of)
		test.prepare(w)
		got, err := w.round(t)
		if err != nil || got.EmailVerified != test.want {
			t.Errorf("%s: %v %v", test.name, got, err)
		}
	}
}

// TestTheTenantsOfAzure covers whose issuers are believed.
func TestTheTenantsOfAzure(t *testing.T) {
	t.Parallel()
	const one, consumers = "8eaef023-2b34-4da1-9baa-8bc8c9d6a490", "9188040d-6c67-4c5b-b112-36a304b66dad"
	for _, test := range []struct {
		tenant, tid string
		claims      func(map[string]any)
		good        bool
	}{
		{"common", one, nil, true},
		{"common", consumers, nil, true},
		{"common", one, func(m map[string]any) { delete(m, "tid"); m["tid"] = nil }, false},
		{"common", one, func(m map[string]any) { m["tid"] = consumers }, false},
		{"common", one, func(m map[string]any) { m["iss"] = "https://login.microsoftonline.com/evil/v2.0"; m["tid"] = "evil" }, false},
		{"common", one, func(m map[string]any) {
			m["iss"] = "https://login.microsoftonline.com/{tenantid}/v2.0"
			m["tid"] = "{tenantid}"
		}, false},
		{"common", one, func(m map[string]any) { m["iss"] = "https://evil.example/" + one + "/v2.0" }, false},
	} {
		w := newWorld(t, upstream.AzureAD)
		w.provider.Tenant, w.Tenant, w.Claims = test.tenant, test.tid, test.claims
		if _, err := w.round(t); (err == nil) != test.good {
			t.Errorf("%+v: %v", test, err)
		}
	}
	for _, test := range []struct {
		tenant, issuer, tid string
		good                bool
	}{
		{"organizations", "https://login.microsoftonline.com/" + consumers + "/v2.0", consumers, false},
		{"organizations", "https://login.microsoftonline.com/" + one + "/v2.0", one, true},
		{"consumers", "https://login.microsoftonline.com/" + one + "/v2.0", one, false},
		{one, "https://login.microsoftonline.com/" + consumers + "/v2.0", consumers, false},
		{one, "https://login.microsoftonline.com/" + one + "/v2.0", one, true},
	} {
		if got := upstream.IsAzureIssuer(&upstream.Provider{Type: upstream.AzureAD, Tenant: test.tenant}, test.issuer, test.tid); got != test.good {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

// TestUserinfoOfAnotherUserIsRefused is OpenID Connect Core, section 5.3.2.
func TestUserinfoOfAnotherUserIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, upstream.OIDC)
	w.Userinfo = func(m map[string]any) { m["sub"] = "somebody else" }
	if _, err := w.round(t); kind(err) != upstream.Invalid {
		t.Error(err)
	}
	w.provider.IDTokenMapping = true
	if _, err := w.round(t); err != nil {
		t.Errorf("where it is not asked: %v", err)
	}
}

// TestAnswersAreBounded sends what nobody needs (SEC-254).
func TestSEC254_AnswersOfProvidersAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, upstream.OIDC)
	w.Userinfo = func(m map[string]any) { m["more"] = strings.Repeat("x", 300<<10) }
	if _, err := w.round(t); kind(err) != upstream.Unreachable {
		t.Error(err)
	}
	w.Userinfo = func(m map[string]any) { m["name"], m["given_name"] = strings.Repeat("x", 201), "A\x01d\na" }
	got, err := w.round(t)
	if err != nil || got.DisplayName != "" || got.GivenName != "Ada" {
		t.Errorf("%+v %v", got, err)
	}
}

// TestSubjectsOfOAuth are texts or whole numbers.
func TestSubjectsOfOAuth(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{`12345678901234567890`: "12345678901234567890", `"u-1"`: "u-1", `1.5`: "", `1e3`: "", `null`: "", `{}`: "", `true`: "", `""`: ""} {
		w := newWorld(t, upstream.OAuth)
		w.Userinfo = func(m map[string]any) { m["id"] = json.RawMessage(raw) }
		got, err := w.round(t)
		if want == "" && kind(err) != upstream.Invalid || want != "" && (err != nil || got.Subject != want) {
			t.Errorf("%s: %v %v", raw, got, err)
		}
	}
}
