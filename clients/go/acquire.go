package redislock

import (
	"context"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// Acquire acquires the lock of a key. It waits in line until the context ends, or as long as [Wait] says. The context
// limits the wait, not the grant: that lasts until its [Grant.Release]. A call to the server that is under way is not
// broken off, so Acquire may return up to a second after the end of the context. The error is an [*Error] of any kind.
func (l *Locks) Acquire(ctx context.Context, key string, options ...LockOption) (*Grant, error) {
	return l.acquire(ctx, nil, key, l.terms(options))
}

// TryAcquire acquires the lock if it is free now. Otherwise the error is [ErrBusy].
func (l *Locks) TryAcquire(ctx context.Context, key string, options ...LockOption) (*Grant, error) {
	return l.acquire(ctx, nil, key, l.terms(options, Wait(0)))
}

// Do acquires the lock, works, and releases it, whatever has become of the context. The context of the work ends when
// the lock is lost, with [ErrLost] as its cause. The error of the work is returned as it is; if the lock was lost or
// could not be released, that error is joined to it.
func (l *Locks) Do(ctx context.Context, key string, work func(ctx context.Context, grant *Grant) error,
	options ...LockOption) error {
	grant, err := l.Acquire(ctx, key, options...)
	return doWork(ctx, work, grant, err)
}

// Adopt takes over a grant that another process has detached, by its key, owner and token. Without [Fixed] the
// session renews it from now on. One release gives back all its holds. The error is [ErrLost] if the grant has ended.
func (l *Locks) Adopt(ctx context.Context, key, owner string, token int64, options ...LockOption) (*Grant, error) {
	t := l.terms(options, Wait(0))
	t.Owner, t.Adopted = owner, token
	return l.acquire(ctx, nil, key, t)
}

// acquire acquires a lock for a fresh owner, the task's, or that of the grant to adopt.
func (l *Locks) acquire(ctx context.Context, task *Task, key string, t terms) (held *Grant, err error) {
	begun := time.Now()
	key = l.options.Prefix + key
	defer func() { l.options.Observer.acquired(key, begun, err) }()
	switch {
	case t.wrong != "":
		return nil, failed("acquire", key, state.Fail(ErrMisuse, t.wrong))
	case ctx.Err() != nil:
		return nil, failed("acquire", key, ended(ctx, nil))
	}
	if deadline, ok := ctx.Deadline(); ok {
		if left := max(time.Until(deadline), time.Millisecond); t.wait < 0 || left < t.wait {
			t.wait = left
		}
	}
	if len(t.Mode) == 2 {
		task = nil // each permit is an owner of its own
	}
	if held := task.grant(key); held != nil {
		return held, held.enterAgain(ctx, t.Mode)
	}
	to := target{key: key}
	if fault := l.route(&to, nil, l.options.Reply); fault != nil {
		return nil, failed("acquire", key, fault.Failure("cluster"))
	}
	g := &Grant{loss: newLoss(l.options.Observer.onLost(key, t.onLost)), locks: l, node: to.node, claim: t.Claim}
	claim, st := &g.claim, l.lock()
	if task != nil {
		claim.Owner = st.UsableOwner(&task.state)
	}
	if claim.Owner == "" {
		claim.Owner = l.owner()
	}
	claim.Key, claim.Caller, claim.Node = key, g, &g.node.Node
	claim.Begin(t.wait, l.options.Reply, st.At)
	failure := st.Ask(claim)
	if failure == nil && task != nil {
		claim.Task, task.state.Owner = &task.state, claim.Owner
	}
	l.unlock()
	if failure != nil {
		return nil, failed("acquire", key, failure)
	}
	if err = failed("acquire", key, g.ask(ctx, to)); err == nil && t.Fixed {
		err = g.renew(ctx, "acquire", t.Lease, true)
	}
	if err != nil {
		g.giveUp()
		return nil, err
	}
	g.start(t.atMost)
	task.remember(g)
	return g, nil
}

// ask asks until there is a grant or an error. The loop brings the events of a place in line.
func (g *Grant) ask(ctx context.Context, to target) *Error {
	l, claim, pause := g.locks, &g.claim, pauses{}
	for {
		st := l.lock()
		if to.node != nil && claim.Phase == state.Asked {
			g.node, claim.Node = to.node, &to.node.Node // the key is there now
		}
		done, send, rest, failure := st.NextStep(claim)
		if !done && failure == nil && ctx.Err() != nil {
			failure = ended(ctx, ErrUnavailable)
			if claim.Phase == state.InLine {
				failure = ended(ctx, ErrBusy)
			}
		}
		n, session := g.node, g.node.Session
		switch {
		case done || failure != nil:
			l.unlock()
			return failure
		case !send:
			g.changed = make(chan struct{}, 1)
			if claim.Phase == state.Asked {
				n.wakeUp()
			}
			l.unlock()
			g.sleep(ctx, rest)
			continue
		}
		st.BeginCall(claim.Name)
		command, limit := claim.AcquireCommand(session, st.At), min(claim.Limit, claim.Last-st.At)
		l.unlock()
		to.node = n
		reply := l.send(ctx, to, limit, command)
		st = l.lock()
		st.Answered(claim, session, reply)
		st.EndCall(claim.Name)
		g.changed = nil
		l.unlock()
		if reply.Fault.Passing() {
			_ = l.route(&to, reply.Fault, limit)
			g.sleep(ctx, min(pause.next(), claim.AskedEnd-now()))
		}
	}
}

// sleep pauses; a change of the claim ends it.
func (g *Grant) sleep(ctx context.Context, pause time.Duration) {
	if pause <= 0 {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-g.changed:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// giveUp makes sure that the owner neither holds the lock nor waits for it.
func (g *Grant) giveUp() {
	l, n := g.locks, g.node
	st := l.lock()
	defer l.unlock()
	if !st.GiveUp(&g.claim) {
		return
	}
	st.BeginCall(g.claim.Name)
	limit := min(l.options.Reply, g.claim.Last-st.At)
	l.unlock()
	reply := l.send(context.Background(), target{node: n}, limit, g.claim.CancelCommand())
	st = l.lock()
	st.CancelAnswered(&g.claim, reply)
	st.EndCall(g.claim.Name)
}
