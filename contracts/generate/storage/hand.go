package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/writ-id/writ/contracts/generate/schema"
)

// checkHand refuses statements by hand that forget what the schema and the contract say.
func checkHand(found *models, numbers *named) error {
	var errs []error
	for _, q := range found.queries {
		errs = append(errs, checkInserts(found.schema, q)...)
		errs = append(errs, numbers.check(q))
	}
	return errors.Join(errs...)
}

// checkInserts refuses a statement that inserts rows without one of their columns and does
// not say so, in a comment "-- Without <table>: <column>, …: <why>".
func checkInserts(of schema.Schema, q *schema.Query) []error {
	var errs []error
	q.Statement.Walk(func(kind string, n schema.Node) {
		if kind != "InsertStmt" {
			return
		}
		table := of[n.In("relation").Text("relname")]
		if table == nil {
			errs = append(errs, fmt.Errorf("%s: %s inserts into %s, which no migration makes: add the table in a migration, or mend the name", q.File, q.Name, n.In("relation").Text("relname")))
			return
		}
		var named []string
		for _, column := range n.List("cols") {
			named = append(named, column.In("ResTarget").Text("name"))
		}
		without := leftOut(q, table.Name)
		var missing []string
		for _, column := range table.Columns {
			switch is := slices.Contains(named, column.Name); {
			case is && slices.Contains(without, column.Name):
				errs = append(errs, fmt.Errorf("%s: %s names the column %s of %s, and says that it does not: take it out of the comment", q.File, q.Name, column.Name, table.Name))
			case !is && !column.Generated && !slices.Contains(without, column.Name):
				missing = append(missing, column.Name)
			}
		}
		if missing != nil {
			errs = append(errs, fmt.Errorf("%s: %s inserts into %s without %s: name the columns, or say in a comment why not: -- Without %s: %s: …", q.File, q.Name, table.Name, strings.Join(missing, ", "), table.Name, strings.Join(missing, ", ")))
		}
	})
	return errs
}

// leftOut returns the columns of a table that a statement says it leaves to their defaults.
func leftOut(q *schema.Query, table string) []string {
	for line := range strings.Lines(q.Text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "-- Without "+table+": "); ok {
			columns, why, _ := strings.Cut(rest, ": ")
			if strings.TrimSpace(why) != "" {
				return strings.Split(columns, ", ")
			}
		}
	}
	return nil
}

// fills writes, for each statement by hand that says that it takes a row of this table, how
// the row fills its parameters, so that there is one description of a row.
func (w *writer) fills(queries []*schema.Query) {
	for _, q := range queries {
		if !strings.Contains(q.Text, "\n-- Takes a row of "+w.GetName()+".\n") {
			continue
		}
		params := w.models.byName[q.Name+"Params"]
		w.P("// ", q.Name, " sets what the statement of this name stores of a row.")
		w.P("func (", w.name, ") ", q.Name, "(p *", dbPackage.Ident(q.Name+"Params"), ", r ", w.row, ") {")
		q.Statement.Walk(func(kind string, n schema.Node) {
			if kind != "InsertStmt" || n.In("relation").Text("relname") != w.GetName() {
				return
			}
			values := n.In("selectStmt", "SelectStmt").List("targetList")
			for i, column := range n.List("cols") {
				name := column.In("ResTarget").Text("name")
				parameter := values[i].In("ResTarget", "val").Parameter()
				if parameter == "" {
					continue
				}
				to, from := params.column(parameter), w.rows.column(name)
				if to == nil || to.Type != from.Type {
					w.fail("%s: %s takes the parameter %s, which is not of the type %s of the column %s; try sqlc.narg", q.File, q.Name, parameter, from.Type, name)
					continue
				}
				w.P("p.", to.Go, " = r.", from.Go)
			}
		})
		w.P("}")
		w.P()
	}
}
