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

	// Of the mutex of the Locks.
	claim  state.Claim
	news   chan struct{} // the state of the claim has changed
	isLost bool          // lost is closed
	onLost []func(error)
	ender  *time.Timer // at the maximum time, and at the end of a fixed lease
}

// change makes a call about the grant. before returns its command, after applies the answer.
func (g *Grant) change(ctx context.Context, before func(*state.State) ([]any, *Error),
	after func(*state.State, answer) *Error) *Error {
	g.turn.Lock()
	defer g.turn.Unlock()
	st := g.locks.lock()
	command, failure := before(st)
	call, to := st.BeginCall(g.claim.Name), target{key: g.claim.Key}
	g.locks.unlock()
	var a answer
	if failure == nil {
		a = g.locks.call(ctx, to, func(*node) []any { return command })
	}
	st = g.locks.lock()
	defer g.locks.unlock()
	if failure == nil {
		failure = after(st, a)
	}
	if st.EndCall(call); failure != nil && failure.Kind == ErrUnavailable && ctx.Err() != nil {
		return ended(ctx, ErrUnavailable)
	}
	return failure
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
		a := g.locks.call(context.Background(), target{key: g.claim.Key}, func(*node) []any { return command })
		st = g.locks.lock()
		st.Ended(&g.claim, a.reply)
		g.locks.unlock()
	}
}

// find asks for a grant where its key is now: a node of the cluster has deleted or redirected it.
func (g *Grant) find() {
	st := g.locks.lock()
	call := st.BeginCall(g.claim.Name)
	g.locks.unlock()
	var session int64
	a := g.locks.call(context.Background(), target{key: g.claim.Key}, func(n *node) []any {
		if session = n.openSession(); session == 0 {
			return nil
		}
		return g.claim.RenewCommand(session)
	})
	st = g.locks.lock()
	defer g.locks.unlock()
	n := g.claim.Node
	if a.node != nil {
		n = &a.node.Node
	}
	st.Found(&g.claim, n, session, a.sent, a.reply)
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
	err := g.failed("hold", g.locks.st.RequireHeld(&g.claim))
	for _, notify := range g.onLost {
		go notify(err)
	}
	if observed := g.locks.options.Observer.Lost; observed != nil {
		go observed(g.claim.Key, err)
	}
}

func (g *Grant) failed(op string, failure *Error) error { return failed(op, g.claim.Key, failure) }

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
	return g.failed("hold", st.RequireHeld(&g.claim))
}

// Lost is closed when the grant is lost, not when it is released.
func (g *Grant) Lost() <-chan struct{} { return g.lost }

// OnLost calls notify, in a goroutine of its own, when the grant is lost, not when it is released; at once if it is
// lost already.
func (g *Grant) OnLost(notify func(error)) {
	st := g.locks.lock()
	defer g.locks.unlock()
	if g.isLost {
		go notify(g.failed("hold", st.RequireHeld(&g.claim)))
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

// do works under the lock and releases it.
func (g *Grant) do(ctx context.Context, work func(ctx context.Context, grant *Grant) error) (err error) {
	working, cancel := g.Context(ctx)
	defer func() {
		cancel()
		if failure := g.Release(context.WithoutCancel(ctx)); failure != nil {
			err = errors.Join(err, failure)
		}
	}()
	return work(working, g)
}

// confirm makes a call that shows whether the grant stands.
func (g *Grant) confirm(ctx context.Context, before func(*state.State) []any, after func(*state.State)) *Error {
	return g.change(ctx, func(st *state.State) ([]any, *Error) {
		if failure := st.RequireHeld(&g.claim); failure != nil {
			return nil, failure
		}
		return before(st), nil
	}, func(st *state.State, a answer) *Error {
		failure := st.Confirmed(&g.claim, a.sent, a.reply)
		if failure == nil {
			after(st)
		}
		return failure
	})
}

// Check asks the server whether the grant stands. The error is [ErrLost] if it does not.
func (g *Grant) Check(ctx context.Context) error {
	return g.failed("check", g.confirm(ctx, func(*state.State) []any {
		return []any{"LOCK.FENCE", g.claim.Key, g.claim.Token}
	}, func(*state.State) {}))
}

// enterAgain adds a hold.
func (g *Grant) enterAgain(ctx context.Context, mode []any) error {
	return g.failed("acquire", g.confirm(ctx, func(*state.State) []any {
		command := append([]any{"LOCK.ACQUIRE", g.claim.Key, g.claim.Owner}, mode...)
		return append(command, "PX", state.Milliseconds(g.claim.Lease), "HOLDS", g.claim.Holds+1, "TOKEN", g.claim.Token)
	}, func(*state.State) { g.claim.Holds++ }))
}

// renew gives the grant this lease, and takes it out of its session.
func (g *Grant) renew(ctx context.Context, lease time.Duration, leaves bool) *Error {
	return g.confirm(ctx, func(st *state.State) []any {
		st.Shorten(&g.claim, lease, leaves)
		command := []any{"LOCK.RENEW", g.claim.Key, g.claim.Owner, "PX", state.Milliseconds(lease), "TOKEN", g.claim.Token}
		if leaves {
			command = append(command, "SESSION", 0)
		}
		return command
	}, func(*state.State) {
		if g.ender != nil {
			g.ender.Reset(0)
		}
	})
}

// Extend gives the grant another lease, from now on. The server goes on to renew it with that lease, unless it is
// [Fixed].
func (g *Grant) Extend(ctx context.Context, lease time.Duration) error {
	if lease < time.Millisecond || lease < leastLease && !g.claim.Fixed {
		return misuse("extend", g.claim.Key, "a lease is at least 1 millisecond, and 1 second where the session renews it")
	}
	return g.failed("extend", g.renew(ctx, lease, g.claim.Fixed))
}

// Detach lets go of the lock without releasing it: it is not held here any more, nobody renews it, and it stays for
// this lease, for a caller of [Locks.Adopt] with its key, owner and token.
func (g *Grant) Detach(ctx context.Context, lease time.Duration) error {
	if lease < time.Millisecond || g.claim.Holds > 1 {
		return misuse("detach", g.claim.Key, "a lease is at least 1 millisecond, and the task has one hold")
	}
	failure := g.renew(ctx, lease, true)
	if failure == nil {
		st := g.locks.lock()
		st.LetGo(&g.claim)
		g.locks.unlock()
	}
	return g.failed("detach", failure)
}

// Release gives the lock back, or one hold of it. The error is [ErrLost] if it was lost before. Without an answer the
// call is repeated for two reply timeouts, or until the context ends. After that the session repeats it, and the error
// is [ErrUnavailable].
func (g *Grant) Release(ctx context.Context) (err error) {
	if observed := g.locks.options.Observer.Released; observed != nil {
		defer func() { observed(g.claim.Key, time.Since(g.taken), err) }()
	}
	return g.failed("release", g.change(ctx, func(st *state.State) ([]any, *Error) {
		failure := st.Release(&g.claim)
		if g.ender != nil && g.claim.Holds == 0 {
			g.ender.Stop()
		}
		return g.claim.ReleaseCommand(), failure
	}, func(st *state.State, a answer) *Error { return st.Released(&g.claim, a.reply, a.wasOpen) }))
}
