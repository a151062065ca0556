package secret

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// What the library of Tink made: a keyset after Add, and what its first key and then, after
// Switch, its second sealed for the place a/b.
const (
	tinkFirst, tinkSecond = 3224334793, 3285436965

	tinkKeyset = `{"primaryKeyId":3224334793, "key":[{"keyData":{"typeUrl":"type.googleapis.com/google.crypto.tink.AesGcmKey", "value":"GiCZoRY+4UiYuRhDpwYZRjcDuGlLoE5kDZd3f92oH+OrDA==", "keyMaterialType":"SYMMETRIC"}, "status":"ENABLED", "keyId":3224334793, "outputPrefixType":"TINK"}, {"keyData":{"typeUrl":"type.googleapis.com/google.crypto.tink.AesGcmKey", "value":"GiCce3kZ4cTE16x43gdkmlQ7yCNnBtdwcAmYn000nAgVVA==", "keyMaterialType":"SYMMETRIC"}, "status":"ENABLED", "keyId":3285436965, "outputPrefixType":"TINK"}]}`

	tinkSealedFirst  = "AcAvcckUWEaXshq1y7Ui830i682G19B+Rw8g0TLtOy+8G3yhUrF4SkoIM13hwoLKiA=="
	tinkSealedSecond = "AcPTyiVVftmWBilOYdrEZ/c4SXegwvX293+Yl6YZ7r5iXl+rsr1j9kJTEbwx5C3Q2Ms="
)

func TestSEC310_WhatTinkWroteIsReadAndWrittenTheSame(t *testing.T) {
	t.Parallel()
	key, err := ReadMasterKey(tinkKeyset)
	if err != nil {
		t.Fatal(err)
	}
	for sealed, want := range map[string]string{tinkSealedFirst: "by the first key", tinkSealedSecond: "by the second key"} {
		raw, err := base64.StdEncoding.DecodeString(sealed)
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := key.Open(raw, "a/b"); err != nil || string(plain) != want {
			t.Errorf("got %q, %v, want %q", plain, err, want)
		}
	}
	text, err := key.Text()
	var got, want any
	if json.Unmarshal([]byte(text), &got) != nil || json.Unmarshal([]byte(tinkKeyset), &want) != nil || err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the file became %s, %v", text, err)
	}
	const head, nonce, tag = 5, 12, 16
	for _, by := range []uint32{tinkFirst, tinkSecond} {
		sealed, err := key.Seal([]byte("plain"), "a/b")
		if err != nil || len(sealed) != head+nonce+len("plain")+tag || sealed[0] != 1 || binary.BigEndian.Uint32(sealed[1:]) != by {
			t.Errorf("sealed as %x, %v, want it to begin with 01 and %x", sealed, err, by)
		}
		if plain, err := key.Open(sealed, "a/b"); err != nil || string(plain) != "plain" {
			t.Errorf("got %q, %v", plain, err)
		}
		if key, err = key.Switch(); err != nil {
			t.Fatal(err)
		}
	}
	only, err := key.Drop()
	if err != nil {
		t.Fatal(err)
	}
	if n, switched := only.Keys(); n != 1 || !switched || only.Holds(tinkFirst) || !only.Holds(tinkSecond) || only.ID() != tinkSecond {
		t.Errorf("after Drop there are %d keys, and %d seals", n, only.ID())
	}
}

func TestAKeysetThatCannotBeKeptIsRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing":                  ``,
		"no keys":                  `{"primaryKeyId":1}`,
		"an encrypted keyset":      `{"encryptedKeyset":"AAAA"}`,
		"another cipher":           strings.Replace(tinkKeyset, "AesGcmKey", "ChaCha20Poly1305Key", 1),
		"a key of 128 bits":        strings.Replace(tinkKeyset, "GiCZoRY+4UiYuRhDpwYZRjcDuGlLoE5kDZd3f92oH+OrDA==", "GhCZoRY+4UiYuRhDpwYZRjcD", 1),
		"a disabled key":           strings.Replace(tinkKeyset, "ENABLED", "DISABLED", 1),
		"another prefix":           strings.Replace(tinkKeyset, "TINK", "RAW", 1),
		"a sealing key it has not": strings.Replace(tinkKeyset, `primaryKeyId":3224334793`, `primaryKeyId":7`, 1),
		"two keys of one ID":       strings.Replace(tinkKeyset, fmt.Sprint(`keyId":`, tinkSecond), fmt.Sprint(`keyId":`, tinkFirst), 1),
	} {
		if _, err := ReadMasterKey(text); err == nil || strings.Contains(err.Error(), "GiC") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSEC310_WhatIsNotSealedDoesNotOpen(t *testing.T) {
	t.Parallel()
	key, err := ReadMasterKey(tinkKeyset)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := base64.StdEncoding.DecodeString(tinkSealedFirst)
	if err != nil {
		t.Fatal(err)
	}
	for n := range sealed {
		if _, err := key.Open(sealed[:n], "a/b"); err == nil {
			t.Errorf("%d bytes of it open", n)
		}
		changed := append([]byte{}, sealed...)
		changed[n] ^= 1
		if _, err := key.Open(changed, "a/b"); err == nil {
			t.Errorf("it opens with byte %d changed", n)
		}
	}
}
