package store

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

// What a notification is about.
const (
	Everything = ""           // any of it: what nodes remember may be old
	Messages   = "messages"   // there are messages to deliver
	Deliveries = "deliveries" // there are events to deliver
)

// Listen calls changed whenever a node changed what nodes remember (the query
// NotifyChange) or queued a message or a delivery, until ctx ends. A lost connection is made
// again; changed is called then too, because a notification may have been missed: they only
// shorten the maximum age of what is remembered, they do not replace it. A pooler in transaction
// mode would pass none on, so the connection is one to the database itself.
func (db *DB) Listen(ctx context.Context, logger *slog.Logger, changed func(what string)) {
	for ctx.Err() == nil {
		if err := db.listen(ctx, changed); err != nil && ctx.Err() == nil {
			logger.WarnContext(ctx, "listening for changes of other nodes", "err", Explain(err))
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
}

func (db *DB) listen(ctx context.Context, changed func(what string)) error {
	// A connection of its own: it listens for good, and ends with ctx at once. Those of the
	// pool wait for their statement to be cancelled, and waiting is none.
	config := db.direct.Copy()
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: conn.Conn()}
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "LISTEN writ_changed"); err != nil {
		return err
	}
	changed(Everything)
	for {
		notification, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		changed(notification.Payload)
	}
}
