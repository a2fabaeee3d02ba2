package redislock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/server"
	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// Grant is a lock that is held, until its release or its loss.
type Grant struct {
	locks *Locks
	claim *state.Claim
	news  chan struct{} // the state of the claim has changed
	lost  chan struct{}
	turn  sync.Mutex // of the calls about the grant
	taken time.Time

	// Of the mutex of the Locks.
	node   *node
	isLost bool // lost is closed
	onLost []func(error)
	cutter *time.Timer // at the maximum time
	ender  *time.Timer // at the end of a fixed lease

	// Of the goroutine that acquires: where the last reply led.
	at     *server.Server
	asking bool
}

func newGrant(n *node, claim *state.Claim, t terms) *Grant {
	g := &Grant{locks: n.Locks, node: n, claim: claim, news: make(chan struct{}, 1), lost: make(chan struct{}), onLost: t.onLost}
	claim.Caller = g
	return g
}

// lock locks the mutex and returns the node of the grant.
func (g *Grant) lock() *node {
	g.locks.mu.Lock()
	g.node.st.At = now()
	return g.node
}

// answer is what became of a call.
type answer struct {
	sent    state.Time
	reply   state.Reply
	wasOpen bool // an earlier try had no reply
}

// call makes a call about the grant. before returns its command, after applies the last reply.
func (g *Grant) call(ctx context.Context, op string, before func(*state.State) ([]any, *state.Failure),
	after func(*state.State, answer) *state.Failure) error {
	g.turn.Lock()
	defer g.turn.Unlock()
	n := g.lock()
	command, failure := before(n.st)
	call := n.st.BeginCall(g.claim.Name)
	n.unlock()
	var a answer
	if failure == nil {
		a.sent, a.reply, a.wasOpen = g.locks.repeat(ctx, g.claim.Key, command)
	}
	now := g.lock()
	defer now.unlock()
	if failure == nil {
		failure = after(now.st, a)
	}
	n.st.EndCall(call)
	if failure != nil && failure.Kind == ErrUnavailable && ctx.Err() != nil {
		return ended(ctx, op, g.claim.Key, ErrUnavailable)
	}
	return failed(op, g.claim.Key, failure)
}

// start follows the hand-over of a grant.
func (g *Grant) start(t terms) {
	g.taken = time.Now()
	if t.atMost <= 0 && !g.claim.Fixed {
		return
	}
	defer g.lock().unlock()
	if t.atMost > 0 {
		g.cutter = time.AfterFunc(t.atMost, g.cut)
	}
	if g.claim.Fixed {
		g.ender = time.AfterFunc(g.claim.Lease, g.expire)
	}
}

// cut ends the grant at its maximum time.
func (g *Grant) cut() {
	_ = g.call(context.Background(), "release", func(st *state.State) ([]any, *state.Failure) {
		return st.Cut(g.claim)
	}, func(st *state.State, a answer) *state.Failure {
		st.CutAnswered(g.claim, a.reply)
		return nil
	})
}

// expire ends the grant at the end of its fixed lease.
func (g *Grant) expire() {
	n := g.lock()
	defer n.unlock()
	if rest := n.st.Expire(g.claim); rest > 0 {
		g.ender.Reset(rest)
	}
}

// wake has the caller of an acquire look again, and reports a loss. The mutex is held.
func (g *Grant) wake() {
	select {
	case g.news <- struct{}{}:
	default:
	}
	if g.claim.Phase != state.Lost || !g.claim.HandedOver || g.isLost {
		return
	}
	g.isLost = true
	close(g.lost)
	g.stopTimers()
	err := failed("hold", g.claim.Key, state.Fail(ErrLost, g.claim.Reason))
	for _, notify := range g.onLost {
		go notify(err)
	}
	if observed := g.locks.options.Observer.Lost; observed != nil {
		go observed(g.claim.Key, err)
	}
}

func (g *Grant) stopTimers() {
	for _, timer := range []*time.Timer{g.cutter, g.ender} {
		if timer != nil {
			timer.Stop()
		}
	}
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
	n := g.lock()
	defer n.unlock()
	if g.claim.Phase != state.Held {
		return 0
	}
	return max(0, n.st.Sure(g.claim)-n.st.At)
}

// Err is nil until the grant is lost ([ErrLost], with the reason) or released ([ErrMisuse]).
func (g *Grant) Err() error {
	n := g.lock()
	defer n.unlock()
	return failed("hold", g.claim.Key, n.st.RequireHeld(g.claim))
}

// Lost is closed when the grant is lost, not when it is released.
func (g *Grant) Lost() <-chan struct{} { return g.lost }

// OnLost calls notify, in a goroutine of its own, when the grant is lost, not when it is released; at once if it is
// lost already.
func (g *Grant) OnLost(notify func(error)) {
	defer g.lock().unlock()
	if g.isLost {
		go notify(failed("hold", g.claim.Key, state.Fail(ErrLost, g.claim.Reason)))
		return
	}
	g.onLost = append(g.onLost, notify)
}

