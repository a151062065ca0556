package oidc

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	_ "crypto/sha256" // the hashes of the signing algorithms
	_ "crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"regexp"
	"slices"
	"strings"
)

// jwt is a JWT in compact serialization (RFC 7519 §3.1), not verified.
type jwt struct {
	raw       string
	header    map[string]any
	claims    map[string]any
	signed    string
	signature []byte
}

var compact = regexp.MustCompile(`^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*$`)

func parseJWT(raw string) (*jwt, error) {
	if !compact.MatchString(raw) {
		return nil, errors.New("not three parts of base64url with dots between")
	}
	parts := strings.Split(raw, ".")
	t := &jwt{raw: raw, signed: parts[0] + "." + parts[1]}
	for i, to := range []*map[string]any{&t.header, &t.claims} {
		text, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err == nil {
			*to, err = parseObject(text)
		}
		if err != nil {
			return nil, fmt.Errorf("part %d: %w", i+1, err)
		}
	}
	var err error
	t.signature, err = base64.RawURLEncoding.DecodeString(parts[2])
	return t, err
}

// parseObject reads a JSON object. A member that occurs twice is an error
// (RFC 7519 §4 lets a parser reject it; readers would disagree on its value).
func parseObject(text []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	value, err := parseValue(d)
	if err != nil {
		return nil, err
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("a JSON %T, not an object", value)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	return object, nil
}

func parseValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		object := map[string]any{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			key, _ := name.(string)
			if _, twice := object[key]; twice {
				return nil, fmt.Errorf("the member %q occurs twice", key)
			}
			if object[key], err = parseValue(d); err != nil {
				return nil, err
			}
		}
		_, err = d.Token()
		return object, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			item, err := parseValue(d)
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		_, err = d.Token()
		return list, err
	}
	return token, nil
}

// jwk is a key of a JWK Set (RFC 7517).
type jwk struct {
	members map[string]any
	public  crypto.PublicKey // nil for a type that is not known here
}

func (k jwk) text(name string) string { return text(k.members, name) }

// text returns a string member, "" when it is absent or something else.
func text(object map[string]any, name string) string {
	value, _ := object[name].(string)
	return value
}

// keySet is a JWK Set.
type keySet struct{ keys []jwk }

var curves = map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}

// errUnknown is of a key type or curve that is not known here.
var errUnknown = errors.New("not known to the suite")

func parseKey(members map[string]any) (crypto.PublicKey, error) {
	number := func(name string) (*big.Int, []byte, error) {
		octets, err := base64.RawURLEncoding.Strict().DecodeString(text(members, name))
		if err == nil && len(octets) == 0 {
			err = errors.New("missing")
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s is not unpadded base64url: %w", name, err)
		}
		return new(big.Int).SetBytes(octets), octets, nil
	}
	switch kind := text(members, "kty"); kind {
	case "RSA":
		n, _, err := number("n")
		if err != nil {
			return nil, err
		}
		e, _, err := number("e")
		if err != nil || !e.IsInt64() {
			return nil, errors.Join(errors.New("e"), err)
		}
		return &rsa.PublicKey{N: n, E: int(e.Int64())}, nil
	case "EC":
		_, x, err := number("x")
		if err != nil {
			return nil, err
		}
		_, y, err := number("y")
		if err != nil {
			return nil, err
		}
		curve := curves[text(members, "crv")]
		if curve == nil {
			return nil, fmt.Errorf("crv %q: %w", text(members, "crv"), errUnknown)
		}
		if size := (curve.Params().BitSize + 7) / 8; len(x) != size || len(y) != size {
			return nil, fmt.Errorf("x and y have %d and %d octets, want %d (RFC 7518 §6.2.1.2)", len(x), len(y), size)
		}
		return ecdsa.ParseUncompressedPublicKey(curve, slices.Concat([]byte{4}, x, y))
	case "OKP":
		_, x, err := number("x")
		if err != nil {
			return nil, err
		}
		if text(members, "crv") != "Ed25519" || len(x) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("crv %q: %w", text(members, "crv"), errUnknown)
		}
		return ed25519.PublicKey(x), nil
	case "":
		return nil, errors.New("no kty")
	default:
		return nil, fmt.Errorf("kty %q: %w", kind, errUnknown)
	}
}

// leaf returns the key of the first certificate of x5c, nil without x5c.
func (k jwk) leaf() (crypto.PublicKey, error) {
	chain, ok := k.members["x5c"].([]any)
	if !ok || len(chain) == 0 {
		return nil, nil
	}
	first, _ := chain[0].(string)
	der, err := base64.StdEncoding.DecodeString(first)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
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
func (s *keySet) find(t *jwt) []jwk {
	alg, kid := text(t.header, "alg"), text(t.header, "kid")
	var found []jwk
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

func (k jwk) verifies(t *jwt) bool {
	alg := text(t.header, "alg")
	hash := hashes[alg]
	h := hash.New()
	h.Write([]byte(t.signed))
	digest := h.Sum(nil)
	switch key := k.public.(type) {
	case *rsa.PublicKey:
		if strings.HasPrefix(alg, "PS") {
			return rsa.VerifyPSS(key, hash, digest, t.signature, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
		}
		return rsa.VerifyPKCS1v15(key, hash, digest, t.signature) == nil
	case *ecdsa.PublicKey:
		size := (key.Curve.Params().BitSize + 7) / 8
		return len(t.signature) == 2*size && ecdsa.Verify(key, digest,
			new(big.Int).SetBytes(t.signature[:size]), new(big.Int).SetBytes(t.signature[size:]))
	case ed25519.PublicKey:
		return ed25519.Verify(key, []byte(t.signed), t.signature)
	}
	return false
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
func unsigned(claims map[string]any) string {
	return encodePart(map[string]any{"alg": "none"}) + "." + encodePart(claims) + "."
}

// signHMAC returns a JWT signed with HS256.
func signHMAC(header, claims map[string]any, secret []byte) string {
	header["alg"] = "HS256"
	signed := encodePart(header) + "." + encodePart(claims)
	mac := hmac.New(crypto.SHA256.New, secret)
	mac.Write([]byte(signed))
	return signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// sign returns a JWT signed with RS256, ES256 or EdDSA, as the key has it.
func sign(header, claims map[string]any, key crypto.Signer) (string, error) {
	var options crypto.SignerOpts = crypto.SHA256
	switch public := key.Public().(type) {
	case *rsa.PublicKey:
		header["alg"] = "RS256"
	case *ecdsa.PublicKey:
		if public.Curve != elliptic.P256() {
			return "", fmt.Errorf("a key on %s, want P-256", public.Curve.Params().Name)
		}
		header["alg"] = "ES256"
	case ed25519.PublicKey:
		header["alg"], options = "EdDSA", crypto.Hash(0)
	}
	signed := encodePart(header) + "." + encodePart(claims)
	digest := []byte(signed)
	if options.HashFunc() != 0 {
		h := options.HashFunc().New()
		h.Write(digest)
		digest = h.Sum(nil)
	}
	signature, err := key.Sign(rand.Reader, digest, options)
	if err != nil {
		return "", err
	}
	if header["alg"] == "ES256" {
		if signature, err = flatten(signature); err != nil {
			return "", err
		}
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

func encodePart(object map[string]any) string {
	encoded, _ := json.Marshal(object) // strings, numbers and lists of them
	return base64.RawURLEncoding.EncodeToString(encoded)
}
