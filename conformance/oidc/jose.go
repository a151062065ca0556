package oidc

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	_ "crypto/sha256" // the hashes of the signing algorithms
	_ "crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/lestrrat-go/jwx/v3/cert"
	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jws"
)

// jwt is a JWT in compact serialization (RFC 7519 §3.1), not verified.
type jwt struct {
	raw    string
	header map[string]any
	claims map[string]any
}

var compact = regexp.MustCompile(`^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*$`)

func parseJWT(raw string) (*jwt, error) {
	if !compact.MatchString(raw) {
		return nil, errors.New("not three parts of base64url with dots between")
	}
	t := &jwt{raw: raw}
	parts := strings.Split(raw, ".")
	for i, to := range []*map[string]any{&t.header, &t.claims} {
		text, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err == nil {
			*to, err = parseObject(text)
		}
		if err != nil {
			return nil, fmt.Errorf("part %d: %w", i+1, err)
		}
	}
	_, err := base64.RawURLEncoding.DecodeString(parts[2])
	return t, err
}

// publicKey is a key of a JWK Set (RFC 7517).
type publicKey struct {
	members map[string]any
	public  crypto.PublicKey // nil for one that is not known here, or no key
}

func (k publicKey) text(name string) string { return text(k.members, name) }

// keySet is a JWK Set.
type keySet struct{ keys []publicKey }

// errUnknown is of a key type or curve that is not known here.
var errUnknown = errors.New("not known to the suite")

// A short RSA key is a finding (discoveryStrength), not a key that cannot be read.
func init() { jwk.Configure(jwk.WithMinRSAModulusBits(0)) }

// curves are those known here, by kty; RSA has none.
var curves = map[string][]string{"RSA": {""}, "EC": {"P-256", "P-384", "P-521"}, "OKP": {"Ed25519"}}

// parseKey reads a public key. The library takes numbers in any base64 and of any
// length; here they have to be as it writes them itself, which is as RFC 7518 §6 does.
func parseKey(members map[string]any) (crypto.PublicKey, error) {
	kind, curve := text(members, "kty"), text(members, "crv")
	if kind == "" {
		return nil, errors.New("no kty")
	}
	if !slices.Contains(curves[kind], curve) {
		return nil, fmt.Errorf("kty %q, crv %q: %w", kind, curve, errUnknown)
	}
	encoded, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	key, err := jwk.ParseKey(encoded)
	if err != nil {
		return nil, err
	}
	public, err := jwk.PublicRawKeyOf(key)
	if err != nil {
		return nil, err
	}
	again, err := jwk.Import(public)
	if err != nil {
		return nil, err
	}
	if encoded, err = json.Marshal(again); err != nil {
		return nil, err
	}
	want, err := parseObject(encoded)
	for name, value := range want {
		if members[name] != value {
			return nil, fmt.Errorf("%s is %v, want %v: all octets and no others in unpadded base64url (RFC 7518 §6)", name, members[name], value)
		}
	}
	return public, err
}

// leaf returns the key of the first certificate of x5c, nil without x5c.
func (k publicKey) leaf() (crypto.PublicKey, error) {
	chain, ok := k.members["x5c"].([]any)
	if !ok || len(chain) == 0 {
		return nil, nil
	}
	first, _ := chain[0].(string)
	certificate, err := cert.Parse([]byte(first))
	if err != nil {
		return nil, err
	}
	return certificate.PublicKey, nil
}

// samePublic says whether two public keys are the same.
func samePublic(a, b crypto.PublicKey) bool {
	key, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && key.Equal(b)
}

// hashes are those of the algorithms that the suite verifies (RFC 7518 §3.1,
// RFC 8037 §3.1 with RFC 9864). Ed25519 takes SHA-512 for at_hash.
var hashes = map[string]crypto.Hash{
	"RS256": crypto.SHA256, "RS384": crypto.SHA384, "RS512": crypto.SHA512,
	"PS256": crypto.SHA256, "PS384": crypto.SHA384, "PS512": crypto.SHA512,
	"ES256": crypto.SHA256, "ES384": crypto.SHA384, "ES512": crypto.SHA512,
	"EdDSA": crypto.SHA512, "Ed25519": crypto.SHA512,
}

