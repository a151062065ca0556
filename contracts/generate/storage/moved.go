package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"

	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	storagev1 "github.com/writ-id/writ/gen/proto/writ/storage/v1"
)

const (
	transferPackage = protogen.GoImportPath("github.com/writ-id/writ/impl/core/transfer")
	secretPackage   = protogen.GoImportPath("github.com/writ-id/writ/impl/core/secret")
)

// moved is a table whose rows are exported and imported.
type moved struct {
	*table
	message *protogen.Message
	options *storagev1.Moved
	list    *protogen.Field // of the file
	event   *policyv1.Event
	nodes   []*node
	carried []*column // in the order of the table
	made    []string  // instance_id and what else is not in a file, as column=value
}

// movedOf returns how a message moves.
func movedOf(message *protogen.Message) *storagev1.Moved {
	return proto.GetExtension(message.Desc.Options(), storagev1.E_Moved).(*storagev1.Moved)
}

// findMoved finds what moves, in the order of the lists of a file. Each table moves or says
// why it stays.
func (c *contract) findMoved(plugin *protogen.Plugin, found *models) ([]*moved, error) {
	var all []*moved
	var errs []error
	events := map[string]*policyv1.Event{}
	for _, file := range plugin.Files {
		for _, message := range file.Messages {
			if event := eventOf(message); event != nil {
				events[event.GetType()] = event
			}
		}
	}
	for _, file := range plugin.Files {
		for _, message := range file.Messages {
			if message.Desc.FullName() != "writ.transfer.v1.TransferFile" {
				continue
			}
			for _, list := range message.Fields {
				if list.Message == nil || !list.Desc.IsList() {
					continue
				}
				m, err := c.moved(list, found)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				if m.event = events[m.options.GetEvent()]; m.event == nil && m.options.GetEvent() != "" {
					errs = append(errs, fmt.Errorf("%s: there is no event %s: name the type of one in contracts/proto/writ/event/v1 in the option moved, or add it there", list.Message.Desc.FullName(), m.options.GetEvent()))
				}
				all = append(all, m)
			}
		}
	}
	for _, t := range c.tables {
		moves := slices.ContainsFunc(all, func(m *moved) bool { return m.options.GetTable() == t.GetName() })
		switch stays := t.GetStays() != ""; {
		case len(all) == 0:
		case !moves && !stays:
			errs = append(errs, fmt.Errorf("the table %s is not exported: add a list of its rows to writ.transfer.v1.TransferFile, or say `stays: \"why\"` in the table's option", t.GetName()))
		case moves && stays:
			errs = append(errs, fmt.Errorf("the table %s is exported and says why it stays: remove stays from its option, or the list from writ.transfer.v1.TransferFile", t.GetName()))
		}
	}
	return all, errors.Join(errs...)
}

func (c *contract) moved(list *protogen.Field, found *models) (*moved, error) {
	message := list.Message
	m := &moved{message: message, options: movedOf(message), list: list}
	if m.options == nil {
		return nil, fmt.Errorf("%s: say by the option (writ.storage.v1.moved) which table its rows are of", message.Desc.FullName())
	}
	if m.table = c.byName[m.options.GetTable()]; m.table == nil {
		row := found.byName[m.options.GetRow()]
		if row == nil {
			return nil, fmt.Errorf("%s: there is no table %s: name one that a message has by (writ.storage.v1.table), or the struct of its rows by row", message.Desc.FullName(), m.options.GetTable())
		}
		m.table = &table{Table: &storagev1.Table{Name: m.options.GetTable(), Kind: strings.ReplaceAll(strings.TrimSuffix(m.options.GetTable(), "s"), "_", " ")}, stored: row, rows: row}
	}
	var err error
	if m.nodes, err = m.table.nodes(message); err != nil {
		return nil, err
	}
	return m, m.carry()
}

// carry finds what becomes of each column.
func (m *moved) carry() error {
	out := map[string]string{}
	for _, one := range m.options.GetLeftOut() {
		name, value, _ := strings.Cut(one, "=")
		out[name] = value
		if value != "" {
			m.made = append(m.made, one)
		}
	}
	fields := map[string]bool{}
	m.each(m.nodes, func(n *node) { fields[n.column.Name] = true })
	for _, oneof := range m.message.Oneofs {
		if kind, _ := m.kindOf(oneof); kind != nil {
			fields[kind.Name] = true
		}
	}
	var errs []error
	for _, c := range m.stored.Columns {
		_, left := out[c.Name]
		text, folded := strings.CutSuffix(c.Name, "_folded")
		switch {
		case recordField(c) != "" || c.Name == "instance_id" || c.Name == "sequence" || c.Name == "change_date" || strings.HasPrefix(c.Name, "of_"):
		case fields[c.Name] && left:
			errs = append(errs, fmt.Errorf("%s: the column %s is left out and a field: remove the field, or take the column out of left_out", m.message.Desc.FullName(), c.Name))
		case fields[c.Name], folded && m.stored.column(text) != nil:
			m.carried = append(m.carried, c)
		case !left:
			errs = append(errs, fmt.Errorf("%s: the column %s of %s is no field: add one, or name the column in left_out", m.message.Desc.FullName(), c.Name, m.GetName()))
		}
	}
	for _, one := range m.options.GetOtherwise() {
		name, _, _ := strings.Cut(one, "=")
		out[name] = ""
	}
	for name := range out {
		if m.stored.column(name) == nil {
			errs = append(errs, fmt.Errorf("%s: the table %s has no column %s: take it out of the option moved, or add it in a migration", m.message.Desc.FullName(), m.GetName(), name))
		}
	}
	return errors.Join(errs...)
}

