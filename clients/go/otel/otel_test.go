package otel_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	redislock "github.com/redis-lock/redis-lock/clients/go"
	"github.com/redis-lock/redis-lock/clients/go/internal/bed"
	adapter "github.com/redis-lock/redis-lock/clients/go/otel"
)

var background = context.Background()

// read gives the count or the sum of every series, by its name and attributes.
func read(t *testing.T, reader metric.Reader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(background, &all); err != nil {
		t.Fatal(err)
	}
	series := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			name := func(set attribute.Set) string {
				return strings.TrimSpace(fmt.Sprint(m.Name, " ", set.Encoded(attribute.DefaultEncoder())))
			}
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, point := range data.DataPoints {
					series[name(point.Attributes)] = int64(point.Count)
				}
			case metricdata.Sum[int64]:
				for _, point := range data.DataPoints {
					series[name(point.Attributes)] = point.Value
				}
			}
		}
	}
	return series
}

func TestMeasures(t *testing.T) {
	t.Parallel()
	server := bed.Start(t, 1)[0]
	reader := metric.NewManualReader()
	observer, err := adapter.Observer(metric.NewMeterProvider(metric.WithReader(reader)).Meter("tests"),
		adapter.WithAttributes(func(key string) []attribute.KeyValue {
			kind, _, _ := strings.Cut(key, ":")
			return []attribute.KeyValue{attribute.String("kind", kind)}
		}))
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Address})
	defer client.Close()
	locks := redislock.New(client, redislock.Options{Observer: observer, Lease: time.Second})
	defer locks.Close(background)

	grant, err := locks.Acquire(background, "order:1")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = locks.TryAcquire(background, "order:1")
	_ = grant.Release(background)
	grant, err = locks.Acquire(background, "stock:1")
	if err != nil {
		t.Fatal(err)
	}
	server.Run("DEL stock:1")
	<-grant.Lost()
	if _, err = locks.Acquire(background, "other"); err != nil { // what nobody needs does not come back
		t.Fatal(err)
	}
	down := "redis_lock.client.session.detached server=" + server.Address
	bed.Eventually(t, "the loss of the connection", func() bool {
		server.Run("CLIENT KILL TYPE normal SKIPME yes") // go-redis replaces one that ends between two POLLs
		return read(t, reader)["redis_lock.client.session.disconnects server="+server.Address] >= 1
	})
	bed.Eventually(t, "its return", func() bool {
		now := read(t, reader)
		return now["redis_lock.client.losses kind=stock"] == 1 && now[down] == 0
	})
	for name, want := range map[string]int64{
		"redis_lock.client.acquire.duration kind=order,outcome=done": 1,
		"redis_lock.client.acquire.duration kind=order,outcome=busy": 1,
		"redis_lock.client.acquire.duration kind=stock,outcome=done": 1,
		"redis_lock.client.hold.duration kind=order,outcome=done":    1,
	} {
		if got := read(t, reader)[name]; got != want {
			t.Fatal(name, got, read(t, reader))
		}
	}
	server.Order("kill")
	bed.Eventually(t, "the server is down", func() bool { return read(t, reader)[down] == 1 })
	_, _ = locks.TryAcquire(background, "order:2")
	_ = locks.Close(background)
	bed.Eventually(t, "the server is not counted any more", func() bool { return read(t, reader)[down] == 0 })
	if read(t, reader)["redis_lock.client.acquire.duration kind=order,outcome=unavailable"] != 1 {
		t.Fatal(read(t, reader))
	}
}

// The attributes may be the same ones for each call, with room behind them.
func TestAttributesOfTheUserStayAsTheyAre(t *testing.T) {
	t.Parallel()
	const many = 100
	same := append(make([]attribute.KeyValue, 0, 4), attribute.String("kind", "order"))
	reader := metric.NewManualReader()
	observer, err := adapter.Observer(metric.NewMeterProvider(metric.WithReader(reader)).Meter("tests"),
		adapter.WithAttributes(func(string) []attribute.KeyValue { return same }))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range many {
		for _, err := range []error{nil, redislock.ErrBusy} {
			all.Go(func() { observer.Acquired("order:1", 0, err) })
		}
	}
	all.Wait()
	for _, outcome := range []string{"done", "busy"} {
		if got := read(t, reader)["redis_lock.client.acquire.duration kind=order,outcome="+outcome]; got != many {
			t.Error(outcome, got)
		}
	}
}

func TestTheReadmeRunsInAnEmptyProject(t *testing.T) {
	t.Parallel()
	server := bed.Start(t, 1)[0]
	if said := bed.RunReadme(t, "README.md", server.Address, bed.Client+"/otel", bed.Client); said != "measured\n" {
		t.Fatal(said)
	}
}
