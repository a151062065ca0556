// Package key reads and makes the public keys that assertions of clients and
// service users are checked with (SEC-056).
package key

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
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
	rsaPrivateBlock = "RSA PRIVATE KEY" // PKCS #1
)

// Parse reads a public key from PEM and returns it with its canonical PEM. It
// accepts RSA from 2048 bits, ECDSA on P-256, P-384 and P-521, and Ed25519. The
// text of an error is fit for the sender: it never quotes the input, which may be
// a private key by mistake.
func Parse(text string) (crypto.PublicKey, string, error) {
	block, rest := pem.Decode([]byte(text))
	if block == nil {
		return nil, "", errors.New("not a public key in PEM")
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return nil, "", errors.New("more than one PEM block, or text after it")
	}
	var public crypto.PublicKey
	var err error
	switch {
	case strings.Contains(block.Type, "PRIVATE"):
		return nil, "", errors.New("a private key: keep it, and send the public one; as it has been sent, it should not be used any more")
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
		return nil, "", errors.New("the public key cannot be read")
	}
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

// Generate makes an RSA key of 2048 bits and returns both halves as PEM.
func Generate() (private, public string, err error) {
	made, err := rsa.GenerateKey(rand.Reader, minBits)
	if err != nil {
		return "", "", err
	}
	if public, err = PEM(made.Public()); err != nil {
		return "", "", err
	}
	private = string(pem.EncodeToMemory(&pem.Block{Type: rsaPrivateBlock, Bytes: x509.MarshalPKCS1PrivateKey(made)}))
	return private, public, nil
}
