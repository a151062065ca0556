package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
)

// Sealed is a kind of secrets that the master key seals, each at the place
// secret.Place(Table, values of Bound…).
type Sealed struct {
	What    string // for people
	Table   string
	Key     []string // the columns that tell a row from others
	Bound   []string // those that a seal is bound to
	Columns []string // those that are sealed, or empty
}

// SealedColumns are all there are: what is missing here is lost with the old key.
func SealedColumns() []Sealed {
	id := []string{"instance_id", "id"}
	number := []string{"instance_id", "number"}
	return []Sealed{
		{"secrets of authenticators", "authenticators", id, []string{"instance_id", "user_id"}, []string{"secret"}},
		{"secrets of identity providers", "idps", id, id, []string{"client_secret", "private_key"}},
		{"results of exports", "operation_chunks", []string{"instance_id", "operation_id", "number"}, []string{"instance_id", "operation_id", "number"}, []string{"content"}},
		{"secrets of SMTP providers", "smtp_providers", id, id, []string{"password", "client_secret", "signing_key", "old_signing_key"}},
		{"secrets of SMS providers", "sms_providers", id, id, []string{"token", "signing_key", "old_signing_key"}},
		{"signing keys", "signing_keys", id, id, []string{"private_key"}},
		{"signing keys of targets", "targets", id, id, []string{"signing_key", "old_signing_key"}},
		{"token keys", "token_keys", number, number, []string{"secret"}},
	}
}

// resealBatch is how many rows are read at once.
const resealBatch = 100

// Reseal seals all of them anew, by the key that seals now, and returns in how many rows. It
// may run while nodes do, and again after a failure: a secret that changed since it was read
// stays, sealed by who changed it.
func (s *Sealed) Reseal(ctx context.Context, at *store.DB, sealer secret.Sealer) (int, error) {
	var after []string
	for done := 0; ; {
		rows, err := s.read(ctx, at.Pool, after)
		if err != nil || len(rows) == 0 {
			return done, err
		}
		for _, row := range rows {
			resealed, err := s.reseal(ctx, at, sealer, &row)
			if err != nil {
				return done, fmt.Errorf("%s %s: %w", s.Table, strings.Join(row.key, "/"), err)
			}
			if resealed {
				done++
			}
			after = row.key
		}
	}
}

// Open opens some of them, the first that are read, and returns how many it tried: an
// error means that they are not sealed by this key.
func (s *Sealed) Open(ctx context.Context, conn db.DBTX, sealer secret.Sealer) (int, error) {
	rows, err := s.read(ctx, conn, nil)
	if err != nil {
		return 0, err
	}
	for i, row := range rows {
		for j := range s.Columns {
			if len(row.sealed[j]) == 0 {
				continue
			}
			if _, err := sealer.Open(row.sealed[j], secret.Place(s.Table, row.bound...)); err != nil {
				return i, fmt.Errorf("%s %s: %w", s.Table, strings.Join(row.key, "/"), err)
			}
		}
	}
	return len(rows), nil
}

// sealedRow is what is read of a row.
type sealedRow struct {
	key, bound []string
	sealed     [][]byte
}

// read returns the next rows that have something sealed. All names are ours (SealedColumns).
func (s *Sealed) read(ctx context.Context, conn db.DBTX, after []string) ([]sealedRow, error) {
	var selected, order, filled []string
	for _, column := range slices.Concat(s.Key, s.Bound) {
		selected = append(selected, column+"::text")
	}
	for _, column := range s.Key {
		order = append(order, column+"::text COLLATE \"C\"")
	}
	for _, column := range s.Columns {
		selected, filled = append(selected, column), append(filled, "length("+column+") > 0")
	}
	sql := "SELECT " + strings.Join(selected, ", ") + " FROM " + s.Table + " WHERE (" + strings.Join(filled, " OR ") + ")"
	args := []any{}
	if after != nil {
		sql += " AND (" + strings.Join(order, ", ") + ") > " + places(len(after), 1)
		for _, value := range after {
			args = append(args, value)
		}
	}
	found, err := conn.Query(ctx, sql+" ORDER BY "+strings.Join(order, ", ")+fmt.Sprintf(" LIMIT %d", resealBatch), args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, func(of pgx.CollectableRow) (sealedRow, error) {
		row := sealedRow{make([]string, len(s.Key)), make([]string, len(s.Bound)), make([][]byte, len(s.Columns))}
		var into []any
		for i := range row.key {
			into = append(into, &row.key[i])
		}
		for i := range row.bound {
			into = append(into, &row.bound[i])
		}
		for i := range row.sealed {
			into = append(into, &row.sealed[i])
		}
		return row, of.Scan(into...)
	})
}

// reseal seals the secrets of a row anew, each only while it is as it was read.
func (s *Sealed) reseal(ctx context.Context, at *store.DB, sealer secret.Sealer, row *sealedRow) (bool, error) {
	var keys []string
	args := []any{nil, nil}
	for i, column := range s.Key {
		keys, args = append(keys, fmt.Sprintf("%s::text = $%d", column, i+3)), append(args, row.key[i])
	}
	resealed := false
	for i, column := range s.Columns {
		if len(row.sealed[i]) == 0 {
			continue
		}
		again, err := secret.Reseal(sealer, row.sealed[i], secret.Place(s.Table, row.bound...))
		if err != nil {
			return false, err
		}
		args[0], args[1] = again, row.sealed[i]
		done, err := at.Pool.Exec(ctx, "UPDATE "+s.Table+" SET "+column+" = $1 WHERE "+column+" = $2 AND "+strings.Join(keys, " AND "), args...)
		if err != nil {
			return false, err
		}
		resealed = resealed || done.RowsAffected() > 0
	}
	return resealed, nil
}

// places are the parameters of a row: ($1, $2).
func places(n, from int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("$%d", from+i)
	}
	return "(" + strings.Join(list, ", ") + ")"
}
