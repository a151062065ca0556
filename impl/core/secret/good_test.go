package secret_test

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/secret"
)

func TestSEC059_TheOldSecretIsGoodUntilTheOverlapEnds(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	later := now.Add(time.Hour)
	fresh, old := sha256.Sum256([]byte("fresh")), sha256.Sum256([]byte("old"))
	rotated := &db.App{SecretHash: fresh[:], OldSecretHash: old[:], OldSecretUntil: &later}
	for _, test := range []struct {
		name   string
		row    *db.App
		secret string
		at     time.Time
		want   bool
	}{
		{"the new one", rotated, "fresh", now, true},
		{"the new one after the overlap", rotated, "fresh", later, true},
		{"the old one within the overlap", rotated, "old", later.Add(-time.Microsecond), true},
		{"the old one at its end", rotated, "old", later, false},
		{"another one", rotated, "else", now, false},
		{"none", rotated, "", now, false},
		{"an old one without an end", &db.App{SecretHash: fresh[:], OldSecretHash: old[:]}, "old", now, false},
		{"no application", &db.App{}, "", now, false},
	} {
		if got := secret.IsGood(test.secret, test.row.SecretHash, test.row.OldSecretHash, test.row.OldSecretUntil, test.at); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}
