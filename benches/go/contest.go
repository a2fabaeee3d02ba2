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
	way     way
	handles []handle
	began   time.Time
	over    atomic.Bool
}

// The times of the contenders in a turn.
type turn struct {
	Seconds float64 `json:"seconds"`
	Errors  int     `json:"errors"`
	// Of each contender: when it asked, had the grant, and sent the release, over and over, in nanoseconds.
	Times [][]time.Duration `json:"times"`
}

func prepare(port, name string, contenders, locks int) (*contest, error) {
	c := &contest{way: ways[name](port, contenders)}
	client := connect(port, 1)
	defer client.Close()
	for number := range contenders {
		key := fmt.Sprintf("contest:%s:%d", name, number%locks)
		if err := client.Del(context.Background(), key).Err(); err != nil {
			return nil, err
		}
		c.handles = append(c.handles, c.way.handle(key))
	}
	return c, nil
}

func (c *contest) turn(length time.Duration) turn {
	result := turn{Times: make([][]time.Duration, len(c.handles))}
	errors := make([]int, len(c.handles))
	c.over.Store(false)
	c.began = time.Now()
	var all sync.WaitGroup
	for number, handle := range c.handles {
		all.Go(func() { result.Times[number], errors[number] = c.contend(handle) })
	}
	time.Sleep(length)
	c.over.Store(true)
	result.Seconds = time.Since(c.began).Seconds()
	all.Wait()
	for _, count := range errors {
		result.Errors += count
	}
	return result
}

func (c *contest) contend(handle handle) ([]time.Duration, int) {
	times, errors := []time.Duration{}, 0
	for !c.over.Load() {
		asked := time.Since(c.began)
		err := handle(func() { times = append(times, asked, time.Since(c.began), time.Since(c.began)) })
		if err != nil {
			errors++
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return times, errors
}
