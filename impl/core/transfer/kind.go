// Package transfer is how rows move between installations: what kinds of things there are,
// and the files in which they travel (contracts/proto/writ/transfer). Package api/transfer
// reads and stores the rows; package foreign makes items of what other systems export.
package transfer

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"

	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/wire"
)

// Item is one thing in a file: a message of writ.transfer.v1 that says which row it is.
type Item interface {
	proto.Message
	wire.Appender
	wire.Decoder
}

// Asked says what an export has only because it was asked for.
type Asked struct{ Passwords, OTP, Secrets bool }

// Arrival is where and when rows are made of items.
type Arrival struct {
	InstanceID string
	Now        time.Time
	Sealer     secret.Sealer
}

// Kind is a list of a file and the table of its rows. Its statements are made of the
// contract (contracts/generate/storage/moved.go); what is a table of theirs that begins with
// staged_ is temporary and ends with the transaction.
type Kind struct {
	Name  string // of the list: projectRoles
	Other string // the same in the other spelling: project_roles
	Table string
	// Columns are those of the staging table behind item and why.
	Columns []string

	New  func() Item
	Scan func(row pgx.CollectableRow, asked Asked, at Arrival) (Item, error)
	// Values returns the values of Columns, and what is wrong with the item.
	Values func(item Item, at Arrival) ([]any, error)
	// Names returns the ID of an item and of its organization.
	Names func(item Item) (id, orgID string)

	// Export reads the rows of all organizations of the instance $1, ExportOf those of $2,
	// without what refers to others, which Behind counts.
	Export, ExportOf, Behind string

	Stage string
	// Find marks what is there already: in another organization, by a used ID. $1 is the instance.
	Find []string
	// Missing mark what refers to what is not there; $2 says whether that goes for what is
	// there already too, because it is updated.
	Missing []string
	// Insert stores what is not marked of the items from $3 to $4, of the instance $1 at $2, by $5, in the
	// import whose event payload is $6. Taken marks what of these it did not store.
	Insert string
	Taken  []string
	// Unchanged marks what is there already as it would be, Update changes the rest, with the
	// parameters of Insert, and Updated marks it. Update is "" where nothing can differ.
	Unchanged, Update, Updated string
	// Outcome counts the items by organization and mark, Marked returns $1 marked ones.
	Outcome, Marked string
}

// Kinds are all of them, each after those that it refers to.
type Kinds []*Kind

// Find returns the kind of a list.
func (k Kinds) Find(name string) *Kind {
	for _, kind := range k {
		if name == kind.Name || name == kind.Other {
			return kind
		}
	}
	return nil
}

// Marks of staged items.
const (
	Exists     = "EXISTS"     // the same row is there
	Elsewhere  = "ID_TAKEN"   // another organization has the ID
	Used       = "ID_USED"    // something deleted had the ID, and IDs are never used again
	Duplicated = "DUPLICATE"  // the file has it before
	Taken      = "NAME_TAKEN" // another row has what is unique
	Unchanged  = "UNCHANGED"  // the same row is there, as it would be
	Updated    = "UPDATED"    // the same row is there and was changed
)

// Source is where items come from. Next returns io.EOF behind the last one.
type Source interface {
	Next(ctx context.Context) (*Kind, Item, error)
}

// ErrKind says that an item was given to another kind: a defect.
var ErrKind = errors.New("transfer: an item of another kind")

// Seal seals what was open in a file.
func Seal(sealer secret.Sealer, column *[]byte, place string) (err error) {
	if len(*column) > 0 {
		*column, err = sealer.Seal(*column, place)
	}
	return err
}
