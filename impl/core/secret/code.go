package secret

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"math/big"
	"strings"
)

// NewCode returns a random code of decimal digits.
func NewCode(digits int) string {
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil)
	n, _ := rand.Int(rand.Reader, limit) // never fails: it crashes the program instead
	text := n.String()
	return strings.Repeat("0", digits-len(text)) + text
}

// HashCode returns a new salt and the hash that is stored of a code. A code has
// few digits, lives for minutes and has few tries, so the hash need not be slow:
// it keeps the code from who reads the database in passing.
func HashCode(code string) (salt, hash []byte) {
	salt = make([]byte, saltBytes)
	_, _ = rand.Read(salt)
	return salt, hashCode(salt, code)
}

// VerifyCode reports whether code made hash.
func VerifyCode(salt, hash []byte, code string) bool {
	return subtle.ConstantTimeCompare(hashCode(salt, code), hash) == 1
}

func hashCode(salt []byte, code string) []byte {
	mac := hmac.New(sha256.New, salt)
	mac.Write([]byte(code))
	return mac.Sum(nil)
}
