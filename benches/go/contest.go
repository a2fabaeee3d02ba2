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
)

// A contest: contenders take a lock and give it back, over and over, until their turn is over.
type contest struct {
	way        way
	contenders []*contender
	// When the last release of each lock was sent, in this turn. Only the holder reads or sets it.
	releases []atomic.Int64
	began    time.Time
	over     atomic.Bool
}

type contender struct {
	handle handle
	key    int
	turn
}

// What a contender has had in a turn.
type turn struct {
	grants int
	// Grants after the time was up: each contender that still waits gets one.
	late      int
	errors    int
	err       error
	latencies []float64
}

type outcome struct {
	Grants  []int   `json:"grants"`
	Late    int     `json:"late"`
	Seconds float64 `json:"seconds"`
	Median  float64 `json:"median_us"`
	P99     float64 `json:"p99_us"`
	Worst   float64 `json:"worst_us"`
	Errors  int     `json:"errors"`
}

func prepare(port, name string, contenders, locks int) (*contest, error) {
	c := &contest{way: ways[name](port, contenders), releases: make([]atomic.Int64, locks)}
	client := connect(port, 1)
	defer client.Close()
	for number := range contenders {
		key := fmt.Sprintf("contest:%s:%d", name, number%locks)
		if err := client.Del(context.Background(), key).Err(); err != nil {
			return nil, err
		}
		c.contenders = append(c.contenders, &contender{handle: c.way.handle(key), key: number % locks})
	}
	return c, nil
}

func (c *contest) turn(length time.Duration) outcome {
	for lock := range c.releases {
		c.releases[lock].Store(0)
	}
	c.over.Store(false)
	c.began = time.Now()
	var all sync.WaitGroup
	for _, one := range c.contenders {
		one.turn = turn{}
		all.Go(func() { c.contend(one) })
	}
	time.Sleep(length)
	c.over.Store(true)
	lasted := time.Since(c.began)
	all.Wait()
	return c.outcome(lasted)
}

func (c *contest) contend(one *contender) {
	for !c.over.Load() {
		err := one.handle(func() {
			c.granted(one, time.Since(c.began))
			c.releases[one.key].Store(int64(time.Since(c.began)))
		})
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
	result := outcome{Seconds: length.Seconds()}
	var latencies []float64
	for _, one := range c.contenders {
		result.Grants = append(result.Grants, one.grants)
		result.Late += one.late
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