// each calls do with the nodes that are columns.
func (m *moved) each(nodes []*node, do func(*node)) {
	for _, n := range nodes {
		if n.column != nil {
			do(n)
		} else {
			m.each(n.below, do)
		}
	}
}

func (m *moved) has(column string) bool { return m.stored.column(column) != nil }

// hasEvent says whether an event tells of each row, whose sequence the row gets.
func (m *moved) hasEvent() bool { return m.event != nil }

func (m *moved) key() []string {
	if key := m.options.GetKey(); len(key) > 0 {
		return key
	}
	return []string{"id"}
}

func (m *moved) subject() string {
	if m.options.GetSubject() != "" {
		return m.options.GetSubject()
	}
	return "id"
}

func refersOf(field *protogen.Field) string {
	return proto.GetExtension(field.Desc.Options(), storagev1.E_Refers).(string)
}

func askedOf(field *protogen.Field) storagev1.Asked {
	return proto.GetExtension(field.Desc.Options(), storagev1.E_Asked).(storagev1.Asked)
}

func isSealed(field *protogen.Field) bool {
	return proto.GetExtension(field.Desc.Options(), storagev1.E_Sealed).(bool)
}

// movedFile writes the file of one of them.
func (w *writer) movedFile(m *moved) {
	w.P("// Code generated by contracts/generate/storage. DO NOT EDIT.")
	w.P()
	w.P("package storage")
	w.P()
	item := m.message.GoIdent.GoName
	w.moving = true
	w.assign(m.message)
	w.fill(m.message)
	w.movedKind(m, item)
	w.movedScan(m, item)
	w.movedValues(m, item)
}

func (w *writer) movedKind(m *moved, item string) {
	kind := w.QualifiedGoIdent(transferPackage.Ident("Kind"))
	w.P("// Moved", w.name, " is how ", m.GetKind(), "s are exported and imported.")
	w.P("var Moved", w.name, " = &", kind, "{")
	w.P("Name: ", quote(m.list.Desc.JSONName()), ", Other: ", quote(string(m.list.Desc.Name())), ", Table: ", quote(m.GetName()), ",")
	columns := make([]string, len(m.carried))
	for i, c := range m.carried {
		columns[i] = quote(c.Name)
	}
	w.P("Columns: []string{", strings.Join(columns, ", "), "},")
	w.P("New: func() ", transferPackage.Ident("Item"), " { return &", m.message.GoIdent, "{} },")
	w.P("Scan: scan", item, ", Values: values", item, ",")
	w.P("Names: func(item ", transferPackage.Ident("Item"), ") (id, orgID string) {")
	w.P("m, _ := item.(*", m.message.GoIdent, ")")
	var ids []string
	for _, column := range m.key() {
		if column != "org_id" {
			ids = append(ids, "m.Get"+w.fieldOfColumn(m, column)+"()")
		}
	}
	org := "id"
	if m.has("org_id") {
		org = "org_id"
	}
	w.P("return ", strings.Join(ids, ` + "/" + `), ", m.Get", w.fieldOfColumn(m, org), "()")
	w.P("},")
	sql := m.movedSQL()
	for _, one := range sql {
		if len(one.texts) == 0 {
			continue
		}
		if !one.list {
			w.P(one.name, ": ", "`", one.texts[0], "`,")
			continue
		}
		w.P(one.name, ": []string{")
		for _, text := range one.texts {
			w.P("`", text, "`,")
		}
		w.P("},")
	}
	w.P("}")
	w.P()
}

func quote(text string) string { return fmt.Sprintf("%q", text) }

// fieldOfColumn is the name in Go of the field of the message itself that is a column.
func (w *writer) fieldOfColumn(m *moved, column string) string {
	for _, n := range m.nodes {
		if n.column != nil && n.column.Name == column {
			return n.field.GoName
		}
	}
	w.fail("%s: add a field for the column %s", m.message.Desc.FullName(), column)
	return ""
}

// bound are the columns that what is sealed is bound to.
func (m *moved) bound() []string {
	if bound := m.options.GetBound(); len(bound) > 0 {
		return bound
	}
	return []string{"instance_id", "id"}
}

// place is where what is sealed of a row r is.
func (w *writer) sealedPlace(m *moved) string {
	args := []string{quote(m.GetName())}
	for _, column := range m.bound() {
		args = append(args, w.text(column))
	}
	return w.QualifiedGoIdent(secretPackage.Ident("Place")) + "(" + strings.Join(args, ", ") + ")"
}

