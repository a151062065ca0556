// Package key reads and makes the public keys that assertions of clients and
// service users are checked with (SEC-056).
package key

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwk"

	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/secret"
)

// Bounds of RSA moduli. More bits than maxBits would only make each check slow.
const (
	minBits = 2048
	maxBits = 8192
)

// The types of PEM blocks.
const (
	publicBlock     = "PUBLIC KEY"      // SubjectPublicKeyInfo, of every kind
	rsaPublicBlock  = "RSA PUBLIC KEY"  // PKCS #1
	privateBlock    = "PRIVATE KEY"     // PKCS #8
	rsaPrivateBlock = "RSA PRIVATE KEY" // PKCS #1
)

// Parse reads a public key from PEM or a JWK and returns it with its canonical PEM. It
// accepts RSA from 2048 bits, ECDSA on P-256, P-384 and P-521, and Ed25519. The
// text of an error is fit for the sender: it never quotes the input, which may be
// a private key by mistake.
func Parse(text string) (crypto.PublicKey, string, error) {
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		return parseJWK([]byte(text))
	}
	block, rest := pem.Decode([]byte(text))
	if block == nil {
		return nil, "", errors.New("not a public key in PEM, and no JWK")
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return nil, "", errors.New("more than one PEM block, or text after it")
	}
	var public crypto.PublicKey
	var err error
	switch {
	case strings.Contains(block.Type, "PRIVATE"):
		return nil, "", errPrivate
	case strings.Contains(block.Type, "CERTIFICATE"):
		return nil, "", errors.New("a certificate: send the public key only")
	case block.Type == publicBlock:
		public, err = x509.ParsePKIXPublicKey(block.Bytes)
	case block.Type == rsaPublicBlock:
		public, err = x509.ParsePKCS1PublicKey(block.Bytes)
	default:
		return nil, "", errors.New("not a public key in PEM")
	}
	if err != nil {
		return nil, "", errUnreadable
	}
	return checked(public)
}

var (
	errPrivate    = errors.New("a private key: keep it, and send the public one; as it has been sent, it should not be used any more")
	errUnreadable = errors.New("the public key cannot be read")
)

// parseJWK reads a public key from a JWK (RFC 7517).
func parseJWK(text []byte) (crypto.PublicKey, string, error) {
	read, err := jwk.ParseKey(text)
	if err != nil {
		return nil, "", errUnreadable
	}
	if private, err := jwk.IsPrivateKey(read); err != nil || private { // err: of a secret that is shared
		return nil, "", errPrivate
	}
	var public any
	if err := jwk.Export(read, &public); err != nil {
		return nil, "", errUnreadable
	}
	return checked(public)
}

// checked returns a public key that may be used, with its PEM.
func checked(public any) (crypto.PublicKey, string, error) {
	if err := check(public); err != nil {
		return nil, "", err
	}
	canonical, err := PEM(public)
	return public, canonical, err
}

func check(public crypto.PublicKey) error {
	switch k := public.(type) {
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < minBits || bits > maxBits {
			return fmt.Errorf("an RSA key has to have %d to %d bits", minBits, maxBits)
		}
		if k.E < 3 || k.E%2 == 0 || k.N.Bit(0) == 0 {
			return errors.New("the numbers of the RSA key are not those of one")
		}
		return nil
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() || k.Curve == elliptic.P384() || k.Curve == elliptic.P521() {
			return nil
		}
		return errors.New("an ECDSA key has to be on P-256, P-384 or P-521")
	case ed25519.PublicKey:
		return nil
	}
	return errors.New("a key has to be of RSA, ECDSA or Ed25519")
}

// PEM returns a public key as PEM.
func PEM(public crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: publicBlock, Bytes: der})), nil
}

// Pair returns the public key that was sent, in its canonical PEM, or when none
// was a new pair: RSA of 2048 bits, or ECDSA on P-256. field names the sent one in
// refusals; tenant is for whom it is made.
func Pair(ctx context.Context, tenant, sent string, onCurve bool, field string) (public, private string, err error) {
	if sent != "" {
		if _, public, err = Parse(sent); err != nil {
			err = fault.Invalid("INVALID_KEY", field, "%v", err)
		}
		return public, "", err
	}
	var made error
	err = secret.Work(ctx, tenant, func() { private, public, made = generate(onCurve) }) // finding primes is work like hashing
	return public, private, errors.Join(err, made)
}

func generate(onCurve bool) (private, public string, err error) {
	var signer crypto.Signer
	if onCurve {
		signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	} else {
		signer, err = rsa.GenerateKey(rand.Reader, minBits)
	}
	if err != nil {
		return "", "", err
	}
	block := &pem.Block{Type: privateBlock}
	if made, ok := signer.(*rsa.PrivateKey); ok { // the form that every library reads
		block.Type, block.Bytes = rsaPrivateBlock, x509.MarshalPKCS1PrivateKey(made)
	} else if block.Bytes, err = x509.MarshalPKCS8PrivateKey(signer); err != nil {
		return "", "", err
	}
	public, err = PEM(signer.Public())
	return string(pem.EncodeToMemory(block)), public, err
}

// File is the key file that the holder of a private key gets, once. A key of a
// service user has UserID, one of an application AppID and ClientID.
type File struct {
	Type           string     `json:"type"` // serviceaccount or application
	KeyID          string     `json:"keyId"`
	Key            string     `json:"key"` // the private key as PEM
	ExpirationDate *time.Time `json:"expirationDate,omitempty"`
	UserID         string     `json:"userId,omitempty"`
	AppID          string     `json:"appId,omitempty"`
	ClientID       string     `json:"clientId,omitempty"`
}

// JSON returns the file as it is handed out; nil without a private key.
func (f File) JSON() []byte {
	if f.Key == "" {
		return nil
	}
	text, _ := json.Marshal(f) // of texts and a time
	return text
}
