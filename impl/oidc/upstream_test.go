package oidc_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/writ-id/writ/impl/core/upstream"
	"github.com/writ-id/writ/impl/core/upstream/upstreamtest"
)

// provider makes an OpenID provider of the instance by the API, and starts it.
func (s *side) provider() (*upstreamtest.Server, string) {
	s.Helper()
	server := upstreamtest.New(s, upstream.OIDC)
	server.Now = s.now
	made := s.must(http.MethodPost, "/resources/v3alpha/idps/oidc", `{"idp":{"name":"Upstream","options":{"isAutoCreation":true}},"config":{"issuer":%q,"clientId":%q,"clientSecret":%q}}`,
		server.URL, upstreamtest.ClientID, upstreamtest.ClientSecret)
	return server, made["details"].(map[string]any)["id"].(string)
}

// abroad opens an address of a provider, and returns where that sends the browser to, as a
// path of ours.
func (a *agent) abroad(address string) string {
	a.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Get(address)
	if err != nil {
		a.Fatal(err)
	}
	defer res.Body.Close()
	back, ok := strings.CutPrefix(res.Header.Get("Location"), a.issuer)
	if !ok {
		a.Fatalf("%s: %d to %q", address, res.StatusCode, res.Header.Get("Location"))
	}
	return back
}

const idpScope = "urn:service:iam:org:idp:id:"

// TestAProviderOfOthersOnTheRoadToTokens goes from the authorization request by way of a
// provider to tokens, the session, and out again.
func TestAProviderOfOthersOnTheRoadToTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server, idp := w.a.provider()
	b := w.a.agent()
	b.open(authorizePath + "?" + b.request("web", "scope", "openid profile "+idpScope+idp).Encode())
	to := b.got.Header.Get("Location")
	if !strings.HasPrefix(to, server.URL+"/authorize?") {
		t.Fatalf("the scope leads to %q: %s", to, b.got.Text)
	}
	b.open(b.abroad(to))
	code := b.result().Get("code")
	got := w.a.redeem("web", code)
	b.granted("web", got)
	_, id := claims(got.text("id_token"))
	if id["acr"] != "1" || fmt.Sprint(id["amr"]) != "[fed]" || id["sid"] == nil {
		t.Errorf("the ID token says %v", id)
	}
	if !strings.Contains(got.text("scope"), idpScope) {
		t.Errorf("granted %q", got.text("scope"))
	}
	session := w.a.must(http.MethodGet, "/resources/v3alpha/sessions/"+id["sid"].(string), "")
	factors := session["session"].(map[string]any)["factors"].(map[string]any)
	if intent, ok := factors["intent"].(map[string]any); !ok || intent["idpId"] != idp || intent["verifiedAt"] == nil || factors["password"] != nil {
		t.Errorf("the session shows %v", factors)
	}

	// The session answers the next request at once; nobody is sent abroad.
	if b.authorize("web", "scope", "openid "+idpScope+idp).Get("code") == "" {
		t.Error("the session does not count")
	}

	// Logout: ours alone, unless the client asks for more.
	hint := got.text("id_token")
	if to := b.logout("id_token_hint", hint, "post_logout_redirect_uri", goodbye, "state", "s"); to != goodbye+"?state=s" {
		t.Errorf("a plain logout leads to %q", to)
	}
	b.open(authorizePath + "?" + b.request("web", "scope", "openid "+idpScope+idp).Encode())
	b.open(b.abroad(b.got.Header.Get("Location")))
	to = b.logout("id_token_hint", hint, "post_logout_redirect_uri", goodbye, "state", "s", "idp_logout", "true")
	at, err := url.Parse(to)
	if err != nil || !strings.HasPrefix(to, server.URL+"/logout?") || at.Query().Get("post_logout_redirect_uri") != w.a.issuer+"/login/idp/signedout" || at.Query().Get("client_id") != upstreamtest.ClientID {
		t.Fatalf("it leads on to %q", to)
	}
	if b.alive() {
		t.Error("the session here lives on")
	}
	back := b.abroad(to)
	if to := b.open(back).got.Header.Get("Location"); to != goodbye+"?state=s" {
		t.Errorf("from there it leads to %q", to)
	}
	// SEC-130: nothing that was not sealed here leads anywhere, nor does it on another instance.
	for _, state := range []string{"", "https://evil.example", strings.Repeat("x", 200)} {
		if b.open("/login/idp/signedout?state=" + url.QueryEscape(state)); b.got.Status != 200 || b.got.Header.Get("Location") != "" {
			t.Errorf("%q: %d to %q", state, b.got.Status, b.got.Header.Get("Location"))
		}
	}
	if other := w.b.agent().open(back); other.got.Status != 200 || other.got.Header.Get("Location") != "" {
		t.Errorf("SEC-217: on another instance: %d to %q", other.got.Status, other.got.Header.Get("Location"))
	}
	// A provider that is down keeps nobody from signing out here.
	b.open(authorizePath + "?" + b.request("web", "scope", "openid "+idpScope+idp).Encode())
	b.open(b.abroad(b.got.Header.Get("Location")))
	server.Down = true
	w.wait(2 * 3600e9)
	b.open(authorizePath + "?" + b.request("web", "prompt", "none").Encode()) // so that the session lives on
	if to := b.logout("id_token_hint", hint, "post_logout_redirect_uri", goodbye, "idp_logout", "true"); to != goodbye || b.alive() {
		t.Errorf("with a provider that is down it leads to %q", to)
	}
}

// TestSEC217_AnAnswerOfAProviderIsOfOneInstance brings it to another one.
func TestSEC217_AnAnswerOfAProviderIsOfOneInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, idp := w.a.provider()
	b := w.a.agent()
	b.open(authorizePath + "?" + b.request("web", "scope", "openid "+idpScope+idp).Encode())
	back := b.abroad(b.got.Header.Get("Location"))
	other := w.b.agent()
	other.setCookie("__Host-writ_browser", b.cookie("__Host-writ_browser"))
	if other.open(back); other.got.Status != http.StatusBadRequest || other.result().Get("code") != "" {
		t.Errorf("got %d", other.got.Status)
	}
	if b.open(back).result().Get("code") == "" {
		t.Error("the control")
	}
	// Nor is the provider of one instance there in another.
	c := w.b.agent()
	if c.open(authorizePath + "?" + c.request("web", "scope", "openid "+idpScope+idp).Encode()); c.at.Path != "/login" || strings.Contains(c.got.Text, idp) {
		t.Errorf("it leads to %s", c.at)
	}
}
