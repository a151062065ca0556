package oidc_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/core/signing"
)

// lives returns how many seconds a token of an exchange is good for, by what the
// answer says and by itself.
func (s *side) lives(got *answer) (said, itself float64) {
	s.Helper()
	said, _ = got.Body["expires_in"].(float64)
	for _, name := range []string{"access_token", "id_token"} {
		if text := got.text(name); strings.HasPrefix(text, "eyJ") {
			_, body := claims(text)
			itself = max(itself, body["exp"].(float64)-float64(s.now().Unix()))
		}
	}
	return said, itself
}

// A loan ends within its hour and with who took it, whatever it is exchanged for.
func TestSEC102_SEC104_NoExchangeLengthensALoan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	project := "urn:service:iam:org:project:id:" + w.a.projects["P"] + ":aud" // the audience of the loan
	actor := []string{"actor_token", w.a.service("helper", "openid "+project).text("access_token"), "actor_token_type", typeAccess}
	begin := func(more ...string) *answer {
		return w.a.exchange("web", append(append([]string{"subject_token", w.a.users["alice"].ID, "subject_token_type", typeUser, "scope", "openid"}, actor...), more...)...)
	}
	first := begin("requested_token_type", typeID)
	access := begin()
	for name, got := range map[string]*answer{"an ID token": first, "an access token": access} {
		if said, itself := w.a.lives(got); said > 3600 || itself > 3600 || said <= 0 {
			t.Errorf("%s of an actor: %v s, %v s: %s", name, said, itself, got.Text)
		}
	}
	w.wait(30 * time.Minute)
	id := first
	for round := range 3 {
		id = w.a.exchange("web", "subject_token", id.text("access_token"), "subject_token_type", typeID, "requested_token_type", typeID, "scope", "openid")
		if said, itself := w.a.lives(id); said > 1800 || itself > 1800 || said <= 0 {
			t.Fatalf("round %d: %v s, %v s: %s", round, said, itself, id.Text)
		}
	}
	loan := w.a.exchange("web", "subject_token", id.text("access_token"), "subject_token_type", typeID, "scope", "openid")
	if said, itself := w.a.lives(loan); said > 1800 || itself > 1800 || !w.a.active("api", loan.text("access_token")) {
		t.Errorf("an access token for it: %v s, %v s: %s", said, itself, loan.Text)
	}
	// The permission is asked for again, and who acts has to be there.
	membership := w.a.value("SELECT id FROM memberships WHERE instance_id = $1 AND user_id = $2", w.a.instance(), w.a.users["helper"].ID)
	w.a.must(http.MethodDelete, "/resources/v3alpha/memberships/"+membership, "")
	again := func() *answer {
		return w.a.exchange("web", "subject_token", id.text("access_token"), "subject_token_type", typeID, "scope", "openid")
	}
	w.soon("the permission is gone", func() bool { return again().Status == http.StatusBadRequest })
	w.a.refused("without the permission", again(), "invalid_request")
	if w.a.active("api", loan.text("access_token")) {
		t.Error("the loan goes on without the permission")
	}
	w.a.must(http.MethodPost, "/resources/v3alpha/memberships?ctx.orgId="+w.a.users["helper"].OrgID, `{"userId":%q,"roles":["ORG_END_USER_IMPERSONATOR"]}`, w.a.users["helper"].ID)
	if !w.a.active("api", loan.text("access_token")) {
		t.Error("the loan is not good with the permission")
	}
	w.a.must(http.MethodPost, "/resources/v3alpha/users/"+w.a.users["helper"].ID+"/_deactivate", "{}")
	if w.a.active("api", loan.text("access_token")) || w.a.userinfo(loan.text("access_token")).Status != http.StatusUnauthorized {
		t.Error("the loan outlives who took it")
	}
}

// No token lives on by being exchanged for another one of its kind.
func TestSEC102_NoExchangeLengthensAToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.a.apps["jwtweb"].ID
	w.a.must(http.MethodPatch, "/resources/v3alpha/apps/"+id, `{"oidc":{"clockSkew":"5s"}}`)
	b := w.a.signedIn("alice")
	for kind, named := range map[string]string{typeID: "id_token", typeJWT: "access_token"} {
		token := b.tokens("jwtweb", "openid").text(named)
		_, body := claims(token)
		ends := body["exp"].(float64)
		subject := typeAccess
		if kind == typeID {
			subject = typeID
		}
		w.wait(time.Hour)
		for round := range 5 {
			got := w.a.exchange("jwtweb", "subject_token", token, "subject_token_type", subject, "requested_token_type", kind, "scope", "openid")
			token = w.a.granted(kind, got)
			if _, body := claims(token); body["exp"].(float64) > ends {
				t.Errorf("%s, round %d: ends %v s later", kind, round, body["exp"].(float64)-ends)
			}
		}
	}
}

func TestNoTokenIsForNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, scope := range []string{"urn:service:iam:org:project:role:reader", "urn:service:iam:org:project:id:nope:aud", "offline_access", "unknown"} {
		w.a.refused(scope, w.a.service("robot", scope), "invalid_scope")
	}
	first := w.a.signedIn("alice").tokens("web", offline)
	again := w.a.refresh("web", first.text("refresh_token"), "scope", "   ")
	if w.a.granted("a refresh for nothing in particular", again); again.text("scope") != first.text("scope") || again.text("id_token") == "" {
		t.Errorf("got %s, want the scopes of before", again.Text)
	}
	w.a.refused("a scope that is none", w.a.refresh("web", again.text("refresh_token"), "scope", `openid "`), "invalid_scope")
	w.a.granted("after that", w.a.refresh("web", again.text("refresh_token")))
}

// document 2: "When no mode is requested it is chosen from the application's
// configured response type", and "Implicit response".
func TestResponsesAreWhereTheApplicationLooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	for _, test := range []struct {
		app, response, mode string
		fragment            bool
	}{
		{"web", "bogus", "-", false}, {"web", "id_token", "-", false}, {"web", "id_token", "fragment", true}, {"web", "code", "-", false},
		{"implicit", "bogus", "-", true}, {"implicit", "code", "-", true}, {"implicit", "code", "query", true}, {"implicit", "id_token", "-", true}, {"implicit", "-", "-", false}, {"implicit", "-", "fragment", true},
	} {
		b.open(authorizePath + "?" + w.a.request(test.app, "response_type", test.response, "response_mode", test.mode).Encode())
		at, err := url.Parse(b.got.Header.Get("Location"))
		if err != nil || (at.Fragment != "") != test.fragment || (at.Query().Get("error") != "") == test.fragment && test.response != "code" {
			t.Errorf("%+v: sent to %s", test, at)
		}
	}
	got := b.authorize("implicit", "response_type", "id_token", "scope", "openid profile unknown", "nonce", "n")
	if got.Get("token_type") != "Bearer" || got.Get("scope") != "openid profile" || got.Get("expires_in") == "" || got.Has("access_token") || !got.Has("id_token") {
		t.Errorf("response_type id_token: %v", got)
	}
}

// OpenID Connect Core, sections 5.5.1 and 5.5.1.1: what claims says of sub and of an
// essential acr has to be met.
func TestClaimsMaySayWhoAndHow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob := w.a.users["alice"].ID, w.a.users["bob"].ID
	for _, test := range []struct {
		claims, prompt, want string
	}{
		{`{"id_token":{"sub":{"value":%q}}}`, "none", "code"},
		{`{"userinfo":{"sub":{"value":%q}},"id_token":{"sub":{"value":%q}}}`, "none", "code"},
		{`{"id_token":{"sub":null,"acr":{"values":["2"]}}}`, "none", "code"},
		{`{"id_token":{"acr":{"essential":true,"values":["1","2"]}}}`, "none", "code"},
		{`{"id_token":{"acr":{"essential":true}}}`, "none", "code"},
		{`{"id_token":{"acr":{"essential":true,"value":"2"}}}`, "none", "access_denied"},
		{`{"id_token":{"acr":{"essential":true,"values":["2","3"]}}}`, "-", "access_denied"},
		{`{"id_token":{"sub":{"value":"` + bob + `"}}}`, "none", "login_required"},
		{`{"userinfo":{"sub":{"value":"` + bob + `"}}}`, "none", "login_required"},
		{`{"id_token":{"sub":{"value":%q}},"userinfo":{"sub":{"value":"` + bob + `"}}}`, "none", "invalid_request"},
		{`{"id_token":{"sub":{"value":7}}}`, "none", "invalid_request"},
	} {
		asked := test.claims
		if n := strings.Count(asked, "%q"); n > 0 {
			asked = fmt.Sprintf(asked, slices.Repeat([]any{alice}, n)...)
		}
		got := w.a.signedIn("alice").authorize("web", "claims", asked, "prompt", test.prompt)
		if !got.Has(test.want) && got.Get("error") != test.want {
			t.Errorf("%s: got %v, want %s", asked, got, test.want)
		}
	}
	// Somebody else is asked for: only they get in. Their name is not told.
	b := w.a.signedIn("alice")
	b.open(authorizePath + "?" + w.a.request("web", "claims", `{"id_token":{"sub":{"value":"`+bob+`"}}}`).Encode())
	if _, values := b.fields(); strings.Contains(values.Get("loginName"), "bob") {
		t.Errorf("the page proposes %q", values.Get("loginName"))
	}
	if got := b.signIn("bob").result(); !got.Has("code") {
		t.Errorf("bob: %v", got)
	}
}

