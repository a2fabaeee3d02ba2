package redislock

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// Grant is a lock that is held, until its release or its loss.
type Grant struct {
	locks *Locks
	lost  chan struct{}
	turn  sync.Mutex // of the calls about the grant
	taken time.Time
	most  state.Time // its end, by AtMost
	to    target     // where its ACQUIRE goes
	node  *node      // where it waits

	// Of the mutex of the Locks.
	claim  state.Claim
	news   chan struct{} // the state of the claim has changed
	isLost bool          // lost is closed
	onLost []func(error)
	ender  *time.Timer // at the maximum time, and at the end of a fixed lease
}

// call makes a call about the grant. before returns its command, after applies the answer.
func (g *Grant) call(ctx context.Context, op string, before func(*state.State) ([]any, *Error),
	after func(*state.State, *state.Claim, state.Answer) *Error) error {
	g.turn.Lock()
	defer g.turn.Unlock()
	st := g.locks.lock()
	command, failure := before(st)
	call := st.BeginCall(g.claim.Name)
	g.locks.unlock()
	var a state.Answer
	if failure == nil {
		_, a = g.locks.call(ctx, target{key: g.claim.Key}, func(*node) []any { return command })
	}
	st = g.locks.lock()
	defer g.locks.unlock()
	if failure == nil {
		failure = after(st, &g.claim, a)
	}
	if st.EndCall(call); failure != nil && failure.Kind == ErrUnavailable && ctx.Err() != nil {
		failure = ended(ctx, ErrUnavailable)
	}
	return failed(op, g.claim.Key, failure)
}

// start follows the hand-over of a grant.
func (g *Grant) start(atMost time.Duration) {
	g.taken, g.most = time.Now(), math.MaxInt64
	if atMost > 0 {
		g.most = now() + atMost
	}
	if atMost > 0 || g.claim.Fixed {
		g.locks.mu.Lock()
		defer g.locks.mu.Unlock()
		g.ender = time.AfterFunc(0, g.end)
	}
}

// end ends the grant at its maximum time, and at the end of a fixed lease.
func (g *Grant) end() {
	st := g.locks.lock()
	command, rest := st.End(&g.claim, g.most)
	if rest > 0 {
		g.ender.Reset(rest)
	}
	g.locks.unlock()
	if command != nil {
		_, a := g.locks.call(context.Background(), target{key: g.claim.Key}, func(*node) []any { return command })
		defer g.locks.unlock()
		g.locks.lock().Ended(&g.claim, a.Reply)
	}
}

// find asks for a grant where its key is now: a node of the cluster has deleted or redirected it.
func (g *Grant) find() {
	l, session := g.locks, int64(0)
	call := l.lock().BeginCall(g.claim.Name)
	l.unlock()
	n, a := l.call(context.Background(), target{key: g.claim.Key}, func(n *node) []any {
		defer l.unlock()
		l.lock()
		if session = n.Session; session == 0 {
			n.run()
			return nil
		}
		return g.claim.RenewCommand(session)
	})
	st := l.lock()
	defer l.unlock()
	st.Found(&g.claim, n, session, a)
	st.EndCall(call)
}

// wake has the caller of an acquire look again, and reports a loss. The mutex is held.
func (g *Grant) wake() {
	if g.news != nil {
		g.news <- struct{}{}
		g.news = nil
	}
	if g.claim.Phase != state.Lost || !g.claim.HandedOver || g.isLost {
		return
	}
	g.isLost = true
	close(g.lost)
	err := failed("hold", g.claim.Key, g.locks.st.RequireHeld(&g.claim))
	for _, notify := range g.onLost {
		go notify(err)
	}
	g.locks.options.Observer.lost(g.claim.Key, err)
}

// Key is the key of the lock.
func (g *Grant) Key() string { return g.claim.Key }

// Owner is the holder, to the server.
func (g *Grant) Owner() string { return g.claim.Owner }

// Token is the fencing token: later grants of the lock have higher ones.
func (g *Grant) Token() int64 { return g.claim.Token }

// Held reports whether nobody else has the lock, by the clock alone. It is false also while the server is silent.
func (g *Grant) Held() bool { return g.Remaining() > 0 }

// Remaining is for how long Held stays true without another reply of the server.
func (g *Grant) Remaining() time.Duration {
	st := g.locks.lock()
	defer g.locks.unlock()
	if st.RequireHeld(&g.claim) != nil {
		return 0
	}
	return max(0, st.Sure(&g.claim)-st.At)
}

