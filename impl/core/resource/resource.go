// Package resource holds what the services of resources share, so that all of
// them read, page and filter alike: details, pages of a search, text filters.
package resource

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-id/writ/gen/db"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/store"
)

// Details returns the details record of a resource.
func Details(id string, sequence int64, changed time.Time, owner *object.Owner) *object.Details {
	return &object.Details{Id: id, Sequence: uint64(sequence), ChangeDate: timestamppb.New(changed), ResourceOwner: owner}
}

// SettingDetails returns the details record of a setting; without a date while
// the context never set anything.
func SettingDetails(sequence int64, changed time.Time, owner *object.Owner) *object.SettingDetails {
	details := &object.SettingDetails{Sequence: uint64(sequence), ResourceOwner: owner}
	if sequence > 0 {
		details.ChangeDate = timestamppb.New(changed)
	}
	return details
}

// maxOffset is beyond everything, and what the database can count with.
const maxOffset = 1 << 62

// Page is the part of the matches that a search asks for.
type Page struct {
	Limit  int32
	Offset int64
	Asc    bool
}

// Search runs one search. query returns the rows of a page, and how many matches there are
// in all when there are rows.
func Search[Row any](ctx context.Context, s *store.DB, instanceID string, q *object.ListQuery,
	query func(context.Context, db.DBTX, Page) ([]Row, int64, error),
) ([]Row, *object.ListDetails, error) {
	page := Page{Limit: int32(q.GetLimit()), Offset: int64(min(q.GetOffset(), maxOffset)), Asc: q.GetAsc()}
	if page.Limit == 0 {
		page.Limit = int32(policy.CallFrom(ctx).SearchLimits.OrDefault().Default)
	}
	// Read before the page, so that the page has seen at least this event.
	newest, err := db.New().NewestEvent(ctx, s.Conn(), instanceID)
	if err != nil && !store.NoRow(err) {
		return nil, nil, err
	}
	if err := s.Searches.Enter(ctx, instanceID); err != nil {
		return nil, nil, err
	}
	defer s.Searches.Leave(instanceID)
	rows, total, err := query(ctx, s.SearchConn(), page)
	if err == nil && len(rows) == 0 && page.Offset > 0 { // past the end no row tells the total
		_, total, err = query(ctx, s.SearchConn(), Page{Limit: 1, Asc: page.Asc})
	}
	if err != nil {
		return nil, nil, err
	}
	details := &object.ListDetails{
		AppliedLimit:      uint32(page.Limit),
		ProcessedSequence: uint64(newest.Sequence),
		Timestamp:         timestamppb.New(newest.CreatedAt),
		TotalResult:       uint64(total),
	}
	details.EndOfList = len(rows) < int(page.Limit) || uint64(page.Offset)+uint64(len(rows)) >= details.TotalResult
	return rows, details, nil
}

// Intersect combines lists of IDs of which a resource must be in each; a nil
// list is no list yet.
func Intersect(ids, more []string) []string {
	if ids == nil {
		return NotNull(more)
	}
	known := make(map[string]bool, len(ids))
	for _, id := range ids {
		known[id] = true
	}
	both := []string{}
	for _, id := range more {
		if known[id] {
			both = append(both, id)
		}
	}
	return both
}
