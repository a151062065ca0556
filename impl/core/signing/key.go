// Package signing holds the keys that an instance signs its tokens with, and
// their lives: made, published, active, retired when the next one is active,
// forgotten when nothing they signed can be good any more (design, section 7).
//
// The private halves are sealed in the database by the master key. One
// transaction decides for all nodes which key is active (Keeper); each node signs
// and verifies from memory (Set).
package signing

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"

	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/core/rs256"
)

// Algorithm is a signature algorithm by its JWA name (RFC 7518, RFC 8037).
type Algorithm string

// The algorithms there are; nothing else is signed or verified with.
const (
	RS256 Algorithm = "RS256"
	ES256 Algorithm = "ES256"
	EdDSA Algorithm = "EdDSA"
)

// Algorithms lists them.
var Algorithms = []Algorithm{RS256, ES256, EdDSA}

// Asked returns the algorithm that an application asks for; "" is that of the instance.
func Asked(algorithm object.SignatureAlgorithm) Algorithm {
	switch algorithm {
	case object.SignatureAlgorithm_SIGNATURE_ALGORITHM_RS256:
		return RS256
	case object.SignatureAlgorithm_SIGNATURE_ALGORITHM_ES256:
		return ES256
	case object.SignatureAlgorithm_SIGNATURE_ALGORITHM_EDDSA:
		return EdDSA
	}
	return ""
}

const rsaBits = 2048

// generate makes a private key for an algorithm.
func generate(algorithm Algorithm) (crypto.Signer, error) {
	switch algorithm {
	case RS256:
		return rsa.GenerateKey(rand.Reader, rsaBits)
	case ES256:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case EdDSA:
		_, private, err := ed25519.GenerateKey(rand.Reader)
		return private, err
	}
	return nil, fmt.Errorf("signing: %q is none of %v", algorithm, Algorithms)
}

// jwk is a public key as the key set shows it (RFC 7517).
type jwk struct {
	KeyType   string    `json:"kty"`
	Use       string    `json:"use"`
	KeyID     string    `json:"kid"`
	Algorithm Algorithm `json:"alg"`
	Curve     string    `json:"crv,omitempty"`
	X         string    `json:"x,omitempty"`
	Y         string    `json:"y,omitempty"`
	N         string    `json:"n,omitempty"`
	E         string    `json:"e,omitempty"`
}

func encode(bytes []byte) string { return base64.RawURLEncoding.EncodeToString(bytes) }

// publicJWK returns the JWK of a public key.
func publicJWK(id string, algorithm Algorithm, public crypto.PublicKey) (json.RawMessage, error) {
	key := jwk{Use: "sig", KeyID: id, Algorithm: algorithm}
	switch public := public.(type) {
	case *rsa.PublicKey:
		key.KeyType, key.N, key.E = "RSA", encode(public.N.Bytes()), encode(big.NewInt(int64(public.E)).Bytes())
	case *ecdsa.PublicKey:
		point, err := public.Bytes() // 0x04, X, Y
		if err != nil {
			return nil, err
		}
		size := (len(point) - 1) / 2
		key.KeyType, key.Curve, key.X, key.Y = "EC", "P-256", encode(point[1:1+size]), encode(point[1+size:])
	case ed25519.PublicKey:
		key.KeyType, key.Curve, key.X = "OKP", "Ed25519", encode(public)
	default:
		return nil, fmt.Errorf("signing: no JWK of %T", public)
	}
	return json.Marshal(key)
}

// public is the way back.
func (k *jwk) public() (crypto.PublicKey, error) {
	var values [4][]byte
	for i, text := range []string{k.N, k.E, k.X, k.Y} {
		value, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("signing: the JWK %s: %w", k.KeyID, err)
		}
		values[i] = value
	}
	n, e, x, y := values[0], values[1], values[2], values[3]
	switch {
	case k.KeyType == "RSA" && len(n) > 0 && len(e) > 0 && len(e) <= 4:
		return &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(new(big.Int).SetBytes(e).Int64())}, nil
	case k.KeyType == "EC" && k.Curve == "P-256" && len(x) == 32 && len(y) == 32:
		return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...), y...))
	case k.KeyType == "OKP" && k.Curve == "Ed25519" && len(x) == ed25519.PublicKeySize:
		return ed25519.PublicKey(x), nil
	}
	return nil, fmt.Errorf("signing: the JWK %s is of no known kind", k.KeyID)
}

