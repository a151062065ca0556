package foreign

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base32"
	"encoding/base64"
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	"github.com/writ-id/writ/impl/core/secret"
)

// password has a user carry a hash that log-in verifies, or reports it.
func (r *reading) password(user *transferv1.TransferUser, hash string) bool {
	if _, err := secret.ParseHash(hash); err != nil {
		scheme, _, _ := strings.Cut(strings.TrimPrefix(hash, "$"), "$")
		if !strings.HasPrefix(hash, "$") || len(scheme) > 20 {
			scheme = "not named"
		}
		r.Lost("users", user.GetId(), fmt.Sprintf("without the password: its hash is of no scheme that log-in verifies within its bounds (%s)", scheme))
		return false
	}
	user.PasswordHash = &hash
	return true
}

// base32Secret reads a secret of one-time passwords as people type it; nil when it is none.
func base32Secret(text string) []byte {
	plain := strings.ToUpper(strings.TrimRight(strings.NewReplacer(" ", "", "-", "").Replace(text), "="))
	read, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(plain)
	if err != nil {
		return nil
	}
	return read
}

// base64Bytes reads base64 of any kind; nil when it is none.
func base64Bytes(text string) []byte {
	plain := strings.NewReplacer("-", "+", "_", "/", "\n", "").Replace(strings.TrimRight(strings.TrimSpace(text), "="))
	read, err := base64.RawStdEncoding.DecodeString(plain)
	if err != nil {
		return nil
	}
	return read
}

func base64Text(data []byte) string { return base64.RawStdEncoding.EncodeToString(data) }

func argon2Hash(kind string, memory, passes, threads int64, salt, key []byte) string {
	return fmt.Sprintf("$argon2%s$v=19$m=%d,t=%d,p=%d$%s$%s", kind, memory, passes, threads, base64Text(salt), base64Text(key))
}

// pbkdf2Hash writes a hash of PBKDF2. A key that is longer than what its digest makes is
// cut: it is made block by block, and the first one alone tells the password.
func pbkdf2Hash(digest string, rounds int64, salt, key []byte) string {
	size := map[string]int{"sha1": sha1.Size, "sha256": sha256.Size, "sha512": sha512.Size}[digest]
	if size == 0 {
		return ""
	}
	return fmt.Sprintf("$pbkdf2-%s$i=%d$%s$%s", digest, rounds, base64Text(salt), base64Text(key[:min(size, len(key))]))
}

// scryptHash writes a hash of scrypt; "" when its cost is no power of two.
func scryptHash(cost, blockSize, parallel int64, salt, key []byte) string {
	if cost <= 0 || bits.OnesCount64(uint64(cost)) != 1 {
		return ""
	}
	return fmt.Sprintf("$scrypt$ln=%d,r=%d,p=%d$%s$%s", bits.TrailingZeros64(uint64(cost)), blockSize, parallel, base64Text(salt), base64Text(key))
}

// telephone leaves the marks out that people write between digits.
func telephone(text string) string {
	text = strings.NewReplacer(" ", "", "-", "", "(", "", ")", "", "/", "", ".", "").Replace(text)
	if digits, ok := strings.CutPrefix(text, "00"); ok {
		text = "+" + digits
	}
	return text
}

// isTrue reads a flag that is written as a text.
func isTrue(text string) bool {
	yes, _ := strconv.ParseBool(strings.ToLower(strings.TrimSpace(text)))
	return yes
}
