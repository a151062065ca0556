package schema

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Query is a statement of sql/queries.
type Query struct {
	Name, File string
	Text       string // of SQL, with the parameters of sqlc
	Statement  Node
}

var beginning = regexp.MustCompile(`(?m)^-- name: (\w+) :\w+$`)

// ReadQueries reads the statements of a directory.
func ReadQueries(dir string) ([]*Query, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.sql"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%s: there are no statements, %w", dir, err)
	}
	var all []*Query
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		some, err := QueriesOf(file, string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// QueriesOf returns the statements of a file.
func QueriesOf(file, text string) ([]*Query, error) {
	var all []*Query
	places := append(beginning.FindAllStringSubmatchIndex(text, -1), []int{len(text)})
	for i, at := range places[:len(places)-1] {
		q := &Query{Name: text[at[2]:at[3]], File: filepath.Base(file), Text: text[at[0]:places[i+1][0]]}
		statements, err := Parse(q.Text)
		if err != nil || len(statements) != 1 {
			return nil, fmt.Errorf("%s: %s is not one statement: %w", file, q.Name, err)
		}
		q.Statement = statements[0]
		all = append(all, q)
	}
	return all, nil
}

// Walk calls visit for each node below and including n, with its kind.
func (n Node) Walk(visit func(kind string, n Node)) { walk(map[string]any(n), visit) }

func walk(value any, visit func(string, Node)) {
	switch v := value.(type) {
	case []any:
		for _, one := range v {
			walk(one, visit)
		}
	case map[string]any:
		for kind, below := range v {
			if node, ok := below.(map[string]any); ok {
				visit(kind, node)
			}
			walk(below, visit)
		}
	}
}

// Parameter returns the name of the parameter that n is, in any of the forms that sqlc
// knows, "" if it is none. A cast of one is one.
func (n Node) Parameter() string {
	if cast := n.In("TypeCast"); cast != nil {
		return cast.In("arg").Parameter()
	}
	if e := n.In("A_Expr"); e != nil && strings.Join(e.names("name"), "") == "@" && e.In("lexpr") == nil {
		of := e.In("rexpr")
		if cast := of.In("TypeCast"); cast != nil { // @ binds less than ::
			of = cast.In("arg")
		}
		return strings.Join(of.In("ColumnRef").names("fields"), ".")
	}
	if call := n.In("FuncCall"); call != nil {
		if name := strings.Join(call.names("funcname"), "."); name != "sqlc.arg" && name != "sqlc.narg" {
			return ""
		}
		if args := call.List("args"); len(args) == 1 {
			return cmp.Or(args[0].In("A_Const", "sval").Text("sval"), strings.Join(args[0].In("ColumnRef").names("fields"), "."))
		}
	}
	return ""
}

// Call returns the name of the function that n calls, "" for none, and with what.
func (n Node) Call() (string, []Node) {
	if cast := n.In("TypeCast"); cast != nil {
		return cast.In("arg").Call()
	}
	call := n.In("FuncCall")
	return strings.Join(call.names("funcname"), "."), call.List("args")
}
