package redislock

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Options without a meaning are ErrMisuse.
func TestWrongOptions(t *testing.T) {
	t.Parallel()
	s := start(t)
	locks := s.locks()
	for _, wrong := range [][]LockOption{{Permits(0)}, {Shared(), Permits(2)}, {Fixed(0)}} {
		_, err := locks.Acquire(background, "k", wrong...)
		is(t, err, ErrMisuse)
	}
	for _, short := range []func(*Options){func(o *Options) { o.Lease = time.Millisecond }, func(o *Options) { o.Silence = time.Millisecond }} {
		_, err := s.locks(short).Acquire(background, "k")
		is(t, err, ErrMisuse)
	}
}

// A fixed lease is not renewed, whether the grant was waited for or not; it expires, or is extended.
func TestAFixedLeaseExpires(t *testing.T) {
	t.Parallel()
	s := start(t)
	locks := s.locks()
	first := must[*Grant](t)(locks.TryAcquire(background, "k", Fixed(500*time.Millisecond)))
	second := must[*Grant](t)(locks.Acquire(background, "k", Fixed(300*time.Millisecond)))
	isLost(t, first)
	is(t, second.Extend(background, 700*time.Millisecond), nil)
	if left := second.Remaining(); left < 400*time.Millisecond || left > 700*time.Millisecond {
		t.Fatal(left)
	}
	isLost(t, second)
	is(t, second.Release(background), ErrLost)
	eventually(t, "free", func() bool { return s.info("k", "owner") == nil })
}

// What one process detaches, another adopts; the token stays.
func TestAGrantIsHandedOn(t *testing.T) {
	t.Parallel()
	s := start(t)
	from, to := s.locks(func(o *Options) { o.Prefix = "p:" }), s.locks(func(o *Options) { o.Prefix = "p:"; o.Lease = time.Second })
	for _, options := range [][]LockOption{nil, {Fixed(time.Minute)}} {
		var grant *Grant
		is(t, from.Do(background, "k", func(ctx context.Context, it *Grant) error {
			grant = it // after this nothing is left to release
			return grant.Detach(ctx, 5*time.Second)
		}), nil)
		if grant.Held() || s.info("p:k", "owner") != grant.Owner() {
			t.Fatal("not detached")
		}
		adopted := must[*Grant](t)(to.Task().Adopt(background, "k", grant.Owner(), grant.Token(), options...))
		if adopted.Token() != grant.Token() || !adopted.Held() {
			t.Fatal(adopted.Err())
		}
		is(t, adopted.Check(background), nil)
		is(t, adopted.Release(background), nil)
		_, err := to.Adopt(background, "k", grant.Owner(), grant.Token(), options...)
		is(t, err, ErrLost)
	}
}

func TestSeveralLocksOrNone(t *testing.T) {
	t.Parallel()
	s := start(t)
	locks := s.locks()
	other := must[*Grant](t)(locks.Acquire(background, "b"))
	_, err := locks.AcquireAll(background, []string{"c", "b", "a", "a"}, Wait(0))
	is(t, err, ErrBusy)
	if s.info("a", "owner") != nil {
		t.Fatal("a stays")
	}
	is(t, other.Release(background), nil)
	all := must[Grants](t)(locks.AcquireAll(background, []string{"c", "b", "a", "a"}))
	if len(all) != 3 || all[0].Owner() != all[2].Owner() {
		t.Fatal(all)
	}
	is(t, all.Release(background), nil)
}

func TestALeaderLeadsAgain(t *testing.T) {
	t.Parallel()
	s := start(t)
	ctx, cancel := context.WithCancel(background)
	leads, over := make(chan *Grant, 1), make(chan error, 1)
	locks := s.locks()
	go func() {
		over <- locks.Lead(ctx, "k", func(ctx context.Context, grant *Grant) error {
			leads <- grant
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	first := <-leads
	s.run("DEL k")
	if second := <-leads; second.Token() <= first.Token() {
		t.Fatal("the same")
	}
	cancel()
	is(t, <-over, context.Canceled)
	eventually(t, "free", func() bool { return s.info("k", "owner") == nil })
	bad := errors.New("bad")
	is(t, locks.Lead(background, "k", func(context.Context, *Grant) error { return bad }), bad)
}

// A shorter lease of a grant in the session is renewed as such.
func TestALeaseIsChanged(t *testing.T) {
	t.Parallel()
	s := start(t)
	grant := must[*Grant](t)(s.locks().Acquire(background, "k"))
	is(t, grant.Extend(background, time.Second), nil)
	if s.info("k", "lease-ms") != int64(1000) || grant.Remaining() > time.Second {
		t.Fatal(s.run("LOCK.INFO k"), grant.Remaining())
	}
	for end := time.Now().Add(2500 * time.Millisecond); time.Now().Before(end); time.Sleep(20 * time.Millisecond) { // the time is tested
		if grant.Err() != nil {
			t.Fatal(grant.Err())
		}
	}
	is(t, grant.Release(background), nil)
}
