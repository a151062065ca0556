package secret

import (
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"math"
	"strconv"
	"strings"

	"github.com/go-crypt/x/crypt"
	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
	"golang.org/x/crypto/scrypt"
)

// A Hash is a password hash that was read: its scheme is known and what it costs
// to compute is within bounds.
type Hash struct {
	own            bool    // it has the scheme of ours, and its salt and key are as long
	memory, passes uint32  // of one of ours
	sample         string  // of the scheme: what samples has
	work           float64 // as many times its work
	key            []byte
	derive         func(password []byte) []byte // nil when compare is set
	compare        func(password []byte) bool
}

// MaxPasswordBytes bounds the work that hashing the password alone makes. 1000
// characters, the rule of the contract, are at most as many.
const MaxPasswordBytes = 4000

// maxLegacyBytes is the same for md5crypt and SHA-crypt, which hash the password
// in every round; the systems they come from take no longer ones.
const maxLegacyBytes = 512

// Matches reports whether password made the hash. It costs what the hash says:
// Verify keeps that within limits.
func (h *Hash) Matches(password string) bool {
	if len(password) > MaxPasswordBytes {
		return false
	}
	if h.compare != nil {
		return h.compare([]byte(password))
	}
	return subtle.ConstantTimeCompare(h.derive([]byte(password)), h.key) == 1
}

var errHash = errors.New("secret: not a hash of a known scheme within the bounds")

// ParseHash reads a hash in PHC or modular crypt format:
//
//	$argon2id$v=19$m=19456,t=2,p=1$salt$key     also argon2i; m ≤ 256 MiB, m·t ≤ 1 GiB, p ≤ 16
//	$2a$12$…                                    also 2b, 2y; cost 4 to 15
//	$scrypt$ln=16,r=8,p=1$salt$key              ln 10 to 20, memory ≤ 256 MiB, work ≤ 4 × that
//	$fbscrypt$v=1,n=14,r=8,p=1,ss=…,sk=…$salt$key   Firebase's, with the keys of its project; n ≤ 14, r ≤ 8
//	$pbkdf2-sha256$i=310000$salt$key            also -sha512 and $pbkdf2$ or -sha1; 1000 to 2000000 rounds, i= or not
//	$1$salt$key, $5$…, $6$rounds=5000$salt$key  md5crypt, SHA-crypt; 1000 to 1000000 rounds
//
// Beyond the bounds one login could occupy the server (SEC-278), below there is
// nothing to protect. What may be stored anew is less: Cost.
func ParseHash(text string) (*Hash, error) {
	if len(text) > 500 || !strings.HasPrefix(text, "$") {
		return nil, errHash
	}
	scheme, rest, _ := strings.Cut(text[1:], "$")
	parts := strings.Split(rest, "$")
	var h *Hash
	switch scheme {
	case "argon2id", "argon2i":
		h = argon(scheme, parts)
	case "2a", "2b", "2y":
		h = bcryptHash(text)
	case "scrypt":
		h = scryptHash(parts)
	case "fbscrypt":
		h = firebaseHash(parts)
	case "pbkdf2", "pbkdf2-sha1", "pbkdf2-sha256", "pbkdf2-sha512":
		h = pbkdf2Hash(scheme, parts)
	case "1":
		h = md5crypt(parts)
	case "5", "6":
		h = shacrypt(scheme, parts)
	}
	if h == nil {
		return nil, errHash
	}
	return h, nil
}

// The bounds of what a hash may cost.
const (
	maxMemoryKiB = 256 * 1024
	maxWorkKiB   = 1024 * 1024
	maxThreads   = 16
	minKeyBytes  = 16
	maxKeyBytes  = 128
)

func argon(scheme string, parts []string) *Hash {
	if len(parts) != 4 || parts[0] != "v="+strconv.Itoa(argon2.Version) {
		return nil
	}
	p := numbers(parts[1], "m", "t", "p")
	salt, key, ok := saltAndKey(base64.RawStdEncoding, parts[2], parts[3])
	if p == nil || !ok {
		return nil
	}
	memory, time, threads := p[0], p[1], p[2]
	if threads < 1 || threads > maxThreads || memory < 8*threads || memory > maxMemoryKiB || time < 1 || memory*time > maxWorkKiB {
		return nil
	}
	derive := argon2.Key
	if scheme == "argon2id" {
		derive = argon2.IDKey
	}
	return &Hash{
		work: float64(memory*time) / (memoryKiB * passes), // of our own
		key:  key, own: scheme == "argon2id" && len(salt) >= saltBytes && len(key) >= keyBytes, memory: uint32(memory), passes: uint32(time),
		derive: func(password []byte) []byte {
			return derive(password, salt, uint32(time), uint32(memory), uint8(threads), uint32(len(key)))
		},
	}
}

// bcryptHash reads a bcrypt hash. It looks at 72 bytes of a password, so it is
// replaced whatever its cost.
func bcryptHash(text string) *Hash {
	const length = 60
	cost, err := bcrypt.Cost([]byte(text))
	if err != nil || len(text) != length || text[4] < '0' || text[4] > '9' || text[5] < '0' || text[5] > '9' || text[6] != '$' || cost > 15 ||
		strings.Trim(text[7:], "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") != "" {
		return nil
	}
	return &Hash{sample: "bcrypt", work: math.Pow(2, float64(cost-sampleBcrypt)), compare: func(password []byte) bool {
		return bcrypt.CompareHashAndPassword([]byte(text), password[:min(len(password), 72)]) == nil
	}}
}