func (w *writer) movedScan(m *moved, item string) {
	w.P("func scan", item, "(row ", pgxPackage.Ident("CollectableRow"), ", asked ", transferPackage.Ident("Asked"), ", at ", transferPackage.Ident("Arrival"), ") (", transferPackage.Ident("Item"), ", error) {")
	w.P("r := ", strings.Replace(w.row, "*", "&", 1), "{InstanceID: at.InstanceID}")
	var targets []string
	for _, c := range m.exported() {
		targets = append(targets, "&r."+w.rows.column(c.Name).Go)
	}
	w.P("err := row.Scan(", strings.Join(targets, ", "), ")")
	m.each(m.nodes, func(n *node) {
		if asked := askedOf(n.field); asked != 0 {
			empty := ""
			if n.column.Type == "[]byte" { // what is not there is absent, also where it is not NULL
				empty = " || len(r." + n.column.Go + ") == 0"
			}
			w.P("if !asked.", askedName[asked], empty, " { r.", n.column.Go, " = nil }")
		}
		if isSealed(n.field) {
			if err := w.models.seals.fits(m, n.column.Name); err != nil {
				w.fail("%w", err)
			}
			w.P("if err == nil { r.", n.column.Go, ", err = ", secretPackage.Ident("OpenStored"), "(at.Sealer, ", w.sealedPlace(m), ", r.", n.column.Go, ") }")
		}
	})
	w.P("return New", item, "(r), err")
	w.P("}")
	w.P()
}

var askedName = map[storagev1.Asked]string{
	storagev1.Asked_ASKED_PASSWORDS: "Passwords", storagev1.Asked_ASKED_OTP: "OTP", storagev1.Asked_ASKED_SECRETS: "Secrets",
}

func (w *writer) movedValues(m *moved, item string) {
	w.P("func values", item, "(item ", transferPackage.Ident("Item"), ", at ", transferPackage.Ident("Arrival"), ") ([]any, error) {")
	w.P("m, ok := item.(*", m.message.GoIdent, ")")
	w.P("if !ok { return nil, ", transferPackage.Ident("ErrKind"), " }")
	w.P("r := ", strings.Replace(w.row, "*", "&", 1), "{InstanceID: at.InstanceID}")
	w.P("Assign", item, "(r, m)")
	if m.has("creation_date") {
		w.P("if r.CreationDate.IsZero() { r.CreationDate = at.Now }")
	}
	optional := map[string]bool{}
	m.each(m.nodes, func(n *node) {
		optional[n.column.Name] = n.field.Desc.HasOptionalKeyword()
		if isSealed(n.field) {
			w.P("if err := ", transferPackage.Ident("Seal"), "(at.Sealer, &r.", n.column.Go, ", ", w.sealedPlace(m), "); err != nil { return nil, err }")
		}
	})
	var values []string
	for _, c := range m.carried {
		c = w.rows.column(c.Name)
		text, folded := strings.CutSuffix(c.Name, "_folded")
		switch {
		case folded:
			values = append(values, w.QualifiedGoIdent(resourcePackage.Ident("Fold"))+"(r."+w.rows.column(text).Go+")")
		case c.list(), c.Type == "[]byte" && !optional[c.Name]:
			values = append(values, w.QualifiedGoIdent(resourcePackage.Ident("NotNull"))+"(r."+c.Go+")")
		default:
			values = append(values, "r."+c.Go)
		}
	}
	w.P("return []any{", strings.Join(values, ", "), "}, nil")
	w.P("}")
	w.P()
}

// exported are the columns that an export reads.
func (m *moved) exported() []*column {
	var read []*column
	for _, c := range m.carried {
		if text, folded := strings.CutSuffix(c.Name, "_folded"); !folded || m.stored.column(text) == nil {
			read = append(read, c)
		}
	}
	return read
}

// movedCode writes the files of what moves, and the list of them.
func movedCode(plugin *protogen.Plugin, c *contract, found *models) (map[string]string, error) {
	all, err := c.findMoved(plugin, found)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, m := range all {
		w := &writer{GeneratedFile: plugin.NewGeneratedFile("moved_"+m.GetName()+".go", "github.com/writ-id/writ/gen/storage"), table: m.table, models: found, name: camel(m.GetName())}
		w.row = "*" + w.QualifiedGoIdent(dbPackage.Ident(m.rows.Name))
		w.movedFile(m)
		text, err := w.Content()
		if err := errors.Join(append(w.errs, err)...); err != nil {
			return nil, fmt.Errorf("%s: %w", m.message.Desc.FullName(), err)
		}
		files["moved_"+m.GetName()+".go"] = string(text)
	}
	g := plugin.NewGeneratedFile("moved.go", "github.com/writ-id/writ/gen/storage")
	g.P("// Code generated by contracts/generate/storage. DO NOT EDIT.")
	g.P()
	g.P("package storage")
	g.P()
	g.P("// Moved are all kinds of things that are exported and imported, in the order of their lists.")
	g.P("var Moved = ", transferPackage.Ident("Kinds"), "{")
	for _, m := range all {
		g.P("Moved", camel(m.GetName()), ",")
	}
	g.P("}")
	text, err := g.Content()
	files["moved.go"] = string(text)
	return files, err
}
