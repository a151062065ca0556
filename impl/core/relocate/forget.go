package relocate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNotMoved is what Forget and CallOff return for an instance that is served here.
var ErrNotMoved = errors.New("the instance has not moved from this database")

// Forget deletes what is left of an instance that has moved.
func Forget(ctx context.Context, url, instance string, patience time.Duration) error {
	conn, err := connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tables, err := readTables(ctx, conn)
	if err != nil {
		return err
	}
	if err := isMoved(ctx, conn, instance); err != nil {
		return err
	}
	tables = append(tables, table{name: "row_counts", key: "instance_id"})
	if err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT set_config('writ.moving', $1, true)", instance); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SET CONSTRAINTS ALL DEFERRED"); err != nil {
			return err
		}
		// Twice: triggers tell of what goes along, in events and counts.
		for range 2 {
			for _, t := range slices.Backward(tables) {
				if _, err := tx.Exec(ctx, fmt.Sprintf("DELETE FROM %s WHERE %s = $1", t.name, t.key), instance); err != nil {
					return fmt.Errorf("deleting from %s: %w", t.name, err)
				}
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return dropTriggers(ctx, conn, instance, tables, func(ctx context.Context, what string, do func() error) error {
		return patiently(ctx, patience, what, do)
	})
}

// CallOff has the source serve an instance again whose move was broken off between the two
// commits of the switch: it refuses when the target has the instance.
func CallOff(ctx context.Context, from, to, instance string, patience time.Duration) error {
	m := &mover{Config: Config{From: from, To: to, Instance: instance, Patience: patience}}
	defer m.close()
	if err := m.open(ctx); err != nil {
		return err
	}
	if !m.marked {
		return ErrNotMoved
	}
	if _, err := m.hold.Exec(ctx, "WITH gone AS (DELETE FROM moved_instances WHERE instance_id = $1) SELECT pg_notify('writ_changed', '')", instance); err != nil {
		return err
	}
	return dropTriggers(ctx, m.hold, instance, m.freezable(), m.patiently)
}

func isMoved(ctx context.Context, conn *pgx.Conn, instance string) error {
	var moved bool
	err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM moved_instances WHERE instance_id = $1)", instance).Scan(&moved)
	if err == nil && !moved {
		err = ErrNotMoved
	}
	return err
}
