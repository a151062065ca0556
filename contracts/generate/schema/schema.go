// Package schema knows the tables that the migrations make: their columns, and their keys
// by the names under which PostgreSQL says that a statement violates one. It reads the
// files with PostgreSQL's own parser, so no server is needed, and generators can refuse
// what does not fit.
package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wasilibs/go-pgquery/parser"
)

// Schema is the tables by their names.
type Schema map[string]*Table

// Table is one of them.
type Table struct {
	Name    string
	Columns []*Column
	Keys    []*Key
}

// Column is a column of a table.
type Column struct {
	Name      string
	Type      string // as PostgreSQL's catalogue calls it: bytea, int2, text
	Generated bool   // PostgreSQL fills it, by an expression that is stored or a default that is computed
}

// Key is a constraint, or a unique index, that a row can violate because of other rows.
type Key struct {
	Name    string
	Kind    Kind
	Columns []string
	To      string // the table that a Foreign key refers to
}

// Kind is what a key demands.
type Kind int

// The kinds of keys.
const (
	Primary Kind = iota
	Unique
	Foreign
)

// Column returns a column by its name, nil for none.
func (t *Table) Column(name string) *Column {
	i := slices.IndexFunc(t.Columns, func(c *Column) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return t.Columns[i]
}

// Primary returns the primary key.
func (t *Table) Primary() *Key {
	i := slices.IndexFunc(t.Keys, func(k *Key) bool { return k.Kind == Primary })
	if i < 0 {
		return nil
	}
	return t.Keys[i]
}

// Read reads all migrations of a directory, in order.
func Read(dir string) (Schema, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.sql"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%s: there are no migrations, %w", dir, err)
	}
	s := Schema{}
	for _, file := range files { // Glob sorts
		text, err := os.ReadFile(file)
		if err == nil {
			err = s.Add(string(text))
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return s, nil
}

// Add does what a migration does to the tables.
func (s Schema) Add(text string) error {
	statements, err := Parse(text)
	if err != nil {
		return err
	}
	for _, statement := range statements {
		for kind := range statement {
			n := statement.In(kind)
			switch kind {
			case "CreateStmt":
				s.create(n)
			case "AlterTableStmt":
				err = s.alter(n)
			case "IndexStmt":
				s.index(n)
			case "DropStmt":
				err = s.drop(n)
			case "RenameStmt":
				err = fmt.Errorf("%s is renamed, which package schema does not read: teach it, or make another table", n.In("relation").Text("relname"))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (s Schema) create(n Node) {
	name := n.In("relation").Text("relname")
	if s[name] != nil && n["if_not_exists"] == true {
		return
	}
	t := &Table{Name: name}
	s[name] = t
	for _, element := range n.List("tableElts") {
		if c := element.In("ColumnDef"); c != nil {
			t.addColumn(c)
		} else if c := element.In("Constraint"); c != nil {
			t.addKey(c, c.names("keys", "fk_attrs"))
		}
	}
}

func (s Schema) alter(n Node) error {
	t := s[n.In("relation").Text("relname")]
	for _, command := range n.List("cmds") {
		c := command.In("AlterTableCmd")
		name, kind := c.Text("name"), c.Text("subtype")
		switch {
		case t == nil: // a view or an index
		case kind == "AT_AddColumn":
			t.addColumn(c.In("def", "ColumnDef"))
		case kind == "AT_DropColumn":
			t.Columns = slices.DeleteFunc(t.Columns, func(c *Column) bool { return c.Name == name })
			t.Keys = slices.DeleteFunc(t.Keys, func(k *Key) bool { return slices.Contains(k.Columns, name) })
		case kind == "AT_AddConstraint":
			of := c.In("def", "Constraint")
			if of.Text("indexname") != "" {
				return fmt.Errorf("%s gets a key of an index that is there, which package schema does not read: teach it, or make the key with its index", t.Name)
			}
			t.addKey(of, of.names("keys", "fk_attrs"))
		case kind == "AT_DropConstraint":
			t.Keys = slices.DeleteFunc(t.Keys, func(k *Key) bool { return k.Name == name })
		}
	}
	return nil
}

func (t *Table) addColumn(c Node) {
	if t.Column(c.Text("colname")) != nil {
		return // ADD COLUMN IF NOT EXISTS
	}
	column := &Column{Name: c.Text("colname")}
	for _, part := range c.In("typeName").names("names") { // pg_catalog.int2
		column.Type = part
	}
	t.Columns = append(t.Columns, column)
	for _, one := range c.List("constraints") {
		of := one.In("Constraint")
		column.Generated = column.Generated || slices.Contains([]string{"CONSTR_GENERATED", "CONSTR_IDENTITY"}, of.Text("contype")) ||
			of.Text("contype") == "CONSTR_DEFAULT" && of.In("raw_expr", "FuncCall") != nil
		t.addKey(of, []string{column.Name})
	}
}

// addKey adds a constraint, if it is a key, under the name that PostgreSQL gives it.
func (t *Table) addKey(c Node, columns []string) {
	name := t.Name + "_" + strings.Join(columns, "_")
	switch c.Text("contype") {
	case "CONSTR_PRIMARY":
		t.Keys = append(t.Keys, &Key{Name: cmp.Or(c.Text("conname"), t.Name+"_pkey"), Kind: Primary, Columns: columns})
	case "CONSTR_UNIQUE":
		t.Keys = append(t.Keys, &Key{Name: cmp.Or(c.Text("conname"), name+"_key"), Kind: Unique, Columns: columns})
	case "CONSTR_FOREIGN":
		t.Keys = append(t.Keys, &Key{Name: cmp.Or(c.Text("conname"), name+"_fkey"), Kind: Foreign, Columns: columns, To: c.In("pktable").Text("relname")})
	}
}

func (s Schema) index(n Node) {
	t := s[n.In("relation").Text("relname")]
	if t == nil || n["unique"] != true {
		return
	}
	key := &Key{Name: n.Text("idxname"), Kind: Unique}
	for _, part := range n.List("indexParams") {
		key.Columns = append(key.Columns, part.In("IndexElem").Text("name")) // "" of an expression
	}
	t.Keys = append(t.Keys, key)
}

func (s Schema) drop(n Node) error {
	for _, object := range n.List("objects") {
		parts := object.In("List").List("items")
		if len(parts) == 0 {
			continue
		}
		name := parts[len(parts)-1].In("String").Text("sval")
		switch n.Text("removeType") {
		case "OBJECT_TABLE":
			delete(s, name)
		case "OBJECT_INDEX":
			for _, t := range s {
				t.Keys = slices.DeleteFunc(t.Keys, func(k *Key) bool { return k.Name == name })
			}
		}
	}
	return nil
}

// Node is a node of what PostgreSQL's parser makes of a statement, by the names of its
// source (parsenodes.h). What is not there is empty.
type Node map[string]any

// Parse returns the statements of a text.
func Parse(text string) ([]Node, error) {
	made, err := parser.ParseToJSON(text)
	if err != nil {
		return nil, err
	}
	var parsed Node
	if err := json.Unmarshal([]byte(made), &parsed); err != nil {
		return nil, err
	}
	var statements []Node
	for _, statement := range parsed.List("stmts") {
		statements = append(statements, statement.In("stmt"))
	}
	return statements, nil
}

// In returns the node at the end of a path.
func (n Node) In(path ...string) Node {
	for _, name := range path {
		n, _ = n[name].(map[string]any)
	}
	return n
}

// Text returns a text of a node.
func (n Node) Text(name string) string {
	text, _ := n[name].(string)
	return text
}

// List returns the nodes of a list.
func (n Node) List(name string) []Node {
	all, _ := n[name].([]any)
	list := make([]Node, len(all))
	for i := range all {
		list[i], _ = all[i].(map[string]any)
	}
	return list
}

// names returns the texts of lists of names.
func (n Node) names(lists ...string) []string {
	var found []string
	for _, list := range lists {
		for _, one := range n.List(list) {
			found = append(found, one.In("String").Text("sval"))
		}
	}
	return found
}
