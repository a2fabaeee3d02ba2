package redislock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestSeveralLocksAreTakenTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	grants := must[Grants](t)(locks.All(background, []string{"b", "a", "b"}))
	if len(grants) != 2 || grants[0].Key() != "a" || grants[0].Owner() != grants[1].Owner() {
		t.Fatal(grants)
	}
	mustSay(t, grants.Release(background), nil)
	taken := acquire(t, locks.Lock("b"))
	begun := time.Now()
	_, err := locks.All(background, []string{"a", "b"}, Wait(300*time.Millisecond))
	mustSay(t, err, ErrBusy)
	if took := time.Since(begun); took > 2*time.Second || server.do("EXISTS a") != int64(0) {
		t.Fatal("took", took)
	}
	mustSay(t, taken.Release(background), nil)
	var all sync.WaitGroup
	for _, keys := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "c", "a"}} {
		all.Go(func() {
			for range 20 {
				grants, err := locks.All(background, keys, patient)
				mustSay(t, err, nil)
				mustSay(t, grants.Release(background), nil)
			}
		})
	}
	all.Wait()
}

func TestALeaderWorksUntilItIsStopped(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	ctx, stop := context.WithCancel(background)
	var terms, leaders atomic.Int32
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			err := locks.Lock("k").Lead(ctx, func(ctx context.Context, _ *Grant) error {
				leaders.Add(1)
				terms.Add(1)
				<-ctx.Done()
				leaders.Add(-1)
				return context.Cause(ctx)
			})
			mustSay(t, err, context.Canceled)
		})
	}
	eventually(t, "one leads", func() bool { return leaders.Load() == 1 })
	server.waiting("k", 2)
	server.do("CLIENT KILL TYPE normal SKIPME yes") // that loses nothing
	server.waiting("k", 2)
	server.do("DEL k") // and this does
	eventually(t, "the next leads", func() bool { return terms.Load() == 2 && leaders.Load() == 1 })
	stop()
	all.Wait()
	bad := errors.New("bad")
	mustSay(t, locks.Lock("k").Lead(background, func(context.Context, *Grant) error { return bad }), bad)
}

func TestWorkIsDoneOnceForAllWhoAsk(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	look := func(ctx context.Context) (string, bool, error) {
		value, _ := server.Get(ctx, "value").Result()
		return value, value != "", nil
	}
	var done atomic.Int32
	work := func(ctx context.Context, _ *Grant) (string, error) {
		done.Add(1)
		time.Sleep(200 * time.Millisecond)
		return "made", server.Set(ctx, "value", "made", 0).Err()
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			value, err := Once(background, locks.Lock("k", patient), look, work)
			mustSay(t, err, nil)
			if value != "made" {
				t.Error(value)
			}
		})
	}
	all.Wait()
	if done.Load() != 1 {
		t.Fatal("done", done.Load(), "times")
	}
	acquire(t, locks.Lock("other"))
	_, err := Once(background, locks.Lock("other"), func(context.Context) (int, bool, error) { return 0, false, nil },
		func(context.Context, *Grant) (int, error) { return 1, nil })
	mustSay(t, err, ErrBusy)
}
