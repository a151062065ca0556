package endpoint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writ-id/writ/gen/oauth"
)

// Every error that the endpoints send is one of the contract's enum, by its generated
// constant; and the contract lists none that nothing sends.
func TestErrorsAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	constants := errorConstants(t)
	sent := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if from, ok := n.X.(*ast.Ident); ok && from.Name == "oauth" {
					sent[n.Sel.Name] = true
				}
			case *ast.CallExpr: // oauth.OAuthErrorError("…"), or a text where one is expected
				if to := nameOf(n.Fun); to == "OAuthErrorError" || to == "Refuse" && len(n.Args) > 1 && isText(n.Args[0]) {
					t.Errorf("%s makes an error of a text", path)
				}
			case *ast.CompositeLit:
				if nameOf(n.Type) == "Refusal" && len(n.Elts) > 0 && isText(n.Elts[0]) {
					t.Errorf("%s makes an error of a text", path)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	listed := 0
	for name, value := range constants {
		listed++
		if !sent[name] {
			t.Errorf("nothing sends %q", value)
		}
		if !oauth.OAuthErrorError(value).Valid() {
			t.Errorf("the contract lacks %q", value)
		}
	}
	if listed < 17 {
		t.Errorf("the contract lists %d errors", listed)
	}
}

// errorConstants returns the generated constants of the enum, by name.
func errorConstants(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../../gen/oauth/oauth.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, decl := range file.Decls {
		values, ok := decl.(*ast.GenDecl)
		if !ok || values.Tok != token.CONST {
			continue
		}
		for _, spec := range values.Specs {
			spec := spec.(*ast.ValueSpec)
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "OAuthErrorError" {
				found[spec.Names[0].Name] = strings.Trim(spec.Values[0].(*ast.BasicLit).Value, `"`)
			}
		}
	}
	return found
}

func nameOf(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.Ident:
		return of.Name
	case *ast.SelectorExpr:
		return of.Sel.Name
	}
	return ""
}

func isText(value ast.Expr) bool {
	if pair, ok := value.(*ast.KeyValueExpr); ok {
		value = pair.Value
	}
	_, ok := value.(*ast.BasicLit)
	return ok
}
