package signing

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/cache"
)

// Set is what a node knows of the keys of all instances. While the database is away
// what is known stays good, so that verifiers and tokens need not suffer too (REL-061).
type Set struct {
	Keeper *Keeper

	known cache.Cache[string, *Published]
}

// NewSet returns a Set over what a keeper tends. Who signs when is the keeper's clock's
// to say, so what is known is as old as that says.
func NewSet(keeper *Keeper) *Set {
	s := &Set{Keeper: keeper}
	s.known.By(keeper.Now)
	keeper.Memory.Holds(s.known.Drop)
	return s
}

// Published is what an instance signs with and what it is verified with.
type Published struct {
	// Document is the key set as it is served (RFC 7517), ETag its name.
	Document []byte
	ETag     string

	signer *Key
	asked  map[Algorithm]*Key  // what applications ask for beside it
	public map[string]verifier // by key ID, of the keys in the document
	past   map[string]verifier // of those that were in it
}

type verifier struct {
	algorithm Algorithm
	public    crypto.PublicKey
}

// Get returns the keys of an instance. An instance without any gets its first.
func (s *Set) Get(ctx context.Context, instanceID string) (*Published, error) {
	return s.known.GetOrLast(ctx, instanceID, nil, func(ctx context.Context) (*Published, error) { return s.load(ctx, instanceID) })
}

func (s *Set) load(ctx context.Context, instanceID string) (*Published, error) {
	queries := db.New()
	rows, err := queries.SigningKeys(ctx, s.Keeper.DB.Conn(), instanceID)
	if err == nil && !hasActive(rows) {
		if err = s.Keeper.Tend(ctx, instanceID, Rotation{}); err == nil {
			rows, err = queries.SigningKeys(ctx, s.Keeper.DB.Conn(), instanceID)
		}
	}
	if err != nil {
		return nil, err
	}
	known, _ := s.known.Last(instanceID)
	return s.publish(rows, known)
}

func hasActive(rows []db.SigningKey) bool {
	for i := range rows {
		if rows[i].State == active {
			return true
		}
	}
	return false
}

// publish makes of rows what is used; known is what was, whose opened key is kept.
func (s *Set) publish(rows []db.SigningKey, known *Published) (*Published, error) {
	p := &Published{asked: map[Algorithm]*Key{}, public: map[string]verifier{}, past: map[string]verifier{}}
	now := s.Keeper.Now()
	var document bytes.Buffer
	document.WriteString(`{"keys":[`)
	for _, state := range []int16{active, next, retired, past} { // who looks at one only should see the one that signs
		for i := range rows {
			row := &rows[i]
			if row.State != state {
				continue
			}
			public, err := readJWK(row.PublicKey)
			if err != nil {
				return nil, err
			}
			v := verifier{Algorithm(row.Algorithm), public}
			if state == past {
				p.past[row.ID] = v
				continue
			}
			p.public[row.ID] = v
			if len(p.public) > 1 {
				document.WriteByte(',')
			}
			if err := json.Compact(&document, row.PublicKey); err != nil {
				return nil, err
			}
			if state == active {
				if p.signer, err = s.open(row, known); err != nil {
					return nil, err
				}
			}
			// Of two, one takes over from the other: rows come by their age.
			if signsFor(row, now) {
				if p.asked[v.algorithm], err = s.open(row, known); err != nil {
					return nil, err
				}
			}
		}
	}
	document.WriteString("]}")
	p.Document = document.Bytes()
	sum := sha256.Sum256(p.Document)
	p.ETag = `"` + hex.EncodeToString(sum[:12]) + `"`
	return p, nil
}

// open opens the private key of a row, unless it is open already.
func (s *Set) open(row *db.SigningKey, known *Published) (*Key, error) {
	if known != nil {
		for _, key := range []*Key{known.signer, known.asked[Algorithm(row.Algorithm)]} {
			if key != nil && key.ID == row.ID {
				return key, nil
			}
		}
	}
	der, err := s.Keeper.Sealer.Open(row.PrivateKey, place(row.InstanceID, row.ID))
	if err != nil {
		return nil, err
	}
	return openKey(row.ID, Algorithm(row.Algorithm), der)
}

// Signer returns the key that signs now for who asks for an algorithm, "" for none: the
// instance's own as long as there is no other.
func (p *Published) Signer(asked Algorithm) *Key {
	if key := p.asked[asked]; key != nil && p.signer.Algorithm != asked {
		return key
	}
	return p.signer
}

// Verify reports whether a signature is that of input by the named key, with the
// algorithm of that key: what the header of a token says of its algorithm decides
// nothing (RFC 8725, section 3.1).
func (p *Published) Verify(keyID string, algorithm Algorithm, input, signature []byte) bool {
	return p.public[keyID].verify(algorithm, input, signature)
}

// VerifyHint is Verify for ID token hints, which are good long after they ended: the
// keys that left the key set count too.
func (p *Published) VerifyHint(keyID string, algorithm Algorithm, input, signature []byte) bool {
	return p.Verify(keyID, algorithm, input, signature) || p.past[keyID].verify(algorithm, input, signature)
}

func (v verifier) verify(algorithm Algorithm, input, signature []byte) bool {
	return v.public != nil && v.algorithm == algorithm && Verify(v.algorithm, v.public, input, signature)
}

// readJWK reads a public key as this package writes them.
func readJWK(text json.RawMessage) (crypto.PublicKey, error) {
	var key jwk
	if err := json.Unmarshal(text, &key); err != nil {
		return nil, err
	}
	return key.public()
}
