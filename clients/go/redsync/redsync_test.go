package redsync_test

// The promises of redsync, from its documentation and its tests.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-lock/redis-lock/clients/go/internal/bed"
	"github.com/redis-lock/redis-lock/clients/go/redsync"
)

var background = context.Background()

func connect(t *testing.T, servers []*bed.Server) *redsync.Redsync {
	t.Helper()
	var pools []redsync.Pool
	for _, s := range servers {
		client := redis.NewClient(&redis.Options{Addr: s.Address})
		t.Cleanup(func() { _ = client.Close() })
		pools = append(pools, redsync.NewPool(client))
	}
	rs := redsync.New(pools...)
	t.Cleanup(rs.Close)
	return rs
}

// of runs a test on one server and on several, an even number too.
func of(t *testing.T, test func(t *testing.T, servers []*bed.Server, rs *redsync.Redsync)) {
	t.Parallel()
	for _, n := range []int{1, 4, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			servers := bed.Start(t, n)
			test(t, servers, connect(t, servers))
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// yes is of a call that has to succeed.
func yes(t *testing.T) func(bool, error) {
	return func(is bool, err error) {
		t.Helper()
		if !is || err != nil {
			t.Fatal(is, err)
		}
	}
}

// has is at how many servers the mutex has the lock.
func has(servers []*bed.Server, mutex *redsync.Mutex) (count int) {
	for _, s := range servers {
		if s.Owner(mutex.Name()) == mutex.Value() {
			count++
		}
	}
	return count
}

// lockAll takes a lock that all servers have: on a busy machine a lock may do without a late server.
func lockAll(t *testing.T, servers []*bed.Server, mutex *redsync.Mutex) {
	t.Helper()
	for range 20 {
		must(t, mutex.Lock())
		for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if has(servers, mutex) == len(servers) {
				return
			}
		}
		yes(t)(mutex.Unlock())
		free(t, servers, mutex.Name())
	}
	t.Fatal("not all servers have it")
}

func free(t *testing.T, servers []*bed.Server, name string) {
	t.Helper()
	bed.Eventually(t, name+" is free", func() bool {
		return !slices.ContainsFunc(servers, func(s *bed.Server) bool { return s.Owner(name) != "" })
	})
}

// long is an expiry for a busy machine: a server may take half a second to answer.
var long = redsync.WithExpiry(10 * time.Second)

func TestLockAndUnlock(t *testing.T) {
	of(t, func(t *testing.T, servers []*bed.Server, rs *redsync.Redsync) {
		mutex := rs.NewMutex("k", long)
		if mutex.Name() != "k" || mutex.Value() != "" || !mutex.Until().IsZero() || mutex.Token() != 0 {
			t.Fatal("before it is locked")
		}
		last, value := int64(0), ""
		for range 3 {
			must(t, mutex.Lock())
			if has(servers, mutex) < len(servers)/2+1 || mutex.Token() <= last || mutex.Value() == value {
				t.Fatal(has(servers, mutex), mutex.Token(), last)
			}
			if left := time.Until(mutex.Until()); left > 9900*time.Millisecond || left < 5*time.Second {
				t.Fatal("valid for", left)
			}
			yes(t)(mutex.Valid())
			last, value = mutex.Token(), mutex.Value()
			yes(t)(mutex.Unlock())
			free(t, servers, "k")
		}
	})
}

func TestContendersExcludeEachOther(t *testing.T) {
	of(t, func(t *testing.T, _ []*bed.Server, rs *redsync.Redsync) {
		var all sync.WaitGroup
		var inside atomic.Int64
		for range 6 {
			all.Go(func() {
				mutex := rs.NewMutex("k", long, redsync.WithTries(1000),
					redsync.WithRetryDelayFunc(func(try int) time.Duration { return time.Duration(try%7+1) * 5 * time.Millisecond }))
				if err := mutex.Lock(); err != nil {
					t.Error(err)
					return
				}
				if inside.Add(1) != 1 {
					t.Error("two holders")
				}
				inside.Add(-1)
				if is, err := mutex.Unlock(); !is || err != nil {
					t.Error(is, err)
				}
			})
		}
		all.Wait()
	})
}

func TestWhatIsLockedIsTaken(t *testing.T) {
	of(t, func(t *testing.T, servers []*bed.Server, rs *redsync.Redsync) {
		first := rs.NewMutex("k", redsync.WithExpiry(time.Minute))
		must(t, first.Lock())
		for name, mutex := range map[string]*redsync.Mutex{
			"slow":    rs.NewMutex("k", redsync.WithTries(2), redsync.WithRetryDelay(time.Millisecond)),
			"fast":    rs.NewMutex("k", redsync.WithTries(2), redsync.WithFailFast(true)),
			"its own": first,
		} {
			var taken *redsync.ErrTaken
			value := first.Value()
			if err := mutex.TryLock(); !errors.As(err, &taken) || len(taken.Nodes) < len(servers)/2+1 {
				t.Fatal(name, err)
			}
			if first.Value() != value {
				t.Fatal(name, "has changed the value")
			}
		}
		yes(t)(first.Valid())
		yes(t)(first.Unlock())
	})
}

// One value for two of them does not make them one holder.
func TestTheSameGeneratedValueExcludes(t *testing.T) {
	of(t, func(t *testing.T, servers []*bed.Server, rs *redsync.Redsync) {
		same := redsync.WithGenValueFunc(func() (string, error) { return "me", nil })
		first, second := rs.NewMutex("k", long, same), rs.NewMutex("k", long, same)
		lockAll(t, servers, first)
		if !strings.HasPrefix(servers[0].Owner("k"), "me:") {
			t.Fatal(servers[0].Owner("k"))
		}
		var taken *redsync.ErrTaken
		if err := second.TryLock(); !errors.As(err, &taken) {
			t.Fatal(err)
		}
		bad := errors.New("no more values")
		third := rs.NewMutex("k", redsync.WithGenValueFunc(func() (string, error) { return "", bad }))
		if err := third.Lock(); err != bad {
			t.Fatal(err)
		}
		yes(t)(first.Unlock())
	})
}

func TestExtendLengthensOnAllServers(t *testing.T) {
	of(t, func(t *testing.T, servers []*bed.Server, rs *redsync.Redsync) {
		mutex := rs.NewMutex("k", long)
		lockAll(t, servers, mutex)
		until := mutex.Until()
		time.Sleep(500 * time.Millisecond)
		before := left(servers)
		yes(t)(mutex.Extend())
		if !mutex.Until().After(until) {
			t.Fatal("not longer")
		}
		bed.Eventually(t, "longer on all", func() bool {
			for i, ms := range left(servers) {
				if ms <= before[i] {
					return false
				}
			}
			return true
		})
	})
}

func left(servers []*bed.Server) (all []int64) {
	for _, s := range servers {
		all = append(all, s.Run("PTTL k").(int64))
	}
	return all
}

func TestWhatHasExpiredIsNeitherExtendedNorUnlocked(t *testing.T) {
	of(t, func(t *testing.T, servers []*bed.Server, rs *redsync.Redsync) {
		mutex := rs.NewMutex("k", redsync.WithExpiry(time.Second), redsync.WithTimeoutFactor(0.4))
		must(t, mutex.Lock())
		free(t, servers, "k")
		if is, err := mutex.Extend(); is || err == nil {
			t.Fatal(is, err)
		}
		if is, err := mutex.Valid(); is || err == nil {
			t.Fatal(is, err)
		}
		if is, err := mutex.Unlock(); is || !errors.Is(err, redsync.ErrLockAlreadyExpired) {
			t.Fatal(is, err)
		}
		if is, err := rs.NewMutex("k").Unlock(); is || !errors.Is(err, redsync.ErrLockAlreadyExpired) {
			t.Fatal(is, err)
		}

		other := rs.NewMutex("k", long)
		must(t, other.Lock())
		var taken *redsync.ErrTaken
		if is, err := mutex.Extend(); is || !errors.As(err, &taken) {
			t.Fatal(is, err)
		}
		if is, err := mutex.Unlock(); is || !errors.As(err, &taken) {
			t.Fatal(is, err)
		}
		yes(t)(other.Valid())
	})
}

func TestExtendTakesAnewWhereThatIsAskedFor(t *testing.T) {
	of(t, func(t *testing.T, servers []*bed.Server, rs *redsync.Redsync) {
		mutex := rs.NewMutex("k", redsync.WithExpiry(time.Second), redsync.WithTimeoutFactor(0.4), redsync.WithSetNXOnExtend())
		must(t, mutex.Lock())
		value, token := mutex.Value(), mutex.Token()
		free(t, servers, "k")
		yes(t)(mutex.Extend())
		if mutex.Value() == value || mutex.Token() <= token || has(servers, mutex) < len(servers)/2+1 {
			t.Fatal("it is no other grant")
		}
		free(t, servers, "k")
		other := rs.NewMutex("k", long)
		must(t, other.Lock())
		if is, err := mutex.Extend(); is || err == nil {
			t.Fatal("taken from another", err)
		}
		yes(t)(other.Valid())
	})
}

// Every set of servers where others have the lock: it is obtained where those are no majority, and nothing stays of
// it otherwise.
func TestAMajorityDecides(t *testing.T) {
	t.Parallel()
	servers := bed.Start(t, 4)
	rs := connect(t, servers)
	for mask := range 1 << len(servers) {
		name, others := fmt.Sprint("k", mask), 0
		for i, s := range servers {
			if mask&(1<<i) != 0 {
				s.Run("LOCK.ACQUIRE " + name + " other")
				others++
			}
		}
		mutex := rs.NewMutex(name, long, redsync.WithTries(1))
		err := mutex.Lock()
		if len(servers)-others >= 3 {
			must(t, err)
			if has(servers, mutex) < 3 {
				t.Fatal(name, has(servers, mutex))
			}
			yes(t)(mutex.Unlock())
			continue
		}
		var taken *redsync.ErrTaken
		var node *redsync.ErrNodeTaken
		if errors.As(err, &taken) != (others >= 3) || !errors.As(err, &node) == (others < 3) {
			t.Fatal(name, err)
		}
		bed.Eventually(t, name+" is given back", func() bool {
			for _, s := range servers {
				if owner := s.Owner(name); owner != "" && owner != "other" {
					return false
				}
			}
			return true
		})
	}
}

func TestAnotherMutexUnlocksByTheValue(t *testing.T) {
	of(t, func(t *testing.T, servers []*bed.Server, rs *redsync.Redsync) {
		mutex := rs.NewMutex("k", redsync.WithExpiry(time.Minute))
		must(t, mutex.Lock())
		elsewhere := connect(t, servers).NewMutex("k", redsync.WithExpiry(time.Minute), redsync.WithValue(mutex.Value()))
		yes(t)(elsewhere.Valid())
		yes(t)(elsewhere.Extend())
		if elsewhere.Token() != mutex.Token() {
			t.Fatal(elsewhere.Token(), mutex.Token())
		}
		yes(t)(elsewhere.Unlock())
		free(t, servers, "k")
	})
}

func TestTheReadmeRunsInAnEmptyProject(t *testing.T) {
	t.Parallel()
	server := bed.Start(t, 1)[0]
	said := bed.RunReadme(t, "README.md", server.Address, bed.Client)
	if !strings.HasPrefix(said, "fence writes with 1") || server.Owner("my-global-mutex") != "" {
		t.Fatal(said)
	}
}
