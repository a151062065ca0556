package secret_test

import (
	"strings"
	"testing"

	"github.com/writ-id/writ/impl/core/secret"
)

func TestACheapHashIsVerifiedAndStaysUntilHashesAreNoLongerCheap(t *testing.T) {
	t.Parallel()
	dear, hash := full.Hash("right"), secret.Cheap.Hash("right")
	if !strings.HasPrefix(hash, "$argon2id$v=19$m=8,t=1,p=1$") {
		t.Errorf("got %q, want the cheapest argon2id", hash)
	}
	for password, want := range map[string]bool{"right": true, "wrong": false} {
		matches, rehash, err := secret.Cheap.Verify(t.Context(), "tenant", hash, password, true)
		if err != nil || matches != want || rehash {
			t.Errorf("%s: got %v, rehash %v, %v; want %v and no rehash", password, matches, rehash, err, want)
		}
	}
	if _, rehash, err := secret.Cheap.Verify(t.Context(), "tenant", dear, "right", true); err != nil || rehash {
		t.Errorf("a hash of before: rehash %v, %v; want it to stay", rehash, err)
	}
	if _, rehash, err := full.Verify(t.Context(), "tenant", hash, "right", true); err != nil || !rehash {
		t.Errorf("a cheap hash on a server without them: rehash %v, %v; want a new one", rehash, err)
	}
}
