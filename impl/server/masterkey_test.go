package server_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/server/servertest"
)

// newKey makes the master key of somebody else.
func newKey(t *testing.T) *secret.MasterKey {
	t.Helper()
	key, err := secret.NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// A database is sealed by the key that claimed it first. No other key is taken, not even for
// a database that has no claim, as those of the release before.
func TestSEC311_ADatabaseTakesNoForeignMasterKey(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil) // the seed claimed it
	ctx, mine, foreign := t.Context(), c.Env.Sealer.(*secret.MasterKey), newKey(t)
	check := func(what string, sealer secret.Sealer, refused bool) {
		t.Helper()
		if err := server.ClaimMasterKey(ctx, c.DB, sealer); errors.Is(err, server.ErrForeignKey) != refused || !refused && err != nil {
			t.Errorf("%s: got %v", what, err)
		}
	}
	status := func() int { return c.Do("", http.MethodGet, "/readyz", "").Status }
	check("the key that claimed it", mine, false)
	check("another key", foreign, true)
	check("no key", secret.NoKey{}, false)

	// A kind of secret at a time, in a database without a claim.
	c.Must("owner", http.MethodPost, "/resources/v3alpha/targets", `{"name":"a","restWebhook":{"url":"https://a.example"},"timeout":"1s"}`)
	if _, err := c.DB.Pool.Exec(ctx, "DELETE FROM master_keys"); err != nil {
		t.Fatal(err)
	}
	check("another key, before any claim", foreign, true)
	check("the right key, before any claim", mine, false)

	// The exchange of a key: who lacks one of two is not ready, and does not start.
	added, err := mine.Add()
	if err != nil {
		t.Fatal(err)
	}
	switched, err := added.Switch()
	if err != nil {
		t.Fatal(err)
	}
	alone, err := switched.Drop()
	if err != nil {
		t.Fatal(err)
	}
	if got := status(); got != http.StatusOK {
		t.Errorf("before the exchange the node is not ready: %d", got)
	}
	check("both keys", switched, false)
	check("the old key alone", mine, true)
	check("the new key, before all is sealed by it", alone, true)
	if got := status(); got != http.StatusServiceUnavailable {
		t.Errorf("a node that lacks the key that seals is ready: %d", got)
	}
	for _, one := range storage.Sealed {
		if _, err := one.Reseal(ctx, c.DB, switched); err != nil {
			t.Fatal(err)
		}
	}
	if err := server.ReleaseMasterKeys(ctx, c.DB, switched); err != nil {
		t.Fatal(err)
	}
	check("the new key", alone, false)
	check("the old key, after the exchange", mine, true)
}

// Of parallel first starts with two keys one claims an empty database, and the other refuses.
func TestSEC311_OneKeyClaimsAFreshDatabase(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 0, nil)
	if _, err := c.DB.Pool.Exec(t.Context(), "TRUNCATE signing_keys, token_keys, targets, master_keys CASCADE"); err != nil {
		t.Fatal(err)
	}
	keys := []*secret.MasterKey{newKey(t), newKey(t), newKey(t), newKey(t)}
	results := make(chan error, len(keys))
	for _, key := range keys {
		go func() { results <- server.ClaimMasterKey(t.Context(), c.DB, key) }()
	}
	claimed := 0
	for range keys {
		switch err := <-results; {
		case err == nil:
			claimed++
		case !errors.Is(err, server.ErrForeignKey):
			t.Error(err)
		}
	}
	if claimed != 1 {
		t.Errorf("%d keys claimed the database", claimed)
	}
}
