package doctor

import (
	"context"
	"time"

	"github.com/writ-id/writ/impl/core/store"
)

// Ages of what waits to be sent and is due. Nodes look every second or so.
const (
	slow  = time.Minute
	stuck = 15 * time.Minute
)

// queues looks at what waits to leave the process.
func (d *doctor) queues(ctx context.Context, db *store.DB) {
	for _, queue := range []struct{ check, sql, look string }{
		{
			"deliveries", `SELECT (SELECT count(*) FROM deliveries WHERE next_attempt <= $1), (SELECT min(next_attempt) FROM deliveries WHERE next_attempt <= $1),
				(SELECT count(*) FROM deliveries WHERE state = 4)`,
			"POST /resources/v3alpha/executions/deliveries/_search shows them and why; …/_replay sends them again",
		},
		{
			"messages", `SELECT (SELECT count(*) FROM messages WHERE state = 1 AND next_attempt <= $1), (SELECT min(next_attempt) FROM messages WHERE state = 1 AND next_attempt <= $1),
				(SELECT count(*) FROM messages WHERE state = 3)`,
			"POST /resources/v3alpha/messages/_search shows them and why; is there an active provider?",
		},
	} {
		var due, dead int64
		var oldest *time.Time
		if err := db.Pool.QueryRow(ctx, queue.sql, d.Now()).Scan(&due, &oldest, &dead); d.failed(queue.check, err) {
			continue
		}
		age := time.Duration(0)
		if oldest != nil {
			age = d.Now().Sub(*oldest).Round(time.Second)
		}
		switch {
		case age > stuck:
			d.fail(queue.check, "is a node running, and does it reach the receivers?", "%d are due, the oldest for %s", due, age)
		case age > slow:
			d.warn(queue.check, "more nodes, or a slow receiver", "%d are due, the oldest for %s", due, age)
		case dead > 0:
			d.warn(queue.check, queue.look, "%d were given up; %d are due", dead, due)
		default:
			d.ok(queue.check, "%d are due, none was given up", due)
		}
	}
}