// keyTypes are the kty that go with the first letters of an algorithm.
var keyTypes = map[string]string{"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}

// find returns the keys that may have signed t.
func (s *keySet) find(t *jwt) []publicKey {
	alg, kid := text(t.header, "alg"), text(t.header, "kid")
	var found []publicKey
	for _, key := range s.keys {
		switch {
		case len(alg) < 2 || key.text("kty") != keyTypes[alg[:2]]:
		case kid != "" && key.text("kid") != kid:
		case key.text("alg") != "" && key.text("alg") != alg:
		case key.text("use") != "" && key.text("use") != "sig":
		default:
			found = append(found, key)
		}
	}
	return found
}

// verify checks the signature of t.
func (s *keySet) verify(t *jwt) error {
	if _, known := hashes[text(t.header, "alg")]; !known {
		return fmt.Errorf("alg %q is not one to verify", text(t.header, "alg"))
	}
	found := s.find(t)
	if len(found) == 0 {
		return fmt.Errorf("no key of the JWKS fits the header %v", t.header)
	}
	if text(t.header, "kid") != "" && len(found) > 1 {
		return fmt.Errorf("%d keys of the JWKS fit the header %v", len(found), t.header)
	}
	for _, key := range found {
		if !key.verifies(t) {
			continue
		}
		if print := text(t.header, "x5t#S256"); print != "" && key.text("x5t#S256") != print {
			return errors.New("x5t#S256 of the header is not that of the key")
		}
		return nil
	}
	return errors.New("the signature does not verify")
}

func (k publicKey) verifies(t *jwt) bool {
	alg, known := jwa.LookupSignatureAlgorithm(text(t.header, "alg"))
	if !known || k.public == nil {
		return false
	}
	_, err := jws.Verify([]byte(t.raw), jws.WithKey(alg, k.public))
	return err == nil
}

// halfHash is at_hash or c_hash of a value (OpenID Connect Core 1.0 §3.1.3.6).
func halfHash(alg, value string) string {
	hash, known := hashes[alg]
	if !known {
		return ""
	}
	h := hash.New()
	h.Write([]byte(value))
	sum := h.Sum(nil)
	return base64.RawURLEncoding.EncodeToString(sum[:len(sum)/2])
}

// unsigned returns a JWT with alg none.
func (r *run) unsigned(claims map[string]any) string {
	return r.compact(claims, jws.WithInsecureNoSignature())
}

// sign returns a JWT signed with HS256, RS256, ES256 or EdDSA, as the key has it.
func (r *run) sign(header, claims map[string]any, key any) string {
	alg := jwa.HS256()
	switch secret := key.(type) {
	case []byte:
		if len(secret) == 0 {
			key = []byte{0} // the library takes no empty secret; the MAC is the same (RFC 2104)
		}
	case *rsa.PrivateKey:
		alg = jwa.RS256()
	case *ecdsa.PrivateKey:
		alg = jwa.ES256()
	case ed25519.PrivateKey:
		alg = jwa.EdDSA()
	}
	headers := jws.NewHeaders()
	for name, value := range header {
		if err := headers.Set(name, value); err != nil {
			r.stop("a JWT with the header %v: %v", header, err)
		}
	}
	return r.compact(claims, jws.WithKey(alg, key, jws.WithProtectedHeaders(headers)), jws.WithStrictECDSA(true))
}

func (r *run) compact(claims map[string]any, options ...jws.SignOption) string {
	payload, _ := json.Marshal(claims) // strings, numbers and lists of them
	signed, err := jws.Sign(payload, options...)
	if err != nil {
		r.stop("sign a JWT: %v", err)
	}
	return string(signed)
}
