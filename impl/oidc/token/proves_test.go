package token

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"
)

func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// pattern is a verifier.
const pattern = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"

// FuzzProves: only the text that a challenge was made of proves it, if it is one that
// RFC 7636, section 4.1, allows.
func FuzzProves(f *testing.F) {
	f.Add(pattern, pattern)
	f.Add("", "")
	f.Add(pattern, challengeOf(pattern))
	f.Add(strings.Repeat("~", 128), strings.Repeat("~", 129))
	f.Fuzz(func(t *testing.T, shown, made string) {
		allowed := len(shown) >= 43 && len(shown) <= 128 && strings.Trim(shown, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~") == ""
		if got, want := proves(shown, challengeOf(made)), allowed && shown == made; got != want {
			t.Fatalf("%q for the challenge of %q: %v", shown, made, got)
		}
		if proves(shown, "") != (shown == "") {
			t.Fatalf("%q proves no challenge", shown)
		}
	})
}
