package resource

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/policy"
)

// Draft is a row that one call changes in several steps, each an event of its own.
// It is stored once: its events, then the row with the last of them.
type Draft[R any, M Model[R]] struct {
	Row   *R
	table *Table[R, M]
	isNew bool
	steps []event.Event
	err   error
}

// New returns the draft of a new row, whose first event is payload.
func (t *Table[R, M]) New(ctx context.Context, row *R, payload event.Payload) *Draft[R, M] {
	t.model.Begin(row, t.NewID, policy.CallFrom(ctx).Context, t.Now())
	d := &Draft[R, M]{Row: row, table: t, isNew: true}
	d.step(ctx, payload, nil)
	return d
}

// Edit returns the draft of a row that this transaction has locked.
func (t *Table[R, M]) Edit(row *R) *Draft[R, M] { return &Draft[R, M]{Row: row, table: t} }

func (d *Draft[R, M]) step(ctx context.Context, payload event.Payload, old *R) {
	d.err = errors.Join(d.err, d.table.model.Record(payload, old, d.Row))
	d.steps = append(d.steps, d.table.event(ctx, d.Row, payload))
}

// Steps returns the events of a draft that is stored by a statement of its own.
func (d *Draft[R, M]) Steps() ([]event.Event, error) { return d.steps, d.err }

// Change makes one step, which is none when it changes nothing. The fields of payload that
// are columns are set where those changed.
func (d *Draft[R, M]) Change(ctx context.Context, payload event.Payload, change func(*R)) {
	old := *d.Row
	change(d.Row)
	if !d.table.model.Differs(&old, d.Row) {
		return
	}
	d.table.model.Touch(d.Row, d.table.Now())
	d.step(ctx, payload, &old)
}

// Store stores the row and its events; nothing when nothing changed.
func (d *Draft[R, M]) Store(ctx context.Context, tx pgx.Tx) error {
	if d.err != nil || len(d.steps) == 0 {
		return d.err
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
