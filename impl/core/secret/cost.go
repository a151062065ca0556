package secret

import (
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"strings"
	"sync"
	"time"

	"github.com/go-crypt/x/crypt"
	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
	"golang.org/x/crypto/scrypt"
)

// DefaultMaxCost is how much a hash of another system may cost to verify, as a
// multiple of our own, to be stored: what a login costs everybody on the node is not
// for a tenant to say (SEC-183).
const DefaultMaxCost = 4

// Cost returns what it costs to verify a hash, as a multiple of what one of ours
// does; unit says so of the sample of a scheme.
func (h *Hash) Cost(unit func(sample string) float64) float64 {
	if h.sample == "" {
		return h.work
	}
	return h.work * unit(h.sample)
}

// The samples of schemes: small, and what larger parameters cost follows from them.
const (
	sampleBcrypt = 6
	sampleScrypt = 1 << 11 * 8 // N times r
	sampleRounds = 2000
)

// legacyPassword is the longest there is, because these schemes hash it in each round.
var (
	samplePassword = []byte("a password of some length")
	legacyPassword = []byte(strings.Repeat("p", maxLegacyBytes))
	sampleSalt     = []byte("saltsalt")
)

var samples = map[string]func(){
	"bcrypt":        func() { _, _ = bcrypt.GenerateFromPassword(samplePassword, sampleBcrypt) },
	"scrypt":        func() { _, _ = scrypt.Key(samplePassword, sampleSalt, sampleScrypt/8, 8, 1, keyBytes) },
	"pbkdf2-sha1":   func() { _, _ = pbkdf2.Key(sha1.New, string(samplePassword), sampleSalt, sampleRounds, minKeyBytes) },
	"pbkdf2-sha256": func() { _, _ = pbkdf2.Key(sha256.New, string(samplePassword), sampleSalt, sampleRounds, keyBytes) },
	"pbkdf2-sha512": func() { _, _ = pbkdf2.Key(sha512.New, string(samplePassword), sampleSalt, sampleRounds, keyBytes) },
	"md5crypt":      func() { crypt.KeyMD5Crypt(legacyPassword, sampleSalt) },
	"shacrypt-5":    func() { crypt.KeySHACrypt(sha256.New, legacyPassword, sampleSalt, sampleRounds) },
	"shacrypt-6":    func() { crypt.KeySHACrypt(sha512.New, legacyPassword, sampleSalt, sampleRounds) },
}

// Measured is the unit of this machine, measured when it is asked for first.
func Measured(sample string) float64 { return measured()[sample] }

var measured = sync.OnceValue(func() map[string]float64 {
	own := fastest(func() { argon2.IDKey(samplePassword, sampleSalt, passes, memoryKiB, lanes, keyBytes) })
	units := map[string]float64{}
	for name, do := range samples {
		units[name] = float64(fastest(do)) / float64(own)
	}
	return units
})

// fastest returns the shortest of some times: what disturbs only makes them longer.
func fastest(do func()) time.Duration {
	best := time.Duration(1<<63 - 1)
	for range 5 {
		begun := time.Now()
		do()
		best = min(best, time.Since(begun))
	}
	return best
}
