// Package sealed reads what the master key seals in the database, and seals it anew. Which
// columns these are is generated of sql/sealed.yaml: storage.Sealed.
package sealed

import (
	"context"
	"fmt"
	"strings"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
)

// Table is a kind of secrets that the master key seals, each at the place
// secret.Place(Table, values of Bound…).
type Table struct {
	What    string // for people
	Table   string
	Key     []string // the columns that tell a row from others
	Bound   []string // those that a seal is bound to
	Columns []string // those that are sealed, or empty

	// Read returns the next rows after a key, in its order.
	Read    func(ctx context.Context, conn db.DBTX, after []string, batch int32) ([]Row, error)
	Replace []Replace // of each column
}

// Row is what is sealed in a row.
type Row struct {
	Key, Bound []string
	Sealed     [][]byte
}

// Replace stores again in place of what was read, if that is still there.
type Replace func(ctx context.Context, conn db.DBTX, key []string, read, again []byte) (int64, error)

// batch is how many rows are read at once.
const batch = 100

// Reseal seals all of them anew, by the key that seals now, and returns in how many rows. It
// may run while nodes do, and again after a failure: a secret that changed since it was read
// stays, sealed by who changed it.
func (t *Table) Reseal(ctx context.Context, at *store.DB, sealer secret.Sealer) (int, error) {
	after := t.first()
	for done := 0; ; {
		rows, err := t.Read(ctx, at.Pool, after, batch)
		if err != nil || len(rows) == 0 {
			return done, err
		}
		for _, row := range rows {
			resealed, err := t.reseal(ctx, at, sealer, &row)
			if err != nil {
				return done, fmt.Errorf("%s %s: %w", t.Table, strings.Join(row.Key, "/"), err)
			}
			if resealed {
				done++
			}
			after = row.Key
		}
	}
}

// Open opens some of them, the first that are read, and returns how many it tried: an
// error means that they are not sealed by this key.
func (t *Table) Open(ctx context.Context, conn db.DBTX, sealer secret.Sealer) (int, error) {
	rows, err := t.Read(ctx, conn, t.first(), batch)
	if err != nil {
		return 0, err
	}
	for i, row := range rows {
		for _, sealed := range row.Sealed {
			if len(sealed) == 0 {
				continue
			}
			if _, err := sealer.Open(sealed, secret.Place(t.Table, row.Bound...)); err != nil {
				return i, fmt.Errorf("%s %s: %w", t.Table, strings.Join(row.Key, "/"), err)
			}
		}
	}
	return len(rows), nil
}

// first is the key before all others: no ID is empty.
func (t *Table) first() []string { return make([]string, len(t.Key)) }

// reseal seals the secrets of a row anew, each only while it is as it was read.
func (t *Table) reseal(ctx context.Context, at *store.DB, sealer secret.Sealer, row *Row) (bool, error) {
	resealed := false
	for i, replace := range t.Replace {
		if len(row.Sealed[i]) == 0 {
			continue
		}
		again, err := secret.Reseal(sealer, row.Sealed[i], secret.Place(t.Table, row.Bound...))
		if err != nil {
			return false, err
		}
		done, err := replace(ctx, at.Pool, row.Key, row.Sealed[i], again)
		if err != nil {
			return false, err
		}
		resealed = resealed || done > 0
	}
	return resealed, nil
}
