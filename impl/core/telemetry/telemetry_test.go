package telemetry_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/impl/core/telemetry"
)

// counter returns what counts the statements of every request.
func counter() func(context.Context) *atomic.Int32 {
	n := new(atomic.Int32)
	return func(context.Context) *atomic.Int32 { return n }
}

func request(ctx context.Context, t *telemetry.Telemetry, of func(context.Context) *atomic.Int32) {
	served, watched, _ := t.Serve(ctx, "", false)
	if tracer := t.Statements(of); tracer != nil {
		for range 3 {
			served = tracer.TraceQueryStart(served, nil, pgx.TraceQueryStartData{})
		}
	}
	watched.End(served, "GET", "/resources/v3alpha/targets/{id}", 200, "", of(ctx).Load())
}

// What is measured of a request costs no memory, so nothing that has to be collected.
func TestMetricsOfARequestCostNoAllocation(t *testing.T) {
	measured, err := telemetry.New(t.Context(), telemetry.Config{Prometheus: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, of := t.Context(), counter()
	for name, one := range map[string]*telemetry.Telemetry{"on": measured, "off": nil} {
		request(ctx, one, of) // the labels are made once
		if n := testing.AllocsPerRun(100, func() { request(ctx, one, of) }); n > 0 {
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
			ctx, of := b.Context(), counter()
			for b.Loop() {
				request(ctx, one, of)
			}
		})
	}
}
