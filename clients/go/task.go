package redislock

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// Task is one owner of several locks: it enters a lock that it has again, and the server finds a deadlock among
// tasks. It is what goes along where the same work goes on, in any goroutine; two works never share one.
type Task struct {
	locks *Locks

	mu    sync.Mutex
	owner string // of what it asks for next
	turns map[place]*turns
}

// place is a key, and the owner there where that is named.
type place struct{ owner, key string }

// turns are the calls of an owner for one key, of which one is carried out at a time.
type turns struct {
	free  chan struct{}
	users int
	has   *ownership
}

// Task makes a task.
func (l *Locks) Task() *Task {
	return &Task{locks: l, owner: l.owner(), turns: map[place]*turns{}}
}

// Owner is the task, to the server. After a call that was given up without an answer, and after [Grant.Detach], it is
// another, for what the task asks next: what it has keeps the owner that it was taken with.
func (t *Task) Owner() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.owner
}

// doubt: this owner may have a lock that nobody knows of, which a late release may end, or that is another's now.
func (t *Task) doubt(owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.owner == owner {
		t.owner = t.locks.owner()
	}
}

// Lock is the exclusive lock of a key, for this task. Each grant of it needs its own release, in any order.
func (t *Task) Lock(key string, options ...LockOption) *Lock {
	return newLock(t.locks, t, key, exclusive, options)
}

// Shared is a lock of a key that others may share, for this task.
func (t *Task) Shared(key string, options ...LockOption) *Lock {
	return newLock(t.locks, t, key, shared, options)
}

// Permit is one of n places. Each permit is an owner of its own, in a task too.
func (t *Task) Permit(key string, n int, options ...LockOption) *Lock {
	return newLock(t.locks, t, key, permit(n), options)
}

func (t *Task) of(at place) (*turns, func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := t.turns[at]
	if mine == nil {
		mine = &turns{free: make(chan struct{}, 1)}
		t.turns[at] = mine
	}
	mine.users++
	return mine, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if mine.users--; mine.users == 0 && mine.has == nil {
			delete(t.turns, at)
		}
	}
}

// set changes what the task has of a key. Its turn is the caller's; those who only count users look without one.
func (t *Task) set(mine *turns, o *ownership) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine.has = o
}

// acquire enters what the task has, or takes it.
func (t *Task) acquire(ctx context.Context, l *Lock) (*Grant, error) {
	began := time.Now()
	return t.inTurn(ctx, "acquire", l, func(limited context.Context, has *ownership) (*ownership, error) {
		if has != nil {
			if isEntered, err := l.again(limited, ctx, has); isEntered || err != nil {
				return has, err
			}
		}
		rest := *l
		if l.terms.wait != Forever {
			rest.terms.wait = max(0, l.terms.wait-time.Since(began))
		}
		if l.terms.wait == 0 {
			rest.terms.spent = time.Since(began)
		}
		return rest.take(ctx, cmp.Or(l.terms.owner, t.Owner()))
	})
}

// inTurn does it when no other call of this owner for the key is under way. It is told what the owner has, and gives
// what it has then.
func (t *Task) inTurn(ctx context.Context, op string, l *Lock,
	do func(limited context.Context, has *ownership) (*ownership, error)) (*Grant, error) {
	at := place{l.terms.owner, l.key}
	mine, leave := t.of(at)
	defer leave()
	limited, cancel := context.WithTimeout(ctx, min(max(l.terms.wait, t.locks.options.Reply), longestTime))
	defer cancel()
	defer context.AfterFunc(t.locks.calls, cancel)()
	select {
	case mine.free <- struct{}{}:
		defer func() { <-mine.free }()
	case <-limited.Done():
		switch {
		case t.locks.isClosed():
			return nil, &Error{Op: op, Key: l.key, Kind: ErrClosed}
		case ctx.Err() != nil:
			return nil, cancelled(ctx, op, l.key)
		}
		return nil, &Error{Op: op, Key: l.key, Kind: ErrBusy}
	}
	has := mine.has
	o, err := do(limited, has)
	switch {
	case err != nil:
		return nil, err
	case o != has:
		t.set(mine, o)
		context.AfterFunc(o.life, func() { t.gone(at, mine, o) })
	}
	return newGrant(o), nil
}

