package resource

import (
	"context"
	"reflect"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/impl/event"
)

// Draft is a row that one call changes in several steps, each an event of its own.
// It is stored once: its events, then the row with the last of them.
type Draft[R any] struct {
	Row   *R
	table *Table[R]
	isNew bool
	steps []event.Event
}

// New returns the draft of a new row, whose first event is payload.
func (t *Table[R]) New(ctx context.Context, row *R, payload event.Payload) *Draft[R] {
	t.begin(ctx, row)
	t.record(payload, nil, row)
	d := &Draft[R]{Row: row, table: t, isNew: true}
	d.steps = append(d.steps, t.event(ctx, reflect.ValueOf(row), payload))
	return d
}

// Edit returns the draft of a row that this transaction has locked.
func (t *Table[R]) Edit(row *R) *Draft[R] { return &Draft[R]{Row: row, table: t} }

// Change makes one step, which is none when it changes nothing. The fields of
// payload that are called like columns are set where those changed.
func (d *Draft[R]) Change(ctx context.Context, payload event.Payload, change func(*R)) {
	old := *d.Row
	change(d.Row)
	if !d.table.differs(&old, d.Row) {
		return
	}
	v := reflect.ValueOf(d.Row)
	d.table.byName["change_date"].value(v).Set(reflect.ValueOf(d.table.Now()))
	d.table.record(payload, &old, d.Row)
	d.steps = append(d.steps, d.table.event(ctx, v, payload))
}

// Store stores the row and its events; nothing when nothing changed.
func (d *Draft[R]) Store(ctx context.Context, tx pgx.Tx) error {
	if len(d.steps) == 0 {
		return nil
	}
	before, last := d.steps[:len(d.steps)-1], d.steps[len(d.steps)-1]
	if len(before) > 0 {
		if err := event.AppendAll(ctx, tx, before); err != nil {
			return err
		}
	}
	d.steps = nil
	if d.isNew {
		d.isNew = false
		return d.table.insert(ctx, tx, d.Row, last.Payload)
	}
	return d.table.update(ctx, tx, d.Row, last.Payload)
}
