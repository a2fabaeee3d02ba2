// Package otel measures the locks of the Redis module redis-lock with OpenTelemetry.
//
//	observer, err := redislockotel.Observer(otel.Meter("shop"))
//	locks := redislock.New(client, redislock.Options{Observer: observer})
package otel

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	redislock "github.com/redis-lock/redis-lock/clients/go"
)

// Option of [Observer].
type Option func(*instruments)

// WithAttributes adds attributes that tell of the key of a lock. Give few different ones: each makes series of its
// own. Without it, no metric tells of keys.
func WithAttributes(of func(key string) []attribute.KeyValue) Option {
	return func(i *instruments) { i.of = of }
}

type instruments struct {
	of             func(key string) []attribute.KeyValue
	acquires, held metric.Float64Histogram
	losses, ends   metric.Int64Counter
	down           metric.Int64UpDownCounter
}

// Observer is one for [redislock.Options] that measures. docs/monitoring/README.md lists the metrics. The error is the
// meter's, if it refuses an instrument.
func Observer(meter metric.Meter, options ...Option) (redislock.Observer, error) {
	i := &instruments{of: func(string) []attribute.KeyValue { return nil }}
	for _, option := range options {
		option(i)
	}
	seconds := metric.WithExplicitBucketBoundaries(.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300)
	var errs [5]error
	i.acquires, errs[0] = meter.Float64Histogram("redis_lock.client.acquire.duration", metric.WithUnit("s"), seconds,
		metric.WithDescription("How long acquires took, their wait included, by outcome."))
	i.held, errs[1] = meter.Float64Histogram("redis_lock.client.hold.duration", metric.WithUnit("s"), seconds,
		metric.WithDescription("How long locks were held until their release, by its outcome."))
	i.losses, errs[2] = meter.Int64Counter("redis_lock.client.losses", metric.WithUnit("{lock}"),
		metric.WithDescription("Locks that ended before their holder released them."))
	i.ends, errs[3] = meter.Int64Counter("redis_lock.client.session.disconnects", metric.WithUnit("{connection}"),
		metric.WithDescription("Connections of sessions that were lost."))
	i.down, errs[4] = meter.Int64UpDownCounter("redis_lock.client.session.detached", metric.WithUnit("{server}"),
		metric.WithDescription("Servers without such a connection now."))
	return redislock.Observer{Acquired: i.acquired, Released: i.released, Lost: i.lost, Connection: i.connection},
		errors.Join(errs[:]...)
}

// outcomes are the names of the errors, the first that fits.
var outcomes = []struct {
	is   error
	name string
}{
	{redislock.ErrBusy, "busy"}, {redislock.ErrLost, "lost"}, {redislock.ErrDeadlock, "deadlock"},
	{redislock.ErrNotAlone, "not-alone"}, {redislock.ErrRefused, "refused"}, {redislock.ErrUnavailable, "unavailable"},
	{redislock.ErrMisuse, "misuse"}, {context.Canceled, "cancelled"}, {context.DeadlineExceeded, "cancelled"},
}

func (i *instruments) with(key string, err error) metric.MeasurementOption {
	name := "done"
	for _, outcome := range outcomes {
		if errors.Is(err, outcome.is) {
			name = outcome.name
			break
		}
	}
	return metric.WithAttributes(slices.Concat(i.of(key), []attribute.KeyValue{attribute.String("outcome", name)})...)
}

func (i *instruments) acquired(key string, took time.Duration, err error) {
	i.acquires.Record(context.Background(), took.Seconds(), i.with(key, err))
}

func (i *instruments) released(key string, held time.Duration, err error) {
	i.held.Record(context.Background(), held.Seconds(), i.with(key, err))
}

func (i *instruments) lost(key string, _ error) {
	i.losses.Add(context.Background(), 1, metric.WithAttributes(i.of(key)...))
}

func (i *instruments) connection(address string, err error) {
	server, change := metric.WithAttributes(attribute.String("server", address)), int64(-1)
	if err != nil {
		change = 1
		i.ends.Add(context.Background(), 1, server)
	}
	i.down.Add(context.Background(), change, server)
}
