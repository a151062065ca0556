package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// Sealer keeps what has to be readable again, such as the secret of an
// authenticator app, unreadable in the database.
type Sealer interface {
	// Seal encrypts plain for one place, named by context: sealed text that is
	// moved to another place does not open there (SEC-310).
	Seal(plain []byte, context string) ([]byte, error)
	// Open is the way back.
	Open(sealed []byte, context string) ([]byte, error)
}

// KeyBytes is how long a master key is.
const KeyBytes = 32

// ErrNoKey is what a Sealer without a key answers.
var ErrNoKey = errors.New("secret: there is no master key")

// NoKey is the Sealer of a server that was given no key.
type NoKey struct{}

// Seal implements Sealer.
func (NoKey) Seal([]byte, string) ([]byte, error) { return nil, ErrNoKey }

// Open implements Sealer.
func (NoKey) Open([]byte, string) ([]byte, error) { return nil, ErrNoKey }

// NewSealer returns a Sealer by a key in Base64: AES-256-GCM with random nonces.
func NewSealer(key string) (Sealer, error) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(key))
	if err != nil || len(raw) != KeyBytes {
		return nil, fmt.Errorf("a master key is %d bytes in Base64, for example of `openssl rand -base64 %d`", KeyBytes, KeyBytes)
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return sealer{aead}, nil
}

// NewKey returns a new master key in Base64.
func NewKey() string {
	var key [KeyBytes]byte
	_, _ = rand.Read(key[:])
	return base64.StdEncoding.EncodeToString(key[:])
}

type sealer struct{ aead cipher.AEAD }

// sealedFormat leads what is sealed, so that there can be other formats.
const sealedFormat = 1

func (s sealer) Seal(plain []byte, context string) ([]byte, error) {
	return s.aead.Seal([]byte{sealedFormat}, nil, plain, []byte(context)), nil
}

func (s sealer) Open(sealed []byte, context string) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != sealedFormat {
		return nil, errors.New("secret: not sealed in a known format")
	}
	return s.aead.Open(nil, nil, sealed[1:], []byte(context))
}
