package store_test

import (
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/store/pgtest"
)

func step(up string) *fstest.MapFile { return &fstest.MapFile{Data: []byte("-- +goose Up\n" + up)} }

// TestREL074_AStepThatDoesNotGetItsLockGivesWayAndIsTriedAgain: a long transaction reads a
// table that a step changes. Calls that come meanwhile get their turn, and the step succeeds
// when the transaction has ended. The steps before it are done once.
func TestREL074_AStepThatDoesNotGetItsLockGivesWayAndIsTriedAgain(t *testing.T) {
	t.Parallel()
	ctx, url := t.Context(), pgtest.Empty(t)
	files := fstest.MapFS{"00001_notes.sql": step("CREATE TABLE notes (id int);")}
	if _, err := store.MigrateFiles(ctx, url, files, nil); err != nil {
		t.Fatal(err)
	}
	long, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer long.Close(ctx)
	if _, err := long.Exec(ctx, "BEGIN; LOCK TABLE notes IN ACCESS SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	call, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer call.Close(ctx)
	files["00002_tags.sql"] = step("CREATE TABLE tags (id int);")
	files["00003_text.sql"] = step("ALTER TABLE notes ADD COLUMN text text;")
	attempts := 0
	ran, err := store.MigrateFiles(ctx, url, files, func(attempt int) {
		attempts = attempt
		if _, err := call.Exec(ctx, "SELECT count(*) FROM notes"); err != nil {
			t.Errorf("a call between the attempts: %v", err)
		}
		if attempt == 2 {
			if _, err := long.Exec(ctx, "COMMIT"); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil || attempts != 2 || len(ran) != 2 {
		t.Errorf("after %d attempts got %v, %v", attempts, ran, err)
	}
}

func TestAStepThatIsWrongIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{"00001_notes.sql": step("CREATE TABLE notes (id nothing);")}
	_, err := store.MigrateFiles(t.Context(), pgtest.Empty(t), files, func(int) { t.Error("it was tried again") })
	if err == nil {
		t.Error("it succeeded")
	}
}

// TestREL073_ANodeServesOnTheSchemaOfALaterRelease: nodes of both run during an upgrade, and
// when it is taken back those of the older one start anew.
func TestREL073_ANodeServesOnTheSchemaOfALaterRelease(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := pgtest.Connect(t, url, 1)
	if _, err := db.Pool.Exec(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) SELECT max(version_id) + 1, true FROM goose_db_version"); err != nil {
		t.Fatal(err)
	}
	if err := store.CheckSchema(t.Context(), url); err != nil {
		t.Error("serve:", err)
	}
	if ran, err := store.Migrate(t.Context(), url); err != nil || len(ran) != 0 {
		t.Errorf("serve --migrate: %v, %v", ran, err)
	}
}