func TestServiceUsersShowWhatTheyHave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	profile := func() url.Values {
		return pairs("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion", w.a.assertion("robot", nil), "scope", "openid")
	}
	// RFC 7521, section 4.1: credentials that are shown have to be right.
	w.a.refused("an assertion beside wrong credentials", w.a.form(tokenPath, profile(), basic("x", "y")), "invalid_client")
	w.a.granted("beside good ones", w.a.form(tokenPath, profile(), basic("robot", "secret of robot 0123456789abcdefghij")))
	token := w.a.granted("alone", w.a.form(tokenPath, profile()))
	// A key is enough to revoke what it got.
	revoke := func(name string) *answer {
		return w.a.form(revokePath, pairs("token", token, "client_assertion_type", assertionType, "client_assertion", w.a.assertion(name, nil)))
	}
	if got := revoke("jwtrobot"); got.Status != http.StatusOK {
		t.Errorf("another one revokes: %d %s", got.Status, got.Text)
	}
	if w.a.userinfo(token).Status != http.StatusOK {
		t.Error("the key of another one revoked it")
	}
	if got := revoke("robot"); got.Status != http.StatusOK || w.a.userinfo(token).Status != http.StatusUnauthorized {
		t.Errorf("its own key: %d %s", got.Status, got.Text)
	}
	form := pairs("token", token, "client_assertion_type", assertionType, "client_assertion", strings.Replace(w.a.assertion("robot", nil), ".", ".x", 1))
	w.a.refused("a bad assertion", w.a.form(revokePath, form), "invalid_client")
}

// What discovery offers is what is switched on.
func TestDiscoveryFollowsTheSwitches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	offers := func() (exchange, create bool) {
		text := w.a.call(http.MethodGet, "/.well-known/openid-configuration", "").Text
		return strings.Contains(text, "token-exchange"), strings.Contains(text, `"create"`)
	}
	if exchange, create := offers(); !exchange || !create {
		t.Fatalf("token exchange %v, create %v", exchange, create)
	}
	if _, err := w.db.Pool.Exec(t.Context(), "UPDATE instances SET allow_registration = false WHERE id = $1", w.a.instance()); err != nil {
		t.Fatal(err)
	}
	w.a.must(http.MethodPut, "/v2/features/instance", `{"oidcTokenExchange":false}`)
	w.soon("the document follows", func() bool {
		exchange, create := offers()
		return !exchange && !create
	})
}

// A rotation on demand takes what is published already, unless another algorithm is
// wanted.
func TestRotationOnDemandHastensASuccessor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old, _ := claims(w.a.signedIn("alice").tokens("web", "openid").text("id_token"))
	tend := func(r signing.Rotation) {
		t.Helper()
		if err := w.keeper().Tend(t.Context(), w.a.instance(), r); err != nil {
			t.Fatal(err)
		}
	}
	signs := func() string {
		header, _ := claims(w.a.signedIn("alice").tokens("web", "openid").text("id_token"))
		return fmt.Sprint(header["alg"])
	}
	for range 5 { // a successor is scheduled
		w.wait(7 * 24 * time.Hour)
		tend(signing.Rotation{})
	}
	tend(signing.Rotation{Force: true, Algorithm: signing.ES256})
	tend(signing.Rotation{Force: true, Algorithm: signing.EdDSA})
	w.wait(11 * time.Minute)
	tend(signing.Rotation{})
	w.soon("the wanted key signs", func() bool { return signs() == "EdDSA" })
	if header, _ := claims(w.a.signedIn("alice").tokens("web", "openid").text("id_token")); header["kid"] == old["kid"] {
		t.Error("the old key signs")
	}
}

// An exchange for JWTs goes on with JWTs.
func TestARefreshKeepsTheFormOfTheToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.a.exchange("web", "subject_token", w.a.signedIn("alice").tokens("web", offline).text("access_token"), "requested_token_type", typeJWT, "scope", offline)
	for round := range 3 {
		if !strings.HasPrefix(w.a.granted("a token", first), "eyJ") {
			t.Fatalf("round %d: %s", round, first.Text)
		}
		first = w.a.refresh("web", first.text("refresh_token"))
	}
}
