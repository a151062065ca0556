// Command lint is the linters of this repository as one program that `go vet` runs:
//
//	go vet -vettool=bin/lint ./...
//
// So packages are looked at side by side, and one that has not changed, nor what it imports,
// is not looked at again. A comment //nolint:name at the end of the line of a finding drops it;
// generated files are not looked at.
package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"slices"
	"strings"

	errorlint "codeberg.org/polyfloyd/go-errorlint/errorlint"
	gocritic "github.com/go-critic/go-critic/checkers/analyzer"
	"github.com/golangci/misspell"
	"github.com/golangci/unconvert"
	"github.com/gordonklaus/ineffassign/pkg/ineffassign"
	"github.com/gostaticanalysis/nilerr"
	"github.com/kisielk/errcheck/errcheck"
	"github.com/sanposhiho/wastedassign/v2"
	"github.com/timakin/bodyclose/passes/bodyclose"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/analysis/unitchecker"
	"honnef.co/go/tools/analysis/lint"
	"honnef.co/go/tools/quickfix"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

// unwanted are checks of staticcheck that are a matter of taste.
var unwanted = []string{"ST1000", "ST1003", "ST1016", "ST1020", "ST1021", "ST1022", "ST1023"}

// unchecked are functions whose error says nothing that could be acted on; Close is another
// (closes).
var unchecked = []string{"fmt.Fprintf", "fmt.Fprintln", "os.Remove"}

func main() {
	errcheck.DefaultExcludedSymbols = append(errcheck.DefaultExcludedSymbols, unchecked...)
	all := slices.Clone(vet.Suite)
	all = append(all,
		errcheck.Analyzer, ineffassign.Analyzer, wastedassign.Analyzer, bodyclose.Analyzer, nilerr.Analyzer,
		errorlint.NewAnalyzer(), gocritic.Analyzer, conversions, spelling, dead, whole)
	for _, group := range [][]*lint.Analyzer{staticcheck.Analyzers, simple.Analyzers, stylecheck.Analyzers, quickfix.Analyzers} {
		for _, one := range group {
			if !slices.Contains(unwanted, one.Analyzer.Name) {
				all = append(all, one.Analyzer)
			}
		}
	}
	gocritic.Analyzer.Name = "gocritic" // not that of one of its parts
	for _, one := range all {
		quiet(one)
	}
	unitchecker.Main(all...)
}

// quiet has an analyzer pass over generated files and over what a comment keeps.
func quiet(a *analysis.Analyzer) {
	run := a.Run
	a.Run = func(pass *analysis.Pass) (any, error) {
		report, own, skip := pass.Report, *pass, skips(pass)
		own.Report = func(d analysis.Diagnostic) {
			at := pass.Fset.Position(d.Pos)
			if !skip(at, a.Name) && (a != errcheck.Analyzer || !closes(pass, at)) {
				d.Message += " (" + a.Name + ")"
				report(d)
			}
		}
		return run(&own)
	}
}

// closes reports whether a call closes something: what was read to the end cannot lose anything,
// and what was written is checked by who asks for the error.
func closes(pass *analysis.Pass, at token.Position) bool {
	text, err := pass.ReadFile(at.Filename)
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(strings.Join(strings.SplitAfter(string(text), "\n")[at.Line-1:at.Line], ""), ".Close")
	return strings.HasPrefix(rest, "(")
}

// skips returns what says of a place whether findings of an analyzer are dropped there.
func skips(pass *analysis.Pass) func(token.Position, string) bool {
	generated, kept := map[string]bool{}, map[token.Position]string{}
	for _, file := range pass.Files {
		name := pass.Fset.Position(file.Pos()).Filename
		generated[name] = ast.IsGenerated(file)
		for _, group := range file.Comments {
			for _, comment := range group.List {
				if _, names, found := strings.Cut(comment.Text, "//nolint:"); found {
					names, _, _ = strings.Cut(names, " ")
					kept[token.Position{Filename: name, Line: pass.Fset.Position(comment.Pos()).Line}] = "," + names + ","
				}
			}
		}
	}
	return func(at token.Position, analyzer string) bool {
		return generated[at.Filename] || strings.Contains(kept[token.Position{Filename: at.Filename, Line: at.Line}], ","+analyzer+",")
	}
}

// conversions finds those that change nothing.
var conversions = &analysis.Analyzer{Name: "unconvert", Doc: "finds conversions that change nothing", Run: func(pass *analysis.Pass) (any, error) {
	for _, at := range unconvert.Run(pass) {
		report(pass, at, "the conversion changes nothing")
	}
	return nil, nil
}}

// spelling finds misspelled words in comments.
var spelling = &analysis.Analyzer{Name: "misspell", Doc: "finds misspelled words in comments", Run: func(pass *analysis.Pass) (any, error) {
	words := misspell.New()
	for _, file := range pass.Files {
		name := pass.Fset.Position(file.Pos()).Filename
		text, err := os.ReadFile(name)
		if err != nil || ast.IsGenerated(file) {
			continue // made by cgo
		}
		_, found := words.ReplaceGo(string(text))
		for _, one := range found {
			report(pass, token.Position{Filename: name, Line: one.Line}, one.Original+" is spelled "+one.Corrected)
		}
	}
	return nil, nil
}}

// dead finds what nobody uses.
var dead = &analysis.Analyzer{Name: "unused", Doc: "finds what nobody uses", Requires: []*analysis.Analyzer{unused.Analyzer.Analyzer}, Run: func(pass *analysis.Pass) (any, error) {
	for _, one := range pass.ResultOf[unused.Analyzer.Analyzer].(unused.Result).Unused {
		report(pass, one.Position, one.Kind+" "+one.Name+" is unused")
	}
	return nil, nil
}}

// whole finds rows of batches (gen/db, …Entry) that lack a column, which would be empty in each row.
var whole = &analysis.Analyzer{Name: "whole", Doc: "finds rows of batches that lack a column", Run: func(pass *analysis.Pass) (any, error) {
	for _, file := range pass.Files {
		ast.Inspect(file, func(node ast.Node) bool {
			literal, ok := node.(*ast.CompositeLit)
			if !ok {
				return true
			}
			named, ok := pass.TypesInfo.TypeOf(literal).(*types.Named)
			if !ok || !strings.HasSuffix(named.Obj().Name(), "Entry") || !strings.HasSuffix(named.Obj().Pkg().Path(), "/gen/db") {
				return true
			}
			of, ok := named.Underlying().(*types.Struct)
			if ok && len(literal.Elts) < of.NumFields() {
				pass.Reportf(literal.Pos(), "%s has %d columns, of which %d are given", named.Obj().Name(), of.NumFields(), len(literal.Elts))
			}
			return true
		})
	}
	return nil, nil
}}

// report reports a finding at the beginning of a line.
func report(pass *analysis.Pass, at token.Position, message string) {
	for _, file := range pass.Files {
		if of := pass.Fset.File(file.Pos()); of.Name() == at.Filename && at.Line <= of.LineCount() {
			pass.Reportf(of.LineStart(at.Line), "%s", message)
			return
		}
	}
}
