package telemetry_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/impl/core/telemetry"
)

// counted is the context of a request whose statements are counted.
type counted struct {
	context.Context
	n *atomic.Int32
}

func (c *counted) Value(key any) any {
	if _, ok := key.(telemetry.StatementsKey); ok {
		return c.n
	}
	return c.Context.Value(key)
}

func request(t *telemetry.Telemetry, ctx *counted) {
	served, watched, _ := t.Serve(ctx, "", false)
	if tracer := t.Statements(); tracer != nil {
		for range 3 {
			served = tracer.TraceQueryStart(served, nil, pgx.TraceQueryStartData{})
		}
	}
	watched.End(served, "GET", "/resources/v3alpha/targets/{id}", 200, "", ctx.n.Load())
}

// What is measured of a request costs no memory, so nothing that has to be collected.
func TestMetricsOfARequestCostNoAllocation(t *testing.T) {
	measured, err := telemetry.New(t.Context(), telemetry.Config{Prometheus: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx := &counted{Context: t.Context(), n: &atomic.Int32{}}
	for name, one := range map[string]*telemetry.Telemetry{"on": measured, "off": nil} {
		request(one, ctx) // the labels are made once
		if n := testing.AllocsPerRun(100, func() { request(one, ctx) }); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkMetricsOfARequest(b *testing.B) {
	measured, err := telemetry.New(b.Context(), telemetry.Config{Prometheus: true})
	if err != nil {
		b.Fatal(err)
	}
	for name, one := range map[string]*telemetry.Telemetry{"on": measured, "off": nil} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			ctx := &counted{Context: b.Context(), n: &atomic.Int32{}}
			for b.Loop() {
				request(one, ctx)
			}
		})
	}
}
