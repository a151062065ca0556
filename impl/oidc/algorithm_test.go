package oidc_test

import (
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/core/signing"
)

// TestREL060_AnApplicationHasItsTokensSignedAsItAsks: once the key is published long enough, and
// those of no other application.
func TestREL060_AnApplicationHasItsTokensSignedAsItAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	algorithms := func(res *answer) string {
		id, _ := claims(res.text("id_token"))
		access, _ := claims(res.text("access_token"))
		return fmt.Sprint(id["alg"], " ", access["alg"])
	}
	tend := func() {
		t.Helper()
		if err := w.keeper().Tend(t.Context(), w.a.instance(), signing.Rotation{}); err != nil {
			t.Fatal(err)
		}
	}
	before := b.tokens("jwtweb", offline)
	if got := algorithms(before); got != "RS256 RS256" {
		t.Fatalf("unasked: got %s", got)
	}
	path := appsPath + w.a.apps["jwtweb"].ID
	w.a.must(http.MethodPatch, path, `{"oidc":{"idTokenSignedResponseAlg":"SIGNATURE_ALGORITHM_EDDSA"}}`)
	if got := fmt.Sprint(w.a.must(http.MethodGet, path, "")); !strings.Contains(got, "idTokenSignedResponseAlg:SIGNATURE_ALGORITHM_EDDSA") {
		t.Errorf("the application reads %s", got)
	}
	tend()
	w.soon("the key is published", func() bool {
		return strings.Contains(w.a.call(http.MethodGet, "/oauth/v2/keys", "").Text, `"alg":"EdDSA"`)
	})
	if got := algorithms(b.tokens("jwtweb", "openid")); got != "RS256 RS256" {
		t.Errorf("just published: got %s", got)
	}
	w.wait(11 * time.Minute)
	var res *answer
	w.soon("the key signs", func() bool {
		res = b.tokens("jwtweb", "openid")
		return algorithms(res) == "EdDSA EdDSA"
	})
	_, id := claims(res.text("id_token"))
	sum := sha512.Sum512([]byte(res.text("access_token")))
	if want := base64.RawURLEncoding.EncodeToString(sum[:32]); id["at_hash"] != want {
		t.Errorf("got at_hash %v, want the half of SHA-512, %s", id["at_hash"], want)
	}
	if got := algorithms(w.a.refresh("jwtweb", before.text("refresh_token"))); got != "EdDSA EdDSA" {
		t.Errorf("refreshed: got %s", got)
	}
	for what, token := range map[string]string{"before": before.text("access_token"), "after": res.text("access_token")} {
		if !w.a.active("api", token) || w.a.userinfo(token).Status != http.StatusOK {
			t.Errorf("%s: the access token is not good", what)
		}
	}
	if got := b.authorize("jwtweb", "prompt", "none", "id_token_hint", res.text("id_token")); got.Get("code") == "" {
		t.Errorf("the ID token is no hint: %v", got)
	}
	if header, _ := claims(b.tokens("web", "openid").text("id_token")); header["alg"] != "RS256" {
		t.Errorf("another application gets %v", header["alg"])
	}
	w.a.must(http.MethodPatch, path, `{"oidc":{"idTokenSignedResponseAlg":"SIGNATURE_ALGORITHM_UNSPECIFIED"}}`)
	w.soon("the instance's signs again", func() bool { return algorithms(b.tokens("jwtweb", "openid")) == "RS256 RS256" })
}
