package secret

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	tinkpb "github.com/tink-crypto/tink-go/v2/proto/tink_go_proto"
	"github.com/tink-crypto/tink-go/v2/tink"
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

// Place names, for its seal, where something sealed is: a table and the keys of the row.
func Place(table string, keys ...string) string { return table + "/" + strings.Join(keys, "/") }

// Reseal seals anew what is sealed, by the key that seals now.
func Reseal(sealer Sealer, sealed []byte, context string) ([]byte, error) {
	plain, err := sealer.Open(sealed, context)
	if err != nil {
		return nil, err
	}
	return sealer.Seal(plain, context)
}

// ErrNoKey is what NoKey answers.
var ErrNoKey = errors.New("secret: there is no master key")

// NoKey is the Sealer of a server that was given no key.
type NoKey struct{}

// Seal implements Sealer.
func (NoKey) Seal([]byte, string) ([]byte, error) { return nil, ErrNoKey }

// Open implements Sealer.
func (NoKey) Open([]byte, string) ([]byte, error) { return nil, ErrNoKey }

// MasterKey is a set of keys of which one seals and all open: a Tink keyset of
// AES-256-GCM keys. What is sealed names its key, so that keys can be exchanged
// while nodes run (Add, Switch, and Drop when nothing is sealed by the old one).
type MasterKey struct {
	handle *keyset.Handle
	aead   tink.AEAD
}

// NewMasterKey makes a set of one key.
func NewMasterKey() (*MasterKey, error) {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, err
	}
	return masterKey(handle)
}

// ReadMasterKey reads what Text wrote.
func ReadMasterKey(text string) (*MasterKey, error) {
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(strings.NewReader(text)))
	if err != nil {
		return nil, errors.New("the master key is not a Tink keyset in JSON; `writ keys new-master` makes one")
	}
	return masterKey(handle)
}

func masterKey(handle *keyset.Handle) (*MasterKey, error) {
	primitive, err := aead.New(handle)
	if err != nil {
		return nil, fmt.Errorf("the master key: %w", err)
	}
	return &MasterKey{handle, primitive}, nil
}

// Text returns the keys as JSON. It is as secret as all that they seal.
func (m *MasterKey) Text() (string, error) {
	var text bytes.Buffer
	err := insecurecleartextkeyset.Write(m.handle, keyset.NewJSONWriter(&text))
	return text.String() + "\n", err
}

// Seal implements Sealer.
func (m *MasterKey) Seal(plain []byte, context string) ([]byte, error) {
	return m.aead.Encrypt(plain, []byte(context))
}

// Open implements Sealer.
func (m *MasterKey) Open(sealed []byte, context string) ([]byte, error) {
	plain, err := m.aead.Decrypt(sealed, []byte(context))
	if err != nil {
		return nil, errors.New("secret: not sealed by the master key for this place")
	}
	return plain, nil
}

// Add returns the set with a new key that opens but does not seal yet, so that
// all nodes can get it before one of them seals by it.
func (m *MasterKey) Add() (*MasterKey, error) {
	return m.change(func(manager *keyset.Manager) error {
		_, err := manager.Add(aead.AES256GCMKeyTemplate())
		return err
	})
}

// Switch returns the set with its newest key sealing.
func (m *MasterKey) Switch() (*MasterKey, error) {
	info := m.handle.KeysetInfo().GetKeyInfo()
	return m.change(func(manager *keyset.Manager) error { return manager.SetPrimary(info[len(info)-1].GetKeyId()) })
}

// Drop returns the set with the sealing key alone.
func (m *MasterKey) Drop() (*MasterKey, error) {
	info := m.handle.KeysetInfo()
	return m.change(func(manager *keyset.Manager) error {
		for _, key := range info.GetKeyInfo() {
			if key.GetKeyId() == info.GetPrimaryKeyId() {
				continue
			}
			if err := manager.Delete(key.GetKeyId()); err != nil {
				return err
			}
		}
		return nil
	})
}

func (m *MasterKey) change(with func(*keyset.Manager) error) (*MasterKey, error) {
	manager := keyset.NewManagerFromHandle(m.handle)
	if err := with(manager); err != nil {
		return nil, err
	}
	handle, err := manager.Handle()
	if err != nil {
		return nil, err
	}
	return masterKey(handle)
}

// ID returns the number of the key that seals.
func (m *MasterKey) ID() int64 { return int64(m.handle.KeysetInfo().GetPrimaryKeyId()) }

// Holds reports whether a key of this number is in the set.
func (m *MasterKey) Holds(id int64) bool {
	return slices.ContainsFunc(m.handle.KeysetInfo().GetKeyInfo(), func(key *tinkpb.KeysetInfo_KeyInfo) bool { return int64(key.GetKeyId()) == id })
}

// Keys returns how many keys there are, and whether the newest is the one that
// seals.
func (m *MasterKey) Keys() (n int, switched bool) {
	info := m.handle.KeysetInfo()
	n = len(info.GetKeyInfo())
	return n, info.GetKeyInfo()[n-1].GetKeyId() == info.GetPrimaryKeyId()
}

// Replace seals what a request says of a secret in place of what is stored: nil leaves it,
// an empty one takes it away, and the one that is there already stays as it is sealed, so
// that to send it again is no change.
func Replace(sealer Sealer, context string, stored *[]byte, said *string) error {
	switch {
	case said == nil:
		return nil
	case *said == "":
		*stored = []byte{}
		return nil
	}
	if is, err := OpenStored(sealer, context, *stored); err == nil && string(is) == *said {
		return nil
	}
	sealed, err := sealer.Seal([]byte(*said), context)
	if err == nil {
		*stored = sealed
	}
	return err
}

// OpenStored opens what is stored of a secret; nothing, where nothing is.
func OpenStored(sealer Sealer, context string, stored []byte) ([]byte, error) {
	if len(stored) == 0 {
		return nil, nil
	}
	return sealer.Open(stored, context)
}
