package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/writ-id/writ/impl/core/admission"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/store/pgtest"
)

func TestREL006_AnOutageIsNeitherYesNorNo(t *testing.T) {
	t.Parallel()
	server := func(code string) error { return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code}) }
	const none = fault.Kind(-1)
	for _, test := range []struct {
		name string
		err  error
		want fault.Kind
	}{
		{"the server shuts down", server("57P01"), fault.Unavailable},
		{"too many connections", server("53300"), fault.Unavailable},
		{"a conflict that outlasted its retries", server("40001"), fault.Unavailable},
		{"a lock that was waited for too long", server("55P03"), fault.Unavailable},
		{"a statement that took too long", server("57014"), fault.Unavailable},
		{"a read-only server", server("25006"), fault.Unavailable},
		{"the connection broke", io.ErrUnexpectedEOF, fault.Unavailable},
		{"it took too long", context.DeadlineExceeded, fault.Unavailable},
		{"too many searches", admission.ErrFull, fault.Unavailable},
		{"the caller went away", context.Canceled, fault.Canceled},
		{"a text that cannot be stored", server("22021"), fault.InvalidArgument},
		{"a constraint", server("23505"), none},
		{"a defect of ours", server("42601"), none},
		{"something else that says so", errors.New("conn closed"), none},
		{"no row", pgx.ErrNoRows, none},
		{"nothing", nil, none},
	} {
		got := none
		if refusal := store.Fault(test.err); refusal != nil {
			if got = refusal.Kind; !errors.Is(refusal, test.err) {
				t.Errorf("%s: the log does not see the cause: %v", test.name, refusal)
			}
		}
		if got != test.want {
			t.Errorf("%s: got kind %d, want %d", test.name, got, test.want)
		}
	}
}

func TestREL006_WhatIsClosedIsAnOutage(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t, 1)
	conn, err := db.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Conn().Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = conn.Exec(t.Context(), "SELECT 1")
	if refusal := store.Fault(err); refusal == nil || refusal.Kind != fault.Unavailable {
		t.Errorf("a closed connection: %v is %v", err, refusal)
	}
	conn.Release()
	db.Close()
	_, err = db.Pool.Exec(t.Context(), "SELECT 1")
	if refusal := store.Fault(err); refusal == nil || refusal.Kind != fault.Unavailable {
		t.Errorf("a closed pool: %v is %v", err, refusal)
	}
}

func TestREL012_AConflictIsTriedAgainAndNothingElseIs(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t, 2)
	if _, err := db.Pool.Exec(t.Context(), "CREATE TABLE tries (n int)"); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		code string // that the first tries end with
		fail int    // how many
		want int
		left string
	}{
		{"two conflicts", "40001", 2, 3, "1"},
		{"a deadlock", "40P01", 1, 2, "1"},
		{"a conflict that does not end", "40001", 100, 5, "0"},
		{"a constraint", "23505", 1, 1, "0"},
	} {
		if _, err := db.Pool.Exec(t.Context(), "TRUNCATE tries"); err != nil {
			t.Fatal(err)
		}
		tries := 0
		err := db.InTx(t.Context(), func(tx pgx.Tx) error {
			tries++
			if _, err := tx.Exec(t.Context(), "INSERT INTO tries VALUES ($1)", tries); err != nil {
				return err
			}
			if tries <= test.fail {
				_, err := tx.Exec(t.Context(), "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '"+test.code+"'; END $$")
				return err
			}
			return nil
		})
		var left string
		if err := db.Pool.QueryRow(t.Context(), "SELECT count(*)::text FROM tries").Scan(&left); err != nil {
			t.Fatal(err)
		}
		if tries != test.want || left != test.left || (err == nil) != (left == "1") {
			t.Errorf("%s: %d tries left %s rows: %v; want %d and %s", test.name, tries, left, err, test.want, test.left)
		}
	}
}
