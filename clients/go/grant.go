package redislock

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Grant is one hold of a lock: until its release, or its loss.
type Grant struct {
	*ownership
	life     context.Context // ends with this hold
	end      context.CancelCauseFunc
	released atomic.Bool
}

func newGrant(o *ownership) *Grant {
	g := &Grant{ownership: o}
	g.life, g.end = context.WithCancelCause(o.life)
	return g
}

// Key is the key of the lock.
func (g *Grant) Key() string { return g.key }

// Owner is who holds it, to the server.
func (g *Grant) Owner() string { return g.owner }

// Token is the fencing token: later grants of the lock have higher ones.
func (g *Grant) Token() int64 { return g.token }

// Held says whether it is neither released nor told as lost. It asks nobody: see [Grant.Check].
func (g *Grant) Held() bool { return g.Err() == nil }

// Err is nil while the grant is held, and then why it is not: [ErrLost], [ErrClosed], or [ErrMisuse] after a
// release.
func (g *Grant) Err() error {
	if g.released.Load() {
		return &Error{Op: "hold", Key: g.key, Kind: ErrMisuse, Cause: errReleased}
	}
	if err := g.err(); err != nil {
		return named(err, "hold", g.key)
	}
	return nil
}

// Lost is closed when the grant is lost, and when it is released: [Grant.Err] tells which.
func (g *Grant) Lost() <-chan struct{} { return g.life.Done() }

// OnLost runs told, in a goroutine of its own, when the grant is lost; not when it is released. Call stop to call
// that off: it says whether it came in time.
func (g *Grant) OnLost(told func(error)) (stop func() bool) {
	return context.AfterFunc(g.life, func() {
		if err := context.Cause(g.life); errors.Is(err, ErrLost) {
			told(err)
		}
	})
}

// Context ends when the parent does, and when the grant is lost or released; the cause is [ErrLost] then. Call
// cancel when the work is done.
func (g *Grant) Context(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	working, end := context.WithCancelCause(parent)
	stop := context.AfterFunc(g.life, func() { end(context.Cause(g.life)) })
	return working, func() {
		stop()
		end(nil)
	}
}

// Remaining is for how long the grant is known to stand though nothing more were heard of the server.
func (g *Grant) Remaining() time.Duration {
	if !g.Held() {
		return 0
	}
	return max(0, time.Until(g.until()))
}

// Check asks the server whether the grant stands. Nil is: it does, and for a third of its lease from the call of
// Check on nobody else gets the lock but by force, or by whoever knows a named [Owner] and releases it.
func (g *Grant) Check(ctx context.Context) error {
	if err := g.Err(); err != nil {
		return named(err, "check", g.key)
	}
	if err := g.locks.begin(); err != nil {
		return named(err, "check", g.key)
	}
	defer g.locks.finish()
	if g.locks.quorum != nil {
		return g.checkOnQuorum(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, g.locks.options.Reply)
	defer cancel()
	g.takeOver()
	for {
		a, sure := g.ask(limited)
		if err := g.Err(); err != nil {
			return named(err, "check", g.key)
		}
		if sure {
			return nil
		}
		if kindOf(releasing, a.err) == ErrLost {
			g.lose(a.err)
			return named(g.Err(), "check", g.key)
		}
		if a.err != nil {
			return g.locks.failed(ctx, releasing, "check", g.key, a.err)
		}
		select {
		case <-time.After(soon): // its renewal on a new connection is under way
		case <-limited.Done():
		}
	}
}

// ask has any command answered on the connection that keeps the grant: while that is open, the grant stands. Not so
// where it was released in the owner's name, of which a connection does not tell; then the token is asked for.
func (g *Grant) ask(ctx context.Context) (a answer, sure bool) {
	g.mu.Lock()
	isKept := g.keep > 0
	g.mu.Unlock()
	if isKept && !g.named {
		a = g.locks.ask(ctx, renewing, g.key, "PING")
	} else { // a user that may not ask is told at once
		a = g.locks.ask(ctx, releasing, g.key, "LOCK.FENCE", g.key, g.token)
	}
	if !isKept {
		return a, a.err == nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if a.err == nil && g.keeper != a.keeper {
		g.locks.servers.doubt() // the map of a cluster is behind
	}
	return a, a.err == nil && g.link == a.link
}

// Extend gives the grant another lease from now on, shorter or longer; of a lock that is kept, it is the one with
// which the server goes on.
func (g *Grant) Extend(ctx context.Context, lease time.Duration) error {
	g.mu.Lock()
	isKept := g.keep > 0
	g.mu.Unlock()
	if lease < time.Millisecond || lease > longestTime || isKept && lease < leastKept {
		return named(misuse("a lease is 1 millisecond or more, 1 second where it is kept"), "extend", g.key)
	}
	return g.change(ctx, "extend", lease, "PX", milliseconds(lease))
}

// Downgrade makes an exclusive lock a shared one, without letting go: others that share get in beside it, and may be there
// already where it ends without an answer.
func (g *Grant) Downgrade(ctx context.Context) error { return g.change(ctx, "downgrade", 0, "SHARED") }

// change is a renewal.
func (g *Grant) change(ctx context.Context, op string, lease time.Duration, words ...any) error {
	if err := g.Err(); err != nil {
		return named(err, op, g.key)
	}
	if err := g.locks.begin(); err != nil {
		return named(err, op, g.key)
	}
	defer g.locks.finish()
	if g.locks.quorum != nil {
		if lease == 0 {
			return named(errOnlyExclusive, op, g.key)
		}
		return g.changeOnQuorum(ctx, op, lease)
	}
	limited, cancel := context.WithTimeout(ctx, g.locks.options.Reply)
	defer cancel()
	asBefore := func() {}
	if lease > 0 {
		asBefore = g.mayEnd(time.Now(), lease)
	}
	a := g.askAsKept(limited, renewing, append([]any{"LOCK.RENEW", g.key, g.owner, "TOKEN", g.token}, words...)...)
	switch {
	case a.err == nil:
		g.confirm(a.call, nil)
		if err := g.Err(); err != nil { // its end came before the answer
			return named(err, op, g.key)
		}
		return nil
	case kindOf(renewing, a.err) == ErrLost:
		g.lose(a.err)
		return named(g.Err(), op, g.key)
	case !a.open:
		asBefore()
	default:
		g.mayLast()
	}
	return g.locks.failed(ctx, renewing, op, g.key, a.err)
}
