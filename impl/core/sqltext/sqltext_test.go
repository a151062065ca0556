package sqltext_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/impl/core/sqltext"
	"github.com/writ-id/writ/impl/core/sqltext/sqltexttest"
	"github.com/writ-id/writ/impl/core/store/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestPostgreSQLTakesEachStatement prepares all of impl, but those of tables that are there only
// during an import (package transfer).
func TestPostgreSQLTakesEachStatement(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	err = filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".sql" || strings.Contains(filepath.ToSlash(path), "/testdata/") || filepath.Base(path) == "staged.sql" {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil {
			found++
			t.Log(path)
			sqltexttest.Prepare(t, conn, sqltext.Read(string(text)))
		}
		return err
	})
	if err != nil || found < 4 {
		t.Errorf("found %d files, %v", found, err)
	}
}

const file = `
-- name: ByDomain
-- Why it is so.
SELECT FROM organizations t WHERE /*[*/ EXISTS (SELECT FROM domains d
    WHERE d.org_id = t.id AND /*:condition*/ true /**/ AND /*:other*/ false /**/) /*]*/;

-- name: All
SELECT id FROM organizations ORDER BY /*:order*/ id /**/, /*:order*/ id /**/ LIMIT 1;
`

func TestHolesAreFilled(t *testing.T) {
	t.Parallel()
	f := sqltext.Read(file)
	if got, want := f.SQL("ByDomain", "other", "b", "condition", "a"), "EXISTS (SELECT FROM domains d\n    WHERE d.org_id = t.id AND a AND b)"; got != want {
		t.Errorf("got %q", got)
	}
	if got, want := f.SQL("All", "order", "name"), "SELECT id FROM organizations ORDER BY name, name LIMIT 1"; got != want {
		t.Errorf("got %q", got)
	}
	for name, do := range map[string]func(){
		"no such statement":   func() { f.SQL("Nothing") },
		"a hole is left":      func() { f.SQL("ByDomain", "condition", "a") },
		"one that is none":    func() { f.SQL("All", "limit", "1") },
		"one too many":        func() { f.SQL("All", "order", "id", "limit", "1") },
		"no statement":        func() { sqltext.Read("SELECT 1") },
		"the same name again": func() { sqltext.Read(file + file) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			do()
		}()
	}
}
