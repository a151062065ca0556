package audit

import (
	"context"
	_ "embed"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	eventv3 "github.com/writ-id/writ/gen/proto/writ/event/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/core/sqltext"
	"github.com/writ-id/writ/impl/core/store"
)

// stretch is how many events a call that follows looks at, so that a rare type costs a
// call no more than another.
const stretch = 10_000

// maxOffset is beyond everything, and what the database can count with.
const maxOffset = 1 << 62

// page reads the part of the matches that a query asks for.
func (s *Service) page(ctx context.Context, f *filter, q *object.ListQuery, below uint64, limit int64) ([]db.Event, *eventv3.EventListDetails, error) {
	// Read before the page, so that who follows from there has seen what is before it.
	newest, err := s.queries.NewestSettled(ctx, s.DB.SearchConn(), db.NewestSettledParams{InstanceID: f.instanceID, Below: below})
	if err != nil && !store.NoRow(err) {
		return nil, nil, err
	}
	f.hurry(newest)
	direction := "DESC"
	if q.GetAsc() {
		direction = "ASC"
	}
	found, err := s.read(ctx, f, "sequence "+direction, limit+1, int64(min(q.GetOffset(), maxOffset)))
	details := &eventv3.EventListDetails{EndOfList: len(found) <= int(limit), Position: uint64(newest)}
	return found[:min(len(found), int(limit))], details, err
}

// follow reads the matches among the next events in the order of commits.
func (s *Service) follow(ctx context.Context, f *filter, after int64, below uint64, limit int64) ([]db.Event, *eventv3.EventListDetails, error) {
	conn := s.DB.SearchConn()
	var end db.EndOfStretchRow
	xid, err := s.commitOf(ctx, f.instanceID, after)
	if err == nil {
		end, err = s.queries.EndOfStretch(ctx, conn, db.EndOfStretchParams{InstanceID: f.instanceID, AfterXid: xid, AfterSequence: after, Below: below, Stretch: stretch})
	}
	if store.NoRow(err) { // nothing comes after it, yet
		return nil, &eventv3.EventListDetails{EndOfList: true, Position: uint64(after)}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	f.And("(e.xid, e.sequence) > (" + f.Arg(xid) + "::xid8, " + f.Arg(after) + "::bigint)")
	f.And("(e.xid, e.sequence) <= (" + f.Arg(end.Xid) + "::xid8, " + f.Arg(end.Sequence) + "::bigint)")
	found, err := s.read(ctx, f, "xid, sequence", limit+1, 0)
	if len(found) > int(limit) {
		found = found[:limit]
		return found, &eventv3.EventListDetails{Position: uint64(found[limit-1].Sequence)}, err
	}
	return found, &eventv3.EventListDetails{EndOfList: end.N < stretch, Position: uint64(end.Sequence)}, err
}

// commitOf returns the transaction of an event; of one that is not there any more, one
// before those that come next; no row when there are none.
func (s *Service) commitOf(ctx context.Context, instanceID string, sequence int64) (uint64, error) {
	if sequence == 0 {
		return 0, nil
	}
	xid, err := s.queries.CommitOf(ctx, s.DB.SearchConn(), db.CommitOfParams{InstanceID: instanceID, Sequence: sequence})
	if !store.NoRow(err) {
		return xid, err
	}
	next, err := s.queries.CommitAfter(ctx, s.DB.SearchConn(), db.CommitAfterParams{InstanceID: instanceID, Sequence: sequence})
	return next - 1, err
}

//go:embed read.sql
var readSQL string

var statements = sqltext.Read(readSQL)

// read runs the statement of a filter.
func (s *Service) read(ctx context.Context, f *filter, order string, limit, offset int64) ([]db.Event, error) {
	fills := []string{"order", order, "limit", f.Arg(limit), "offset", f.Arg(offset)}
	name := "Events"
	switch {
	case f.types == nil:
	case f.ofObject || strings.HasPrefix(order, "xid"):
		f.In("e.event_type", f.types)
	default:
		name, fills = "EventsOfTypes", append(fills, "types", f.Arg(f.types), "share", f.Arg(limit+offset))
	}
	conditions, args := f.SQL()
	rows, err := s.DB.SearchConn().Query(ctx, statements.SQL(name, append(fills, "conditions", conditions)...), args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[db.Event])
}

// longTrail is the length from which a time bounds the sequence too. In a shorter trail that
// is not worth it, and clocks of development may be moved.
const longTrail = 1_000_000

// hurry bounds the sequence by the times that are asked for.
func (f *filter) hurry(newest int64) {
	if newest < longTrail {
		return
	}
	for _, bound := range f.times {
		fills := []string{"instance", f.Instance(), "at", f.Arg(bound.at.AsTime())}
		if bound.method <= object.TimestampFilterMethod_TIMESTAMP_Filter_METHOD_GREATER_OR_EQUALS {
			f.And(statements.SQL("NotLongBefore", fills...))
		}
		if bound.method != object.TimestampFilterMethod_TIMESTAMP_Filter_METHOD_GREATER && bound.method != object.TimestampFilterMethod_TIMESTAMP_Filter_METHOD_GREATER_OR_EQUALS {
			f.And(statements.SQL("NotLongAfter", fills...))
		}
	}
}
