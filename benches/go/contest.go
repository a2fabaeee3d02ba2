package main

import (
	"context"
	"fmt"
	"os"
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
	late     int
	errors   int
	err      error
	handOffs []float64
}

type outcome struct {
	Grants   []int     `json:"grants"`
	Late     int       `json:"late"`
	Seconds  float64   `json:"seconds"`
	HandOffs []float64 `json:"hand_offs_us"`
	Errors   int       `json:"errors"`
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
		one.handOffs = append(one.handOffs, micros(now-time.Duration(released)))
	}
}

func (c *contest) outcome(length time.Duration) outcome {
	result := outcome{Seconds: length.Seconds(), HandOffs: []float64{}}
	for _, one := range c.contenders {
		result.Grants = append(result.Grants, one.grants)
		result.Late += one.late
		result.Errors += one.errors
		result.HandOffs = append(result.HandOffs, one.handOffs...)
		if one.err != nil {
			fmt.Fprintln(os.Stderr, one.err)
		}
	}
	return result
}

func micros(length time.Duration) float64 {
	return float64(length.Nanoseconds()) / 1000
}
