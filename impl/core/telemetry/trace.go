package telemetry

import (
	"context"
	"encoding/hex"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Valid returns a traceparent (W3C Trace Context, version 00) that is one, else "". It may
// be a text of anybody.
func Valid(traceparent string) string {
	if parse(traceparent).IsValid() {
		return traceparent
	}
	return ""
}

// parse reads a traceparent; what is none is an invalid context.
func parse(traceparent string) trace.SpanContext {
	part := strings.Split(traceparent, "-")
	if len(traceparent) != 55 || len(part) != 4 || part[0] != "00" || strings.ToLower(traceparent) != traceparent {
		return trace.SpanContext{}
	}
	traceID, err1 := trace.TraceIDFromHex(part[1])
	spanID, err2 := trace.SpanIDFromHex(part[2])
	flags, err3 := hex.DecodeString(part[3])
	if err1 != nil || err2 != nil || err3 != nil || len(flags) != 1 {
		return trace.SpanContext{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: spanID, TraceFlags: trace.TraceFlags(flags[0]), Remote: true})
}

func format(c trace.SpanContext) string {
	if !c.IsValid() {
		return ""
	}
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + c.TraceFlags().String()
}

// Serve begins to watch a request and returns where it stands in a trace: below the
// traceparent that came with it, if whoever sent it is trusted; else the span is the first
// of a trace and has a link to that, so that strangers decide neither what is recorded nor
// where it is shown. Without tracing it stands where it came from.
func (t *Telemetry) Serve(ctx context.Context, traceparent string, trusted bool) (context.Context, Served, string) {
	if t == nil {
		return ctx, Served{}, traceparent
	}
	served := Served{t: t, begun: time.Now()}
	if t.meters != nil {
		t.meters.active.Add(ctx, 1)
	}
	return t.follow(ctx, served, traceparent, trusted)
}

// ServeCall is Serve of a call by native gRPC.
func (t *Telemetry) ServeCall(ctx context.Context, traceparent string, trusted bool) (context.Context, Served, string) {
	if t == nil {
		return ctx, Served{}, traceparent
	}
	return t.follow(ctx, Served{t: t, begun: time.Now()}, traceparent, trusted)
}

func (t *Telemetry) follow(ctx context.Context, served Served, traceparent string, trusted bool) (context.Context, Served, string) {
	if t.tracer == nil {
		return ctx, served, traceparent
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}
	if from := parse(traceparent); from.IsValid() && trusted {
		ctx = trace.ContextWithRemoteSpanContext(ctx, from)
	} else if from.IsValid() {
		options = append(options, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: from}))
	}
	ctx, served.span = t.tracer.Start(ctx, "request", options...)
	return ctx, served, format(served.span.SpanContext())
}

func (s Served) end(name string, failed bool, reason string, attributes ...attribute.KeyValue) {
	s.span.SetName(name)
	s.span.SetAttributes(attributes...)
	if reason != "" {
		s.span.SetAttributes(errorType.String(reason))
	}
	if failed { // a refusal is no failure of ours
		s.span.SetStatus(codes.Error, reason)
	}
	s.span.End()
}

// Continue returns a context whose spans are below a traceparent, for what is done later.
func (t *Telemetry) Continue(ctx context.Context, traceparent string) context.Context {
	if t == nil || t.tracer == nil || trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	if from := parse(traceparent); from.IsValid() {
		return trace.ContextWithRemoteSpanContext(ctx, from)
	}
	return ctx
}

// Call begins the span of a request that leaves; done ends it. The request says where it
// stands. Of its address the host is told, not the rest: that is a tenant's.
func (t *Telemetry) Call(r *http.Request) (request *http.Request, done func(*http.Response, error)) {
	if t == nil || t.tracer == nil {
		return r, func(*http.Response, error) {}
	}
	ctx, span := t.tracer.Start(r.Context(), r.Method, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(method.String(r.Method), attribute.String("server.address", r.URL.Hostname())))
	r = r.Clone(ctx)
	r.Header.Set("Traceparent", format(span.SpanContext()))
	return r, func(answer *http.Response, err error) {
		switch {
		case err != nil: // its text may have the address
			span.SetStatus(codes.Error, "no answer")
		case answer.StatusCode >= http.StatusBadRequest:
			span.SetStatus(codes.Error, "")
			fallthrough
		default:
			span.SetAttributes(statusCode.Int(answer.StatusCode))
		}
		span.End()
	}
}

// Statements returns what pgx tells of its statements to, nil when nobody listens. They count
// for their request: of is asked for its counter, nil for none. Their spans have the text of
// the statement, never its values.
func (t *Telemetry) Statements(of func(context.Context) *atomic.Int32) pgx.QueryTracer {
	switch {
	case t == nil:
		return nil
	case t.tracer == nil:
		return counting(of)
	}
	return multitracer.New(counting(of), otelpgx.NewTracer(otelpgx.WithDisableConnectionDetailsInAttributes()))
}

// counting counts the statements of requests.
type counting func(context.Context) *atomic.Int32

func (c counting) count(ctx context.Context) {
	if n := c(ctx); n != nil {
		n.Add(1)
	}
}

// TraceQueryStart implements pgx.QueryTracer.
func (c counting) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.count(ctx)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (counting) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer.
func (counting) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (c counting) TraceBatchQuery(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchQueryData) {
	c.count(ctx)
}

// TraceBatchEnd implements pgx.BatchTracer.
func (counting) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
