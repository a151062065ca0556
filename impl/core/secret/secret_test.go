package secret_test

import (
	"strings"
	"testing"

	"github.com/writ-id/writ/impl/core/secret"
)

// full makes hashes as production has them.
var full secret.Hasher

func TestSEC182_PasswordsAreHashedAndVerified(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 199)
	hash := full.Hash(long + "a")
	if !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("got %q, want an argon2id PHC string", hash)
	}
	for password, want := range map[string]bool{long + "a": true, long + "b": false, long: false, "": false} {
		if got, err := secret.VerifyPassword(hash, password); err != nil || got != want {
			t.Errorf("%d characters: got %v, %v; want %v", len(password), got, err, want)
		}
	}
	if first, second := full.Hash("a"), full.Hash("a"); first == second {
		t.Error("two hashes of one password are the same: no salt")
	}
}

func TestAnUnreadableHashIsAnErrorAndNoMatch(t *testing.T) {
	t.Parallel()
	for _, hash := range []string{"", "x", "$2a$10$abc", "$argon2id$v=19$m=99999999,t=2,p=1$c2FsdHNhbHQ$a2V5", "$argon2id$v=19$m=19456,t=2,p=1$!$!", "$argon2id$v=16$m=19456,t=2,p=1$YQ$YQ"} {
		if got, err := secret.VerifyPassword(hash, ""); err == nil || got {
			t.Errorf("%q: got %v, %v; want an error", hash, got, err)
		}
	}
}

func TestSEC239_RandomHas256Bits(t *testing.T) {
	t.Parallel()
	if a, b := secret.Random(), secret.Random(); a == b || len(a) != 43 {
		t.Errorf("got %q and %q, want two different texts of 43 characters", a, b)
	}
}
