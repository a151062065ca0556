package secret

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// The formats are Tink's, whose library made them until it was left: the file is a cleartext
// keyset in JSON, and what is sealed begins with the version of the prefix and the number of
// the key; nonce, ciphertext and tag follow. Of Tink's keys there is one kind, AES-256-GCM
// with that prefix; a keyset with any other is refused as a whole.
const (
	tinkPrefix   = 1 // the first byte of what is sealed
	prefixLength = 5
	keyLength    = 32
	keyType      = "type.googleapis.com/google.crypto.tink.AesGcmKey"
)

// keyMessage is what the message AesGcmKey of version 0 has before its key: field 3, a text
// of 32 bytes.
var keyMessage = []byte{3<<3 | 2, keyLength}

// keyset is google.crypto.tink.Keyset, as far as it is used.
type keyset struct {
	Primary uint32      `json:"primaryKeyId"`
	Keys    []keysetKey `json:"key"`
}

type keysetKey struct {
	Data   keyData `json:"keyData"`
	Status string  `json:"status"`
	ID     uint32  `json:"keyId"`
	Prefix string  `json:"outputPrefixType"`
}

type keyData struct {
	Type     string `json:"typeUrl"`
	Value    []byte `json:"value"`
	Material string `json:"keyMaterialType"`
}

func readKeyset(text string) (keyset, error) {
	var set keyset
	if err := json.Unmarshal([]byte(text), &set); err != nil || len(set.Keys) == 0 {
		return set, errors.New("the master key is not a Tink keyset in JSON; `writ keys new-master` makes one")
	}
	return set, nil
}

// add returns the set with one more key, which has a number that no other has.
func (s keyset) add() keyset {
	value := make([]byte, keyLength)
	_, _ = rand.Read(value) // never fails
	key := keysetKey{Data: keyData{keyType, append(slices.Clone(keyMessage), value...), "SYMMETRIC"}, Status: "ENABLED", Prefix: "TINK"}
	for key.ID == 0 || slices.ContainsFunc(s.Keys, func(other keysetKey) bool { return other.ID == key.ID }) {
		var number [4]byte
		_, _ = rand.Read(number[:])
		key.ID = binary.BigEndian.Uint32(number[:])
	}
	return keyset{s.Primary, append(slices.Clone(s.Keys), key)}
}

func (s keyset) newest() uint32 { return s.Keys[len(s.Keys)-1].ID }

// open makes the ciphers of the keys.
func (s keyset) open() (*MasterKey, error) {
	m := &MasterKey{s, make(map[uint32]cipher.AEAD, len(s.Keys))}
	for _, key := range s.Keys {
		value, ok := bytes.CutPrefix(key.Data.Value, keyMessage)
		if !ok || len(value) != keyLength || key.Data.Type != keyType || key.Status != "ENABLED" || key.Prefix != "TINK" {
			return nil, fmt.Errorf("the master key: key %d of the keyset is no enabled key of AES-256-GCM with the prefix TINK", key.ID)
		}
		if m.ciphers[key.ID] != nil {
			return nil, fmt.Errorf("the master key: two keys of the keyset have the ID %d", key.ID)
		}
		block, err := aes.NewCipher(value)
		if err != nil {
			return nil, fmt.Errorf("the master key: %w", err)
		}
		if m.ciphers[key.ID], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, fmt.Errorf("the master key: %w", err)
		}
	}
	if m.ciphers[s.Primary] == nil {
		return nil, fmt.Errorf("the master key: the keyset has no key %d, which is to seal", s.Primary)
	}
	return m, nil
}
