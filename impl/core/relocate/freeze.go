package relocate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ofDeliveries are frozen last: what happened until then is put into them first.
var ofDeliveries = []string{"deliveries", "delivery_queues", "delivery_attempts", "row_counts"}

// freeze lets nothing of the instance be written at the source. To make a trigger is to wait
// for all who write to the table, and from then on whoever does holds a lock, which the mover
// gets when they are done (the function frozen of the migrations).
func (m *mover) freeze(ctx context.Context) error {
	m.Progress("freezing")
	for _, one := range m.freezable() {
		if err := m.patiently(ctx, "freezing "+one.name, func() error { return m.trigger(ctx, &one) }); err != nil {
			return err
		}
	}
	if _, err := m.hold.Exec(ctx, "SELECT set_config('writ.moving', $1, false)", m.Instance); err != nil {
		return err
	}
	m.frozen = time.Now()
	if err := m.lock(ctx, m.lockName("")); err != nil {
		return err
	}
	m.Progress("waiting for deliveries of what happened")
	if err := m.drain(ctx); err != nil {
		return err
	}
	if err := m.lock(ctx, m.lockName("/deliveries")); err != nil {
		return err
	}
	// Who has a queue finds that it is theirs no more, and does not get it again.
	_, err := m.hold.Exec(ctx, "UPDATE delivery_queues SET leased_by = NULL, lease_end = NULL WHERE instance_id = $1", m.Instance)
	return err
}

// freezable are the tables that are copied, and what triggers keep of them.
func (m *mover) freezable() []table {
	return append(slices.Clone(m.tables), table{name: "row_counts", key: "instance_id"})
}

func (m *mover) lockName(of string) string { return "move/" + m.Instance + of }

// triggerName is that of the triggers of an instance.
func triggerName(instance string) string {
	return fmt.Sprintf("moving_%x", sha256.Sum256([]byte(instance)))[:24]
}

func (m *mover) trigger(ctx context.Context, t *table) error {
	lock := m.lockName("")
	if slices.Contains(ofDeliveries, t.name) {
		lock = m.lockName("/deliveries")
	}
	name := triggerName(m.Instance)
	return pgx.BeginFunc(ctx, m.hold, func(tx pgx.Tx) error {
		sql := "SET LOCAL lock_timeout = '500ms';"
		for _, on := range []struct{ suffix, what, row string }{{"w", "INSERT OR UPDATE", "NEW"}, {"d", "DELETE", "OLD"}} {
			sql += fmt.Sprintf("DROP TRIGGER IF EXISTS %[1]s_%[2]s ON %[3]s; CREATE TRIGGER %[1]s_%[2]s BEFORE %[4]s ON %[3]s FOR EACH ROW WHEN (%[5]s.%[6]s = %[7]s) EXECUTE FUNCTION frozen(%[7]s, %[8]s);",
				name, on.suffix, t.name, on.what, on.row, t.key, literal(m.Instance), literal(lock))
		}
		_, err := tx.Conn().PgConn().Exec(ctx, sql).ReadAll()
		return err
	})
}

// lock waits for who writes.
func (m *mover) lock(ctx context.Context, name string) error {
	return m.patiently(ctx, "waiting for transactions of the instance", func() error {
		if _, err := m.hold.Exec(ctx, "SET lock_timeout = '5s'"); err != nil {
			return err
		}
		_, err := m.hold.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended($1, 0))", name)
		return err
	})
}

// drain waits until deliveries were made of all events of the instance: numbers of
// transactions are of their server, so at the target all of them are in the past.
func (m *mover) drain(ctx context.Context) error {
	for deadline := time.Now().Add(m.Patience); ; {
		var pending bool
		if err := m.hold.QueryRow(ctx, `SELECT EXISTS (SELECT FROM executions x WHERE x.instance_id = $1 AND x.condition_type = 'event') AND EXISTS (
			SELECT FROM delivery_cursor c JOIN events e ON e.instance_id = $1 AND (e.xid, e.sequence) > (c.xid, c.sequence)
			LEFT JOIN delivery_ahead a ON a.instance_id = $1
			WHERE (c.is_heard OR e.aggregate_type = 'execution') AND (a.xid IS NULL OR (e.xid, e.sequence) > (a.xid, a.sequence)))`, m.Instance).Scan(&pending); err != nil || !pending {
			return err
		}
		if time.Now().After(deadline) {
			return errors.New("not all that happened was put into the queues of deliveries: does a node of the source run?")
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// thaw lets the instance be written again: at once, as nobody holds the locks, and then
// without a trace.
func (m *mover) thaw(ctx context.Context) {
	if m.marked || m.hold == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, _ = m.hold.Exec(ctx, "SELECT pg_advisory_unlock_all()") // when it fails, the connection and its locks are gone
	_ = dropTriggers(ctx, m.hold, m.Instance, m.freezable(), m.patiently)
}

func dropTriggers(ctx context.Context, conn *pgx.Conn, instance string, tables []table, patiently func(context.Context, string, func() error) error) error {
	var all error
	for _, t := range tables {
		all = errors.Join(all, patiently(ctx, "thawing "+t.name, func() error {
			return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
				_, err := tx.Conn().PgConn().Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = '500ms'; DROP TRIGGER IF EXISTS %[1]s_w ON %[2]s; DROP TRIGGER IF EXISTS %[1]s_d ON %[2]s",
					triggerName(instance), t.name)).ReadAll()
				return err
			})
		}))
	}
	return all
}

// patiently does something again while others hold locks that it needs. Each try is short,
// because others wait behind it.
func (m *mover) patiently(ctx context.Context, what string, do func() error) error {
	return patiently(ctx, m.Patience, what, do)
}

func patiently(ctx context.Context, patience time.Duration, what string, do func() error) error {
	for deadline := time.Now().Add(patience); ; {
		err := do()
		refused, ok := errors.AsType[*pgconn.PgError](err)
		held := ok && (refused.Code == "55P03" || refused.Code == "40P01")
		if err == nil || !held || time.Now().After(deadline) {
			if err != nil {
				err = fmt.Errorf("%s: %w", what, err)
			}
			return err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
