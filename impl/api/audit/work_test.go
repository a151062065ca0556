package audit

import (
	"os"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	eventv3 "github.com/writ-id/writ/gen/proto/writ/event/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/store/pgtest"
)

// The trail of the test: one event a second, most of them of a few common types, and
// beside them what searches have trouble with: a type, a user, an organization and an
// object that appear at the beginning only.
const trail = `
INSERT INTO events (instance_id, sequence, aggregate_type, aggregate_id, event_type, payload, creator, owner_type, owner_id, created_at, xid)
SELECT 'i', 5000000 + n,
    CASE WHEN n % 3 = 0 THEN 'user' ELSE 'session' END, 'object-' || CASE WHEN n < 50 THEN -1 ELSE n % 10000 END,
    CASE WHEN n < 50 THEN 'user.locked' WHEN n % 3 = 0 THEN 'user.human.changed' ELSE 'session.token.set' END, '{}',
    'user-' || CASE WHEN n < 50 THEN -1 ELSE n % 7 END, 3, 'org-' || CASE WHEN n < 50 THEN -1 ELSE n % 5 END,
    '2026-01-01'::timestamptz + n * interval '1 second', (3 + n::bigint * 500 / $1::int)::text::xid8
FROM generate_series(1, $1::int) n`

// TestAPageReadsAPage counts the rows that PostgreSQL reads for a page in a long trail:
// with each filter and in both directions about those of the page, wherever they are.
// WRIT_TEST_EVENTS=10000000 is how it was shown for that many.
//
// It runs alone: who follows in another test would wait for its long transaction.
func TestAPageReadsAPage(t *testing.T) {
	rows, _ := strconv.Atoi(os.Getenv("WRIT_TEST_EVENTS"))
	rows = max(rows, 100_000)
	db := pgtest.Open(t, 2)
	conn, err := db.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "SET statement_timeout = 0"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), trail, rows); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "VACUUM ANALYZE events"); err != nil {
		t.Fatal(err)
	}
	conn.Release()

	at := func(n int) *timestamppb.Timestamp {
		return timestamppb.New(time.Date(2026, 1, 1, 0, 0, n, 0, time.UTC))
	}
	of := func(filters ...*eventv3.EventSearchFilter) []*eventv3.EventSearchFilter { return filters }
	types := func(names ...string) *eventv3.EventSearchFilter {
		return &eventv3.EventSearchFilter{Filter: &eventv3.EventSearchFilter_Type{Type: &eventv3.EventTypesFilter{Types: names}}}
	}
	from := func(n int, method object.TimestampFilterMethod) *eventv3.EventSearchFilter {
		return &eventv3.EventSearchFilter{Filter: &eventv3.EventSearchFilter_CreationDate{CreationDate: &object.TimestampFilter{Timestamp: at(n), Method: method}}}
	}
	creator := func(id string) *eventv3.EventSearchFilter {
		return &eventv3.EventSearchFilter{Filter: &eventv3.EventSearchFilter_Creator{Creator: &object.IDFilter{Id: id}}}
	}
	owner := func(id string) *eventv3.EventSearchFilter {
		return &eventv3.EventSearchFilter{Filter: &eventv3.EventSearchFilter_Owner{Owner: &object.IDFilter{Id: id}}}
	}
	thing := func(kind string, id *string) *eventv3.EventSearchFilter {
		return &eventv3.EventSearchFilter{Filter: &eventv3.EventSearchFilter_Object{Object: &eventv3.EventObjectFilter{Type: kind, Id: id}}}
	}
	sequence := func(from, to *uint64) *eventv3.EventSearchFilter {
		return &eventv3.EventSearchFilter{Filter: &eventv3.EventSearchFilter_Sequence{Sequence: &eventv3.EventSequenceFilter{AtLeast: from, AtMost: to}}}
	}
	const greater, less = object.TimestampFilterMethod_TIMESTAMP_Filter_METHOD_GREATER, object.TimestampFilterMethod_TIMESTAMP_Filter_METHOD_LESS_OR_EQUALS
	half := rows / 2
	const page, hour = 100, 3600
	for _, test := range []struct {
		name    string
		filters []*eventv3.EventSearchFilter
		want    int // how many are found
		most    int // how many rows may be read
	}{
		{"all", nil, page, page},
		{"a common type", of(types("session.token.set")), page, page},
		{"a rare type", of(types("user.locked")), 49, page},
		{"a group", of(types("user.*")), page, 2 * page},
		{"all types there are", of(types("user.*", "session.*", "project.*", "org.*")), page, 3 * page},
		{"a kind of objects", of(thing("user", nil)), page, 2 * page},
		{"a rare object", of(thing("session", proto.String("object--1"))), 33, page},
		{"a rare creator", of(creator("user--1")), 49, page},
		{"a common creator", of(creator("user-1")), page, page},
		{"a rare owner", of(owner("org--1")), 49, page},
		{"a common owner", of(owner("org-1")), page, page},
		{"from the middle of the time", of(from(half, greater)), page, page + hour},
		{"to the middle of the time", of(from(half, less)), page, page + hour},
		{"a minute in the middle", of(from(half, greater), from(half+60, less)), 60, 2*page + 2*hour},
		{"from the middle, a group", of(from(half, greater), types("user.*")), page, 2*page + hour},
		{"from a sequence in the middle", of(sequence(proto.Uint64(uint64(5_000_000+half)), nil)), page, page},
		{"to a sequence in the middle", of(sequence(nil, proto.Uint64(uint64(5_000_000+half)))), page, page},
	} {
		for _, asc := range []bool{true, false} {
			req := &eventv3.SearchEventsRequest{Query: &object.ListQuery{Asc: asc}, Filters: test.filters}
			found, read := count(t, db, req)
			if len(found.GetResult()) != test.want || read > test.most+50 { // looking for a place costs a few
				t.Errorf("%s, ascending %t: %d found, %d rows read; want %d and at most %d", test.name, asc, len(found.GetResult()), read, test.want, test.most+50)
			}
			t.Logf("%-32s ascending %-5t %6d rows", test.name, asc, read)
		}
	}
	// Following reads a stretch and no more, wherever it begins and however rare what is
	// looked for.
	for _, test := range []struct {
		name    string
		filters []*eventv3.EventSearchFilter
	}{{"all", nil}, {"a rare type", of(types("user.locked"))}, {"a creator", of(creator("user-1"))}} {
		req := &eventv3.SearchEventsRequest{Filters: test.filters, After: proto.Uint64(uint64(5_000_000 + half))}
		found, read := count(t, db, req)
		if read > 2*stretch+page+50 {
			t.Errorf("following %s reads %d rows", test.name, read)
		}
		t.Logf("following %-22s %18d rows, %d found, position %d", test.name, read, len(found.GetResult()), found.GetDetails().GetPosition())
	}
}

// count makes a search and counts the rows of the table and the entries of its indexes
// that are read for it.
func count(t *testing.T, s *store.DB, req *eventv3.SearchEventsRequest) (found *eventv3.SearchEventsResponse, read int) {
	t.Helper()
	tx, err := s.Search.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	sofar := func() (n int) {
		if err := tx.QueryRow(t.Context(), `SELECT greatest(
			sum(pg_stat_get_xact_tuples_returned(c.oid)) FILTER (WHERE c.relkind = 'i'),
			sum(pg_stat_get_xact_tuples_returned(c.oid) + pg_stat_get_xact_tuples_fetched(c.oid)) FILTER (WHERE c.relkind = 'r'))
			FROM pg_class c WHERE c.relname LIKE 'events%'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := sofar()
	ctx := policy.As(t.Context(), policy.Context{Level: policyv1.Level_LEVEL_INSTANCE, InstanceID: "i"}, "", nil)
	if found, err = New(resource.Env{DB: s.In(tx)}).SearchEvents(ctx, req); err != nil {
		t.Fatal(err)
	}
	return found, sofar() - before
}