func scryptHash(parts []string) *Hash {
	if len(parts) != 3 {
		return nil
	}
	p := numbers(parts[0], "ln", "r", "p")
	salt, key, ok := saltAndKey(base64.RawStdEncoding, parts[1], parts[2])
	if p == nil || !ok || p[0] < 10 || p[0] > 20 || p[1] < 1 || p[1] > 64 || p[2] < 1 || p[2] > maxThreads {
		return nil
	}
	n, r, lanes := 1<<p[0], p[1], p[2]
	if memory := n * r / 8; memory > maxMemoryKiB || memory*lanes > maxWorkKiB {
		return nil
	}
	return &Hash{key: key, sample: "scrypt", work: float64(n*r*lanes) / sampleScrypt, derive: func(password []byte) []byte {
		made, _ := scrypt.Key(password, salt, n, r, lanes, len(key)) // its errors are those bounds
		return made
	}}
}

func pbkdf2Hash(scheme string, parts []string) *Hash {
	if len(parts) != 3 {
		return nil
	}
	rounds, ok := number(strings.TrimPrefix(parts[0], "i="))
	// passlib writes "." for "+"; everybody else writes what base64 says.
	plain := strings.NewReplacer(".", "+")
	salt, key, readable := saltAndKey(base64.RawStdEncoding, plain.Replace(parts[1]), plain.Replace(parts[2]))
	if !ok || !readable || rounds < 1000 || rounds > 2_000_000 {
		return nil
	}
	if scheme == "pbkdf2" {
		scheme = "pbkdf2-sha1"
	}
	kind := map[string]func() hash.Hash{"pbkdf2-sha1": sha1.New, "pbkdf2-sha256": sha256.New, "pbkdf2-sha512": sha512.New}[scheme]
	// A longer key than the hash makes multiplies the work.
	if len(key) > kind().Size() {
		return nil
	}
	return &Hash{key: key, sample: scheme, work: float64(rounds) / sampleRounds, derive: func(password []byte) []byte {
		made, _ := pbkdf2.Key(kind, string(password), salt, rounds, len(key)) // fails for impossible lengths only
		return made
	}}
}

func md5crypt(parts []string) *Hash {
	if len(parts) != 2 || len(parts[0]) > 8 || len(parts[1]) != 22 || !crypted(parts[0]+parts[1]) {
		return nil
	}
	return legacy("md5crypt", 1, parts[1], func(password []byte) []byte { return crypt.KeyMD5Crypt(password, []byte(parts[0])) })
}

func shacrypt(scheme string, parts []string) *Hash {
	rounds := 5000
	if len(parts) == 3 {
		text, named := strings.CutPrefix(parts[0], "rounds=")
		said, ok := number(text)
		if !named || !ok || said < 1000 || said > 1_000_000 {
			return nil
		}
		rounds, parts = said, parts[1:]
	}
	kind, length := sha512.New, 86
	if scheme == "5" {
		kind, length = sha256.New, 43
	}
	if len(parts) != 2 || len(parts[0]) > 16 || len(parts[1]) != length || !crypted(parts[0]+parts[1]) {
		return nil
	}
	return legacy("shacrypt-"+scheme, float64(rounds)/sampleRounds, parts[1], func(password []byte) []byte {
		return crypt.KeySHACrypt(kind, password, []byte(parts[0]), rounds)
	})
}

func legacy(sample string, work float64, key string, derive func([]byte) []byte) *Hash {
	return &Hash{key: []byte(key), sample: sample, work: work, derive: func(password []byte) []byte {
		if len(password) == 0 || len(password) > maxLegacyBytes {
			return nil
		}
		return derive(password)
	}}
}

// crypted reports whether text has only characters of crypt's base64.
func crypted(text string) bool {
	return strings.Trim(text, "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") == ""
}

// numbers reads a list like m=1,t=2,p=3 with just these names.
func numbers(text string, names ...string) []int {
	parts := strings.Split(text, ",")
	if len(parts) != len(names) {
		return nil
	}
	read := make([]int, len(names))
	for i, part := range parts {
		value, named := strings.CutPrefix(part, names[i]+"=")
		n, ok := number(value)
		if !named || !ok {
			return nil
		}
		read[i] = n
	}
	return read
}

// number reads a number that is small, positive and written plainly.
func number(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil && strconv.FormatUint(n, 10) == text
}

func saltAndKey(encoding *base64.Encoding, saltText, keyText string) (salt, key []byte, ok bool) {
	salt, saltErr := encoding.Strict().DecodeString(saltText)
	key, keyErr := encoding.Strict().DecodeString(keyText)
	ok = saltErr == nil && keyErr == nil && len(salt) > 0 && len(salt) <= 64 && len(key) >= minKeyBytes && len(key) <= maxKeyBytes
	return salt, key, ok
}

// VerifyPassword reports whether password made hash. An unreadable hash is an
// error, never a match. Calls of users go through Verify.
func VerifyPassword(hash, password string) (bool, error) {
	h, err := ParseHash(hash)
	if err != nil {
		return false, fmt.Errorf("verify a password: %w", err)
	}
	return h.Matches(password), nil
}
