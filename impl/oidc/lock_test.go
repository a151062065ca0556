package oidc_test

import (
	"net/http"
	"slices"
	"sync"
	"testing"
)

// TestREL020_NobodyWaitsInACircleForGrants: while families end, tokens are rotated and other
// families begin below them, all in one batch or another on two nodes, PostgreSQL finds no
// deadlock: every statement locks grants in one order.
func TestREL020_NobodyWaitsInACircleForGrants(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.a.batch("alice")
	const deadlocks = "SELECT deadlocks::text FROM pg_stat_database WHERE datname = current_database()"
	before := w.value(deadlocks)
	rounds(t, 60, func(int) {
		root := w.a.redeem("web", alice.code("web", offline))
		var family []*answer
		var mu sync.Mutex
		var group sync.WaitGroup
		for lane := range 6 {
			group.Go(func() {
				got := w.a.on(lane%2).exchange("web", "subject_token", root.text("access_token"), "scope", offline)
				w.a.granted("a family below", got)
				mu.Lock()
				defer mu.Unlock()
				family = append(family, got)
			})
		}
		group.Wait()
		for i, one := range family {
			group.Go(func() {
				if got := w.a.on(i%2).refresh("web", one.text("refresh_token")); got.Status >= 500 {
					t.Errorf("a rotation: %d %s", got.Status, got.Text)
				}
			})
			group.Go(func() {
				if got := w.a.on((i+1)%2).exchange("web", "subject_token", one.text("access_token"), "scope", offline); got.Status >= 500 {
					t.Errorf("an exchange: %d %s", got.Status, got.Text)
				}
			})
		}
		group.Go(func() {
			if got := w.a.as("web", revokePath, pairs("token", root.text("refresh_token"))); got.Status != http.StatusOK {
				t.Errorf("the end of the family: %d %s", got.Status, got.Text)
			}
		})
		group.Wait()
	})
	w.exec("SELECT pg_stat_clear_snapshot()")
	if after := w.value(deadlocks); after != before {
		t.Errorf("deadlocks: %s, before %s", after, before)
	}
}

// TestREL020_GrantsAreLockedInOneOrder holds the first grant of a family, by ID, while the family
// ends: nobody who waits for it may hold a later one.
func TestREL020_GrantsAreLockedInOneOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.a.allow()
	alice := w.a.signedIn("alice")
	root := alice.tokens("web", offline)
	for range 5 {
		w.a.granted("a family below", w.a.exchange("web", "subject_token", root.text("access_token"), "scope", offline))
	}
	var ids []string
	rows, err := w.db.Pool.Query(t.Context(), "SELECT id FROM oauth_grants WHERE instance_id = $1 ORDER BY id", w.a.instance())
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	rows.Close()
	if len(ids) != 6 || !slices.IsSorted(ids) {
		t.Fatalf("the family is %v", ids)
	}
	tx, err := w.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // it only holds
	if _, err := tx.Exec(t.Context(), "SELECT FROM oauth_grants WHERE instance_id = $1 AND id = $2 FOR UPDATE", w.a.instance(), ids[0]); err != nil {
		t.Fatal(err)
	}
	ended := make(chan *answer, 1)
	go func() { ended <- w.a.as("web", revokePath, pairs("token", root.text("refresh_token"))) }()
	w.eventually("the end of the family waits", func() bool {
		return w.value("SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%RevokeGrant%'") != "0"
	})
	var free int
	if err := w.db.Pool.QueryRow(t.Context(), "SELECT count(*) FROM (SELECT id FROM oauth_grants WHERE instance_id = $1 AND id <> $2 FOR UPDATE SKIP LOCKED) s", w.a.instance(), ids[0]).Scan(&free); err != nil {
		t.Fatal(err)
	}
	if free != 5 {
		t.Errorf("who waits for the first grant holds %d later ones", 5-free)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-ended; got.Status != http.StatusOK || w.a.active("api", root.text("access_token")) {
		t.Errorf("the family has not ended: %d", got.Status)
	}
}
