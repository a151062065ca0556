package client

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"slices"
	"testing"

	"github.com/lestrrat-go/jwx/v3/jwa"

	"github.com/writ-id/writ/impl/core/signing"
	"github.com/writ-id/writ/impl/core/token"
)

// The keys of clients, by the algorithms that each is good for. ECDSA signs with the hash of
// its curve and no other, so ES256 fits P-256 alone.
var foreign = map[signing.Algorithm]crypto.Signer{}

func init() {
	shared, _ := rsa.GenerateKey(rand.Reader, 2048)
	foreign[signing.RS256], foreign["PS256"] = shared, shared
	for algorithm, curve := range map[signing.Algorithm]elliptic.Curve{signing.ES256: elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()} {
		foreign[algorithm], _ = ecdsa.GenerateKey(curve, rand.Reader)
	}
	_, foreign[signing.EdDSA], _ = ed25519.GenerateKey(rand.Reader)
}

// sign makes a JWT as a client would, with a library of nobody's.
func sign(t testing.TB, algorithm signing.Algorithm, key crypto.Signer, salt int) string {
	t.Helper()
	header, _ := json.Marshal(map[string]string{"alg": string(algorithm)})
	input := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"a"}`))
	var hash crypto.Hash
	digest := []byte(input)
	switch algorithm {
	case "ES384":
		sum := sha512.Sum384(digest)
		hash, digest = crypto.SHA384, sum[:]
	case "ES512":
		sum := sha512.Sum512(digest)
		hash, digest = crypto.SHA512, sum[:]
	case signing.EdDSA:
	default:
		sum := sha256.Sum256(digest)
		hash, digest = crypto.SHA256, sum[:]
	}
	var signature []byte
	var err error
	switch key := key.(type) {
	case *ecdsa.PrivateKey:
		r, s, signErr := ecdsa.Sign(rand.Reader, key, digest)
		size := (key.Curve.Params().BitSize + 7) / 8
		signature, err = append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...), signErr
	case *rsa.PrivateKey:
		if algorithm == "PS256" {
			signature, err = rsa.SignPSS(rand.Reader, key, hash, digest, &rsa.PSSOptions{SaltLength: salt})
		} else {
			signature, err = rsa.SignPKCS1v15(rand.Reader, key, hash, digest)
		}
	default:
		signature, err = key.Sign(rand.Reader, digest, hash)
	}
	if err != nil {
		t.Fatal(err)
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// An assertion is verified by the algorithm that it names, if that is in the list and fits
// the kind of the key and its curve (RFC 8725, section 3.1; SEC-071).
func TestSEC071_AssertionsAreVerifiedByAlgorithmsThatFitTheKey(t *testing.T) {
	t.Parallel()
	if len(foreign) != len(Algorithms) {
		t.Fatalf("%d algorithms have keys, %d are listed", len(foreign), len(Algorithms))
	}
	for signed, key := range foreign {
		if !slices.ContainsFunc(Algorithms, func(one jwa.SignatureAlgorithm) bool { return one.String() == string(signed) }) {
			t.Errorf("%s is not listed", signed)
		}
		text := sign(t, signed, key, rsa.PSSSaltLengthEqualsHash)
		jwt, err := token.ParseJWT(text)
		if err != nil {
			t.Fatal(err)
		}
		for of, other := range foreign {
			_, one := key.(*rsa.PrivateKey)
			_, two := other.(*rsa.PrivateKey)
			same := of == signed || one && two
			if got := verify(jwt, text, other.Public()); got != same {
				t.Errorf("%s by a key for %s: %v", signed, of, got)
			}
		}
		if verify(jwt, text, nil) {
			t.Errorf("%s is verified by no key", signed)
		}
	}
	for _, unknown := range []signing.Algorithm{"none", "HS256", "RS512", "ES256K", "rs256"} {
		text := sign(t, unknown, foreign[signing.RS256], 0)
		if jwt, err := token.ParseJWT(text); err != nil || verify(jwt, text, foreign[signing.RS256].Public()) {
			t.Errorf("%s: %v", unknown, err)
		}
	}
	// A curve has one algorithm.
	short := sign(t, signing.ES256, foreign["ES384"], 0)
	if jwt, err := token.ParseJWT(short); err != nil || verify(jwt, short, foreign["ES384"].Public()) {
		t.Errorf("ES256 by a key on P-384: %v", err)
	}
	unsalted := sign(t, "PS256", foreign["PS256"], 0)
	if jwt, err := token.ParseJWT(unsalted); err != nil || verify(jwt, unsalted, foreign["PS256"].Public()) {
		t.Errorf("PS256 without a salt: %v", err)
	}
}

// BenchmarkAssertion is what reading and verifying one costs.
func BenchmarkAssertion(b *testing.B) {
	for _, algorithm := range []signing.Algorithm{signing.RS256, signing.ES256} {
		text, public := sign(b, algorithm, foreign[algorithm], 0), foreign[algorithm].Public()
		b.Run(string(algorithm), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if jwt, err := token.ParseJWT(text); err != nil || !verify(jwt, text, public) {
					b.Fatal(err)
				}
			}
		})
	}
}
