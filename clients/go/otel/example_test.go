package otel_test

import (
	"context"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"

	redislock "github.com/redis-lock/redis-lock/clients/go"
	redislockotel "github.com/redis-lock/redis-lock/clients/go/otel"
	"github.com/redis-lock/redis-lock/clients/go/redislocktest"
)

// The example runs without a server. A program gives New a client of its own.
func ExampleObserver() {
	meter := metric.NewMeterProvider().Meter("shop") // or otel.Meter
	observer, err := redislockotel.Observer(meter, redislockotel.WithAttributes(func(key string) []attribute.KeyValue {
		return []attribute.KeyValue{attribute.Bool("order", strings.HasPrefix(key, "lock:orders:"))}
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	locks := redislock.New(redislocktest.New().Client(), redislock.Options{Observer: observer})
	fmt.Println(locks.Do(background, "lock:orders:42", func(context.Context, *redislock.Grant) error { return nil }))
	// Output: <nil>
}
