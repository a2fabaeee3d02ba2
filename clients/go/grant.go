package redislock

import (
	"context"
	"sync"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// Grant is a lock that is held, until its release or its loss.
type Grant struct {
	loss
	locks *Locks
	turn  sync.Mutex // of the calls about the grant

	// Guarded by the mutex of the Locks.
	claim   state.Claim
	changed chan struct{} // ends a pause of the acquire
	ender   *time.Timer   // at the maximum time, and at the end of a fixed lease
}

// applies is a function that applies the answer to a call about a grant.
type applies = func(*state.State, *state.Claim, state.Reply) *state.Fault

// call makes a call about the grant, if it is held. begin returns its command.
func (g *Grant) call(ctx context.Context, op string, begin func(*state.State) []any, apply applies) error {
	g.turn.Lock()
	defer g.turn.Unlock()
	st := g.locks.lock()
	defer g.locks.unlock()
	fault := g.claim.RequireHeld()
	if fault == nil {
		fault = g.send(ctx, 2*g.locks.options.Reply, begin(st), apply)
	}
	if fault != nil && fault.Kind == ErrUnavailable && ctx.Err() != nil {
		fault = ended(ctx, ErrUnavailable)
	}
	return failed(op, g.claim.Key, fault)
}

// send sends a command about the grant until it is answered, or this time is over.
func (g *Grant) send(ctx context.Context, limit time.Duration, command []any, apply applies) *state.Fault {
	return g.underWay(func() state.Reply { return g.locks.call(ctx, target{key: g.claim.Key}, limit, command) }, apply)
}

// underWay makes a call. The mutex is held before and after, but not meanwhile.
func (g *Grant) underWay(call func() state.Reply, apply applies) *state.Fault {
	l, name := g.locks, g.claim.Name
	l.st.BeginCall(name)
	l.unlock()
	reply := call()
	st := l.lock()
	defer st.EndCall(name)
	return apply(st, &g.claim, reply)
}

// end ends the grant at its maximum time, and at the end of a fixed lease.
func (g *Grant) end() {
	st := g.locks.lock()
	defer g.locks.unlock()
	isOver, rest := st.End(&g.claim)
	if isOver {
		_ = g.send(context.Background(), 2*g.locks.options.Reply, g.claim.ReleaseCommand(), (*state.State).Released)
	} else if rest > 0 {
		g.ender.Reset(rest)
	}
}

// find looks for a grant on the node that has its key now, because a cluster node has deleted or redirected it.
func (g *Grant) find() {
	defer g.locks.unlock()
	g.locks.lock()
	_ = g.send(context.Background(), 2*g.locks.options.Reply, g.claim.RenewCommand(),
		func(st *state.State, c *state.Claim, reply state.Reply) *state.Fault { return st.Moved(c, 0, reply) })
}

// wake makes the caller of an acquire check again, reports a loss, and looks for a grant that has moved. The mutex is
// held.
func (g *Grant) wake() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
	switch {
	case g.claim.IsLost() && g.claim.HandedOver:
		g.loss.end(failed("hold", g.claim.Key, g.claim.Failure))
	case g.claim.Phase == state.Held && g.claim.Doubt != "":
		go g.find()
	}
}

// Key is the key of the lock, with the prefix of the [Options].
func (g *Grant) Key() string { return g.claim.Key }

// Owner is the holder, to the server.
func (g *Grant) Owner() string { return g.claim.Owner }

// Token is the fencing token: later grants of the lock have higher ones.
func (g *Grant) Token() int64 { return g.claim.Token }

// Held reports whether nobody else has the lock, by the clock alone. It is also false while the server is silent.
func (g *Grant) Held() bool { return g.Remaining() > 0 }

// Remaining is how long Held stays true without another reply from the server.
func (g *Grant) Remaining() time.Duration {
	st := g.locks.lock()
	defer g.locks.unlock()
	if g.claim.RequireHeld() != nil {
		return 0
	}
	return max(0, g.claim.Sure-st.At)
}

// Err is nil until the grant is lost ([ErrLost], with the reason) or released ([ErrMisuse]).
func (g *Grant) Err() error {
	g.locks.mu.Lock()
	defer g.locks.mu.Unlock()
	return failed("hold", g.claim.Key, g.claim.RequireHeld())
}

// Check asks the server whether the grant still exists. The error is [ErrLost] if it does not, and [ErrUnavailable]
// without an answer for two reply timeouts.
func (g *Grant) Check(ctx context.Context) error {
	return g.call(ctx, "check", func(*state.State) []any { return []any{"LOCK.FENCE", g.claim.Key, g.claim.Token} },
		(*state.State).Confirmed)
}

// enterAgain adds a hold.
func (g *Grant) enterAgain(ctx context.Context, mode []any) error {
	return g.call(ctx, "acquire", func(*state.State) []any { return g.claim.EnterCommand(mode) },
		func(st *state.State, c *state.Claim, reply state.Reply) *state.Fault {
			fault := st.Confirmed(c, reply)
			if fault == nil {
				c.Holds++
			}
			return fault
		})
}

// renew gives the grant this lease. leaves: it also takes the grant out of its session.
func (g *Grant) renew(ctx context.Context, op string, lease time.Duration, leaves bool) error {
	if lease < time.Millisecond {
		return misuse(op, g.claim.Key, "a lease must be at least 1 millisecond")
	}
	apply := (*state.State).Confirmed
	if leaves {
		apply = (*state.State).Left
	}
	err := g.call(ctx, op, func(st *state.State) []any { return st.Renew(&g.claim, lease, leaves) }, apply)
	if err == nil && g.ender != nil {
		g.ender.Reset(0)
	}
	return err
}

// Extend gives the grant another lease, from now on. The server then renews it with that lease, unless it is [Fixed].
// The errors are those of Check, and [ErrMisuse] for less than a second, or a millisecond if it is Fixed.
func (g *Grant) Extend(ctx context.Context, lease time.Duration) error {
	return g.renew(ctx, "extend", lease, g.claim.Fixed)
}

// Detach lets go of the lock without releasing it: it is no longer held here, and nobody renews it. It lasts for this
// lease, during which [Locks.Adopt] can take it over by its key, owner and token. The errors are those of Check, and
// [ErrMisuse] for less than a millisecond, or a grant that its task has acquired more than once.
func (g *Grant) Detach(ctx context.Context, lease time.Duration) error {
	if g.claim.Holds > 1 {
		return misuse("detach", g.claim.Key, "the task must have one hold only")
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
	defer func() { observe(g.locks.options.Observer.Released, g.claim.Key, epoch.Add(g.claim.Taken), err) }()
	return g.call(ctx, "release", func(st *state.State) []any { return st.Release(&g.claim) }, (*state.State).Released)
}
