package telemetry

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Pool is what a pool of connections to the database is at.
type Pool struct {
	Used, Idle, Max int64
	Waited          float64 // seconds, of all that waited for a connection since the start
	Timeouts        int64   // of those who gave up
}

// Queue is what waits to be sent.
type Queue struct {
	Depth int64   // MaxDepth at most
	Age   float64 // seconds since the oldest was due
}

// MaxDepth is how far queues are counted.
const MaxDepth = 100_000

// Readings are what is at a moment.
type Readings struct {
	Pools      map[string]Pool
	Queues     map[string]Queue
	Rejections map[string]int64 // since the start, by what there was no place for
	// KeyAge is how long the oldest key that signs has done so, and KeyNext until the next
	// one is due, in seconds.
	KeyAge, KeyNext float64
}

// Gauges reads what is at a moment, whenever somebody asks for metrics.
type Gauges func(ctx context.Context) (Readings, error)

// Watch adds what is read whenever somebody asks.
func (t *Telemetry) Watch(read Gauges) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gauges = append(t.gauges, read)
}

// observe registers the instruments of Readings.
func (t *Telemetry) observe(meter metric.Meter) error {
	var errs []error
	gauge := func(name, unit, about string) metric.Float64ObservableGauge {
		made, err := meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(about))
		errs = append(errs, err)
		return made
	}
	counter := func(name, unit, about string) metric.Float64ObservableCounter {
		made, err := meter.Float64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(about))
		errs = append(errs, err)
		return made
	}
	connections := gauge("db.client.connection.count", "{connection}", "Connections to the database, by pool and state.")
	most := gauge("db.client.connection.max", "{connection}", "How many connections a pool may have.")
	waited := counter("db.client.connection.wait_time", "s", "Time that was waited for connections.")
	timeouts := counter("db.client.connection.timeouts", "{timeout}", "Those who waited for a connection and gave up.")
	depth := gauge("writ.queue.depth", "{item}", "What is to be sent, by queue, counted up to 100000.")
	age := gauge("writ.queue.age", "s", "How long the oldest of a queue has been due.")
	rejections := counter("writ.fairness.rejections", "{request}", "Who was refused because a tenant had enough, by what there was no place for.")
	keyAge := gauge("writ.signing_key.age", "s", "How long the oldest of the keys that sign has done so.")
	keyNext := gauge("writ.signing_key.next", "s", "Time until the next signing key is due; negative when it is late.")
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	_, err := meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		t.mu.Lock()
		all := t.gauges
		t.mu.Unlock()
		for _, read := range all {
			r, err := read(ctx)
			for name, pool := range r.Pools {
				of := attribute.String("pool", name)
				o.ObserveFloat64(connections, float64(pool.Used), metric.WithAttributes(of, attribute.String("state", "used")))
				o.ObserveFloat64(connections, float64(pool.Idle), metric.WithAttributes(of, attribute.String("state", "idle")))
				o.ObserveFloat64(most, float64(pool.Max), metric.WithAttributes(of))
				o.ObserveFloat64(waited, pool.Waited, metric.WithAttributes(of))
				o.ObserveFloat64(timeouts, float64(pool.Timeouts), metric.WithAttributes(of))
			}
			for name, n := range r.Rejections {
				o.ObserveFloat64(rejections, float64(n), metric.WithAttributes(attribute.String("place", name)))
			}
			if err != nil { // of the database: what it knows is left out, not invented, and the rest is told
				otel.Handle(err)
				continue
			}
			for name, queue := range r.Queues {
				o.ObserveFloat64(depth, float64(queue.Depth), metric.WithAttributes(attribute.String("queue", name), attribute.String("state", "due")))
				o.ObserveFloat64(age, queue.Age, metric.WithAttributes(attribute.String("queue", name)))
			}
			o.ObserveFloat64(keyAge, r.KeyAge)
			o.ObserveFloat64(keyNext, r.KeyNext)
		}
		return nil
	}, connections, most, waited, timeouts, depth, age, rejections, keyAge, keyNext)
	return err
}
