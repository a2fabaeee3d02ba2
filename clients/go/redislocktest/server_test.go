package redislocktest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	redislock "github.com/redis-lock/redis-lock/clients/go"
	"github.com/redis-lock/redis-lock/clients/go/redislocktest"
)

var background = context.Background()

func locks(t *testing.T, server *redislocktest.Server) *redislock.Locks {
	client := server.Client()
	locks := redislock.New(client, redislock.Options{})
	t.Cleanup(func() {
		if err := locks.Close(background); err != nil {
			t.Error(err)
		}
		_ = client.Close()
	})
	return locks
}

func acquire(t *testing.T, locks *redislock.Locks, options ...redislock.LockOption) *redislock.Grant {
	t.Helper()
	grant, err := locks.Acquire(background, "k", options...)
	if err != nil {
		t.Fatal(err)
	}
	return grant
}

func TestFirstComeFirstServed(t *testing.T) {
	server := redislocktest.New()
	grant := acquire(t, locks(t, server))
	if err := grant.Check(background); err != nil {
		t.Fatal(err)
	}
	var waiting []chan *redislock.Grant
	other := locks(t, server)
	for n := range 3 {
		got := make(chan *redislock.Grant, 1)
		waiting = append(waiting, got)
		go func() {
			grant, err := other.Acquire(background, "k")
			if err != nil {
				t.Error(err)
			}
			got <- grant
		}()
		for line := 0; line != n+1; time.Sleep(time.Millisecond) {
			_, line = server.Count("k")
		}
	}
	for _, next := range waiting {
		last := grant.Token()
		if err := grant.Release(background); err != nil {
			t.Fatal(err)
		}
		if grant = <-next; grant == nil || grant.Token() <= last {
			t.Fatal("tokens do not rise")
		}
	}
	if _, err := locks(t, server).TryAcquire(background, "k"); !errors.Is(err, redislock.ErrBusy) {
		t.Fatal(err)
	}
	if _, err := locks(t, server).Acquire(background, "k", redislock.Wait(20*time.Millisecond)); !errors.Is(err, redislock.ErrBusy) {
		t.Fatal(err)
	}
}

func TestALockIsLost(t *testing.T) {
	server := redislocktest.New()
	mine := locks(t, server)
	err := mine.Do(background, "k", func(ctx context.Context, grant *redislock.Grant) error {
		if !server.Lose("k") {
			t.Error("it is free")
		}
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, redislock.ErrLost) || server.Lose("k") {
		t.Fatal(err)
	}
	task := mine.Task()
	for range 2 {
		if grant, err := task.Acquire(background, "k"); err != nil || grant.Err() != nil {
			t.Fatal(err, grant.Err())
		}
	}
}

func TestAFixedLeaseEndsByTime(t *testing.T) {
	server := redislocktest.New()
	grant := acquire(t, locks(t, server), redislock.Fixed(100*time.Millisecond))
	if _, waited := server.Count("k"); waited != 0 {
		t.Fatal(waited)
	}
	next := acquire(t, locks(t, server))
	if <-grant.Lost(); next.Token() <= grant.Token() {
		t.Fatal("tokens do not rise")
	}
	if err := next.Detach(background, time.Minute); err != nil {
		t.Fatal(err)
	}
	adopted, err := locks(t, server).Adopt(background, "k", next.Owner(), next.Token())
	if err != nil || adopted.Release(background) != nil {
		t.Fatal(err)
	}
}

func TestPermitsAndSharedLocks(t *testing.T) {
	server := redislocktest.New()
	mine := locks(t, server)
	for _, option := range []redislock.LockOption{redislock.Permits(2), redislock.Shared()} {
		one, two := acquire(t, mine, option), acquire(t, mine, option)
		writer := make(chan error, 1)
		go func() {
			err := mine.Do(background, "k", func(_ context.Context, grant *redislock.Grant) error {
				return errors.Join(one.Err(), two.Err(), grant.Check(background))
			})
			writer <- err
		}()
		for line := 0; line != 1; time.Sleep(time.Millisecond) {
			_, line = server.Count("k")
		}
		if _, err := mine.TryAcquire(background, "k", option); !errors.Is(err, redislock.ErrBusy) {
			t.Fatal("it passes the line", err)
		}
		if err := errors.Join(one.Release(background), two.Release(background)); err != nil {
			t.Fatal(err)
		}
		if err := <-writer; !errors.Is(err, redislock.ErrMisuse) || errors.Is(err, redislock.ErrLost) {
			t.Fatal(err)
		}
	}
	if holders, waiters := server.Count("k"); holders+waiters != 0 {
		t.Fatal(holders, waiters)
	}
}
