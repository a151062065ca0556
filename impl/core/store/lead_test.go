package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/store/pgtest"
)

func TestREL062_OfAllNodesOneLeads(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	a, b := pgtest.Connect(t, url, 1), pgtest.Connect(t, url, 1)
	leads := func(db *store.DB, name string) bool {
		t.Helper()
		ran := false
		led, err := db.Lead(t.Context(), name, func(context.Context) error { ran = true; return nil })
		if err != nil || led != ran {
			t.Errorf("leads %v, ran %v: %v", led, ran, err)
		}
		return led
	}
	broken := errors.New("broken")
	led, err := a.Lead(t.Context(), "sweeping", func(context.Context) error {
		if leads(b, "sweeping") {
			t.Error("two nodes sweep")
		}
		if !leads(b, "tending") {
			t.Error("who sweeps keeps others from tending")
		}
		return broken
	})
	if !led || !errors.Is(err, broken) {
		t.Errorf("leads %v, %v", led, err)
	}
	if !leads(b, "sweeping") {
		t.Error("nobody sweeps after the first one failed")
	}
	var idle string
	if err := a.Pool.QueryRow(t.Context(), "SHOW idle_in_transaction_session_timeout").Scan(&idle); err != nil || idle == "0" {
		t.Errorf("afterwards its connection may be idle in a transaction for %s: %v", idle, err)
	}
}