// Key signs for one instance. It is safe for concurrent use.
type Key struct {
	ID        string
	Algorithm Algorithm
	sign      func(input []byte) ([]byte, error)
	headers   [2]string // {"alg","kid","typ"}, encoded, by Type
}

// Type is what a token says of itself in its header, so that it is not taken for
// one of another kind (RFC 8725, section 3.11).
type Type int

// The types of tokens that are signed.
const (
	IDToken     Type = iota // typ JWT
	AccessToken             // typ at+jwt (RFC 9068, section 2.1)
)

var typeNames = [...]string{IDToken: "JWT", AccessToken: "at+jwt"}

// String returns the typ of the header.
func (t Type) String() string { return typeNames[t] }

func newKey(id string, algorithm Algorithm, private any) (*Key, error) {
	sign, err := signer(private)
	if err != nil {
		return nil, err
	}
	key := &Key{ID: id, Algorithm: algorithm, sign: sign}
	for kind, name := range typeNames {
		header, _ := json.Marshal(map[string]string{"alg": string(algorithm), "kid": id, "typ": name}) // of texts
		key.headers[kind] = encode(header)
	}
	return key, nil
}

// openKey opens a sealed private key.
func openKey(id string, algorithm Algorithm, der []byte) (*Key, error) {
	private, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, err
	}
	return newKey(id, algorithm, private)
}

// Sign returns claims, a JSON object, as a compact JWS (RFC 7515): one signature.
func (k *Key) Sign(kind Type, claims []byte) (string, error) {
	header := k.headers[kind]
	input := make([]byte, 0, len(header)+1+base64.RawURLEncoding.EncodedLen(len(claims))+400)
	input = append(append(input, header...), '.')
	input = base64.RawURLEncoding.AppendEncode(input, claims)
	signature, err := k.sign(input)
	if err != nil {
		return "", err
	}
	return string(base64.RawURLEncoding.AppendEncode(append(input, '.'), signature)), nil
}

// signer returns what signs with a private key.
func signer(private any) (func(input []byte) ([]byte, error), error) {
	switch private := private.(type) {
	case *rsa.PrivateKey:
		imported, err := rs256.NewPrivateKey(private)
		if err != nil {
			return nil, err
		}
		return imported.Sign, nil
	case *ecdsa.PrivateKey:
		return func(input []byte) ([]byte, error) {
			digest := sha256.Sum256(input)
			r, s, err := ecdsa.Sign(rand.Reader, private, digest[:])
			if err != nil {
				return nil, err
			}
			signature := make([]byte, 64) // r and s, 32 bytes each (RFC 7518, section 3.4)
			r.FillBytes(signature[:32])
			s.FillBytes(signature[32:])
			return signature, nil
		}, nil
	case ed25519.PrivateKey:
		return func(input []byte) ([]byte, error) { return ed25519.Sign(private, input), nil }, nil
	}
	return nil, fmt.Errorf("signing: %T does not sign", private)
}

// Verify reports whether signature is that of input by public, under an algorithm
// that fits the kind of the key and no other (RFC 8725, section 3.1).
func Verify(algorithm Algorithm, public crypto.PublicKey, input, signature []byte) bool {
	switch key := public.(type) {
	case *rsa.PublicKey:
		digest := sha256.Sum256(input)
		return algorithm == RS256 && rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], signature) == nil
	case *ecdsa.PublicKey:
		digest := sha256.Sum256(input)
		return algorithm == ES256 && key.Curve == elliptic.P256() && len(signature) == 64 &&
			ecdsa.Verify(key, digest[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
	case ed25519.PublicKey:
		return algorithm == EdDSA && ed25519.Verify(key, input, signature)
	}
	return false
}
