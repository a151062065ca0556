package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"github.com/writ-id/writ/contracts/generate/schema"
)

// column is a column of a model that sqlc made.
type column struct {
	Name string // of SQL
	Go   string // the field of the model
	Type string // of Go: *string
}

// is says whether a column is of a type or a pointer to it, and pointer which.
func (c *column) is(of string) bool { return strings.TrimPrefix(c.Type, "*") == of }

func (c *column) pointer() bool { return strings.HasPrefix(c.Type, "*") }

func (c *column) list() bool { return strings.HasPrefix(c.Type, "[]") && c.Type != "[]byte" }

// base is the type without pointer or list.
func (c *column) base() string {
	if c.list() {
		return strings.TrimPrefix(c.Type, "[]")
	}
	return strings.TrimPrefix(c.Type, "*")
}

// model is a struct that sqlc made of a table or view.
type model struct {
	Name    string
	Columns []*column
}

func (m *model) column(name string) *column {
	for _, c := range m.Columns {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// models is what sqlc made: the models by name, and what its queries answer.
type models struct {
	byName  map[string]*model
	answers map[string]string // the type of the row that a query answers, by its name
	imports map[string]string // the path of a package, by the name it is used with
	schema  schema.Schema     // what the migrations make
	seals   *seals            // which columns the master key seals
	queries []*schema.Query   // the statements by hand
}

// readModels reads the Go code that sqlc made, and what there is in the folder sql.
func readModels(dir, sql string) (*models, error) {
	found := &models{byName: map[string]*model{}, answers: map[string]string{}, imports: map[string]string{}}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
		if err != nil {
			return nil, err
		}
		found.add(file)
	}
	if len(found.byName) == 0 {
		return nil, fmt.Errorf("there is no model in %s: run make generate, which makes them before", dir)
	}
	if found.schema, err = schema.Read(filepath.Join(sql, "migrations")); err != nil {
		return nil, err
	}
	if found.queries, err = schema.ReadQueries(filepath.Join(sql, "queries")); err != nil {
		return nil, err
	}
	found.seals, err = readSeals(filepath.Join(sql, "sealed.yaml"), found.schema)
	return found, err
}

func (m *models) add(file *ast.File) {
	for _, one := range file.Imports {
		path, _ := strconv.Unquote(one.Path.Value)
		name := path[strings.LastIndexByte(path, '/')+1:]
		if one.Name != nil {
			name = one.Name.Name
		}
		m.imports[name] = path
	}
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if of, ok := spec.(*ast.TypeSpec); ok {
					if fields, ok := of.Type.(*ast.StructType); ok {
						m.byName[of.Name.Name] = modelOf(of.Name.Name, fields)
					}
				}
			}
		case *ast.FuncDecl:
			if d.Recv != nil && d.Type.Results != nil && len(d.Type.Results.List) > 1 {
				m.answers[d.Name.Name] = typeText(d.Type.Results.List[0].Type)
			}
		}
	}
}

func modelOf(called string, of *ast.StructType) *model {
	made := &model{Name: called}
	for _, field := range of.Fields.List {
		if field.Tag == nil || len(field.Names) != 1 {
			continue
		}
		tag, _ := strconv.Unquote(field.Tag.Value)
		if name := reflect.StructTag(tag).Get("db"); name != "" {
			made.Columns = append(made.Columns, &column{name, field.Names[0].Name, typeText(field.Type)})
		}
	}
	return made
}

func typeText(of ast.Expr) string {
	var b strings.Builder
	_ = printer.Fprint(&b, token.NewFileSet(), of) // into memory
	return b.String()
}

// camel spells a name of SQL as Go does for types: user_metadata is UserMetadata.
func camel(name string) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == ' ' }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}
