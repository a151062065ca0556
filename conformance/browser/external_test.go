package browser

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-id/writ/conformance/interop/npm"
	"github.com/writ-id/writ/impl/core/upstream"
	"github.com/writ-id/writ/impl/core/upstream/upstreamtest"
)

// upstreamOf makes an OpenID provider at house, and returns its ID.
func upstreamOf(t *testing.T, name, issuer, clientID, secret string, options object) string {
	t.Helper()
	var made created
	house.must(t, "/resources/v3alpha/idps/oidc", object{
		"idp": object{"name": name, "options": options}, "config": object{"issuer": issuer, "clientId": clientID, "clientSecret": secret},
	}, &made)
	// What nodes remember of providers is a second old at most.
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		res, err := house.client.Get(house.Issuer + "/login")
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(page), made.Details.ID) {
			return made.Details.ID
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not offered", name)
		}
	}
}

// standIn starts a provider that signs everybody in who comes, and makes it one of house.
func standIn(t *testing.T, name string, options object) (*upstreamtest.Server, string) {
	t.Helper()
	server := upstreamtest.New(t, upstream.OIDC)
	server.User.Subject = fmt.Sprint("subject-", people.Add(1))
	server.User.Username = fmt.Sprint("ada", people.Add(1))
	server.User.Email = server.User.Username + "@provider.example"
	return server, upstreamOf(t, name, server.URL, upstreamtest.ClientID, upstreamtest.ClientSecret, options)
}

// TestSigningInWithAnotherWrit goes to plain and back to house: the first time, the second
// time, and out of both.
func TestSigningInWithAnotherWrit(t *testing.T) {
	t.Parallel()
	who, b := plain.newPerson(t, "Ada", "Lindgren", nil), newTab(t)
	var app struct{ ClientID, ClientSecret string }
	plain.must(t, "/resources/v3alpha/apps", object{"projectId": plain.ProjectID, "name": "House", "oidc": object{
		"applicationType": "APPLICATION_TYPE_WEB", "authMethodType": "AUTH_METHOD_TYPE_BASIC", "developmentMode": true,
		"grantTypes": []string{"GRANT_TYPE_AUTHORIZATION_CODE"}, "responseTypes": []string{"RESPONSE_TYPE_CODE"},
		"redirectUris": []string{house.Issuer + "/login/idp/callback"}, "postLogoutRedirectUris": []string{house.Issuer + "/login/idp/signedout"},
	}}, &app)
	upstreamOf(t, "Writ upstream", plain.Issuer, app.ClientID, app.ClientSecret, object{"isCreationAllowed": true, "isLinkingAllowed": true})

	login := house.app.begin()
	b.open(login.address)
	b.see("#providers")
	b.picture("external-name")
	b.clickText("Continue with Writ upstream")
	b.name(who) // at plain
	b.password(who)
	b.see("#form[action='/login/idp/account']")
	b.wantText("Nobody here is linked to " + who.Email + " at Writ upstream yet.")
	b.picture("external-account")
	b.clickText("Create an account")
	b.see("#givenName")
	for field, want := range map[string]string{"#givenName": "Ada", "#familyName": "Lindgren", "#email": who.Email} {
		if got := b.text(field, "value"); got != want {
			t.Errorf("%s is filled in with %q, want %q", field, got, want)
		}
	}
	b.picture("external-register")
	b.submit()
	b.arrive(house.app)
	first := login.finish(t)
	if first.info.Email != who.Email || !first.info.EmailVerified || first.name != "Ada Lindgren" || !slices.Equal(first.claims.AMR, []string{"fed"}) {
		t.Errorf("got %s %v %q %v", first.info.Email, first.info.EmailVerified, first.name, first.claims.AMR)
	}

	time.Sleep(time.Until(time.Unix(first.claims.AuthTime+1, 0))) // auth_time is in seconds
	login = house.app.begin("prompt", "login")
	b.open(login.address)
	b.see("#loginName")
	b.submit() // their name is there; the buttons are on the next page too
	b.see("#password")
	b.picture("external-password")
	b.clickText("Continue with Writ upstream")
	if b.see("#loginName"); b.text("#loginName", "value") == "" { // house asks for a login that is new
		b.fill("#loginName", who.LoginName)
	}
	if b.text("#loginName", "value") != who.LoginName {
		b.fill("#loginName", who.LoginName)
	}
	b.submit()
	b.password(who)
	b.arrive(house.app)
	second := login.finish(t)
	if second.id.Subject != first.id.Subject || second.claims.AuthTime <= first.claims.AuthTime {
		t.Errorf("got %s at %d, then %s at %d", first.id.Subject, first.claims.AuthTime, second.id.Subject, second.claims.AuthTime)
	}

	b.open(house.app.logoutAddress(url.Values{"id_token_hint": {second.raw}, "post_logout_redirect_uri": {house.app.home}, "state": {"bye"}, "idp_logout": {"true"}}))
	b.wantText("Sign out?") // plain asks
	b.submit()
	b.arrive(house.app)
	if at := b.address(); at != house.app.home+"?state=bye" {
		t.Errorf("after the logout the browser is at %s", at)
	}
	b.open(house.app.begin().address)
	b.see("#loginName")
	b.clickText("Continue with Writ upstream")
	b.see("#loginName")
	if !strings.HasPrefix(b.address(), plain.Issuer) {
		t.Errorf("at the provider nobody is asked: %s", b.address())
	}
	b.quiet()
}

