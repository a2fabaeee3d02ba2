package redislock

import (
	"cmp"
	"context"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// Acquire acquires the lock of a key. It waits in line until the context ends, or as long as [Wait] says. The context
// limits the wait, not the grant: that lasts until its [Grant.Release]. A call to the server that is under way is not
// broken off, so Acquire may return up to a second after the end of the context.
func (l *Locks) Acquire(ctx context.Context, key string, options ...LockOption) (*Grant, error) {
	return l.acquire(ctx, nil, key, l.terms(options))
}

// TryAcquire acquires the lock if it is free now. Otherwise the error is [ErrBusy].
func (l *Locks) TryAcquire(ctx context.Context, key string, options ...LockOption) (*Grant, error) {
	return l.acquire(ctx, nil, key, l.terms(append(options[:len(options):len(options)], Wait(0))))
}

// Do acquires the lock, works, and releases it, whatever has become of the context. The context of the work ends when
// the lock is lost, with [ErrLost] as its cause. The error of the work is returned as it is; if the lock was lost or
// could not be released, that error is joined to it.
func (l *Locks) Do(ctx context.Context, key string, work func(ctx context.Context, grant *Grant) error,
	options ...LockOption) error {
	grant, err := l.Acquire(ctx, key, options...)
	if err != nil {
		return err
	}
	return grant.do(ctx, work)
}

func (l *Locks) acquire(ctx context.Context, task *Task, key string, t terms) (grant *Grant, err error) {
	begun := time.Now()
	key = l.options.Prefix + key
	if observed := l.options.Observer.Acquired; observed != nil {
		defer func() { observed(key, time.Since(begun), err) }()
	}
	switch err := l.usable("acquire", key, t); {
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, ended(ctx, "acquire", key, nil)
	}
	if deadline, ok := ctx.Deadline(); ok {
		if left := max(time.Until(deadline), time.Millisecond); t.wait < 0 || left < t.wait {
			t.wait = left
		}
	}
	if len(t.mode) == 2 {
		task = nil // each permit is an owner of its own
	}
	if held := task.grant(key); held != nil {
		return held, held.enterAgain(ctx, t.mode)
	}
	g, failure := l.register(state.Name{Key: key}, task, t)
	if g == nil {
		return nil, failed("acquire", key, failure)
	}
	if failure == nil {
		failure, err = g.ask(ctx)
	}
	if failure == nil && err == nil && t.isFixed && g.claim.Session != 0 {
		err = g.takeOut(ctx)
	}
	if failure != nil || err != nil {
		g.giveUp()
		return nil, cmp.Or(err, failed("acquire", key, failure))
	}
	g.start(t)
	task.remember(g)
	return g, nil
}

// register registers a wait at the server of the key. Without an owner in its name, it gets the task's, or a fresh one.
func (l *Locks) register(name state.Name, task *Task, t terms) (*Grant, *state.Failure) {
	at, fault := l.servers.Find(name.Key, l.options.Reply)
	if fault != nil {
		return nil, &state.Failure{Kind: ErrUnavailable, Cause: fault}
	}
	n := l.nodeOf(at)
	defer n.lock().unlock()
	if task != nil {
		name.Owner = n.st.UsableOwner(&task.state)
	}
	if name.Owner == "" {
		name.Owner = l.owner()
	}
	claim := state.NewClaim(name, t.mode, t.lease, t.wait, l.options.Reply, n.st.At)
	claim.Fixed = t.isFixed
	g := newGrant(n, claim, t)
	failure := n.st.Ask(claim)
	if task != nil && failure == nil {
		claim.Task, task.state.Owner = &task.state, name.Owner
	}
	return g, failure
}

// ask asks until there is a grant or an error. The loop brings the events of a place in line.
func (g *Grant) ask(ctx context.Context) (*state.Failure, error) {
	claim, pause := g.claim, pauses{}
	for {
		to, asking, unplaced := g.place()
		n := g.lock()
		done, send, rest, failure := n.st.NextStep(claim)
		session, isInLine, call := n.st.Session, claim.Phase == state.InLine, 0
		if claim.NeedsSession() && !done && failure == nil && (!n.isRunning || !send && !isInLine) {
			n.run()
		}
		if !claim.NeedsSession() {
			session = 0
		}
		if send = send && ctx.Err() == nil; send {
			call = n.st.BeginCall(claim.Name)
		}
		command, limit := claim.AcquireCommand(session, n.st.At), min(claim.Limit, claim.Last()-n.st.At)
		n.unlock()
		switch {
		case failure != nil || done:
			return failure, nil
		case ctx.Err() != nil && isInLine:
			return nil, ended(ctx, "acquire", claim.Key, ErrBusy)
		case ctx.Err() != nil:
			return nil, ended(ctx, "acquire", claim.Key, ErrUnavailable)
		case !send:
			g.sleep(ctx, rest)
			continue
		}
		sent, reply := now(), state.Reply{Fault: unplaced}
		if unplaced == nil {
			reply = to.Call(limit, asking, command)
		}
		n.lock()
		n.st.Answered(claim, session, sent, reply)
		n.st.EndCall(call)
		n.unlock()
		if g.at, g.asking = n.servers.Redirected(to, reply.Fault); reply.Fault.Passing() && g.at == nil {
			g.sleep(ctx, pause.next())
		}
	}
}

// sleep pauses; news of the wait end it.
func (g *Grant) sleep(ctx context.Context, pause time.Duration) {
	if pause == 0 {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-g.news:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// takeOut takes a grant with a fixed lease out of the session in which it waited.
func (g *Grant) takeOut(ctx context.Context) error {
	return g.call(ctx, "acquire", func(*state.State) ([]any, *state.Failure) {
		return []any{"LOCK.RENEW", g.claim.Key, g.claim.Owner, "PX", state.Milliseconds(g.claim.Lease), "SESSION", 0,
			"TOKEN", g.claim.Token}, nil
	}, func(st *state.State, a answer) *state.Failure { return st.TakenOut(g.claim, a.sent, a.reply) })
}

// giveUp makes sure that the owner neither holds the lock nor waits for it.
func (g *Grant) giveUp() {
	n := g.lock()
	isKnown, call := n.st.GiveUp(g.claim), n.st.BeginCall(g.claim.Name)
	left := g.claim.Last() - n.st.At
	n.unlock()
	var reply state.Reply
	if isKnown {
		reply = n.server.Call(min(n.options.Reply, left), g.asking, g.claim.CancelCommand())
	}
	defer n.lock().unlock()
	if isKnown {
		n.st.CancelAnswered(g.claim, reply)
	}
	n.st.EndCall(call)
}
