package redislock

// What the tests ask of a server, and how they wait.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

var background = context.Background()

// locks connects to the server, or to a proxy before it.
func (s *server) locks(change ...func(*redis.UniversalOptions)) *Locks {
	options := redis.UniversalOptions{Addrs: []string{s.address}}
	for _, change := range change {
		change(&options)
	}
	return newLocks(s.t, options)
}

func newLocks(t *testing.T, options redis.UniversalOptions) *Locks {
	locks := New(options, "tests")
	t.Cleanup(func() { _ = locks.Close() })
	return locks
}

// do runs a command that has to succeed.
func (s *server) do(command string) any {
	s.t.Helper()
	var arguments []any
	for _, word := range strings.Fields(command) {
		arguments = append(arguments, word)
	}
	answer, err := s.Do(background, arguments...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		s.t.Fatalf("%s: %v", command, err)
	}
	return answer
}

// info is a field of LOCK.INFO; nil where the lock is free.
func (s *server) info(key, field string) any {
	s.t.Helper()
	answer, _ := s.do("LOCK.INFO " + key).([]any)
	for i := 0; i < len(answer); i += 2 {
		if answer[i] == field {
			return answer[i+1]
		}
	}
	return nil
}

// waiters are the fields of LOCK.WAITERS, a map for each.
func (s *server) waiters(key string) (waiters []map[string]any) {
	s.t.Helper()
	for _, waiter := range s.do("LOCK.WAITERS " + key).([]any) {
		fields, named := waiter.([]any), map[string]any{}
		for i := 0; i < len(fields); i += 2 {
			named[fields[i].(string)] = fields[i+1]
		}
		waiters = append(waiters, named)
	}
	return waiters
}

// calls is how often a command has run.
func (s *server) calls(command string) (calls int) {
	s.t.Helper()
	for line := range strings.Lines(s.do("INFO commandstats").(string)) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
			_, _ = fmt.Sscanf(rest, "%d", &calls)
		}
	}
	return calls
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	within(t, 10*time.Second, what, holds)
}

func within(t *testing.T, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
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

func mustSay(t *testing.T, err, what error) {
	t.Helper()
	if !errors.Is(err, what) {
		t.Fatalf("%v, and not: %v", err, what)
	}
}

var (
	once    = Options{Lease: 20 * time.Second}
	patient = Options{Lease: 20 * time.Second, Wait: 20 * time.Second}
	short   = Options{Lease: 900 * time.Millisecond}
)

// result is what a Lock in another goroutine comes to.
type result struct {
	lock *Lock
	err  error
}

func inBackground(locks *Locks, ctx context.Context, key string, options Options) chan result {
	results := make(chan result, 1)
	go func() {
		lock, err := locks.Lock(ctx, key, options)
		results <- result{lock, err}
	}()
	return results
}
