// Package impl_test holds the rules that no linter has, for all packages of the program.
package impl_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// contexts are where a value may be put into a context: the chain, and where a library asks for it.
var contexts = []string{
	"impl/core/policy/",              // the call, the request that it came by, and its span
	"impl/core/upstream/upstream.go", // the client of golang.org/x/oauth2
	"impl/core/objectstore/gcs.go",   // the same
	"impl/server/resets.go",          // the connection, by ConnContext of net/http
}

// assigned are the package variables that the program assigns all the same.
var assigned = []string{
	"impl/core/store/pgtest/pgtest.go: current", // the server of a test binary, which TestMain starts
}

// TestNothingIsWhispered looks for what decides something past the arguments and the Config of
// those who do it: values of contexts, and package variables that change while the program
// runs. What is generated is not looked at.
func TestNothingIsWhispered(t *testing.T) {
	t.Parallel()
	packages := map[string][]*source{}
	fset := token.NewFileSet()
	for _, root := range []string{"impl", "cmd", "contracts"} {
		err := filepath.WalkDir(filepath.Join("..", root), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") {
				return err
			}
			file, err := parser.ParseFile(fset, path, nil, 0)
			name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
			dir := filepath.Dir(name) + " " + file.Name.Name
			packages[dir] = append(packages[dir], &source{name, fset, file})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(packages) < 50 {
		t.Fatalf("only %d packages were found", len(packages))
	}
	for _, files := range packages {
		for _, problem := range whispers(files) {
			t.Error(problem)
		}
	}
}

func TestWhispersAreFound(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, path, text, want string }{
		{"a value of a context", "a/a.go", `import "context"; var _ = context.WithValue`, "context.WithValue"},
		{"the same by another name", "a/a.go", `import c "context"; func f() { _ = c.WithValue(nil, 1, 2) }`, "context.WithValue"},
		{"where it may be", "impl/core/policy/a.go", `import "context"; func f() { _ = context.WithValue(nil, 1, 2) }`, ""},
		{"a context of one's own", "a/a.go", `type c struct{}; func (c) Value(key any) any { return nil }`, "a context of its own"},
		{"the value of something else", "a/a.go", `type c struct{}; func (c) Value() int { return 0 }`, ""},
		{"a variable of another package", "a/a.go", `import "net/http"; func f() { http.DefaultClient = nil }`, "http.DefaultClient"},
		{"a field of one, in a test", "a/a_test.go", `import "example.com/limit"; func f() { limit.Of.Most++ }`, "limit.Of"},
		{"an exported one", "a/a.go", `var Limit int; func f() { Limit = 1 }`, "Limit"},
		{"an exported one, in a test", "a/a_test.go", `var Limit int; func f() { Limit = 1 }`, "Limit"},
		{"one that is not exported", "a/a.go", `var limit int; func f() { limit++ }`, "limit"},
		{"the entry of one", "a/a.go", `var known = map[string]int{}; func f() { known["a"] = 1 }`, "known"},
		{"one that is not exported, in a test", "a/a_test.go", `var limit int; func f() { limit = 1 }`, ""},
		{"one that changes by a method", "a/a.go", `import "sync/atomic"; var cheap atomic.Bool`, "cheap"},
		{"one with a type of its own that does", "a/a.go", `import "sync/atomic"; var known atomic.Pointer[int]`, "known"},
		{"a local one of that name", "a/a.go", `var limit int; func f() { limit := 1; limit = 2; _ = limit }`, ""},
		{"a field of a local one", "a/a.go", `import "net/http"; func f(http struct{ Client int }) { http.Client = 1 }`, ""},
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, test.path, "package a; "+test.text, 0)
		if err != nil {
			t.Fatal(err)
		}
		got := whispers([]*source{{test.path, fset, file}})
		if test.want == "" && len(got) > 0 || test.want != "" && (len(got) != 1 || !strings.Contains(got[0], test.want)) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// source is a file of a package.
type source struct {
	name string // from the root of the repository
	fset *token.FileSet
	*ast.File
}

// whispers returns what is wrong in the files of a package.
func whispers(files []*source) (problems []string) {
	variables := map[string]bool{}
	for _, f := range files {
		for name := range f.variables() {
			variables[name] = true
		}
	}
	for _, f := range files {
		if !ast.IsGenerated(f.File) {
			problems = append(problems, f.whispers(variables)...)
		}
	}
	return problems
}

func (f *source) whispers(variables map[string]bool) (problems []string) {
	test, imports := strings.HasSuffix(f.name, "_test.go"), f.imports()
	mayPut := slices.ContainsFunc(contexts, func(at string) bool { return strings.HasPrefix(f.name, at) })
	wrong := func(at ast.Node, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("%s:%d: %s", f.name, f.fset.Position(at.Pos()).Line, fmt.Sprintf(format, args...)))
	}
	assigns := func(to ast.Expr) {
		switch of, name := f.variable(to, imports, variables); {
		case of != "":
			wrong(to, "%s.%s is a variable of another package: hand it to a constructor", of, name)
		case name != "" && (!test || ast.IsExported(name)) && !slices.Contains(assigned, f.name+": "+name):
			wrong(to, "%s is a variable of the package: make it a value of a Config, or an argument", name)
		}
	}
	ast.Inspect(f.File, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, to := range n.Lhs {
					assigns(to)
				}
			}
		case *ast.IncDecStmt:
			assigns(n.X)
		case *ast.SelectorExpr:
			if !mayPut && imported(n, imports) == "context" && n.Sel.Name == "WithValue" {
				wrong(n, "context.WithValue: what decides something is an argument")
			}
		case *ast.FuncDecl:
			if !mayPut && n.Recv != nil && n.Name.Name == "Value" && n.Type.Params.NumFields() == 1 && n.Type.Results.NumFields() == 1 {
				wrong(n, "a context of its own: what decides something is an argument")
			}
		}
		return true
	})
	if !test {
		for name, spec := range f.variables() {
			if imported(spec.Type, imports) == "sync/atomic" {
				wrong(spec, "%s is a variable of the package, which changes: make it a value of a Config, or an argument", name)
			}
		}
	}
	return problems
}