// TestLinkingAsksForThePassword links an account by a verified address.
func TestLinkingAsksForThePassword(t *testing.T) {
	t.Parallel()
	who, b := house.newPerson(t, "Ben", "Berg", nil), newTab(t)
	server, _ := standIn(t, "Linking Ltd", object{"isLinkingAllowed": true, "autoLinking": "AUTO_LINKING_OPTION_EMAIL"})
	server.User.Email = who.Email
	login := house.app.begin()
	b.open(login.address)
	b.clickText("Continue with Linking Ltd")
	b.wantText("Is this account yours?")
	b.picture("external-match")
	b.submit()
	b.wantText(who.LoginName)
	b.fill("#password", "not my password")
	b.submit()
	b.wantText("We could not sign you in with this login name and password.")
	b.password(who)
	b.arrive(house.app)
	login.finish(t).wantUser(t, who)

	other := newTab(t)
	login = house.app.begin()
	other.open(login.address)
	other.clickText("Continue with Linking Ltd")
	other.arrive(house.app)
	got := login.finish(t)
	got.wantUser(t, who)
	if !slices.Equal(got.claims.AMR, []string{"fed"}) {
		t.Errorf("amr is %v", got.claims.AMR)
	}
	b.quiet()
	other.quiet()
}

// TestAProviderThatSignsNobodyIn covers cancel, errors, an answer that comes twice or in
// another browser, and a provider that is down. From each there is a way on.
func TestAProviderThatSignsNobodyIn(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	server, idp := standIn(t, "Trouble & Söhne", object{"isAutoCreation": true})
	hint := "openid urn:service:iam:org:idp:id:" + idp

	server.Deny = "access_denied"
	login := house.app.begin("scope", hint) // straight there, and not again
	b.open(login.address)
	b.see("#providers")
	b.wantText("You did not sign in there.")
	b.picture("external-canceled")
	server.Deny = "<img src=x onerror=alert(1)>"
	b.clickText("Continue with Trouble & Söhne")
	b.wantText("The provider did not sign you in.")
	server.Deny = ""
	server.Claims = func(claims map[string]any) { claims["aud"] = "another" }
	b.clickText("Continue with Trouble & Söhne")
	b.wantText("cannot be relied on")
	server.Claims = nil
	b.click("#cancel")
	b.arrive(house.app)
	if got := login.answer(t); got.Get("error") != "access_denied" {
		t.Errorf("the client is told %v", got)
	}

	callback := "" // what a browser brings back, which stops on the way
	server.Answer = func(back url.Values) {
		callback = house.Issuer + "/login/idp/callback?" + back.Encode()
		back.Set("state", "none")
	}
	login = house.app.begin("scope", hint)
	b.open(login.address)
	b.wantText("This page can no longer be used")
	server.Answer = nil
	other := newTab(t)
	other.open(callback)
	other.wantText("This page can no longer be used")
	other.picture("external-elsewhere")
	b.open(callback)
	b.arrive(house.app)
	login.finish(t)
	b.open(callback)
	b.wantText("was used before")

	fresh := newTab(t)
	fresh.open(house.app.begin("ui_locales", "de").address)
	fresh.see("#providers")
	fresh.wantText("oder")
	fresh.wantText("Weiter mit Trouble & Söhne")
	fresh.picture("external-name-de")
	down, _ := standIn(t, "Unten AG", object{"isAutoCreation": true})
	down.Down = true
	fresh.open(house.app.begin("ui_locales", "de").address)
	fresh.clickText("Weiter mit Unten AG")
	fresh.wantText("Der Anbieter antwortet zur Zeit nicht.")
	fresh.picture("external-down-de")
}

// TestAnAnswerThatIsPosted comes from another site without our cookies, as Apple sends it.
func TestAnAnswerThatIsPosted(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	server, _ := standIn(t, "Form Post Inc", object{"isAutoCreation": true})
	server.Post = true
	login := house.app.begin()
	b.open(login.address)
	b.clickText("Continue with Form Post Inc")
	b.arrive(house.app)
	if got := login.finish(t); got.name != "Ada Lovelace" {
		t.Errorf("got %q", got.name)
	}
}

// TestSigningInWithOIDCProvider comes from a provider that others wrote: oidc-provider of
// npm, unmodified, with its own pages.
func TestSigningInWithOIDCProvider(t *testing.T) {
	t.Parallel()
	dir, err := npm.Install("node", "browser-peer")
	if err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	const secret = "a secret of the house 0123456789"
	peer := exec.Command("node", filepath.Join(dir, "provider.js"), port, house.Issuer+"/login/idp/callback", "house", secret)
	said, err := peer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := peer.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = peer.Process.Kill(); _ = peer.Wait() })
	if line, err := bufio.NewReader(said).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the provider says %q: %v", line, err)
	}
	upstreamOf(t, "Node Inc", "http://127.0.0.1:"+port, "house", secret, object{"isAutoCreation": true})

	who, b := fmt.Sprint("ada.peer", people.Add(1)), newTab(t)
	login := house.app.begin()
	b.open(login.address)
	b.clickText("Continue with Node Inc")
	b.fill("input[name=login]", who)
	b.fill("input[name=password]", "anything")
	b.click("button[type=submit]")
	b.click("button[type=submit]") // consent
	b.arrive(house.app)
	first := login.finish(t)
	if first.name != "Ada Peer" || first.info.Email != who+"@peer.example" || !first.info.EmailVerified {
		t.Errorf("got %q %s", first.name, first.info.Email)
	}
	login = house.app.begin("prompt", "login") // which the provider is asked for, too
	b.open(login.address)
	b.clickText("Continue with Node Inc")
	b.fill("input[name=login]", who)
	b.fill("input[name=password]", "anything")
	b.click("button[type=submit]")
	b.arrive(house.app)
	if again := login.finish(t); again.id.Subject != first.id.Subject {
		t.Errorf("got %s, then %s", first.id.Subject, again.id.Subject)
	}
}
