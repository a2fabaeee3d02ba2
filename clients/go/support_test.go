package redislock

// What the tests ask of a server, and how they wait.

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-lock/redis-lock/clients/go/internal/bed"
)

var background = context.Background()

// site is a server with the module, or a proxy before one.
type site struct {
	*bed.Server
	t *testing.T
}

func start(t *testing.T) site { t.Helper(); return site{bed.Start(t, 1)[0], t} }

// before is a proxy before the server.
func (s site) before() site {
	s.t.Helper()
	port := bed.Order(s.t, "proxy", bed.Words{"port": s.Port}).Port
	s.t.Cleanup(func() { bed.Order(s.t, "end", bed.Words{"port": port}) })
	return site{&bed.Server{Client: s.Client, Address: fmt.Sprint("127.0.0.1:", port), Port: port}, s.t}
}

// order gives an order that concerns this server or proxy.
func (s site) order(do string) { s.t.Helper(); bed.Order(s.t, do, bed.Words{"port": s.Port}) }

// inject does this with the reply to the next command that has this word in it.
func (s site) inject(fault any, word string, times int) {
	s.t.Helper()
	bed.Order(s.t, "inject", bed.Words{"port": s.Port, "fault": fault, "words": word, "times": times})
}

func (s site) client(change ...func(*redis.Options)) *redis.Client {
	options := redis.Options{Addr: s.Address}
	for _, change := range change {
		change(&options)
	}
	client := redis.NewClient(&options)
	s.t.Cleanup(func() { _ = client.Close() })
	return client
}

func (s site) locks(change ...func(*Options)) *Locks { return newLocks(s.t, s.client(), change...) }

func newLocks(t *testing.T, client redis.UniversalClient, change ...func(*Options)) *Locks {
	options := Options{Service: "tests"}
	for _, change := range change {
		change(&options)
	}
	locks := New(client, options)
	t.Cleanup(func() { _ = locks.Close(background) })
	return locks
}

// run runs a command that has to succeed.
func (s site) run(format string, values ...any) any {
	s.t.Helper()
	return s.Run(fmt.Sprintf(format, values...))
}

// info is a field of LOCK.INFO; nil if the lock is free.
func (s site) info(key, field string) any { return named(s.run("LOCK.INFO %s", key))[field] }

func named(reply any) map[string]any {
	parts, _ := reply.([]any)
	fields := map[string]any{}
	for i := 0; i+1 < len(parts); i += 2 {
		fields[parts[i].(string)] = parts[i+1]
	}
	return fields
}

func (s site) waiting(key string, n int) {
	s.t.Helper()
	eventually(s.t, fmt.Sprint(n, " waiters for ", key), func() bool {
		waiters, _ := s.run("LOCK.WAITERS %s", key).([]any)
		return len(waiters) == n
	})
}

// sessions are the maps of LOCK.SESSION LIST.
func (s site) sessions() (sessions []map[string]any) {
	s.t.Helper()
	for _, one := range s.run("LOCK.SESSION LIST").([]any) {
		sessions = append(sessions, named(one))
	}
	return sessions
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	bed.Eventually(t, what, holds)
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func is(t *testing.T, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("%v instead of: %v", err, kind)
	}
}

// result is the outcome of an Acquire in another goroutine.
type result struct {
	grant *Grant
	err   error
}

func meanwhile(acquire func() (*Grant, error)) chan result {
	results := make(chan result, 1)
	go func() {
		grant, err := acquire()
		results <- result{grant, err}
	}()
	return results
}

func isLost(t *testing.T, grant *Grant) error {
	t.Helper()
	select {
	case <-grant.Lost():
	case <-time.After(10 * time.Second):
		t.Fatal("its loss is not reported")
	}
	is(t, grant.Err(), ErrLost)
	return grant.Err()
}
