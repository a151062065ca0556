// Package token makes and reads the tokens of the OpenID provider: opaque ones,
// which only this product reads, and JSON Web Tokens.
//
// An opaque token is sealed: encrypted and authenticated by a key of its instance,
// under its kind. Nobody can alter it, take it for one of another kind (SEC-017,
// SEC-072) or of another instance (SEC-217), and reading one needs no database.
package token

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/chacha20poly1305"
	"google.golang.org/protobuf/proto"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/cache"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
)

// Kind is what a sealed token is good for; it is good for nothing else. It is also
// what the token begins with, for secret scanners.
type Kind string

// The kinds.
const (
	Access  Kind = "writ_at_"
	Refresh Kind = "writ_rt_"
	Code    Kind = "writ_code_"
	Flow    Kind = "writ_flow_"
	Form    Kind = "writ_form_"
	Known   Kind = "writ_known_"
	Door    Kind = "writ_door_"
	Wrong   Kind = "writ_wrong_"
	// Upstream is a round trip to an identity provider, SignedOut a logout that leads there.
	Upstream  Kind = "writ_idp_"
	SignedOut Kind = "writ_out_"
)

// Begins reports whether a text begins like a token of the kind.
func (k Kind) Begins(text string) bool { return strings.HasPrefix(text, string(k)) }

// ErrInvalid is the answer to whatever is no good token of the kind asked for.
var ErrInvalid = errors.New("token: not a token of this kind")

// maxLength bounds what is looked at (SEC-073).
const maxLength = 16 << 10

// Box seals and opens tokens. It is safe for concurrent use.
type Box struct {
	DB     *store.DB
	Sealer secret.Sealer
	Now    func() time.Time

	known cache.Cache[string, *keys] // by instance; keys are added but never change
}

// keys are those of one instance.
type keys struct {
	newest byte
	all    map[byte]cipher.AEAD
}

// Seal returns a message as a token.
func (b *Box) Seal(ctx context.Context, instanceID string, kind Kind, message proto.Message) (string, error) {
	k, err := b.keys(ctx, instanceID, 0)
	if err != nil {
		return "", err
	}
	const head = 1 + chacha20poly1305.NonceSizeX
	sealed := make([]byte, head, head+proto.Size(message)+chacha20poly1305.Overhead)
	sealed[0] = k.newest
	_, _ = rand.Read(sealed[1:head]) // never fails: it crashes the program instead
	plain, err := proto.MarshalOptions{}.MarshalAppend(sealed[head:], message)
	if err != nil {
		return "", err
	}
	sealed = k.all[k.newest].Seal(sealed, sealed[1:head], plain, place(instanceID, kind))
	text := make([]byte, len(kind), len(kind)+base64.RawURLEncoding.EncodedLen(len(sealed)))
	copy(text, kind)
	return string(base64.RawURLEncoding.AppendEncode(text, sealed)), nil
}

// Open reads a token into message; it is ErrInvalid when it is none of that kind
// and instance, to the last bit (SEC-078).
func (b *Box) Open(ctx context.Context, instanceID string, kind Kind, text string, message proto.Message) error {
	return open(instanceID, kind, text, message, func(number byte) (*keys, error) { return b.keys(ctx, instanceID, number) })
}

// OpenKnown is Open without the database: by a key that is not known here nothing was sealed.
func (b *Box) OpenKnown(instanceID string, kind Kind, text string, message proto.Message) error {
	return open(instanceID, kind, text, message, func(byte) (*keys, error) {
		known, _ := b.known.Last(instanceID)
		if known == nil {
			return nil, ErrInvalid
		}
		return known, nil
	})
}

func open(instanceID string, kind Kind, text string, message proto.Message, of func(number byte) (*keys, error)) error {
	encoded, ok := strings.CutPrefix(text, string(kind))
	if !ok || len(text) > maxLength {
		return ErrInvalid
	}
	sealed, err := strict.DecodeString(encoded)
	const head = 1 + chacha20poly1305.NonceSizeX
	if err != nil || len(sealed) < head+chacha20poly1305.Overhead || strings.ContainsAny(encoded, "\r\n") {
		return ErrInvalid
	}
	k, err := of(sealed[0])
	if err != nil {
		return err
	}
	aead := k.all[sealed[0]]
	if aead == nil {
		return ErrInvalid
	}
	plain, err := aead.Open(sealed[head:head], sealed[1:head], sealed[head:], place(instanceID, kind))
	if err != nil {
		return ErrInvalid
	}
	return proto.Unmarshal(plain, message)
}

// strict refuses text that another one would decode to as well (SEC-079).
var strict = base64.RawURLEncoding.Strict()

func place(instanceID string, kind Kind) []byte { return []byte(string(kind) + instanceID) }

// keys returns the keys of an instance, with the one that is wanted if there is
// one; one that is not there is asked for again when what is known is old. The first
// is made when it is needed.
func (b *Box) keys(ctx context.Context, instanceID string, wanted byte) (*keys, error) {
	if known, ok := b.known.Last(instanceID); ok && (wanted == 0 || known.all[wanted] != nil) {
		return known, nil
	}
	return b.known.Get(ctx, instanceID, func(ctx context.Context) (*keys, error) { return b.load(ctx, instanceID) })
}

func (b *Box) load(ctx context.Context, instanceID string) (*keys, error) {
	queries := db.New()
	rows, err := queries.TokenKeys(ctx, b.DB.Pool, instanceID)
	if err == nil && len(rows) == 0 {
		if err = b.first(ctx, instanceID); err == nil {
			rows, err = queries.TokenKeys(ctx, b.DB.Pool, instanceID)
		}
	}
	if err != nil {
		return nil, err
	}
	k := &keys{all: map[byte]cipher.AEAD{}}
	for _, row := range rows {
		key, err := b.Sealer.Open(row.Secret, keyPlace(instanceID, row.Number))
		if err != nil {
			return nil, fmt.Errorf("a token key: %w", err)
		}
		aead, err := chacha20poly1305.NewX(key)
		if err != nil {
			return nil, err
		}
		k.newest = byte(row.Number)
		k.all[k.newest] = aead
	}
	return k, nil
}

// first makes the first key of an instance.
func (b *Box) first(ctx context.Context, instanceID string) error {
	key := make([]byte, chacha20poly1305.KeySize)
	_, _ = rand.Read(key)
	sealed, err := b.Sealer.Seal(key, keyPlace(instanceID, 1))
	if err != nil {
		return fmt.Errorf("a token key: %w", err)
	}
	return db.New().AddTokenKey(ctx, b.DB.Pool, db.AddTokenKeyParams{InstanceID: instanceID, Number: 1, Secret: sealed, Now: b.Now()})
}

func keyPlace(instanceID string, number int16) string {
	return secret.Place("token_keys", instanceID, strconv.Itoa(int(number)))
}
