package execution

import (
	"context"
	"fmt"
	"testing"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/webhook"
)

// TestACallThatNoExecutionConcernsMakesNothing counts what finding that out allocates:
// nothing, however many executions of others there are.
func TestACallThatNoExecutionConcernsMakesNothing(t *testing.T) {
	for _, others := range []int{0, 1000} {
		e := remembering(t, others)
		if n := testing.AllocsPerRun(1000, func() { e.looked(t) }); n != 0 {
			t.Errorf("with %d executions of others: %v allocations", others, n)
		}
	}
}

// remembering returns an Engine that remembers a tenant with executions of other methods.
func remembering(t testing.TB, others int) *Engine {
	t.Helper()
	operations, err := policy.NewOperations("writ.action.v3alpha.ServiceActions")
	if err != nil {
		t.Fatal(err)
	}
	e := New(Config{Operations: operations})
	p := &preparing{engine: e, executions: map[string]*db.AllExecutionsRow{}, targets: map[string]*webhook.Target{"t": {ID: "t"}}, runs: map[string]*Run{}}
	for i := range others {
		id := fmt.Sprintf("request./other.Service/Method%d", i)
		p.executions[id] = &db.AllExecutionsRow{ID: id, Targets: []string{"t"}}
	}
	if _, err := e.tables.Get(t.Context(), "i", func(context.Context) (*Table, error) { return p.table(""), nil }); err != nil {
		t.Fatal(err)
	}
	return e
}

// looked is Find as far as nothing is to be read; false: what was remembered is old.
func (e *Engine) looked(t testing.TB) bool {
	table, ok := e.tables.Fresh("i")
	if ok && table.around["/writ.action.v3alpha.ServiceActions/GetTarget"] != nil {
		t.Fatal("something runs")
	}
	return ok
}

// BenchmarkFind is what a call pays for executions that do not concern it.
func BenchmarkFind(b *testing.B) {
	for _, others := range []int{0, 1000} {
		e := remembering(b, others)
		b.Run(fmt.Sprintf("%d executions of others", others), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !e.looked(b) { // a second is over
					e = remembering(b, others)
				}
			}
		})
	}
}
