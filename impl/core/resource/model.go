package resource

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
)

// Model is what package storage, which contracts/generate/storage makes of the contract and
// the migrations, knows of a table whose rows are R.
type Model[R any] interface {
	Facts() *Facts
	Head(*R) Head
	Refusal(constraint string, row *R) *fault.Error
	Begin(row *R, id func() string, at policy.Context, now time.Time)
	Touch(*R, time.Time)
	Differs(a, b *R) bool
	Record(payload event.Payload, old, row *R) error

	Read(context.Context, db.DBTX, Lock, Key) (*R, error)
	Insert(context.Context, db.DBTX, *R, event.Record) error
	Update(context.Context, db.DBTX, *R, event.Record) error
	Delete(context.Context, db.DBTX, Key, event.Record) (sequence int64, err error)
	Scan(rows pgx.Rows, row *R, total *int64) error
}

// Facts holds for all rows of a table. The contract says it: contracts/proto/writ/storage.
type Facts struct {
	Table, Kind string
	Key         string // the constraint that its IDs violate
	// Select reads rows, up to its conditions. It calls the table t.
	Select string
	// The columns that say where a row is, as SQL; "" where there is none.
	Org, Project, ProjectGrant, User, Reader string

	System, OfUsers, Reusable bool
	Remembered, RememberedNew bool
	// Counted are the columns whose totals by value are kept, as SQL.
	Counted []string
}

// Head says which row something is, where, and of what its events tell.
type Head struct {
	ID, Subject string
	Sequence    int64
	ChangeDate  time.Time
	Place       policy.Place
	OwnerOrg    string // the organization that owns it, "" for none
	Reader      string // another that may read it
}

// Owner returns the context a row belongs to.
func (h *Head) Owner() *object.Owner {
	kind, id := h.owner()
	return &object.Owner{Type: kind, Id: id}
}

func (h *Head) owner() (object.OwnerType, string) {
	switch {
	case h.OwnerOrg != "":
		return object.OwnerType_OWNER_TYPE_ORG, h.OwnerOrg
	case h.Place.InstanceID != "":
		return object.OwnerType_OWNER_TYPE_INSTANCE, h.Place.InstanceID
	}
	return object.OwnerType_OWNER_TYPE_SYSTEM, ""
}

// Key tells a row from all others.
type Key struct {
	InstanceID, ID string
	Under          string // what the ID is unique in, when that is not the instance
}

// Lock is what a statement that reads a row keeps others from until its transaction ends.
type Lock int

// The locks: none; for what is created below a row or refers to it; for changes; for
// deletions.
const (
	Free Lock = iota
	ForHold
	ForLock
	ForTake
)

// NotOf says that an event is not one of a table, a defect no input can cause.
func NotOf(of *Facts, payload event.Payload) error {
	return fmt.Errorf("resource: %T is no event of the table %s", payload, of.Table)
}
