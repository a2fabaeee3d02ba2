package redislock

import (
	"context"
	"errors"
	"fmt"
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
	_, err := Once(background, locks.Lock("other"), nothing,
		func(context.Context, *Grant) (int, error) { return 1, nil })
	mustSay(t, err, ErrBusy)
}

func TestWorkIsDoneOnceOnAQuorum(t *testing.T) {
	t.Parallel()
	locks := startFive(t).locks()
	var done atomic.Int32
	look := func(context.Context) (int32, bool, error) { return done.Load(), done.Load() > 0, nil }
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			_, err := Once(background, locks.Lock("k", patient), look, func(context.Context, *Grant) (int32, error) {
				time.Sleep(200 * time.Millisecond)
				return done.Add(1), nil
			})
			mustSay(t, err, nil)
		})
	}
	all.Wait()
	if done.Load() != 1 {
		t.Fatal("done", done.Load(), "times")
	}
}

func TestWorkIsDoneOnceUnderAnExclusiveLockOnly(t *testing.T) {
	t.Parallel()
	locks := start(t).locks()
	for _, lock := range []*Lock{locks.Shared("k"), locks.Permit("k", 1), locks.Permit("k", 3)} {
		_, err := Once(background, lock, nothing,
			func(context.Context, *Grant) (int, error) {
				t.Error("done")
				return 0, nil
			})
		mustSay(t, err, ErrMisuse)
	}
}

// What the work says of another lock is the work's error.
func TestALeaderTakesNoOtherLocksErrorForItsOwn(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	other := acquire(t, locks.Lock("other"))
	server.do("DEL other")
	<-other.Lost()
	for _, bad := range []error{other.Err(), &Error{Op: "acquire", Key: "other", Kind: ErrUnavailable}, context.Canceled} {
		terms := 0
		err := locks.Lock("k").Lead(background, func(context.Context, *Grant) error {
			if terms++; terms > 1 {
				return errors.New("again")
			}
			return bad
		})
		mustSay(t, err, bad)
	}
	// Nor does a loss, or the end of the context, hide it.
	bad := errors.New("bad")
	mustSay(t, locks.Lock("k").Lead(background, func(_ context.Context, grant *Grant) error {
		server.do("DEL k")
		<-grant.Lost()
		return bad
	}), bad)
	ctx, stop := context.WithCancel(background)
	mustSay(t, locks.Lock("k").Lead(ctx, func(context.Context, *Grant) error { stop(); return bad }), bad)
}

// However the work tells of the loss, it leads again.
func TestALeaderGoesOnAfterItsOwnLoss(t *testing.T) {
	t.Parallel()
	server := start(t)
	over := errors.New("over")
	terms := 0
	err := server.locks().Lock("k").Lead(background, func(ctx context.Context, grant *Grant) error {
		terms++
		if terms == 5 {
			return over
		}
		server.do("DEL k")
		<-ctx.Done()
		return []error{nil, fmt.Errorf("wrapped: %w", context.Cause(ctx)), ctx.Err(), grant.Check(background)}[terms-1]
	})
	mustSay(t, err, over)
}

// Once asks again where others have the lock, and not where the work found another one busy.
func TestWorkThatFindsAnotherLockBusyIsNotDoneAgain(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	acquire(t, locks.Lock("other"))
	done := 0
	_, err := Once(background, locks.Lock("k", patient), nothing,
		func(context.Context, *Grant) (int, error) {
			if done++; done > 1 {
				return 0, errors.New("again")
			}
			_, err := locks.Lock("other").Acquire(background)
			return 0, err
		})
	mustSay(t, err, ErrBusy)
}

// nothing is what a look finds that finds nothing.
func nothing(context.Context) (int, bool, error) { return 0, false, nil }

// Where others share the lock for another end, it is waited for, and not asked for again and again.
func TestOnceStandsInLineWhereOthersStay(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	reader := acquire(t, locks.Shared("k"))
	before := server.calls("lock.acquire")
	done := meanwhile(func() error {
		_, err := Once(background, locks.Lock("k", patient), nothing,
			func(context.Context, *Grant) (int, error) { return 1, nil })
		return err
	})
	server.waiting("k", 1)
	mustSay(t, reader.Release(background), nil)
	mustSay(t, <-done, nil)
	if calls := server.calls("lock.acquire") - before; calls > 6 {
		t.Fatal("asked", calls, "times")
	}
}

// One that ended while the others were waited for is not told as held.
func TestSeveralLocksAreNotHadWhenOneWasLostMeanwhile(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	other := acquire(t, locks.Lock("b"))
	got := meanwhile(func() error {
		_, err := locks.All(background, []string{"a", "b"}, patient)
		return err
	})
	server.waiting("b", 1)
	server.do("DEL a")
	eventually(t, "the keeper is back", func() bool { return server.calls("lock.renew") > 0 })
	eventually(t, "it is known", func() bool {
		locks.mu.Lock()
		defer locks.mu.Unlock()
		return len(locks.held) == 1
	})
	mustSay(t, other.Release(background), nil)
	mustSay(t, <-got, ErrLost)
	eventually(t, "free", func() bool { return server.do("EXISTS b") == int64(0) })
}
