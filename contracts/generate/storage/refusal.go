package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/writ-id/writ/contracts/generate/schema"
	storagev1 "github.com/writ-id/writ/gen/proto/writ/storage/v1"
	"github.com/writ-id/writ/impl/core/policy"
)

// refusal is what a violated constraint is refused with.
type refusal struct {
	constraint, kind, reason, text, field string
	value                                 *column // whose value the text names, nil for none
}

// refusals writes the refusals of the constraints of a table. One whose name says nothing
// that a caller understands is refused as the contract says, or fails the generation.
func (w *writer) refusals() {
	all, own := w.constraints()
	for _, one := range own {
		w.P("// ", camel(one.constraint), " refuses what violates the constraint ", one.constraint, ".")
		w.P("func ", camel(one.constraint), "() *", faultPackage.Ident("Error"), " {")
		w.P("return ", w.refuse(one, ""))
		w.P("}")
		w.P()
	}
	w.P("// Refusal returns the refusal of what violates a constraint, nil for none. r is the row")
	w.P("// that does, to name its value, or nil.")
	w.P("func (", w.name, ") Refusal(constraint string, r ", w.row, ") *", faultPackage.Ident("Error"), " {")
	w.P("switch constraint {")
	for _, one := range all {
		w.P("case ", fmt.Sprintf("%q", one.constraint), ":")
		switch {
		case slices.Contains(own, one):
			w.P("return ", camel(one.constraint), "()")
		case one.value != nil:
			w.P("value := \"\"")
			w.P("if r != nil { value = ", resourcePackage.Ident("Quoted"), "(r.", one.value.Go, ") }")
			w.P("return ", w.refuse(one, "value"))
		default:
			w.P("return ", w.refuse(one, ""))
		}
	}
	w.P("}")
	w.P("return nil")
	w.P("}")
	w.P()
}

// refuse is the expression that makes a refusal, whose text names a value after its second
// word, if there is one.
func (w *writer) refuse(one *refusal, value string) string {
	text, args := one.text, ""
	if value != "" {
		text, args = strings.Replace(text, " is taken", "%s is taken", 1), ", "+value
	}
	made := fmt.Sprintf("%s(%s, %q, %q%s)", w.QualifiedGoIdent(faultPackage.Ident("New")), w.QualifiedGoIdent(faultPackage.Ident(one.kind)), one.reason, text, args)
	if one.field != "" {
		made += fmt.Sprintf(".On(%q)", one.field)
	}
	return made
}

// constraints returns the refusals of all constraints that a row can violate, and which of
// them the contract words itself.
func (w *writer) constraints() (all, own []*refusal) {
	worded := map[string]*storagev1.Refused{}
	for _, one := range w.GetRefused() {
		worded[one.GetConstraint()] = one
	}
	of := w.models.schema[w.GetName()]
	if of == nil {
		w.fail("the migrations make no table %s: add it in one, or mend the name in the option table", w.GetName())
		return nil, nil
	}
	for _, key := range of.Keys {
		words := worded[key.Name]
		delete(worded, key.Name)
		kind := "AlreadyExists"
		if key.Kind == schema.Foreign {
			kind = "NotFound"
		}
		switch {
		case words.GetDefect() != "":
		case words != nil:
			own = append(own, &refusal{key.Name, kind, words.GetReason(), words.GetText(), words.GetField(), nil})
			all = append(all, own[len(own)-1])
		case key.Kind == schema.Unique && containsAll(key.Columns, of.Primary().Columns): // violated together with that
		default:
			if one := w.byName(key, kind); one != nil {
				all = append(all, one)
			} else {
				w.fail("the constraint %s of the table %s has no reason: add to the table's option refused: {constraint: %q reason: … text: …}, or defect: … if no caller can violate it", key.Name, w.GetName(), key.Name)
			}
		}
	}
	for _, one := range w.GetRefused() { // what keeps a row from being deleted
		if worded[one.GetConstraint()] == nil {
			continue
		}
		if !refersTo(w.models.schema, one.GetConstraint(), w.GetName()) {
			w.fail("there is no constraint %s of the table %s, or one that refers to it: remove it from refused, or mend the name", one.GetConstraint(), w.GetName())
		}
		own = append(own, &refusal{one.GetConstraint(), "FailedPrecondition", one.GetReason(), one.GetText(), one.GetField(), nil})
		all = append(all, own[len(own)-1])
	}
	return all, own
}

// byName returns the refusal that the name of a constraint says: <table>_pkey,
// <table>_<column>_key, <table>_<object>_fkey; nil when it says none. A foreign key without
// a name of its own is about its last column.
func (w *writer) byName(key *schema.Key, kind string) *refusal {
	object := policy.LowerCamel(w.GetKind())
	name := strings.TrimPrefix(key.Name, w.GetName()+"_")
	switch key.Kind {
	case schema.Primary:
		return &refusal{key.Name, kind, upper(w.GetKind()) + "_ID_TAKEN", "the ID is or was in use", object + ".id", nil}
	case schema.Unique:
		column, _ := strings.CutSuffix(name, "_key")
		if w.rows.column(column) == nil || !slices.Contains(key.Columns, column) && !slices.Contains(key.Columns, column+"_folded") {
			return nil
		}
		one := &refusal{key.Name, kind, upper(w.GetKind()) + "_" + upper(column) + "_TAKEN", "the " + words(column) + " is taken by another " + w.GetKind(), object + "." + policy.LowerCamel(column), nil}
		if w.rows.column(column+"_folded") != nil {
			one.value = w.rows.column(column)
		}
		return one
	}
	if key.To == "instances" { // which no request names
		return &refusal{key.Name, kind, "INSTANCE_NOT_FOUND", "the instance does not exist", "", nil}
	}
	target := strings.TrimSuffix(name, "_fkey")
	if last := key.Columns[len(key.Columns)-1]; !slices.Contains(key.Columns, target+"_id") {
		target = strings.TrimSuffix(last, "_id")
	}
	if !slices.Contains(key.Columns, target+"_id") {
		return nil
	}
	return &refusal{key.Name, kind, upper(target) + "_NOT_FOUND", "the " + words(target) + " does not exist", object + "." + policy.LowerCamel(target+"_id"), nil}
}

func refersTo(all schema.Schema, constraint, table string) bool {
	for _, other := range all {
		if slices.ContainsFunc(other.Keys, func(k *schema.Key) bool { return k.Name == constraint && k.To == table }) {
			return true
		}
	}
	return false
}

func containsAll(list, all []string) bool {
	return !slices.ContainsFunc(all, func(one string) bool { return !slices.Contains(list, one) })
}

func upper(text string) string {
	return strings.ToUpper(strings.NewReplacer(" ", "_", "-", "_").Replace(text))
}

func words(name string) string { return strings.ReplaceAll(name, "_", " ") }
