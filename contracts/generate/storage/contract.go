package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	storagev1 "github.com/writ-id/writ/gen/proto/writ/storage/v1"
)

// table is a table with the messages that are stored in it.
type table struct {
	*storagev1.Table
	stored, rows *model // what is written, and what is read
	assigned     []*protogen.Message
	filled       []*protogen.Message
	events       []*protogen.Message
	searches     []*search
}

// search is an operation that searches a table.
type search struct {
	request, result *protogen.Message
}

// contract is all of them, in the order of their names.
type contract struct {
	tables []*table
	byName map[string]*table
	byKind map[string]*table // by the aggregate that the rows themselves are
}

// readContract reads the tables of the contract and what belongs to them. All that does not
// fit is one error.
func readContract(plugin *protogen.Plugin, found *models, modelsOf func(*storagev1.Table) (stored, rows *model)) (*contract, error) {
	c := &contract{byName: map[string]*table{}, byKind: map[string]*table{}}
	var all []*protogen.Message
	for _, file := range plugin.Files {
		if file.Generate {
			all = append(all, file.Messages...)
		}
	}
	var errs []error
	for _, message := range all {
		of, ok := proto.GetExtension(message.Desc.Options(), storagev1.E_Table).(*storagev1.Table)
		if !ok || of == nil {
			continue
		}
		t := &table{Table: of}
		if t.stored, t.rows = modelsOf(of); t.stored == nil || t.rows == nil {
			errs = append(errs, fmt.Errorf("%s: there is no table or view %s %s: add it in a migration, or mend the name in the option table", message.Desc.FullName(), of.GetName(), of.GetRows()))
			continue
		}
		errs = append(errs, t.check(message))
		c.tables = append(c.tables, t)
		c.byName[of.GetName()] = t
		if of.GetSubject() == "" {
			c.byKind[of.GetAggregate()] = t
		}
	}
	slices.SortFunc(c.tables, func(a, b *table) int { return strings.Compare(a.GetName(), b.GetName()) })
	for _, message := range all {
		errs = append(errs, c.place(message))
	}
	for _, file := range plugin.Files {
		for _, service := range file.Services {
			for _, method := range service.Methods {
				c.findSearch(method)
			}
		}
	}
	return c, errors.Join(errs...)
}

// check refuses a table that names columns it does not have.
func (t *table) check(message *protogen.Message) error {
	needed := append([]string{"id", "sequence", "creation_date", "change_date", t.GetSubject(), t.GetOrg(), t.GetProject(), t.GetProjectGrant(), t.GetUser(), t.GetReader(), t.GetUnder()},
		append(slices.Clone(t.GetGrowing()), t.GetCounted()...)...)
	if !t.GetSystem() {
		needed = append(needed, "instance_id")
	}
	for _, name := range needed {
		if name != "" && t.rows.column(name) == nil {
			return fmt.Errorf("%s: the table %s has no column %s: add it in a migration, or mend the option table", message.Desc.FullName(), t.GetName(), name)
		}
	}
	return nil
}

// place gives a message to its table.
func (c *contract) place(message *protogen.Message) error {
	if movedOf(message) != nil {
		return nil
	}
	options := message.Desc.Options()
	event := eventOf(message)
	name := proto.GetExtension(options, storagev1.E_Of).(string)
	if own, ok := proto.GetExtension(options, storagev1.E_Table).(*storagev1.Table); ok && own != nil {
		name = own.GetName()
	}
	t := c.byName[name]
	switch {
	case name == "" && event != nil:
		t = c.byKind[event.GetAggregate()]
	case name != "" && t == nil:
		return fmt.Errorf("%s: there is no table %s: name in the option of one that a message has by (writ.storage.v1.table)", message.Desc.FullName(), name)
	}
	switch {
	case t == nil:
	case event != nil:
		t.events = append(t.events, message)
	case fieldOf(message, detailsName) != nil:
		t.filled = append(t.filled, message)
	default:
		t.assigned = append(t.assigned, message)
	}
	return nil
}

