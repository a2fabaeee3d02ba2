package redislock

import (
	"context"
	"errors"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/wire"
)

// What a call that was given up may have left with the server is taken back. The owner of one acquire is never used
// again: its release is sent until it is answered. An owner that comes back may have asked again meanwhile, and a late
// release must not meet what it got then. So a task goes on under another name; and for an owner that the user has
// named, or whose grant was adopted, the release is sent once, where what the owner asks next is sent behind it.

var errNowhere = errors.New("no connection is open")

// once sends a command on a connection of a keeper, and never again. Where it is not carried out the connection ends,
// and with it the keeping: a lease later, what was to be released is free. The channel gives what came of it.
func (l *Locks) once(on *link, command ...any) <-chan error {
	done := make(chan error, 1)
	if !on.isOpen() {
		done <- errNowhere
		return done
	}
	l.mu.Lock()
	l.works++
	l.mu.Unlock()
	on.Go(l.options.Reply, func(call *wire.Call) {
		if !isGone(call.Err) {
			on.Close()
		}
		done <- call.Err
		l.finish()
	}, command...)
	return done
}

// repeat sends a release until it is answered, in the background. Where it is not carried out, the keeping ends.
func (t *taking) repeat(command ...any) <-chan error {
	done := make(chan error, 1)
	t.locks.background(func(ctx context.Context) {
		a := t.locks.ask(ctx, releasing, t.key, command...)
		if !isGone(a.err) && t.terms.keep > 0 && a.keeper != nil {
			a.keeper.leave()
		}
		done <- a.err
	})
	return done
}

// isGone says whether the answer to a release tells that nothing is left.
func isGone(err error) bool { return err == nil || kindOf(releasing, err) == ErrLost }

// linkOf is the connection of the keeper that has the key, as far as that is known; it may have ended.
func (l *Locks) linkOf(key string) *link {
	_, on := l.nearest(key)
	return on
}

// nearest gives the keeper, too.
func (l *Locks) nearest(key string) (*keeper, *link) {
	address, known := l.servers.peek(key)
	l.mu.Lock()
	k := l.keepers[address]
	l.mu.Unlock()
	if !known || k == nil {
		return nil, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k, k.link
}

// behind is the connection for the release of a named owner: what it asks to keep the grant was sent there. Where nothing
// was, it is the keeper's, if a look there tells that no other connection keeps what the owner has. Nil: there is none.
func (t *taking) behind() *link {
	if t.by != nil {
		return t.by
	}
	end := time.Now().Add(t.locks.options.Reply)
	if !t.end.IsZero() { // the caller waits
		end = earlier(end, t.end)
	}
	ctx, cancel := context.WithDeadline(t.locks.life, end)
	defer cancel()
	k, on := t.locks.nearest(t.key)
	if !on.isOpen() || t.locks.lookAt(t.key, t.owner, t.token)(ctx, k, on) != nil {
		return nil
	}
	return on
}

// leave leaves neither a hold nor a wait of the owner, where that can be sent.
func (t *taking) leave() (gone <-chan error, isSent bool) {
	command := []any{"LOCK.RELEASE", t.key, t.owner}
	if t.terms.named && t.token > 0 {
		command = append(command, "HOLDS", 0, "TOKEN", t.token)
	} else {
		command = append(command, "ALL")
	}
	if t.terms.named {
		on := t.behind()
		return t.locks.once(on, command...), on.isOpen()
	}
	return t.repeat(command...), true
}

// doubt: a late answer to this call must not meet a later one of the task.
func (t *taking) doubt() {
	if t.task != nil {
		t.task.doubt(t.owner)
	}
}

// callOff ends a wait: a grant that has come in between is released by the same call.
func (t *taking) callOff(conn *wire.Conn, call *wire.Call) error {
	ctx, cancel := context.WithTimeout(t.locks.life, t.locks.options.Reply)
	defer cancel()
	gone, isSent := t.leave()
	if isSent {
		select {
		case <-call.Done():
		case <-ctx.Done():
		}
	}
	if !call.IsOver() {
		conn.Close() // which ends the wait, too
	}
	isSettled := settled(ctx, gone)
	switch {
	case !call.IsOver() || !call.Answered(): // the release may have overtaken the wait, and what comes of that is not known
		isSettled = false
		if !t.terms.named {
			again, _ := t.leave()
			settled(ctx, again)
		}
	case call.Err == nil && call.Reply != nil: // it has, or has released this grant
		t.token, _, _ = readGrant(call.Reply)
		again, _ := t.leave()
		isSettled = settled(ctx, again)
	}
	if !isSettled {
		t.doubt()
	}
	t.open = false // that is seen to
	return errEnded
}

// settled says whether a release was answered in time.
func settled(ctx context.Context, gone <-chan error) bool {
	select {
	case err := <-gone:
		return isGone(err)
	case <-ctx.Done():
		return false
	}
}

// letGo releases what is held no more, by this command, in the background.
func (o *ownership) letGo(command []any) {
	if o.named {
		o.locks.once(o.keptBy(), command...)
		return
	}
	o.doubt()
	if q := o.locks.quorum; q != nil {
		o.locks.background(func(ctx context.Context) { _ = q.Release(ctx, o.key, o.owner, o.locks.options.Reply) })
		return
	}
	o.locks.background(func(ctx context.Context) {
		if a := o.locks.ask(ctx, releasing, o.key, command...); !isGone(a.err) {
			o.unkept()
		}
	})
}

func (o *ownership) doubt() {
	if o.task != nil {
		o.task.doubt(o.owner)
	}
}

// unkept has the server keep no longer what is not held any more: it comes free a lease later at the latest.
func (o *ownership) unkept() {
	o.mu.Lock()
	isKept, k := o.keep > 0, o.keeper
	o.mu.Unlock()
	if isKept {
		k.leave()
	}
}
