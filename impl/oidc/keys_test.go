package oidc_test

import (
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/core/signing"
)

func TestSEC076_TheKeySetIsPublic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.a.call(http.MethodGet, keysPath, "")
	list, _ := got.Body["keys"].([]any)
	if len(list) == 0 {
		t.Fatalf("no keys: %s", got.Text)
	}
	for _, one := range list {
		key := one.(map[string]any)
		for _, private := range []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"} {
			if key[private] != nil {
				t.Errorf("the key set has %q", private)
			}
		}
		n, _ := base64.RawURLEncoding.DecodeString(key["n"].(string))
		if len(n)*8 < 2048 || key["kid"] == "" || key["use"] != "sig" || key["alg"] != "RS256" {
			t.Errorf("the key is %v", key)
		}
	}
	if w.a.call(http.MethodGet, keysPath, "").Text == w.b.call(http.MethodGet, keysPath, "").Text {
		t.Error("both instances have the same keys")
	}
	_, key := w.a.signer()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"signing_keys", "events", "token_keys"} {
		text := w.value("SELECT coalesce(string_agg(t::text, E'\\n'), '') FROM " + table + " t")
		for _, secret := range []string{fmt.Sprintf("%x", key.D.Bytes()), fmt.Sprintf("%x", key.Primes[0].Bytes()), fmt.Sprintf("%x", der[:64]), base64.StdEncoding.EncodeToString(der)[:60]} {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds a private key", table)
			}
		}
	}
}

func TestSEC077_KeysRotateWithoutAFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	old := b.tokens("jwtweb", "openid "+urn+"org:project:id:service:aud")
	first, _ := w.a.signer()
	keeper := w.keeper()
	if err := keeper.Tend(t.Context(), w.a.instance(), signing.Rotation{Force: true}); err != nil {
		t.Fatal(err)
	}
	for node := range 2 {
		w.soon("the next key is published", func() bool {
			return strings.Count(w.a.on(node).call(http.MethodGet, keysPath, "").Text, `"kid"`) == 2
		})
	}
	if head, _ := claims(b.tokens("jwtweb", "openid").text("access_token")); head["kid"] != first {
		t.Error("the next key signs before verifiers know it")
	}
	w.wait(11 * time.Minute)
	if err := keeper.Tend(t.Context(), w.a.instance(), signing.Rotation{}); err != nil {
		t.Fatal(err)
	}
	for node := range 2 {
		at := w.a.on(node)
		w.soon("the next key signs", func() bool {
			head, _ := claims(at.redeem("jwtweb", b.code("jwtweb")).text("access_token"))
			return head["kid"] != first
		})
		if !at.active("api", old.text("access_token")) || at.userinfo(old.text("access_token")).Status != http.StatusOK {
			t.Error("a token of the old key is not good any more")
		}
	}
	// In an emergency a key ends at once, with what it signed.
	if err := keeper.Revoke(t.Context(), w.a.instance(), first); err != nil {
		t.Fatal(err)
	}
	for node := range 2 {
		at := w.a.on(node)
		w.soon("what a revoked key signed", func() bool {
			api := at.api(old.text("access_token"), http.MethodGet, "/resources/v3alpha/users/"+w.a.users["alice"].ID, "")
			return !at.active("api", old.text("access_token")) && at.userinfo(old.text("access_token")).Status == http.StatusUnauthorized && api.Status == http.StatusUnauthorized &&
				b.authorize("web", "prompt", "none", "id_token_hint", old.text("id_token")).Has("error")
		})
		if strings.Contains(at.call(http.MethodGet, keysPath, "").Text, first) {
			t.Error("the revoked key is still published")
		}
	}
	if !w.a.active("api", b.tokens("jwtweb", "openid").text("access_token")) {
		t.Error("a token of the other key is not good")
	}
}

// keeper returns one that does what a node does with keys.
func (w *world) keeper() *signing.Keeper {
	return &signing.Keeper{Env: w.env(), Sealer: w.sealer}
}
