package audit

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	eventv3 "github.com/writ-id/writ/gen/proto/writ/event/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
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

// columns are those that this program knows: beside a newer one the table may have more.
const columns = "e.instance_id, e.sequence, e.aggregate_type, e.aggregate_id, e.event_type, e.payload, e.creator, e.owner_type, e.owner_id, e.created_at, e.xid, e.client_address, e.traceparent"

// read runs the statement of a filter. Types are looked for one by one, each in its order
// and no further than the page: an index has the events of one type sorted, not those of
// several.
func (s *Service) read(ctx context.Context, f *filter, order string, limit, offset int64) ([]db.Event, error) {
	sql := "SELECT " + columns + " FROM events e WHERE "
	tail := " ORDER BY " + order + " LIMIT " + f.Arg(limit) + "::bigint OFFSET " + f.Arg(offset) + "::bigint"
	switch {
	case f.types == nil:
		conditions, _ := f.SQL()
		sql += conditions + tail
	case f.ofObject || strings.HasPrefix(order, "xid"):
		f.In("e.event_type", f.types)
		conditions, _ := f.SQL()
		sql += conditions + tail
	default:
		conditions, _ := f.SQL()
		sql = "SELECT o.* FROM unnest(" + f.Arg(f.types) + "::text[]) AS kind (name) CROSS JOIN LATERAL (" +
			sql + conditions + " AND e.event_type = kind.name ORDER BY " + order + " LIMIT " + f.Arg(limit+offset) + "::bigint) o" + tail
	}
	_, args := f.SQL()
	rows, err := s.DB.SearchConn().Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[db.Event])
}

// Events are numbered about when they happen: a call takes seconds at most, and the
// clocks of nodes differ little. So in a long trail a time bounds the sequence as well,
// with an hour to spare, and a search need not read everything before it. In a short one
// that is not worth it, and clocks of development may be moved.
const (
	longTrail = 1_000_000
	spare     = "interval '1 hour'"
)

// hurry bounds the sequence by the times that are asked for.
func (f *filter) hurry(newest int64) {
	if newest < longTrail {
		return
	}
	for _, bound := range f.times {
		at := f.Arg(bound.at.AsTime()) + "::timestamptz"
		if bound.method <= object.TimestampFilterMethod_TIMESTAMP_Filter_METHOD_GREATER_OR_EQUALS {
			f.And("e.sequence > coalesce((SELECT b.sequence FROM events b WHERE b.instance_id = $1 AND b.created_at < " + at + " - " + spare +
				" ORDER BY b.created_at DESC LIMIT 1), 0)")
		}
		if bound.method != object.TimestampFilterMethod_TIMESTAMP_Filter_METHOD_GREATER && bound.method != object.TimestampFilterMethod_TIMESTAMP_Filter_METHOD_GREATER_OR_EQUALS {
			f.And("e.sequence < coalesce((SELECT b.sequence FROM events b WHERE b.instance_id = $1 AND b.created_at > " + at + " + " + spare +
				" ORDER BY b.created_at LIMIT 1), 9223372036854775807)")
		}
	}
}