// Err is nil until the grant is lost ([ErrLost], with the reason) or released ([ErrMisuse]).
func (g *Grant) Err() error {
	st := g.locks.lock()
	defer g.locks.unlock()
	return failed("hold", g.claim.Key, st.RequireHeld(&g.claim))
}

// Lost is closed when the grant is lost, not when it is released.
func (g *Grant) Lost() <-chan struct{} { return g.lost }

// OnLost calls notify, in a goroutine of its own, when the grant is lost, not when it is released; at once if it is
// lost already.
func (g *Grant) OnLost(notify func(error)) {
	st := g.locks.lock()
	defer g.locks.unlock()
	if g.isLost {
		go notify(failed("hold", g.claim.Key, st.RequireHeld(&g.claim)))
	}
	g.onLost = append(g.onLost, notify)
}

// Context ends when the parent ends and when the grant is lost, with [ErrLost] as its cause. Call cancel when the work
// is done.
func (g *Grant) Context(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(parent)
	g.OnLost(end)
	return ctx, func() { end(nil) }
}

// do works under the lock, if it was acquired, and releases it.
func (g *Grant) do(ctx context.Context, work func(ctx context.Context, grant *Grant) error, err error) (failure error) {
	if err != nil {
		return err
	}
	working, cancel := g.Context(ctx)
	defer func() {
		cancel()
		if err := g.Release(context.WithoutCancel(ctx)); err != nil {
			failure = errors.Join(failure, err)
		}
	}()
	return work(working, g)
}

// Check asks the server whether the grant stands. The error is [ErrLost] if it does not.
func (g *Grant) Check(ctx context.Context) error {
	return g.call(ctx, "check", func(st *state.State) ([]any, *Error) { return st.Check(&g.claim) }, (*state.State).Confirmed)
}

// enterAgain adds a hold.
func (g *Grant) enterAgain(ctx context.Context, mode []any) error {
	return g.call(ctx, "acquire", func(st *state.State) ([]any, *Error) { return st.Enter(&g.claim, mode) },
		func(st *state.State, c *state.Claim, a state.Answer) *Error {
			failure := st.Confirmed(c, a)
			if failure == nil {
				c.Holds++
			}
			return failure
		})
}

// renew gives the grant this lease. leaves: it also takes the grant out of its session.
func (g *Grant) renew(ctx context.Context, op string, lease time.Duration, leaves bool) error {
	err := g.call(ctx, op, func(st *state.State) ([]any, *Error) { return st.Renew(&g.claim, lease, leaves) },
		(*state.State).Confirmed)
	if err == nil && g.ender != nil {
		g.ender.Reset(0)
	}
	return err
}

// Extend gives the grant another lease, from now on. The server goes on to renew it with that lease, unless it is
// [Fixed].
func (g *Grant) Extend(ctx context.Context, lease time.Duration) error {
	if lease < time.Millisecond || lease < leastLease && !g.claim.Fixed {
		return misuse("extend", g.claim.Key, "a lease is at least 1 millisecond, and 1 second where the session renews it")
	}
	return g.renew(ctx, "extend", lease, g.claim.Fixed)
}

// Detach lets go of the lock without releasing it: it is not held here any more, nobody renews it, and it stays for
// this lease, for a caller of [Locks.Adopt] with its key, owner and token.
func (g *Grant) Detach(ctx context.Context, lease time.Duration) error {
	if lease < time.Millisecond || g.claim.Holds > 1 {
		return misuse("detach", g.claim.Key, "a lease is at least 1 millisecond, and the task has one hold")
	}
	err := g.renew(ctx, "detach", lease, true)
	if err == nil {
		defer g.locks.unlock()
		g.locks.lock().LetGo(&g.claim)
	}
	return err
}

// Release gives the lock back, or one hold of it. The error is [ErrLost] if it was lost before. Without an answer the
// call is repeated for two reply timeouts, or until the context ends. After that the session repeats it, and the error
// is [ErrUnavailable].
func (g *Grant) Release(ctx context.Context) (err error) {
	defer func() { g.locks.options.Observer.released(g.claim.Key, g.taken, err) }()
	return g.call(ctx, "release", func(st *state.State) ([]any, *Error) { return st.Release(&g.claim) }, (*state.State).Released)
}
