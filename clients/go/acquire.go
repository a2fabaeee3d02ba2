package redislock

import (
	"context"
	"errors"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/wire"
)

// taking is an acquire under way.
type taking struct {
	*Lock
	owner string
	until time.Time // of the wait; zero where it is for ever
	end   time.Time // by then the caller is told, whatever hangs; zero, too
	open  bool      // the server may hold it for this owner, or line it up
	token int64     // of the grant that a wait has brought
	by    *link     // of the keeper: what it was asked for last may stand, and be kept there; nil: nothing may
}

// take makes a new ownership.
func (l *Lock) take(ctx context.Context, owner string) (*ownership, error) {
	if l.locks.quorum != nil {
		return l.takeOnQuorum(ctx)
	}
	t := &taking{Lock: l, owner: owner}
	calling, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.locks.calls, cancel)()
	if l.terms.wait < longestTime {
		t.until = time.Now().Add(l.terms.wait)
		t.end = t.until.Add(l.locks.options.Reply - l.terms.spent)
	}
	o, err := t.run(calling)
	if err == nil {
		if err = l.locks.hold(o); err != nil { // closed meanwhile
			t.open = true
		}
	}
	if err == nil {
		return o, nil
	}
	if t.open {
		t.doubt()
		gone, _ := t.leave()
		if t.token > 0 && ctx.Err() != nil { // who is told that it was cancelled holds nothing
			select {
			case <-gone:
			case <-time.After(l.locks.options.Reply):
			}
		}
	}
	if l.locks.isClosed() {
		return nil, &Error{Op: "acquire", Key: l.key, Kind: ErrClosed}
	}
	if ctx.Err() != nil && (errors.Is(err, errEnded) || kindOf(acquiring, err) == errPassing) {
		return nil, cancelled(ctx, "acquire", l.key)
	}
	if errors.Is(err, ErrBusy) {
		return nil, &Error{Op: "acquire", Key: l.key, Kind: ErrBusy}
	}
	return nil, l.locks.failed(ctx, acquiring, "acquire", l.key, err)
}

var errEnded = errors.New("the context has ended")

func (t *taking) left() time.Duration {
	if t.until.IsZero() {
		return Forever
	}
	return time.Until(t.until)
}

// limited ends when the caller is to be told.
func (t *taking) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.end.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, t.end)
}

// run tries on the keeper, and then waits. Where others of this process wait, a try would be in vain; for a named owner
// it is made all the same, behind the undoing of what that has asked before.
func (t *taking) run(ctx context.Context) (*ownership, error) {
	waits := t.terms.wait > 0
	if t.terms.replicas > 0 || waits && !t.terms.named && t.locks.waitsFor(t.key) {
		return t.line(ctx)
	}
	o, err := t.atOnce(ctx)
	if err == nil || !waits || !errors.Is(err, ErrBusy) {
		return o, err
	}
	return t.line(ctx)
}

