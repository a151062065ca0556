package key_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwk"

	"github.com/writ-id/writ/impl/core/key"
)

func block(t *testing.T, kind string, der []byte, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func public(t *testing.T, k crypto.PublicKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(k)
	return block(t, "PUBLIC KEY", der, err)
}

func TestSEC056_WhichKeysAreAccepted(t *testing.T) {
	t.Parallel()
	curve := func(c elliptic.Curve) *ecdsa.PrivateKey {
		made, err := ecdsa.GenerateKey(c, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	strong, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	short := new(big.Int).SetBit(big.NewInt(1), 1023, 1)
	edPublic, edPrivate, _ := ed25519.GenerateKey(rand.Reader)
	pkcs8, pkcs8Err := x509.MarshalPKCS8PrivateKey(edPrivate)
	certificate, certificateErr := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now()},
		&x509.Certificate{SerialNumber: big.NewInt(1)}, edPublic, edPrivate)
	good := public(t, strong.Public())
	for _, test := range []struct {
		name, text string
		want       bool
	}{
		{"RSA 2048", good, true},
		{"RSA as PKCS #1", block(t, "RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&strong.PublicKey), nil), true},
		{"P-256", public(t, curve(elliptic.P256()).Public()), true},
		{"P-384", public(t, curve(elliptic.P384()).Public()), true},
		{"P-521", public(t, curve(elliptic.P521()).Public()), true},
		{"Ed25519", public(t, edPublic), true},
		{"RSA 1024", public(t, &rsa.PublicKey{N: short, E: 65537}), false},
		{"RSA with exponent 1", public(t, &rsa.PublicKey{N: strong.N, E: 1}), false},
		{"P-224", public(t, curve(elliptic.P224()).Public()), false},
		{"a private RSA key", block(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(strong), nil), false},
		{"a private key", block(t, "PRIVATE KEY", pkcs8, pkcs8Err), false},
		{"a private key called public", block(t, "PUBLIC KEY", pkcs8, pkcs8Err), false},
		{"a certificate", block(t, "CERTIFICATE", certificate, certificateErr), false},
		{"two keys", good + good, false},
		{"no PEM", "MIIBIjANBgkq", false},
		{"nothing", "", false},
		{"rubbish", block(t, "PUBLIC KEY", []byte("rubbish"), nil), false},
	} {
		_, canonical, err := key.Parse(test.text)
		if (err == nil) != test.want {
			t.Errorf("%s: got %v", test.name, err)
		}
		if err == nil && (!strings.HasPrefix(canonical, "-----BEGIN PUBLIC KEY-----\n") || strings.Contains(canonical, "PRIVATE")) {
			t.Errorf("%s: got %s", test.name, canonical)
		}
	}
}

func TestSEC056_AKeyIsAcceptedAsJWKToo(t *testing.T) {
	t.Parallel()
	pair := func(signer crypto.Signer, err error) crypto.Signer {
		if err != nil {
			t.Fatal(err)
		}
		return signer
	}
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	strong, weak := pair(rsa.GenerateKey(rand.Reader, 2048)), pair(rsa.GenerateKey(rand.Reader, 1024))
	curved := pair(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	text := func(of any) string {
		made, err := jwk.Import(of)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(made)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, signer := range map[string]crypto.Signer{"RSA": strong, "P-256": curved, "Ed25519": ed} {
		want, err := key.PEM(signer.Public())
		if err != nil {
			t.Fatal(err)
		}
		read, got, err := key.Parse(text(signer.Public()))
		if err != nil || got != want || !read.(interface{ Equal(crypto.PublicKey) bool }).Equal(signer.Public()) {
			t.Errorf("%s: got %v %s, %v", name, read, got, err)
		}
		if _, _, err := key.Parse(text(signer)); err == nil || !strings.Contains(err.Error(), "private") {
			t.Errorf("the private key of %s: %v", name, err)
		}
	}
	for name, bad := range map[string]string{
		"short": `{"kty":"RSA","e":"AQAB","n":"` + base64.RawURLEncoding.EncodeToString(weak.Public().(*rsa.PublicKey).N.Bytes()) + `"}`, "shared": `{"kty":"oct","k":"c2VjcmV0"}`, "a set": `{"keys":[` + text(strong.Public()) + `]}`, "half": `{"kty":"RSA","n":"AQAB"}`,
		"off the curve": `{"kty":"EC","crv":"P-256","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE","y":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE"}`,
		"encryption":    `{"kty":"OKP","crv":"X25519","x":"hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo"}`, "no JSON": `{"kty"`,
	} {
		if _, _, err := key.Parse(bad); err == nil || strings.Contains(err.Error(), "kty") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAKeyMadeHereIsAccepted(t *testing.T) {
	t.Parallel()
	public, private, err := key.Pair(t.Context(), "", "", false, "key.publicKey")
	if err != nil {
		t.Fatal(err)
	}
	parsed, canonical, err := key.Parse(public)
	if err != nil || canonical != public {
		t.Fatalf("got %v, %s", err, canonical)
	}
	block, _ := pem.Decode([]byte(private))
	half, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil || !half.PublicKey.Equal(parsed) {
		t.Errorf("the halves do not fit: %v", err)
	}
}