// imports returns the paths of the packages that a file imports, by their names there.
func (f *source) imports() map[string]string {
	paths := map[string]string{}
	for _, one := range f.Imports {
		path := strings.Trim(one.Path.Value, `"`)
		name := path[strings.LastIndex(path, "/")+1:]
		if one.Name != nil {
			name = one.Name.Name
		}
		paths[name] = path
	}
	return paths
}

// variables are those of the package that a file declares.
func (f *source) variables() iter.Seq2[string, *ast.ValueSpec] {
	return func(yield func(string, *ast.ValueSpec) bool) {
		for _, declared := range f.Decls {
			group, ok := declared.(*ast.GenDecl)
			if !ok || group.Tok != token.VAR {
				continue
			}
			for _, spec := range group.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					if !yield(name.Name, spec.(*ast.ValueSpec)) {
						return
					}
				}
			}
		}
	}
}

// imported returns the path of the package that a name is of, "" for one of this package.
func imported(at ast.Expr, imports map[string]string) string {
	switch at := at.(type) {
	case *ast.IndexExpr: // of a generic type
		return imported(at.X, imports)
	case *ast.SelectorExpr:
		if of, ok := at.X.(*ast.Ident); ok && of.Obj == nil {
			return imports[of.Name]
		}
	}
	return ""
}

// variable returns the variable of a package that an assignment to an expression changes, or
// something in it; the package is "" for this one, and both for what is no such variable.
func (f *source) variable(at ast.Expr, imports map[string]string, variables map[string]bool) (of, name string) {
	switch at := at.(type) {
	case *ast.SelectorExpr:
		if imported(at, imports) != "" {
			return at.X.(*ast.Ident).Name, at.Sel.Name
		}
		return f.variable(at.X, imports, variables)
	case *ast.IndexExpr:
		return f.variable(at.X, imports, variables)
	case *ast.StarExpr:
		return f.variable(at.X, imports, variables)
	case *ast.ParenExpr:
		return f.variable(at.X, imports, variables)
	case *ast.Ident:
		if at.Name != "_" && variables[at.Name] && (at.Obj == nil || f.Scope.Lookup(at.Name) == at.Obj) {
			return "", at.Name
		}
	}
	return "", ""
}
