package resource

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/writ-id/writ/impl/core/fault"
)

// IDTaken is the refusal of an ID that is or was in use.
func (t *Table[R, M]) IDTaken() *fault.Error { return t.model.Refusal(t.model.Facts().Key, nil) }

// Missing is the refusal of an ID that does not exist for the caller.
func (t *Table[R, M]) Missing(id string) *fault.Error {
	return fault.New(fault.NotFound, "NOT_FOUND", "there is no %s %q", t.model.Facts().Kind, id)
}

// Refusal translates a violated constraint as the model does; any other error stays.
func (t *Table[R, M]) Refusal(err error) error { return t.refusal(err, nil) }

// refusal is Refusal with the row that violated it, to name the value.
func (t *Table[R, M]) refusal(err error, row *R) error {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return err
	}
	if refusal := t.model.Refusal(refused.ConstraintName, row); refusal != nil {
		return refusal
	}
	return err
}

// Quoted is how a refusal names a value, after a word; nothing names no value.
func Quoted(value string) string {
	if value == "" {
		return ""
	}
	return fmt.Sprintf(" %q", value)
}
