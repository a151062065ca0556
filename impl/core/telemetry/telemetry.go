// Package telemetry measures what a node does and traces requests through it: metrics for
// Prometheus and OpenTelemetry, spans for OpenTelemetry. A nil *Telemetry is what there is
// when neither is wanted; every method of it does nothing, so that nobody has to ask.
//
// Names are those of OpenTelemetry's semantic conventions; what is ours begins with "writ.".
// No label ever holds a text of a request: methods, routes, statuses, reasons of the product
// itself.
package telemetry

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Telemetry is safe for concurrent use.
type Telemetry struct {
	tracer  trace.Tracer // nil when nothing is traced
	meters  *meters      // nil when nothing is measured
	handler http.Handler // of GET /metrics; nil without Prometheus
	stop    []func(context.Context) error
	gauges  []Gauges
	mu      sync.Mutex
}

// meters are the instruments of what happens; what is at a moment is read by Gauges.
type meters struct {
	requests   metric.Float64Histogram
	active     metric.Int64UpDownCounter
	calls      metric.Float64Histogram
	statements metric.Int64Histogram
	logins     metric.Int64Counter
	tokens     metric.Int64Counter
	deliveries metric.Int64Counter
	meter      metric.Meter
	sets       sync.Map // labels → *options: they are made once
}

// options are the attributes of a measurement in the forms that instruments take.
type options struct {
	record []metric.RecordOption
	add    []metric.AddOption
}

// labels are what tells measurements apart; which names they have is the instrument's.
type labels struct{ a, b, c string }

// seconds are the bounds of durations: most of ours are below the first one of the convention.
var seconds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

func newMeters(meter metric.Meter) (*meters, error) {
	m := &meters{meter: meter}
	var errs [7]error
	m.requests, errs[0] = meter.Float64Histogram("http.server.request.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of HTTP requests, by method, route and status."), metric.WithExplicitBucketBoundaries(seconds...))
	m.active, errs[1] = meter.Int64UpDownCounter("http.server.active_requests", metric.WithUnit("{request}"), metric.WithDescription("HTTP requests that are being served."))
	m.calls, errs[2] = meter.Float64Histogram("rpc.server.call.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of calls by native gRPC, by method and status."), metric.WithExplicitBucketBoundaries(seconds...))
	m.statements, errs[3] = meter.Int64Histogram("writ.request.statements", metric.WithUnit("{statement}"),
		metric.WithDescription("Database statements of a request, by route."), metric.WithExplicitBucketBoundaries(0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 50))
	m.logins, errs[4] = meter.Int64Counter("writ.logins", metric.WithUnit("{check}"), metric.WithDescription("Proofs of users that were checked, by method and outcome."))
	m.tokens, errs[5] = meter.Int64Counter("writ.tokens", metric.WithUnit("{request}"), metric.WithDescription("Requests for tokens, by grant type and outcome: success, or the error of OAuth."))
	m.deliveries, errs[6] = meter.Int64Counter("writ.deliveries", metric.WithUnit("{attempt}"), metric.WithDescription("Attempts to deliver events to targets, by outcome: success, retry or dead."))
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

// of returns the options of some labels. There are as many as there are routes, statuses
// and errors: a few hundred.
func (m *meters) of(l labels, names ...attribute.Key) *options {
	if known, ok := m.sets.Load(l); ok {
		return known.(*options)
	}
	attributes := make([]attribute.KeyValue, 0, 3)
	for i, value := range []string{l.a, l.b, l.c}[:len(names)] {
		if status, err := strconv.Atoi(value); err == nil && names[i] == statusCode {
			attributes = append(attributes, names[i].Int(status))
		} else if value != "" {
			attributes = append(attributes, names[i].String(value))
		}
	}
	set := metric.WithAttributeSet(attribute.NewSet(attributes...))
	made, _ := m.sets.LoadOrStore(l, &options{[]metric.RecordOption{set}, []metric.AddOption{set}})
	return made.(*options)
}

// Names of attributes.
const (
	method     attribute.Key = "http.request.method"
	route      attribute.Key = "http.route"
	statusCode attribute.Key = "http.response.status_code"
	rpcMethod  attribute.Key = "rpc.method"
	rpcStatus  attribute.Key = "rpc.response.status_code"
	errorType  attribute.Key = "error.type"
	outcome    attribute.Key = "outcome"
)

// statuses are the texts of the statuses of HTTP, which are needed for each request.
var statuses = func() (texts [600]string) {
	for i := range texts {
		texts[i] = strconv.Itoa(i)
	}
	return texts
}()

// Login counts a proof that was checked: password, totp, otp_sms, otp_email or idp.
func (t *Telemetry) Login(ctx context.Context, kind string, right bool) {
	if t == nil || t.meters == nil {
		return
	}
	l := labels{a: kind, b: "failure"}
	if right {
		l.b = "success"
	}
	t.meters.logins.Add(ctx, 1, t.meters.of(l, "method", outcome).add...)
}

// Token counts a request for tokens. The grant type is one of ours; an empty error is success.
func (t *Telemetry) Token(ctx context.Context, grantType, oauthError string) {
	if t == nil || t.meters == nil {
		return
	}
	if oauthError == "" {
		oauthError = "success"
	}
	t.meters.tokens.Add(ctx, 1, t.meters.of(labels{a: grantType, b: oauthError, c: "token"}, "grant_type", outcome).add...)
}

// Delivery counts an attempt to deliver an event: success, retry or dead.
func (t *Telemetry) Delivery(ctx context.Context, outcomeOf string) {
	if t == nil || t.meters == nil {
		return
	}
	t.meters.deliveries.Add(ctx, 1, t.meters.of(labels{a: outcomeOf, c: "delivery"}, outcome).add...)
}

// Served is a request that is being served. The zero Served is one that nobody watches.
type Served struct {
	t     *Telemetry
	span  trace.Span // nil when it is not traced
	begun time.Time
}

// End measures an HTTP request and ends its span. reason is why it was refused.
func (s Served) End(ctx context.Context, httpMethod, at string, status int, reason string, statements int32) {
	if s.t == nil {
		return
	}
	if m := s.t.meters; m != nil {
		l := labels{httpMethod, at, statuses[min(max(status, 0), len(statuses)-1)]}
		m.requests.Record(ctx, time.Since(s.begun).Seconds(), m.of(l, method, route, statusCode).record...)
		m.statements.Record(ctx, int64(statements), m.of(labels{a: at, c: "statements"}, route).record...)
		m.active.Add(ctx, -1)
	}
	if s.span != nil {
		name := httpMethod
		if at != "" {
			name += " " + at
		}
		s.end(name, status >= http.StatusInternalServerError, reason, method.String(httpMethod), route.String(at), statusCode.Int(status))
	}
}

// EndCall is End of a call by native gRPC; code is that of its status.
func (s Served) EndCall(ctx context.Context, fullMethod, code, reason string, statements int32) {
	if s.t == nil {
		return
	}
	if m := s.t.meters; m != nil {
		m.calls.Record(ctx, time.Since(s.begun).Seconds(), m.of(labels{fullMethod, code, "call"}, rpcMethod, rpcStatus).record...)
		m.statements.Record(ctx, int64(statements), m.of(labels{a: fullMethod, c: "statements"}, route).record...)
	}
	if s.span != nil {
		s.end(fullMethod, code == "Internal" || code == "Unavailable" || code == "Unknown", reason, rpcMethod.String(fullMethod), rpcStatus.String(code))
	}
}
