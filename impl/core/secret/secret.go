// Package secret makes random values, hashes passwords and verifies them, within
// limits.
package secret

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"time"

	"golang.org/x/crypto/argon2"
)

// Random returns 256 random bits as 43 URL-safe characters. What is that random
// needs no password hash.
func Random() string {
	var bits [32]byte
	_, _ = rand.Read(bits[:]) // never fails: it crashes the program instead
	return base64.RawURLEncoding.EncodeToString(bits[:])
}

// HashToken returns what is stored of a token. Tokens hold 256 random bits, so
// one hash is enough.
func HashToken(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }

// IsGood reports whether a value is a secret whose hash is stored, or the one
// before it while both are good. It takes the same time whatever it finds; for
// what does not exist the hashes may be nil (SEC-053).
func IsGood(value string, hash, old []byte, until *time.Time, now time.Time) bool {
	made := sha256.Sum256([]byte(value))
	current := subtle.ConstantTimeCompare(made[:], hash)
	before := subtle.ConstantTimeCompare(made[:], old)
	if until == nil || !now.Before(*until) {
		before = 0
	}
	return current|before == 1
}

// Retire returns what is stored of a secret that another one replaces: the hash
// and until when it stays good, or nothing without an overlap (SEC-059).
func Retire(hash []byte, now time.Time, overlap time.Duration) ([]byte, *time.Time) {
	if hash == nil || overlap <= 0 {
		return nil, nil
	}
	until := now.Add(overlap).Truncate(time.Microsecond)
	return hash, &until
}

// The argon2id parameters of new hashes: 19 MiB, two passes, one lane.
const (
	memoryKiB = 19 * 1024
	passes    = 2
	lanes     = 1
	saltBytes = 16
	keyBytes  = 32
)

// Hasher makes hashes of new passwords, and verifies those that are stored. The zero Hasher is
// that of production.
type Hasher struct{ cheap bool }

// Cheap makes hashes so cheap that they protect nobody: 8 KiB, one pass. It is for measurements
// of all that a log-in costs besides its hash; only `writ dev` can be told to.
var Cheap = Hasher{cheap: true}

// parameters are those of new hashes.
func (h Hasher) parameters() (memory, time uint32) {
	if h.cheap {
		return 8 * lanes, 1
	}
	return memoryKiB, passes
}

// replaces reports whether a hash is weaker than a new one: that takes its place when the
// password is known next.
func (h Hasher) replaces(stored *Hash) bool {
	memory, time := h.parameters()
	return !stored.own || stored.memory < memory || stored.passes < time
}

// Quantum is at whose multiples an answer may come that must not tell by its time whether a
// password was hashed for it: some times what hashing one takes (SEC-170).
func (h Hasher) Quantum() time.Duration {
	if h.cheap {
		return time.Millisecond
	}
	return 250 * time.Millisecond
}

// Hash returns an argon2id hash as a PHC string.
func (h Hasher) Hash(password string) string {
	memory, time := h.parameters()
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt)
	key := argon2.IDKey([]byte(password), salt, time, memory, lanes, keyBytes)
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, memory, time, lanes,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(key))
}
