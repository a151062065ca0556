package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
)

// Lead runs fn unless another node is doing what has this name, and reports whether it
// did. The lock is that of a transaction which does nothing else: it works behind a
// pooler and ends with the connection. A node that loses its connection may finish a
// statement while another one leads already, so what fn does has to bear that.
func (d *DB) Lead(ctx context.Context, name string, fn func(context.Context) error) (leads bool, err error) {
	err = pgx.BeginFunc(ctx, d.Pool, func(tx pgx.Tx) error {
		row, err := db.New().TryLead(ctx, tx, name)
		if leads = err == nil && row.Leads; !leads {
			return err
		}
		return fn(ctx)
	})
	return leads, err
}
