package redislock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-lock/redis-lock/clients/go/internal/bed"
)

// A grant that is deleted is reported within a moment, in every way, and the next waiter has it.
func TestALossIsReportedInEveryWay(t *testing.T) {
	t.Parallel()
	s := start(t)
	told := make(chan error, 2)
	var observed atomic.Int64
	locks := s.locks(func(o *Options) { o.Observer.Lost = func(string, error) { observed.Add(1) } })
	err := locks.Do(background, "k", func(ctx context.Context, grant *Grant) error {
		grant.OnLost(func(err error) { told <- err })
		s.run("DEL k")
		<-ctx.Done()
		is(t, context.Cause(ctx), ErrLost)
		if reason := isLost(t, grant).Error(); !strings.Contains(reason, "deleted") {
			t.Error(reason)
		}
		is(t, grant.Check(background), ErrLost)
		is(t, <-told, ErrLost)
		return errors.New("the work's own")
	})
	is(t, err, ErrLost)
	if !strings.Contains(err.Error(), "the work's own") {
		t.Fatal(err)
	}
	eventually(t, "it is observed", func() bool { return observed.Load() == 1 })
	if len(told) > 0 {
		t.Fatal("told twice")
	}
}

// Waits need no connections: a thousand of one process have one for the session, and two for calls.
func TestWaitsNeedNoConnections(t *testing.T) {
	t.Parallel()
	s := start(t)
	first := must[*Grant](t)(s.locks().Acquire(background, "k"))
	locks := newLocks(t, s.client(func(o *redis.Options) { o.PoolSize = 4; o.ClientName = "crowd" }))
	const many = 1000
	var all sync.WaitGroup
	var got atomic.Int64
	for range many {
		all.Go(func() {
			if err := locks.Do(background, "k", func(context.Context, *Grant) error { got.Add(1); return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	s.waiting("k", many)
	eventually(t, "no more connections", func() bool { // one without a reply is replaced, and closed a second later
		return strings.Count(s.run("CLIENT LIST").(string), " name=crowd") <= 3
	})
	is(t, first.Release(background), nil)
	all.Wait()
	if got.Load() != many {
		t.Fatal(got.Load())
	}
}

// Calls of a crowd share pipelines: each gets its own reply.
func TestACrowdSharesPipelines(t *testing.T) {
	t.Parallel()
	s := start(t)
	locks := newLocks(t, s.client(func(o *redis.Options) { o.PoolSize = 2 }))
	var all sync.WaitGroup
	for n := range 100 {
		all.Go(func() {
			key := fmt.Sprint("k", n)
			for range 20 {
				grant, err := locks.Acquire(background, key)
				if err != nil {
					t.Error(err)
					return
				}
				if err := errors.Join(grant.Check(background), grant.Release(background)); err != nil {
					t.Error(key, err)
				}
			}
		})
	}
	all.Wait()
}

// An outage of the server leaves nothing in memory, and the first call after it returns in time.
func TestAfterAnOutage(t *testing.T) {
	t.Parallel()
	s := start(t)
	locks := s.locks()
	is(t, must[*Grant](t)(locks.Acquire(background, "k")).Release(background), nil)
	s.order("kill")
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			if _, err := locks.Acquire(background, fmt.Sprint("k", n), Wait(time.Millisecond)); !errors.Is(err, ErrUnavailable) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s.order("restart")
	begun := time.Now()
	is(t, must[*Grant](t)(locks.TryAcquire(background, "k")).Release(background), nil)
	if took := time.Since(begun); took > 400*time.Millisecond {
		t.Fatal("took", took)
	}
	eventually(t, "nothing is kept", func() bool { defer locks.unlock(); return locks.lock().Kept() == 0 })
}

// In a cluster each node has its session; a slot that moves takes its locks and waits along.
func TestACluster(t *testing.T) {
	t.Parallel()
	said := bed.Order(t, "cluster", bed.Words{"replicas": 1})
	t.Cleanup(func() { bed.Order(t, "end", bed.Words{"port": said.Nodes[0].Port}) })
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{fmt.Sprint("127.0.0.1:", said.Nodes[0].Port)}})
	t.Cleanup(func() { _ = client.Close() })
	locks, other := newLocks(t, client), newLocks(t, client)
	grants, waiting := map[string]*Grant{}, map[string]chan result{}
	for n := range 12 {
		key := fmt.Sprint("k", n)
		grants[key] = must[*Grant](t)(locks.Acquire(background, key))
		waiting[key] = meanwhile(func() (*Grant, error) { return other.Acquire(background, key) })
	}
	for key := range grants {
		eventually(t, "in line", func() bool { return len(client.Do(background, "LOCK.WAITERS", key).Val().([]any)) == 1 })
	}
	if len(locks.nodes) != 3 {
		t.Fatal(len(locks.nodes), "nodes")
	}
	bed.Order(t, "fail-over", bed.Words{"port": said.Nodes[3].Port})
	for key, grant := range grants {
		if err := grant.Release(background); err != nil && !errors.Is(err, ErrLost) { // a failover may lose a grant
			t.Fatal(key, err)
		}
		next := <-waiting[key]
		is(t, next.err, nil)
		is(t, next.grant.Check(background), nil)
		is(t, next.grant.Release(background), nil)
	}
}