// gone forgets what the task has no more, when its release is over: what the task asks next comes after that.
func (t *Task) gone(at place, mine *turns, o *ownership) {
	mine.free <- struct{}{}
	o.turn <- struct{}{}
	<-o.turn
	if mine.has == o {
		t.set(mine, nil)
	}
	<-mine.free
	_, leave := t.of(at)
	leave()
}

// again enters a lock that the owner has, and says whether it did. It does not where it was released meanwhile.
func (l *Lock) again(limited, ctx context.Context, o *ownership) (bool, error) {
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-limited.Done():
		return false, l.locks.failed(ctx, acquiring, "acquire", l.key, limited.Err())
	}
	o.mu.Lock()
	over, holds := o.over, o.holds
	if over == nil && l.locks.quorum != nil { // the servers count one hold
		o.holds++
	}
	o.mu.Unlock()
	switch {
	case over != nil || l.locks.quorum != nil:
		return over == nil, nil
	case l.mode > shared:
		return false, named(misuse("one permit is one owner"), "acquire", l.key)
	}
	command := append([]any{"LOCK.ACQUIRE", l.key, o.owner}, l.mode.words()...)
	command = append(command, "HOLDS", holds+1, "TOKEN", o.token)
	if l.terms.lease > 0 {
		command = append(command, "PX", milliseconds(l.terms.lease))
	}
	repetition, keep := command, time.Duration(0)
	if o.keeping() > 0 && l.terms.keep > 0 {
		keep = l.terms.keep
		command = append(slices.Clone(command), "KEEP", milliseconds(keep))
	}
	o.entries.Add(1)
	a := l.locks.ask(limited, acquiring, l.key, command...)
	if a.err == nil {
		if o.reentered(a, keep); o.err() != nil { // it was given up meanwhile
			return false, nil
		}
		if a.err = l.repeatedTo(limited, a.keeper, repetition); a.err == nil {
			o.mu.Lock()
			o.holds = holds + 1
			o.mu.Unlock()
			return true, nil
		}
		a.open = true
	}
	if kindOf(acquiring, a.err) == ErrLost {
		o.giveUp(a.err) // holds of it may be left
		return false, named(o.err(), "acquire", l.key)
	}
	if a.open { // one hold too many does no harm, but a release must not meet a later hold
		o.mayLast()
		on := l.locks.linkOf(l.key)
		if o.named {
			on = a.by
		}
		l.locks.once(on, o.releaseTo(holds)...)
	}
	return false, l.locks.failed(ctx, acquiring, "acquire", l.key, a.err)
}

// repeatedTo has the replicas acknowledge what was entered again, by the same command where it can be waited for.
func (l *Lock) repeatedTo(ctx context.Context, k *keeper, command []any) error {
	if l.terms.replicas == 0 {
		return nil
	}
	conn, err := k.waits.Take(ctx)
	if err != nil {
		return err
	}
	defer k.waits.Put(conn)
	if _, err := conn.Do(ctx, l.locks.options.Reply, command...); err != nil {
		conn.Close() // its reply may come yet
		return err
	}
	return l.acknowledged(ctx, conn)
}

// reentered is told of an answer. The server keeps on for the longer silence.
func (o *ownership) reentered(a answer, keep time.Duration) {
	on := (*link)(nil)
	o.mu.Lock()
	if o.keep > 0 && keep > 0 {
		o.keep, on, o.asked = max(o.keep, keep), a.link, a.link
	}
	o.mu.Unlock()
	o.confirm(a.call, on)
}