// findSearch finds out whether a method searches a table.
func (c *contract) findSearch(method *protogen.Method) {
	if fieldOf(method.Input, "writ.object.v3alpha.ListQuery") == nil {
		return
	}
	for _, field := range method.Output.Fields {
		if !field.Desc.IsList() || field.Message == nil {
			continue
		}
		for _, t := range c.tables {
			if slices.Contains(t.filled, field.Message) {
				t.searches = append(t.searches, &search{method.Input, field.Message})
			}
		}
	}
}

const detailsName = "writ.object.v3alpha.Details"

// fieldOf returns the field of a message that is of a type.
func fieldOf(message *protogen.Message, name protoreflect.FullName) *protogen.Field {
	for _, field := range message.Fields {
		if field.Message != nil && field.Message.Desc.FullName() == name && !field.Desc.IsList() {
			return field
		}
	}
	return nil
}

// node is a field of a stored message and what becomes of it.
type node struct {
	field   *protogen.Field
	column  *column // nil: below, or details
	below   []*node // of a message within the message
	details bool
}

// known are the messages that a column holds.
var known = []protoreflect.FullName{"google.protobuf.Duration", "google.protobuf.Timestamp", "google.protobuf.Struct"}

// nodes finds the columns of the fields of a message. Path are the fields that lead to it.
func (t *table) nodes(message *protogen.Message, path ...string) ([]*node, error) {
	var made []*node
	var errs []error
	for _, field := range message.Fields {
		if isComputed(field) {
			continue
		}
		n, err := t.node(field, append(slices.Clone(path), string(field.Desc.Name())))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		made = append(made, n)
	}
	return made, errors.Join(errs...)
}

func isComputed(field *protogen.Field) bool {
	return proto.GetExtension(field.Desc.Options(), storagev1.E_Computed).(bool)
}

func (t *table) node(field *protogen.Field, path []string) (*node, error) {
	c := t.find(field, path)
	n := &node{field: field, column: c}
	switch {
	case c != nil && fits(field, c):
		return n, nil
	case field.Desc.IsMap() || field.Message == nil || slices.Contains(known, field.Message.Desc.FullName()):
	case field.Message.Desc.FullName() == detailsName:
		n.details = true
		return n, nil
	case !field.Desc.IsList():
		var err error
		n.column = nil
		n.below, err = t.nodes(field.Message, path...)
		return n, err
	}
	return nil, fmt.Errorf("%s: the table %s has no column for it: add the column in a migration, name another by (writ.storage.v1.column), or set (writ.storage.v1.computed) = true", field.Desc.FullName(), t.GetName())
}

// find returns the column of a field.
func (t *table) find(field *protogen.Field, path []string) *column {
	if named := proto.GetExtension(field.Desc.Options(), storagev1.E_Column).(string); named != "" {
		return t.rows.column(named)
	}
	for from := range path {
		name := strings.Join(path[from:], "_")
		for _, spelling := range []string{name, name + "_nanos"} {
			if c := t.rows.column(spelling); c != nil {
				return c
			}
		}
	}
	return nil
}

// fits says whether a column can hold a field.
func fits(field *protogen.Field, c *column) bool {
	switch {
	case field.Desc.IsMap():
		return false
	case field.Desc.IsList():
		return c.list()
	case field.Message == nil:
		return !c.list()
	}
	switch field.Message.Desc.FullName() {
	case "google.protobuf.Duration":
		return c.is("int64")
	case "google.protobuf.Timestamp":
		return c.is("time.Time")
	case "google.protobuf.Struct":
		return c.Type == "json.RawMessage"
	}
	return c.list() && listWithin(field) != nil
}

// listWithin returns the list in a message that is there so that a list can be present and
// empty.
func listWithin(field *protogen.Field) *protogen.Field {
	if field.Message != nil && len(field.Message.Fields) == 1 && field.Message.Fields[0].Desc.IsList() {
		return field.Message.Fields[0]
	}
	return nil
}

// kindOf returns the column that says which member of a oneof is set.
func (t *table) kindOf(oneof *protogen.Oneof) (*column, error) {
	name := proto.GetExtension(oneof.Desc.Options(), storagev1.E_Kind).(string)
	if name == "" {
		return nil, nil
	}
	c := t.rows.column(name)
	if c == nil {
		return nil, fmt.Errorf("%s: the table %s has no column %s: add it in a migration, or mend the option kind", oneof.Desc.FullName(), t.GetName(), name)
	}
	return c, nil
}
