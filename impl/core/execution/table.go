// Package execution runs what tenants have called on requests, responses and functions,
// and says what is called on events (document 1, "Actions").
//
// Of all executions of a tenant a Table is prepared: for each method, function and event
// of the contract the most specific execution that exists, its includes expanded. So a
// call asks one map, and a call that no execution concerns pays for nothing else.
package execution

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/webhook"
)

// Run is an execution as it runs: which targets are called, in order.
type Run struct {
	ID      string // of the execution that was the most specific one
	Targets []*webhook.Target

	engine *Engine
}

// Limit is how long the targets that are waited for may take together.
func (r *Run) Limit() (limit time.Duration) {
	if r == nil {
		return 0
	}
	for _, target := range r.Targets {
		if !target.Async {
			limit += target.Timeout
		}
	}
	return limit
}

// Table is what runs when, of one tenant.
type Table struct {
	stamp     string
	around    map[string]*policy.Around // by method
	functions map[string]*Run
	events    map[string]*Run
}

// Function returns what runs when a function is used; nil is nothing.
func (t *Table) Function(name string) *Run { return t.functions[name] }

// Event returns what runs after an event; nil is nothing.
func (t *Table) Event(eventType string) *Run { return t.events[eventType] }

// HasEvents reports whether anything runs after events.
func (t *Table) HasEvents() bool { return len(t.events) > 0 }

// Of returns the table of a tenant, at most cache.MaxAge old.
func (e *Engine) Of(ctx context.Context, instanceID string) (*Table, error) {
	if table, ok := e.tables.Fresh(instanceID); ok {
		return table, nil
	}
	return e.tables.Get(ctx, instanceID, func(ctx context.Context) (*Table, error) { return e.Fresh(ctx, instanceID) })
}

// Fresh returns the table of a tenant with all that was committed before. It reads the
// executions if they are others than they were.
func (e *Engine) Fresh(ctx context.Context, instanceID string) (*Table, error) {
	q := db.New()
	stamp, err := q.ExecutionsStamp(ctx, e.DB.Pool, instanceID)
	if err != nil {
		return nil, err
	}
	if last, _ := e.tables.Last(instanceID); last != nil && last.stamp == stamp {
		return last, nil
	}
	rows, err := q.AllExecutions(ctx, e.DB.Pool, instanceID)
	if err != nil || len(rows) == 0 {
		return &Table{stamp: stamp}, err
	}
	targets, err := q.TargetsOfExecutions(ctx, e.DB.Pool, instanceID)
	if err != nil {
		return nil, err
	}
	p := &preparing{engine: e, executions: map[string]*db.AllExecutionsRow{}, targets: map[string]*webhook.Target{}, runs: map[string]*Run{}}
	for i := range rows {
		p.executions[rows[i].ID] = &rows[i]
	}
	for i := range targets {
		p.targets[targets[i].ID] = Target(e.Sealer, &targets[i])
	}
	return p.table(stamp), nil
}

// Target returns a target as it is called. One whose keys do not open has none.
func Target(sealer secret.Sealer, row *db.Target) *webhook.Target {
	t := &webhook.Target{
		InstanceID: row.InstanceID, ID: row.ID, Name: row.Name, URL: row.Url, Answers: row.TargetType == "rest_request_response",
		Timeout: time.Duration(row.TimeoutNanos), Async: row.IsAsync != nil && *row.IsAsync, Interrupt: row.InterruptOnError != nil && *row.InterruptOnError,
	}
	place := KeyPlace(row.InstanceID, row.ID)
	if key, err := sealer.Open(row.SigningKey, place); err == nil {
		t.Keys = append(t.Keys, webhook.Key{Secret: key})
	}
	if key, err := sealer.Open(row.OldSigningKey, place); err == nil && row.OldSigningKeyUntil != nil {
		t.Keys = append(t.Keys, webhook.Key{Secret: key, Until: row.OldSigningKeyUntil})
	}
	return t
}

// KeyPlace is where the keys of a target are sealed.
func KeyPlace(instanceID, id string) string { return secret.Place("targets", instanceID, id) }

// preparing is a table that is being made.
type preparing struct {
	engine     *Engine
	executions map[string]*db.AllExecutionsRow
	targets    map[string]*webhook.Target
	runs       map[string]*Run
}

func (p *preparing) table(stamp string) *Table {
	t := &Table{stamp: stamp, around: map[string]*policy.Around{}, functions: map[string]*Run{}, events: map[string]*Run{}}
	for _, method := range p.engine.Operations.ExtensibleMethods() {
		service, _, _ := strings.Cut(method[1:], "/")
		before := p.first("request."+method, "request."+service, "request")
		after := p.first("response."+method, "response."+service, "response")
		if before != nil || after != nil {
			t.around[method] = p.engine.around(before, after)
		}
	}
	for _, name := range event.Known.Functions() {
		if run := p.first("function." + name); run != nil {
			t.functions[name] = run
		}
	}
	for _, name := range event.Known.Events() {
		if run := p.first(eventConditions(name)...); run != nil {
			t.events[name] = run
		}
	}
	return t
}

// eventConditions are the IDs of what an event can trigger, the most specific first:
// itself, each group around it, all.
func eventConditions(name string) []string {
	ids := []string{"event." + name}
	for group := name; ; {
		at := strings.LastIndexByte(group, '.')
		if at < 0 {
			return append(ids, "event")
		}
		group = group[:at]
		ids = append(ids, "event."+group+".*")
	}
}

// first returns the first execution that exists, nil when it calls nobody: it shadows less
// specific ones all the same.
func (p *preparing) first(ids ...string) *Run {
	for _, id := range ids {
		if p.executions[id] == nil {
			continue
		}
		run, made := p.runs[id]
		if !made {
			left := MaxTargets
			run = &Run{ID: id, Targets: p.expand(id, nil, &left), engine: p.engine}
			p.runs[id] = run
		}
		if len(run.Targets) == 0 {
			return nil
		}
		return run
	}
	return nil
}

// MaxTargets is how many targets an execution may call, those of its includes among them.
const MaxTargets = 200

// maxIncludes is how many includes follow one another, which the contract keeps; below
// is what led here, as the includes of two reads could make a circle.
const maxIncludes = 3

// expand returns the targets of an execution, then those of its includes, as many as are
// left: what was stored before there was a limit is cut off there.
func (p *preparing) expand(id string, below []string, left *int) []*webhook.Target {
	row := p.executions[id]
	if row == nil || len(below) > maxIncludes || slices.Contains(below, id) {
		return nil
	}
	var all []*webhook.Target
	for _, target := range row.Targets {
		if t := p.targets[target]; t != nil && *left > 0 {
			all = append(all, t)
			*left--
		}
	}
	for _, include := range row.Includes {
		if *left <= 0 {
			break
		}
		found := p.expand(include, append(below, id), left)
		if len(found) == 0 {
			*left-- // looking is work too
		}
		all = append(all, found...)
	}
	return all
}
