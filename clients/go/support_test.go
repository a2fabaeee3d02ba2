package redislock

// What the tests ask of a server, and how they wait.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

var background = context.Background()

// client is one that the user has, and closes.
func (s *server) client(change ...func(*redis.Options)) *redis.Client {
	options := redis.Options{Addr: s.address}
	for _, change := range change {
		change(&options)
	}
	client := redis.NewClient(&options)
	s.t.Cleanup(func() { _ = client.Close() })
	return client
}

// locks connect to the server, or to a proxy before it.
func (s *server) locks(change ...func(*redis.Options)) *Locks {
	return testLocks(s.t, s.client(change...), Options{})
}

func testLocks(t *testing.T, client redis.UniversalClient, options Options) *Locks {
	options.Service = "tests"
	locks := New(client, options)
	t.Cleanup(func() { _ = locks.Close(background) })
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
	patient = Wait(20 * time.Second)
	short   = Lease(time.Second)
)

// result is what an Acquire in another goroutine comes to.
type result struct {
	grant *Grant
	err   error
}

func inBackground(ctx context.Context, lock *Lock) chan result {
	results := make(chan result, 1)
	go func() {
		grant, err := lock.Acquire(ctx)
		results <- result{grant, err}
	}()
	return results
}

// meanwhile does it in another goroutine.
func meanwhile(work func() error) chan error {
	over := make(chan error, 1)
	go func() { over <- work() }()
	return over
}

// acquire has to succeed.
func acquire(t *testing.T, lock *Lock) *Grant {
	t.Helper()
	return must[*Grant](t)(lock.Acquire(background))
}

func (s *server) waiting(key string, n int) {
	s.t.Helper()
	eventually(s.t, fmt.Sprint(n, " waiters for ", key), func() bool { return len(s.waiters(key)) == n })
}

// holder is the first holder's map of LOCK.HOLDERS.
func (s *server) holder(key string) map[string]any {
	s.t.Helper()
	holders := s.do("LOCK.HOLDERS " + key).([]any)
	if len(holders) == 0 {
		return map[string]any{}
	}
	fields := must[map[string]any](s.t)(fieldsByName(holders[0]))
	return fields
}

// stat is a number of INFO stats.
func (s *server) stat(name string) (value int) {
	s.t.Helper()
	for line := range strings.Lines(s.do("INFO stats").(string)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			_, _ = fmt.Sscanf(rest, "%d", &value)
		}
	}
	return value
}

// pipe runs commands with nothing between them.
func (s *server) pipe(commands ...string) {
	s.t.Helper()
	_, err := s.TxPipelined(background, func(pipe redis.Pipeliner) error {
		for _, command := range commands {
			var words []any
			for _, word := range strings.Fields(command) {
				words = append(words, word)
			}
			pipe.Do(background, words...)
		}
		return nil
	})
	mustSay(s.t, err, nil)
}

// clients counts the connections with such a name.
func (s *server) clients(name string) int {
	s.t.Helper()
	return strings.Count(s.do("CLIENT LIST").(string), " name="+name)
}

// long is the second number in the long form of the tests.
func long(short, long int) int {
	if os.Getenv("LONG") == "1" {
		return long
	}
	return short
}
