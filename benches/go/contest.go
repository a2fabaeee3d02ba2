package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A contest: contenders take a lock and give it back, over and over, until time is up.
type contest struct {
	contenders []*contender
	// When the last release of each lock was sent. Only the holder reads or sets it.
	releases []atomic.Int64
	began    time.Time
	over     atomic.Bool
}

type contender struct {
	handle handle
	key    int
	grants int
	// Grants after the time was up: each contender that still waits gets one.
	late      int
	errors    int
	err       error
	latencies []float64
}

type outcome struct {
	Grants  int     `json:"grants"`
	Late    int     `json:"late"`
	Seconds float64 `json:"seconds"`
	Least   int     `json:"least"`
	Most    int     `json:"most"`
	Median  float64 `json:"median_us"`
	P99     float64 `json:"p99_us"`
	Worst   float64 `json:"worst_us"`
	Errors  int     `json:"errors"`
}

func prepare(
	client *redis.Client, newHandle func(*redis.Client, string) handle, contenders, locks int,
) (*contest, error) {
	c := &contest{releases: make([]atomic.Int64, locks), began: time.Now()}
	for number := range contenders {
		key := fmt.Sprintf("contest:%T:%d", newHandle(client, ""), number%locks)
		if err := client.Del(context.Background(), key).Err(); err != nil {
			return nil, err
		}
		c.contenders = append(c.contenders, &contender{
			handle: newHandle(client, key),
			key:    number % locks,
		})
	}
	return c, nil
}

func (c *contest) run(length time.Duration) outcome {
	var all sync.WaitGroup
	start := time.Now()
	for _, one := range c.contenders {
		all.Go(func() { c.contend(one) })
	}
	time.Sleep(length)
	c.over.Store(true)
	lasted := time.Since(start)
	all.Wait()
	return c.outcome(lasted)
}

func (c *contest) contend(one *contender) {
	for !c.over.Load() {
		err := one.handle.acquire()
		if err == nil {
			c.granted(one, time.Since(c.began))
			c.releases[one.key].Store(int64(time.Since(c.began)))
			err = one.handle.release()
		}
		if err != nil {
			one.errors++
			one.err = err
		}
	}
}

func (c *contest) granted(one *contender, now time.Duration) {
	if c.over.Load() {
		one.late++
		return
	}
	one.grants++
	if released := c.releases[one.key].Load(); released != 0 {
		one.latencies = append(one.latencies, micros(now-time.Duration(released)))
	}
}

func (c *contest) outcome(length time.Duration) outcome {
	result := outcome{Seconds: length.Seconds(), Least: math.MaxInt}
	var latencies []float64
	for _, one := range c.contenders {
		result.Grants += one.grants
		result.Late += one.late
		result.Least = min(result.Least, one.grants)
		result.Most = max(result.Most, one.grants)
		result.Errors += one.errors
		latencies = append(latencies, one.latencies...)
		if one.err != nil {
			fmt.Fprintln(os.Stderr, one.err)
		}
	}
	slices.Sort(latencies)
	result.Median = percentile(latencies, 0.5)
	result.P99 = percentile(latencies, 0.99)
	result.Worst = percentile(latencies, 1)
	return result
}

func percentile(sorted []float64, part float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(int(math.Ceil(part*float64(len(sorted))))-1, 0)]
}

func micros(length time.Duration) float64 {
	return float64(length.Nanoseconds()) / 1000
}