// atOnce takes the lock if it is free.
func (t *taking) atOnce(ctx context.Context) (*ownership, error) {
	limit := t.locks.options.Reply - t.terms.spent
	if t.terms.wait > 0 {
		limit = max(limit, t.left())
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	a := t.locks.ask(limited, acquiring, t.key, append(t.command(), t.terms.keepWords()...)...)
	t.open, t.by = a.open, a.by
	switch {
	case a.err != nil:
		return nil, a.err
	case a.call.Reply == nil:
		t.by = nil
		return nil, ErrBusy
	}
	return t.granted(a)
}

func (t *taking) command() []any {
	command := append([]any{"LOCK.ACQUIRE", t.key, t.owner}, t.mode.words()...)
	return append(command, "PX", milliseconds(t.terms.lease), "HOLDS", 1)
}

// granted makes the ownership of a grant.
func (t *taking) granted(a answer) (*ownership, error) {
	o, err := newOwnership(t.Lock, t.owner, a)
	if err != nil {
		t.open = true
	}
	return o, err
}

// line waits in line: by one call, with a connection of its own, for all the time that is left.
func (t *taking) line(ctx context.Context) (*ownership, error) {
	defer t.locks.waitFor(t.key)()
	for failures := 0; ; {
		a, err := t.wait(ctx)
		if err == nil {
			o, lost := t.waited(ctx, a)
			if lost == nil || kindOf(renewing, lost) != ErrLost || errors.Is(lost, errKeptElsewhere) {
				return o, lost
			}
			err, t.token, t.by = ErrBusy, 0, nil // it came and went unseen
		}
		switch {
		case ctx.Err() != nil:
			return nil, errEnded
		case errors.Is(err, ErrBusy):
			failures = 0
			if t.left() < time.Millisecond {
				return nil, ErrBusy
			}
			continue
		case kindOf(acquiring, err) != errPassing:
			return nil, err
		case t.left() < time.Millisecond:
			return nil, err
		}
		failures++
		select {
		case <-time.After(min(t.left(), pause(failures))):
		case <-ctx.Done():
			return nil, errEnded
		}
	}
}

// wait is one wait: for the grant.
func (t *taking) wait(ctx context.Context) (a answer, err error) {
	limited, cancel := t.limited(ctx)
	defer cancel()
	k, err := t.locks.keeperOf(limited, t.key)
	if err != nil {
		return a, err
	}
	if _, err := k.connection(limited); err != nil { // a wait would fail, too
		return a, err
	}
	conn, err := k.waits.Take(limited)
	if err != nil {
		return a, err
	}
	defer k.waits.Put(conn)
	k.attend()
	limit, command := t.block()
	call := conn.Start(limit, command...)
	select {
	case <-call.Done():
	case <-ctx.Done():
		return a, t.callOff(conn, call)
	}
	switch {
	case !call.Answered():
		t.open = true
		return a, call.Err
	case call.Err != nil:
		if ofReplica(call.Err) {
			conn.Close()
			k.waits.Forget()
		}
		t.locks.heed(&answer{keeper: k, err: call.Err}, t.key)
		return a, call.Err
	case call.Reply == nil:
		return a, ErrBusy
	}
	t.open = true
	t.token, _, _ = readGrant(call.Reply)
	if t.terms.replicas > 0 {
		if err := t.acknowledged(limited, conn); err != nil {
			return a, err
		}
	}
	return answer{call: call, keeper: k}, nil
}

// waited makes the ownership of a grant that a wait brought. One that came soon and is to be kept is known from the
// sending of the wait; of any other it is not known when it began.
func (t *taking) waited(ctx context.Context, a answer) (*ownership, error) {
	_, lease, err := readGrant(a.call.Reply)
	if err != nil {
		return nil, err
	}
	if t.terms.keep == 0 || t.terms.replicas > 0 || a.early(lease) <= 0 {
		return t.confirm(ctx)
	}
	return t.granted(a)
}

func (t *taking) block() (limit time.Duration, command []any) {
	left := t.left()
	limit = max(time.Until(t.end), time.Millisecond)
	switch {
	case t.until.IsZero():
		return wire.NoLimit, append(t.command(), "BLOCK", 0)
	case t.terms.wait == 0, left < time.Millisecond:
		return limit, t.command()
	}
	return limit, append(t.command(), "BLOCK", milliseconds(left))
}

// acknowledged asks how many replicas have the grant.
func (l *Lock) acknowledged(ctx context.Context, conn *wire.Conn) error {
	reply := l.locks.options.Reply
	left := reply
	if end, isBounded := ctx.Deadline(); isBounded { // so that the answer comes in time
		left = max(time.Millisecond, min(left, time.Until(end)*4/5))
	}
	call, err := conn.Do(ctx, left+reply, "WAIT", l.terms.replicas, milliseconds(left))
	if err != nil {
		conn.Close() // its reply may come yet
		return err
	}
	if got, _ := call.Reply.(int64); got < int64(l.terms.replicas) {
		return &Error{Op: "acquire", Key: l.key, Kind: ErrUnavailable,
			Cause: errors.New("too few replicas have acknowledged it")}
	}
	return nil
}

// confirm has the grant of a wait kept, or its lease begin anew: when it began is not known.
func (t *taking) confirm(ctx context.Context) (*ownership, error) {
	bounded, release := t.limited(ctx)
	defer release()
	limited, cancel := context.WithTimeout(bounded, t.locks.options.Reply)
	defer cancel()
	command := append([]any{"LOCK.RENEW", t.key, t.owner, "TOKEN", t.token}, t.terms.keepWords()...)
	var behind look
	if t.terms.named && t.terms.keep > 0 && t.terms.replicas == 0 { // for replicas nothing has asked to keep it yet
		behind = t.locks.lookAt(t.key, t.owner, t.token)
	}
	a := t.locks.askBehind(limited, behind, renewing, t.key, command)
	t.by = a.by
	if a.err != nil {
		t.open = kindOf(renewing, a.err) != ErrLost
		return nil, a.err
	}
	t.open = false
	return t.granted(a)
}

// waitFor counts those who wait for a key, until its result is called.
func (l *Locks) waitFor(key string) func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting[key]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.waiting[key]--; l.waiting[key] == 0 {
			delete(l.waiting, key)
		}
	}
}

func (l *Locks) waitsFor(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting[key] > 0
}
