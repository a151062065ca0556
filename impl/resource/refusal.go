package resource

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/writ-id/writ/impl/fault"
)

// IDTaken is the refusal of an ID that is or was in use.
func (t *Table[R]) IDTaken() *fault.Error {
	return fault.New(fault.AlreadyExists, upper(t.Kind+"_ID_TAKEN"), "the ID is or was in use").On(lowerCamel(t.Kind) + ".id")
}

// Missing is the refusal of an ID that does not exist for the caller.
func (t *Table[R]) Missing(id string) *fault.Error {
	return fault.New(fault.NotFound, "NOT_FOUND", "there is no %s %q", t.Kind, id)
}

// Refusal translates a violated constraint by its name; any other error stays.
func (t *Table[R]) Refusal(err error) error { return t.refusal(err, nil) }

// refusal is Refusal with the row that violated it, to name the value.
func (t *Table[R]) refusal(err error, row *R) error {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return err
	}
	if refusal := t.Refusals[refused.ConstraintName]; refusal != nil {
		return refusal()
	}
	if refused.ConstraintName == t.Table+"_pkey" {
		return t.IDTaken()
	}
	name, ours := strings.CutPrefix(refused.ConstraintName, t.Table+"_")
	if column, unique := strings.CutSuffix(name, "_key"); ours && unique {
		value := ""
		if row != nil && t.byName[column] != nil {
			value = fmt.Sprintf(" %q", t.byName[column].text(reflect.ValueOf(row)))
		}
		return fault.New(fault.AlreadyExists, upper(t.Kind+"_"+column+"_TAKEN"), "the %s%s is taken by another %s", strings.ReplaceAll(column, "_", " "), value, t.Kind).
			On(lowerCamel(t.Kind) + "." + lowerCamel(column))
	}
	if target, foreign := strings.CutSuffix(name, "_fkey"); ours && foreign {
		return fault.New(fault.NotFound, upper(target+"_NOT_FOUND"), "the %s does not exist", strings.ReplaceAll(target, "_", " ")).
			On(lowerCamel(t.Kind) + "." + lowerCamel(target+"_id"))
	}
	return err
}

func upper(text string) string {
	return strings.ToUpper(strings.NewReplacer(" ", "_", "-", "_").Replace(text))
}

// lowerCamel spells words with underscores or spaces as JSON does.
func lowerCamel(text string) string {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == '_' || r == ' ' })
	for i, word := range words[1:] {
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "")
}
