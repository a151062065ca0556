//go:build !openssl

package rs256

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"runtime"
)

// Library names what computes.
func Library() string { return runtime.Version() }

// PrivateKey signs.
type PrivateKey struct{ key *rsa.PrivateKey }

// NewPrivateKey imports a key.
func NewPrivateKey(key *rsa.PrivateKey) (*PrivateKey, error) {
	return &PrivateKey{key}, key.Validate()
}

// Sign returns the signature of input.
func (k *PrivateKey) Sign(input []byte) ([]byte, error) {
	digest := sha256.Sum256(input)
	return rsa.SignPKCS1v15(nil, k.key, crypto.SHA256, digest[:])
}
