package redislock

import (
	"context"
	"testing"
	"time"
)

func TestTakesAndReleases(t *testing.T) {
	t.Parallel()
	s := start(t)
	locks := s.locks()
	grant := must[*Grant](t)(locks.Acquire(background, "k"))
	if s.info("k", "owner") != grant.Owner() || s.info("k", "token") != grant.Token() || !grant.Held() {
		t.Fatal(s.run("LOCK.INFO k"), grant.Owner())
	}
	is(t, grant.Check(background), nil)
	_, err := s.locks().TryAcquire(background, "k")
	is(t, err, ErrBusy)
	is(t, grant.Release(background), nil)
	if s.info("k", "owner") != nil || grant.Held() {
		t.Fatal("not released")
	}
	is(t, grant.Release(background), ErrMisuse)
}

func TestTheEndOfTheContextEndsAWait(t *testing.T) {
	t.Parallel()
	s := start(t)
	grant := must[*Grant](t)(s.locks().Acquire(background, "k"))
	locks := s.locks()
	ctx, cancel := context.WithCancel(background)
	waiting := meanwhile(func() (*Grant, error) { return locks.Acquire(ctx, "k") })
	s.waiting("k", 1)
	cancel()
	cancelled := <-waiting
	is(t, cancelled.err, context.Canceled)
	s.waiting("k", 0)
	ctx, cancel = context.WithTimeout(background, 50*time.Millisecond)
	defer cancel()
	_, err := locks.Acquire(ctx, "k")
	is(t, err, ErrBusy)
	_, err = locks.Acquire(background, "k", Wait(50*time.Millisecond))
	is(t, err, ErrBusy)
	is(t, grant.Release(background), nil)
}
