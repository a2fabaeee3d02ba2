package redislock

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// Acquire acquires the lock of a key. It waits in line until the context ends, or as long as [Wait] says. The context
// limits the wait, not the grant: that lasts until its [Grant.Release]. A call to the server that is under way is not
// interrupted, so Acquire may return up to a second after the end of the context. The error is an [*Error] of any kind.
func (l *Locks) Acquire(ctx context.Context, key string, options ...LockOption) (*Grant, error) {
	return l.acquire(ctx, key, l.terms(options...))
}

// TryAcquire acquires the lock if it is free now. Otherwise the error is [ErrBusy].
func (l *Locks) TryAcquire(ctx context.Context, key string, options ...LockOption) (*Grant, error) {
	return l.acquire(ctx, key, l.terms(append(slices.Clip(options), Wait(0))...))
}

// Do acquires the lock, calls work, and releases the lock even if the context has ended. The context of the work ends
// when the lock is lost, with [ErrLost] as its cause. The error of the work is returned as it is; if the lock was lost
// or could not be released, that error is joined to it.
func (l *Locks) Do(ctx context.Context, key string, work func(ctx context.Context, grant *Grant) error,
	options ...LockOption) error {
	grant, err := l.Acquire(ctx, key, options...)
	return doWork(ctx, work, grant, err)
}

// Adopt takes over a grant that another process has detached, by its key, owner and token. Without [Fixed] the
// session renews it from now on. One release gives back all its holds. The error is [ErrLost] if the grant has ended.
func (l *Locks) Adopt(ctx context.Context, key, owner string, token int64, options ...LockOption) (*Grant, error) {
	t := l.terms(options...)
	t.Wait, t.Task, t.Owner, t.Adopted = 0, nil, owner, token
	return l.acquire(ctx, key, t)
}

// acquire acquires a lock for a fresh owner, the task's, or that of the grant to adopt.
func (l *Locks) acquire(ctx context.Context, key string, t terms) (held *Grant, err error) {
	begun := time.Now()
	key = l.options.Prefix + key
	defer func() { observe(l.options.Observer.Acquired, key, begun, err) }()
	switch {
	case t.Failure != nil:
		return nil, failed("acquire", key, t.Failure)
	case ctx.Err() != nil:
		return nil, failed("acquire", key, ended(ctx, nil))
	}
	if deadline, ok := ctx.Deadline(); ok {
		if left := max(time.Until(deadline), time.Millisecond); t.Wait < 0 || left < t.Wait {
			t.Wait = left
		}
	}
	if len(t.Mode) == 2 {
		t.Task = nil // each permit is an owner of its own
	}
	if held := l.heldBy(t.Task, key); held != nil {
		return held, held.enterAgain(ctx, t.Mode)
	}
	g := &Grant{loss: newLoss(key, l.options.Observer.Lost), locks: l, claim: t}
	g.claim.Key, g.claim.Caller = key, g
	if err = failed("acquire", key, g.acquire(ctx)); err == nil && t.Fixed {
		err = g.renew(ctx, "acquire", t.Lease, true)
	}
	if err != nil {
		g.giveUp()
		return nil, err
	}
	if t.Longest > 0 || t.Fixed {
		defer l.unlock()
		l.lock()
		g.ender = time.AfterFunc(0, g.end)
	}
	return g, nil
}

// heldBy returns what the task holds of a key.
func (l *Locks) heldBy(task *state.Task, key string) *Grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	if task == nil || task.Held[key] == nil {
		return nil
	}
	return task.Held[key].Caller.(*Grant)
}

// acquire asks until there is a grant or an error. The loop brings the events of a place in line.
func (g *Grant) acquire(ctx context.Context) *state.Fault {
	l, claim, pause := g.locks, &g.claim, pauses{}
	to, fault := l.route(target{key: claim.Key}, nil, l.options.Reply)
	if fault != nil {
		return fault
	}
	st := l.lock()
	defer l.unlock()
	if l.owners++; claim.Owner == "" { // fresh, so that a late call meets only its own grant
		claim.Owner = l.process + strconv.FormatInt(l.owners, 36)
	}
	if fault := st.Ask(claim); fault != nil {
		return fault
	}
	for {
		if claim.Phase == state.Asked {
			claim.Node = &to.node.Node // the key is there now
		}
		done, send, rest, fault := st.NextStep(claim)
		switch {
		case done || fault != nil:
			return fault
		case ctx.Err() != nil && claim.Phase == state.InLine:
			return ended(ctx, ErrBusy)
		case ctx.Err() != nil:
			return ended(ctx, ErrUnavailable)
		}
		var changed chan struct{}
		isAsked, limit := claim.Phase == state.Asked, min(claim.Limit, claim.Last-st.At)
		if send {
			session := claim.Node.Session
			command := claim.AcquireCommand(session, st.At)
			fault = g.underWay(func() state.Reply { return l.send(to, limit, command) },
				func(st *state.State, claim *state.Claim, reply state.Reply) *state.Fault {
					st.Answered(claim, session, reply)
					return reply.Fault
				})
			if !fault.Passing() {
				continue
			}
			rest = min(pause.next(), claim.AskedEnd-st.At)
		} else {
			if isAsked {
				to.node.wakeUp()
			}
			changed = make(chan struct{}, 1)
			g.changed = changed
		}
		l.unlock()
		sleep(ctx, changed, rest)
		if isAsked { // the key may be elsewhere now
			to, _ = l.route(to, fault, limit)
		}
		l.lock()
	}
}

// giveUp makes sure that the owner neither holds the lock nor waits for it.
func (g *Grant) giveUp() {
	st := g.locks.lock()
	defer g.locks.unlock()
	if st.GiveUp(&g.claim) {
		limit := min(g.locks.options.Reply, g.claim.Last-st.At)
		_ = g.send(context.Background(), limit, g.claim.CancelCommand(), (*state.State).CancelAnswered)
	}
}
