package redislock

import (
	"context"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// Acquire acquires the lock of a key. It waits in line until the context ends, or as long as [Wait] says. The context
// limits the wait, not the grant: that lasts until its [Grant.Release]. A call to the server that is under way is not
// broken off, so Acquire may return up to a second after the end of the context.
func (l *Locks) Acquire(ctx context.Context, key string, options ...LockOption) (*Grant, error) {
	return l.acquire(ctx, nil, state.Name{Key: key}, 0, l.terms(options))
}

// TryAcquire acquires the lock if it is free now. Otherwise the error is [ErrBusy].
func (l *Locks) TryAcquire(ctx context.Context, key string, options ...LockOption) (*Grant, error) {
	return l.acquire(ctx, nil, state.Name{Key: key}, 0, l.terms(options, Wait(0)))
}

// Do acquires the lock, works, and releases it, whatever has become of the context. The context of the work ends when
// the lock is lost, with [ErrLost] as its cause. The error of the work is returned as it is; if the lock was lost or
// could not be released, that error is joined to it.
func (l *Locks) Do(ctx context.Context, key string, work func(ctx context.Context, grant *Grant) error,
	options ...LockOption) error {
	grant, err := l.Acquire(ctx, key, options...)
	return grant.do(ctx, work, err)
}

// Adopt takes over a grant that another process has detached, by its key, owner and token. Without [Fixed] the
// session renews it from now on. One release gives back all its holds.
func (l *Locks) Adopt(ctx context.Context, key, owner string, token int64, options ...LockOption) (*Grant, error) {
	return l.acquire(ctx, nil, state.Name{Key: key, Owner: owner}, token, l.terms(options, Wait(0)))
}

// acquire acquires a lock for a fresh owner, the task's, or that of the grant to adopt, which has this token.
func (l *Locks) acquire(ctx context.Context, task *Task, name state.Name, token int64, t terms) (held *Grant, err error) {
	name.Key = l.options.Prefix + name.Key
	begun := time.Now()
	defer func() { l.options.Observer.acquired(name.Key, begun, err) }()
	switch {
	case t.wrong != "":
		return nil, failed("acquire", name.Key, state.Fail(ErrMisuse, t.wrong))
	case ctx.Err() != nil:
		return nil, failed("acquire", name.Key, ended(ctx, nil))
	}
	if deadline, ok := ctx.Deadline(); ok {
		if left := max(time.Until(deadline), time.Millisecond); t.wait < 0 || left < t.wait {
			t.wait = left
		}
	}
	if len(t.mode) == 2 {
		task = nil // each permit is an owner of its own
	}
	if held := task.grant(name.Key); held != nil {
		return held, held.enterAgain(ctx, t.mode)
	}
	g := &Grant{locks: l, to: target{key: name.Key}, onLost: t.onLost, lost: make(chan struct{})}
	if fault := l.route(&g.to, nil, l.options.Reply); fault != nil {
		return nil, failed("acquire", name.Key, fault.Failure("cluster"))
	}
	g.node = g.to.node
	st := l.lock()
	if task != nil {
		name.Owner = st.UsableOwner(&task.state)
	}
	if name.Owner == "" {
		name.Owner = l.owner()
	}
	g.claim = state.NewClaim(name, t.mode, t.lease, t.wait, l.options.Reply, st.At)
	g.claim.Fixed, g.claim.Adopted, g.claim.Caller, g.claim.Node = t.isFixed, token, g, &g.node.Node
	if failure := st.Ask(&g.claim); failure != nil {
		l.unlock()
		return nil, failed("acquire", name.Key, failure)
	}
	if task != nil {
		g.claim.Task, task.state.Owner = &task.state, name.Owner
	}
	if err = failed("acquire", name.Key, g.ask(ctx, st)); err == nil && t.isFixed {
		err = g.renew(ctx, "acquire", t.lease, true)
	}
	if err != nil {
		g.giveUp()
		return nil, err
	}
	g.start(t.atMost)
	task.remember(g)
	return g, nil
}

// ask asks until there is a grant or an error; the mutex is held before, not after. The loop brings the events of a
// place in line.
func (g *Grant) ask(ctx context.Context, st *state.State) *Error {
	l, claim, pause := g.locks, &g.claim, pauses{}
	for {
		if g.to.node != nil && claim.Phase == state.Asked {
			g.node, claim.Node = g.to.node, &g.to.node.Node // the key is there now
		}
		done, send, rest, failure := st.NextStep(claim)
		switch isInLine := claim.Phase == state.InLine; {
		case done || failure != nil:
		case ctx.Err() != nil && isInLine:
			failure = ended(ctx, ErrBusy)
		case ctx.Err() != nil:
			failure = ended(ctx, ErrUnavailable)
		}
		if done || failure != nil {
			l.unlock()
			return failure
		}
		n := g.node
		session := n.Session
		if !n.isRunning || !send && claim.Phase == state.Asked {
			n.run()
		}
		if !send {
			g.sleep(ctx, rest) // which unlocks
			st = l.lock()
			continue
		}
		call, sent := st.BeginCall(claim.Name), st.At
		command, limit := claim.AcquireCommand(session, sent), min(claim.Limit, claim.Last-sent)
		l.unlock()
		reply := n.server.Call(limit, g.to.asking, command)
		st = l.lock()
		st.Answered(claim, &n.Node, session, sent, reply)
		st.EndCall(call)
		if !reply.Fault.Passing() {
			continue
		}
		l.unlock()
		_ = l.route(&g.to, reply.Fault, limit)
		st = l.lock()
		g.sleep(ctx, min(pause.next(), claim.AskedEnd-st.At))
		st = l.lock()
	}
}

// sleep unlocks the mutex and pauses; news of the wait end it.
func (g *Grant) sleep(ctx context.Context, pause time.Duration) {
	news := make(chan struct{}, 1)
	g.news = news
	g.locks.unlock()
	if pause <= 0 {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-news:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// giveUp makes sure that the owner neither holds the lock nor waits for it.
func (g *Grant) giveUp() {
	l := g.locks
	st := l.lock()
	isKnown, call := st.GiveUp(&g.claim), st.BeginCall(g.claim.Name)
	n, limit := g.node, min(l.options.Reply, g.claim.Last-st.At)
	l.unlock()
	var reply state.Reply
	if isKnown {
		reply = n.server.Call(limit, g.to.asking, g.claim.CancelCommand())
	}
	defer l.unlock()
	st = l.lock()
	if isKnown {
		st.CancelAnswered(&g.claim, reply)
	}
	st.EndCall(call)
}
