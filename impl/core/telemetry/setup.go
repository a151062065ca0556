package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"

	"go.opentelemetry.io/otel"
)

// Config says what is wanted.
type Config struct {
	// Prometheus has metrics kept for GET /metrics.
	Prometheus bool
	Version    string // of the program
	// Failed hears of what cannot be exported.
	Failed func(error)
}

// maxSets is how many combinations of labels an instrument keeps: more than there are of
// routes, methods and statuses.
const maxSets = 10_000

// New returns what is wanted: by c, and by the environment of OpenTelemetry (OTEL_…); nil
// when that is nothing. Traces and metrics are sent when an exporter or an endpoint is named
// there; OTEL_SDK_DISABLED=true sends nothing.
func New(ctx context.Context, c Config) (*Telemetry, error) {
	traces, metrics := wanted("TRACES"), wanted("METRICS")
	if !c.Prometheus && !traces && !metrics {
		return nil, nil
	}
	about, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceName("writ"), semconv.ServiceVersion(c.Version)), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	if c.Failed != nil {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(c.Failed))
	}
	t := &Telemetry{}
	if traces {
		exporter, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return nil, fmt.Errorf("OTEL_TRACES_EXPORTER: %w", err)
		}
		t.trace(about, trace.WithBatcher(exporter))
	}
	var readers []metric.Reader
	if metrics {
		reader, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return nil, fmt.Errorf("OTEL_METRICS_EXPORTER: %w", err)
		}
		readers = append(readers, reader)
	}
	if c.Prometheus {
		reader, err := t.prometheus()
		if err != nil {
			return nil, err
		}
		readers = append(readers, reader)
	}
	return t, t.measure(about, readers...)
}

// wanted reports whether the environment asks for a signal to be sent.
func wanted(signal string) bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	if exporter := os.Getenv("OTEL_" + signal + "_EXPORTER"); exporter != "" {
		return exporter != "none"
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}

// Traced returns what only traces, to a processor.
func Traced(to trace.SpanProcessor) *Telemetry {
	t := &Telemetry{}
	t.trace(resource.Empty(), trace.WithSpanProcessor(to))
	return t
}

func (t *Telemetry) trace(about *resource.Resource, options ...trace.TracerProviderOption) {
	provider := trace.NewTracerProvider(append(options, trace.WithResource(about))...)
	otel.SetTracerProvider(provider) // which otelpgx asks
	t.tracer = provider.Tracer("writ")
	t.stop = append(t.stop, provider.Shutdown)
}

func (t *Telemetry) prometheus() (metric.Reader, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	t.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
	return otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
}

func (t *Telemetry) measure(about *resource.Resource, readers ...metric.Reader) error {
	if len(readers) == 0 {
		return nil
	}
	options := []metric.Option{metric.WithResource(about), metric.WithCardinalityLimit(maxSets)}
	if t.tracer == nil { // there is no span that could be an example, and looking for one costs
		options = append(options, metric.WithExemplarFilter(exemplar.AlwaysOffFilter))
	}
	for _, reader := range readers {
		options = append(options, metric.WithReader(reader))
	}
	provider := metric.NewMeterProvider(options...)
	t.stop = append(t.stop, provider.Shutdown)
	meter := provider.Meter("writ")
	var err error
	if t.meters, err = newMeters(meter); err != nil {
		return err
	}
	return t.observe(meter)
}

// Handler serves GET /metrics; nil without Prometheus.
func (t *Telemetry) Handler() http.Handler {
	if t == nil {
		return nil
	}
	return t.handler
}

// Stop sends what was not sent yet.
func (t *Telemetry) Stop(ctx context.Context) error {
	if t == nil {
		return nil
	}
	var errs []error
	for _, stop := range slices.Backward(t.stop) {
		errs = append(errs, stop(ctx))
	}
	return errors.Join(errs...)
}