// Context ends when the parent ends and when the grant is lost, with [ErrLost] as its cause. Call cancel when the work
// is done.
func (g *Grant) Context(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(parent)
	g.OnLost(func(err error) { end(err) })
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

// Check asks the server whether the grant stands. The error is [ErrLost] if it does not.
func (g *Grant) Check(ctx context.Context) error {
	return g.confirm(ctx, "check", func(*state.State) []any { return []any{"LOCK.FENCE", g.claim.Key, g.claim.Token} })
}

// Extend gives the grant another lease, from now on. The server goes on to renew it with that lease, unless it is
// [Fixed].
func (g *Grant) Extend(ctx context.Context, lease time.Duration) error {
	if lease < time.Millisecond || lease < leastLease && !g.claim.Fixed {
		return misuse("extend", g.claim.Key, "a lease is at least 1 second, or 1 millisecond if it is Fixed")
	}
	err := g.confirm(ctx, "extend", func(st *state.State) []any {
		if lease < g.claim.Lease {
			st.Shorten(g.claim, lease)
		}
		return []any{"LOCK.RENEW", g.claim.Key, g.claim.Owner, "PX", state.Milliseconds(lease), "TOKEN", g.claim.Token}
	})
	if g.ender != nil {
		g.expire() // or later
	}
	return err
}

// enterAgain adds a hold.
func (g *Grant) enterAgain(ctx context.Context, mode []any) error {
	return g.confirm(ctx, "acquire", func(*state.State) []any {
		command := append([]any{"LOCK.ACQUIRE", g.claim.Key, g.claim.Owner}, mode...)
		return append(command, "PX", state.Milliseconds(g.claim.Lease), "HOLDS", g.claim.Holds+1, "TOKEN", g.claim.Token)
	})
}

// confirm makes a call that shows whether the grant stands.
func (g *Grant) confirm(ctx context.Context, op string, command func(*state.State) []any) error {
	return g.call(ctx, op, func(st *state.State) ([]any, *state.Failure) {
		if failure := st.RequireHeld(g.claim); failure != nil {
			return nil, failure
		}
		return command(st), nil
	}, func(st *state.State, a answer) *state.Failure {
		failure := st.Confirmed(g.claim, a.sent, a.reply, op == "extend")
		if failure == nil && op == "acquire" {
			st.Entered(g.claim)
		}
		return failure
	})
}

// Release gives the lock back, or one hold of it. The error is [ErrLost] if it was lost before. Without an answer the
// call is repeated for two reply timeouts, or until the context ends. After that the session repeats it, and the error
// is [ErrUnavailable].
func (g *Grant) Release(ctx context.Context) (err error) {
	if observed := g.locks.options.Observer.Released; observed != nil {
		defer func() { observed(g.claim.Key, time.Since(g.taken), err) }()
	}
	return g.call(ctx, "release", func(st *state.State) ([]any, *state.Failure) {
		failure := st.Release(g.claim)
		if g.claim.Holds == 0 {
			g.stopTimers()
		}
		return g.claim.ReleaseCommand(), failure
	}, func(st *state.State, a answer) *state.Failure { return st.Released(g.claim, a.reply, a.wasOpen) })
}

// Detach lets go of the lock without releasing it: it is not held here any more, nobody renews it, and it stays for
// this lease, for a caller of [Locks.Adopt] with its key, owner and token.
func (g *Grant) Detach(ctx context.Context, lease time.Duration) error {
	if lease < time.Millisecond {
		return misuse("detach", g.claim.Key, "a lease is at least 1 millisecond")
	}
	return g.call(ctx, "detach", func(st *state.State) ([]any, *state.Failure) {
		g.stopTimers()
		return []any{"LOCK.RENEW", g.claim.Key, g.claim.Owner, "PX", state.Milliseconds(lease), "SESSION", 0,
			"TOKEN", g.claim.Token}, st.Detach(g.claim)
	}, func(st *state.State, a answer) *state.Failure { return st.Detached(g.claim, a.reply) })
}

// Adopt takes over a grant that another process has detached, by its key, owner and token. Without [Fixed] the
// session renews it from now on. One release gives back all its holds.
func (l *Locks) Adopt(ctx context.Context, key, owner string, token int64, options ...LockOption) (*Grant, error) {
	t := l.terms(options)
	key = l.options.Prefix + key
	if err := l.usable("adopt", key, t); err != nil {
		return nil, err
	}
	g, failure := l.register(state.Name{Key: key, Owner: owner}, nil, t)
	if failure != nil {
		return nil, failed("adopt", key, failure)
	}
	session := int64(0)
	if !t.isFixed {
		session = g.node.awaitSession(ctx, now()+l.options.Reply)
	}
	err := g.call(ctx, "adopt", func(st *state.State) ([]any, *state.Failure) {
		return []any{"LOCK.RENEW", key, owner, "PX", state.Milliseconds(t.lease), "SESSION", session, "TOKEN", token}, nil
	}, func(st *state.State, a answer) *state.Failure { return st.Adopted(g.claim, session, a.sent, a.reply) })
	if err != nil {
		return nil, err
	}
	g.start(t)
	return g, nil
}
