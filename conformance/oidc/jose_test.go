package oidc

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/lestrrat-go/jwx/v3/jwk"
)

// published returns a public key as a JWK Set has it.
func published(t *testing.T, public any) map[string]any {
	t.Helper()
	key, err := jwk.Import(public)
	if err != nil {
		t.Fatal(err)
	}
	encoded, _ := json.Marshal(key)
	members, err := parseObject(encoded)
	if err != nil {
		t.Fatal(err)
	}
	return members
}

func TestSignaturesOfEveryKindOfKeyAreVerified(t *testing.T) {
	short, _ := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // discoveryStrength is about those
	curve, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, edwards, _ := ed25519.GenerateKey(rand.Reader)
	r := &run{}
	for alg, key := range map[string]interface{ Public() crypto.PublicKey }{"RS256": short, "ES256": curve, "EdDSA": edwards} {
		members := published(t, key.Public())
		public, err := parseKey(members)
		if err != nil {
			t.Fatalf("%s: %v", alg, err)
		}
		keys := &keySet{[]publicKey{{members, public}}}
		raw := r.sign(map[string]any{"kid": "one"}, map[string]any{"sub": "somebody"}, key)
		signed, err := parseJWT(raw)
		if err != nil || text(signed.header, "alg") != alg {
			t.Fatalf("%s: %v, %v", alg, signed, err)
		}
		if err := keys.verify(signed); err == nil {
			t.Errorf("%s: verified without a key of that kid", alg)
		}
		members["kid"] = "one"
		if err := keys.verify(signed); err != nil {
			t.Errorf("%s: %v", alg, err)
		}
		head, rest, _ := strings.Cut(raw, ".")
		_, signature, _ := strings.Cut(rest, ".")
		_, other, _ := strings.Cut(r.unsigned(map[string]any{"sub": "else"}), ".")
		for _, forged := range []string{
			head + "." + other + signature, head + "." + other, r.unsigned(signed.claims),
			r.sign(signed.header, signed.claims, []byte(text(members, "x")+text(members, "n"))),
		} {
			if t2, err := parseJWT(forged); err != nil || keys.verify(t2) == nil {
				t.Errorf("%s: verified %s (%v)", alg, forged, err)
			}
		}
	}
}

// TestKeysAreReadStrictly: what RFC 7518 §6 rules out is an error; what the suite does
// not know is a warning.
func TestKeysAreReadStrictly(t *testing.T) {
	curve, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	good := published(t, curve.Public())
	for name, change := range map[string]func(map[string]any){
		"padding":           func(key map[string]any) { key["x"] = text(key, "x") + "=" },
		"a leading zero":    func(key map[string]any) { key["x"] = "AAAA" + text(key, "x") },
		"no y":              func(key map[string]any) { delete(key, "y") },
		"no point":          func(key map[string]any) { key["y"] = key["x"] },
		"another curve":     func(key map[string]any) { key["crv"] = "P-384" },
		"no kty":            func(key map[string]any) { delete(key, "kty") },
		"no text":           func(key map[string]any) { key["x"] = json.Number("1") },
		"unknown: a curve":  func(key map[string]any) { key["crv"] = "secp256k1" },
		"unknown: a kty":    func(key map[string]any) { key["kty"] = "AKP" },
		"unknown: a secret": func(key map[string]any) { key["kty"], key["k"] = "oct", "AAAA" },
	} {
		members := published(t, curve.Public())
		change(members)
		if _, err := parseKey(members); err == nil || errors.Is(err, errUnknown) != strings.HasPrefix(name, "unknown") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := parseKey(good); err != nil {
		t.Error(err)
	}
}
