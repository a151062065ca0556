package secret

import (
	"crypto/cipher"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
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

// MasterKey is a set of keys of which one seals and all open. What is sealed names its key,
// so that keys can be exchanged while nodes run (Add, Switch, and Drop when nothing is sealed
// by the old one). It does not change.
type MasterKey struct {
	set     keyset
	ciphers map[uint32]cipher.AEAD
}

// NewMasterKey makes a set of one key.
func NewMasterKey() (*MasterKey, error) {
	var empty keyset
	set := empty.add()
	set.Primary = set.Keys[0].ID
	return set.open()
}

// ReadMasterKey reads what Text wrote.
func ReadMasterKey(text string) (*MasterKey, error) {
	set, err := readKeyset(text)
	if err != nil {
		return nil, err
	}
	return set.open()
}

// Text returns the keys as JSON. It is as secret as all that they seal.
func (m *MasterKey) Text() (string, error) {
	text, err := json.Marshal(m.set)
	return string(text) + "\n", err
}

// Seal implements Sealer.
func (m *MasterKey) Seal(plain []byte, context string) ([]byte, error) {
	with := m.ciphers[m.set.Primary]
	sealed := append(make([]byte, 0, prefixLength+len(plain)+with.Overhead()), tinkPrefix)
	return with.Seal(binary.BigEndian.AppendUint32(sealed, m.set.Primary), nil, plain, []byte(context)), nil
}

// Open implements Sealer.
func (m *MasterKey) Open(sealed []byte, context string) ([]byte, error) {
	if len(sealed) > prefixLength {
		id := binary.BigEndian.Uint32(sealed[1:])
		if with, ok := m.ciphers[id]; ok && sealed[0] == tinkPrefix {
			if plain, err := with.Open(nil, nil, sealed[prefixLength:], []byte(context)); err == nil {
				return plain, nil
			}
		}
	}
	return nil, errors.New("secret: not sealed by the master key for this place")
}

// Add returns the set with a new key that opens but does not seal yet, so that
// all nodes can get it before one of them seals by it.
func (m *MasterKey) Add() (*MasterKey, error) { return m.set.add().open() }

// Switch returns the set with its newest key sealing.
func (m *MasterKey) Switch() (*MasterKey, error) {
	return keyset{m.set.newest(), m.set.Keys}.open()
}

// Drop returns the set with the sealing key alone.
func (m *MasterKey) Drop() (*MasterKey, error) {
	sealing := slices.IndexFunc(m.set.Keys, func(key keysetKey) bool { return key.ID == m.set.Primary })
	return keyset{m.set.Primary, m.set.Keys[sealing : sealing+1]}.open()
}

// ID returns the number of the key that seals.
func (m *MasterKey) ID() int64 { return int64(m.set.Primary) }

// Holds reports whether a key of this number is in the set.
func (m *MasterKey) Holds(id int64) bool {
	return slices.ContainsFunc(m.set.Keys, func(key keysetKey) bool { return int64(key.ID) == id })
}

// Keys returns how many keys there are, and whether the newest is the one that
// seals.
func (m *MasterKey) Keys() (n int, switched bool) {
	return len(m.set.Keys), m.set.newest() == m.set.Primary
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
