package relocate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/impl/core/secret"
)

// counter counts what is written.
type counter struct {
	io.Writer
	n int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n += int64(n)
	return n, err
}

// copy copies the rows of a table, as they come.
func (m *mover) copy(ctx context.Context, t *table) (*Table, error) {
	began := time.Now()
	m.Progress("copying " + t.name)
	columns := t.list()
	if t.name == "events" {
		var err error
		if columns, err = m.eventColumns(ctx, columns); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	read, write := io.Pipe()
	counted := &counter{Writer: write}
	sent := make(chan error, 1)
	go func() {
		_, err := m.from.PgConn().CopyTo(ctx, counted, fmt.Sprintf("COPY (SELECT %s FROM %s t WHERE t.%s = %s) TO STDOUT (FORMAT binary)", columns, t.name, t.key, literal(m.Instance)))
		write.CloseWithError(err)
		sent <- err
	}()
	done, err := m.to.PgConn().CopyFrom(ctx, read, fmt.Sprintf("COPY %s (%s) FROM STDIN (FORMAT binary)", t.name, t.list()))
	read.CloseWithError(errors.New("the target takes no more"))
	if sendErr := <-sent; err == nil {
		err = sendErr
	}
	return &Table{Name: t.name, Rows: done.RowsAffected(), Bytes: counted.n, Took: time.Since(began)}, err
}

// eventColumns numbers the transactions of events anew. Theirs are of another server; what
// counts is their order and that the fan-out of the target has passed them. So the newest
// get the numbers below its cursor, and what is older than there are such numbers, the
// first: within that, followers go by sequence.
func (m *mover) eventColumns(ctx context.Context, columns string) (string, error) {
	var cursor int64
	if err := m.to.QueryRow(ctx, "SELECT xid::text::bigint FROM delivery_cursor WHERE instance_id = ''").Scan(&cursor); err != nil {
		return "", err
	}
	return strings.Replace(columns, `"xid"`, fmt.Sprintf(`greatest(1, %d - dense_rank() OVER (ORDER BY t.xid DESC))::text::xid8`, cursor), 1), nil
}

// verify compares each table on both sides: how many rows there are, and a sum over all
// that is in them.
func (m *mover) verify(ctx context.Context) error {
	for _, t := range m.tables {
		compared := t
		if t.name == "events" {
			compared.columns = slices.DeleteFunc(slices.Clone(t.columns), func(name string) bool { return name == "xid" })
		}
		sql := fmt.Sprintf("SELECT count(*), coalesce(sum(('x' || left(md5(ROW(%s)::text), 15))::bit(60)::bigint), 0)::text FROM %s WHERE %s = $1", compared.list(), t.name, t.key)
		if err := m.same(ctx, t.name, sql); err != nil {
			return err
		}
	}
	return m.same(ctx, "row_counts", `SELECT count(*), coalesce(sum(('x' || left(md5(s.resource || s.n), 15))::bit(60)::bigint), 0)::text
		FROM (SELECT resource, sum(n) AS n FROM row_counts WHERE instance_id = $1 GROUP BY resource HAVING sum(n) <> 0) s`)
}

// same asks both sides.
func (m *mover) same(ctx context.Context, what, sql string) error {
	var rows [2]int64
	var sums [2]string
	for i, conn := range []*pgx.Conn{m.from, m.to} {
		if err := conn.QueryRow(ctx, sql, m.Instance).Scan(&rows[i], &sums[i]); err != nil {
			return fmt.Errorf("verifying %s: %w", what, err)
		}
	}
	if rows[0] != rows[1] || sums[0] != sums[1] {
		return fmt.Errorf("verifying %s: the source has %d rows, the target %d, and they are not the same", what, rows[0], rows[1])
	}
	return nil
}

// differs returns the tables in which the systems have other rows.
func (m *mover) differs(ctx context.Context) ([]string, error) {
	var differ []string
	for _, t := range m.tables {
		compared := table{columns: slices.DeleteFunc(slices.Clone(t.columns), func(name string) bool { return slices.Contains(ofNoSystem, name) })}
		if t.key != "instance_id" || !slices.Contains(ofSystem, t.name) {
			continue
		}
		var texts [2]*string
		for i, conn := range []*pgx.Conn{m.from, m.to} {
			sql := fmt.Sprintf("SELECT md5(string_agg(ROW(%[1]s)::text, chr(10) ORDER BY ROW(%[1]s)::text)) FROM %[2]s WHERE instance_id = ''", compared.list(), t.name)
			if err := conn.QueryRow(ctx, sql).Scan(&texts[i]); err != nil {
				return nil, err
			}
		}
		if (texts[0] == nil) != (texts[1] == nil) || texts[0] != nil && *texts[0] != *texts[1] {
			differ = append(differ, t.name)
		}
	}
	return differ, nil
}

// What instances inherit of the system, and what of it is of its database.
var (
	ofSystem   = []string{"features", "settings", "setting_images", "idps", "smtp_providers", "sms_providers", "state_policies"}
	ofNoSystem = []string{"sequence", "creation_date", "change_date", "client_secret", "private_key", "password", "token", "signing_key", "old_signing_key"}
)

// reseal opens all that is sealed, and seals it anew for the target when that has another
// master key.
func (m *mover) reseal(ctx context.Context) error {
	m.Progress("opening what is sealed")
	for _, s := range m.Sealed {
		if err := m.resealTable(ctx, &s); err != nil {
			return fmt.Errorf("what is sealed in %s: %w", s.Table, err)
		}
	}
	return nil
}

// resealBatch is how many rows are in memory.
const resealBatch = 100

func (m *mover) resealTable(ctx context.Context, s *Sealed) error {
	texts := func(columns []string) string { return "ARRAY[" + strings.Join(columns, "::text, ") + "::text]" }
	filled := "coalesce(length(" + strings.Join(s.Columns, "), 0) + coalesce(length(") + "), 0) > 0"
	var after []string
	for {
		rows, err := m.to.Query(ctx, fmt.Sprintf(`SELECT %[1]s, %[2]s, ARRAY[%[3]s] FROM %[4]s WHERE instance_id = $1 AND %[5]s AND ($2::text[] IS NULL OR %[1]s COLLATE "C" > $2) ORDER BY %[1]s COLLATE "C" LIMIT %[6]d`,
			texts(s.Key), texts(s.Bound), strings.Join(s.Columns, ", "), s.Table, filled, resealBatch), m.Instance, after)
		if err != nil {
			return err
		}
		var batch pgx.Batch
		var key, bound []string
		var sealed [][]byte
		n := 0
		if _, err := pgx.ForEachRow(rows, []any{&key, &bound, &sealed}, func() error {
			n++
			after = slices.Clone(key)
			for i, one := range sealed {
				if len(one) == 0 {
					continue
				}
				place := secret.Place(s.Table, bound...)
				open, err := m.Opener.Open(one, place)
				if err != nil {
					return fmt.Errorf("%s: %w", strings.Join(key, "/"), err)
				}
				if m.Sealer == m.Opener {
					continue
				}
				again, err := m.Sealer.Seal(open, place)
				if err != nil {
					return err
				}
				batch.Queue(fmt.Sprintf("UPDATE %s SET %s = $1 WHERE %s = $2", s.Table, s.Columns[i], texts(s.Key)), again, slices.Clone(key))
			}
			return nil
		}); err != nil {
			return err
		}
		if err := m.to.SendBatch(ctx, &batch).Close(); err != nil || n < resealBatch {
			return err
		}
	}
}

// arrive tells the target what came: numbers of events go on behind those that are there, and
// the fan-out knows of executions, and of the deliveries before its own.
func (m *mover) arrive(ctx context.Context) error {
	if !m.Rehearse { // a sequence is not rolled back
		if _, err := m.to.Exec(ctx, `SELECT setval('events_sequence', n.newest + 1000) FROM events_sequence s, (SELECT max(sequence) AS newest FROM events WHERE instance_id = $1) n
			WHERE n.newest >= s.last_value`, m.Instance); err != nil {
			return err
		}
	}
	_, err := m.to.Exec(ctx, `UPDATE delivery_cursor c SET version = c.version + 1,
			is_heard = c.is_heard OR EXISTS (SELECT FROM executions x WHERE x.instance_id = $1 AND x.condition_type = 'event'),
			position = greatest(c.position, (SELECT max(d.position) FROM deliveries d WHERE d.instance_id = $1))
		WHERE c.instance_id = ''`, m.Instance)
	return err
}
