package server_test

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestREL106_TheLogHasOneNameForARequest reads every call that logs: the ID of a request has
// the name that policy.LogID gives it, so that one search finds what was logged of it.
func TestREL106_TheLogHasOneNameForARequest(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	calls, named := 0, 0
	for _, tree := range []string{"impl", "cmd"} {
		err := fs.WalkDir(os.DirFS(root), tree, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := gotoken.NewFileSet()
			file, err := parser.ParseFile(files, filepath.Join(root, path), nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(node ast.Node) bool {
				call, ok := node.(*ast.CallExpr)
				if !ok {
					return true
				}
				called, ok := call.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				switch called.Sel.Name {
				case "LogID":
					named++
				case "Debug", "Info", "Warn", "Error", "DebugContext", "InfoContext", "WarnContext", "ErrorContext", "LogAttrs", "Log", "With":
				default:
					return true
				}
				calls++
				for _, arg := range call.Args[min(1, len(call.Args)):] {
					switch text, _ := arg.(*ast.BasicLit); {
					case text == nil || strings.HasSuffix(called.Sel.Name, "Attrs"): // its text is the message
					case text.Value == `"request"`, text.Value == `"request_id"`, text.Value == `"requestId"`:
						t.Errorf("%s: a request is logged as %s, not by policy.LogID", files.Position(arg.Pos()), text.Value)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if calls < 50 || named < 8 {
		t.Errorf("%d calls that log, %d with a request: the test did not find them", calls, named)
	}
}
