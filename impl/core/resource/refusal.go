package resource

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
)

// IDTaken is the refusal of an ID that is or was in use.
func (t *Table[R, M]) IDTaken() *fault.Error {
	of := t.model.Facts()
	return fault.New(fault.AlreadyExists, upper(of.Kind+"_ID_TAKEN"), "the ID is or was in use").On(policy.LowerCamel(of.Kind) + ".id")
}

// Missing is the refusal of an ID that does not exist for the caller.
func (t *Table[R, M]) Missing(id string) *fault.Error {
	return fault.New(fault.NotFound, "NOT_FOUND", "there is no %s %q", t.model.Facts().Kind, id)
}

// Refusal translates a violated constraint by its name; any other error stays.
func (t *Table[R, M]) Refusal(err error) error { return t.refusal(err, nil) }

// refusal is Refusal with the row that violated it, to name the value.
func (t *Table[R, M]) refusal(err error, row *R) error {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return err
	}
	of := t.model.Facts()
	if refusal := t.refusals[refused.ConstraintName]; refusal != nil {
		return refusal()
	}
	if refused.ConstraintName == of.Table+"_pkey" {
		return t.IDTaken()
	}
	name, ours := strings.CutPrefix(refused.ConstraintName, of.Table+"_")
	if column, unique := strings.CutSuffix(name, "_key"); ours && unique {
		value := ""
		if row != nil {
			if name := t.model.Name(row, column); name != "" {
				value = fmt.Sprintf(" %q", name)
			}
		}
		return fault.New(fault.AlreadyExists, upper(of.Kind+"_"+column+"_TAKEN"), "the %s%s is taken by another %s", strings.ReplaceAll(column, "_", " "), value, of.Kind).
			On(policy.LowerCamel(of.Kind) + "." + policy.LowerCamel(column))
	}
	if target, foreign := strings.CutSuffix(name, "_fkey"); ours && foreign {
		return fault.New(fault.NotFound, upper(target+"_NOT_FOUND"), "the %s does not exist", strings.ReplaceAll(target, "_", " ")).
			On(policy.LowerCamel(of.Kind) + "." + policy.LowerCamel(target+"_id"))
	}
	return err
}

func upper(text string) string {
	return strings.ToUpper(strings.NewReplacer(" ", "_", "-", "_").Replace(text))
}
