package redislock

import (
	"context"
	"sync"
	"time"
)

// Task is one owner of several locks: it enters a lock that it has again, and the server finds a deadlock among
// tasks. It is what goes along where the same work goes on, in any goroutine; two works never share one.
type Task struct {
	locks *Locks
	owner string

	mu      sync.Mutex
	turns   map[string]*turns
	unclear bool // a call of this owner may be carried out late
	has     int  // locks
}

// turns are the calls of a task for one key, of which one is carried out at a time.
type turns struct {
	free  chan struct{}
	users int
	has   *ownership
}

// Task makes a task.
func (l *Locks) Task() *Task {
	return &Task{locks: l, owner: l.owner(), turns: map[string]*turns{}}
}

// Owner is the task, to the server. It changes where a call was given up without an answer, as soon as the task
// has no lock.
func (t *Task) Owner() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.owner
}

func (t *Task) doubt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unclear = true
}

// begin counts the locks and the calls for one, and gives the owner.
func (t *Task) begin() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unclear && t.has == 0 {
		t.owner, t.unclear = t.locks.owner(), false
	}
	t.has++
	return t.owner
}

func (t *Task) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.has--
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

func (t *Task) of(key string) (*turns, func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := t.turns[key]
	if mine == nil {
		mine = &turns{free: make(chan struct{}, 1)}
		t.turns[key] = mine
	}
	mine.users++
	return mine, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if mine.users--; mine.users == 0 && mine.has == nil {
			delete(t.turns, key)
		}
	}
}

// set changes what the task has of a key. Its turn is the caller's; those who only count users look without one.
func (t *Task) set(mine *turns, o *ownership) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine.has = o
}

func (t *Task) acquire(ctx context.Context, l *Lock) (*Grant, error) {
	began := time.Now()
	mine, leave := t.of(l.key)
	defer leave()
	limited, cancel := context.WithTimeout(ctx, min(max(l.terms.wait, t.locks.options.Reply), longestTime))
	defer cancel()
	select {
	case mine.free <- struct{}{}:
		defer func() { <-mine.free }()
	case <-limited.Done():
		if ctx.Err() != nil {
			return nil, cancelled(ctx, "acquire", l.key)
		}
		return nil, &Error{Op: "acquire", Key: l.key, Kind: ErrBusy}
	}
	if has := mine.has; has != nil {
		if grant, err := l.again(limited, ctx, has); grant != nil || err != nil {
			return grant, err
		}
		t.set(mine, nil)
	}
	rest := *l
	if l.terms.wait != Forever {
		rest.terms.wait = max(0, l.terms.wait-time.Since(began))
	}
	o, err := rest.take(ctx, t.begin())
	if err != nil {
		t.end()
		return nil, err
	}
	t.set(mine, o)
	context.AfterFunc(o.life, func() { t.gone(l.key, mine, o) })
	return newGrant(o), nil
}

func (t *Task) gone(key string, mine *turns, o *ownership) {
	mine.free <- struct{}{}
	if mine.has == o {
		t.set(mine, nil)
	}
	<-mine.free
	t.end()
	_, leave := t.of(key)
	leave()
}

// again enters a lock that the task has. It gives nothing where the task has released it meanwhile.
func (l *Lock) again(limited, ctx context.Context, o *ownership) (*Grant, error) {
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-limited.Done():
		if ctx.Err() != nil {
			return nil, cancelled(ctx, "acquire", l.key)
		}
		return nil, newError("acquire", l.key, ErrUnavailable, limited.Err())
	}
	o.mu.Lock()
	over, holds := o.over, o.holds
	o.mu.Unlock()
	if over != nil {
		return nil, nil
	}
	if l.locks.quorum != nil { // the servers count one hold
		o.mu.Lock()
		o.holds++
		o.mu.Unlock()
		return newGrant(o), nil
	}
	command := append([]any{"LOCK.ACQUIRE", l.key, o.owner}, l.mode.words()...)
	command = append(command, "PX", milliseconds(l.terms.lease), "HOLDS", holds+1, "TOKEN", o.token)
	if o.keeping() > 0 && l.terms.keep > 0 {
		command = append(command, "KEEP", milliseconds(l.terms.keep))
	}
	a := l.locks.ask(limited, acquiring, l.key, command...)
	if a.err == nil {
		o.reentered(a, holds+1)
		return newGrant(o), nil
	}
	if a.open {
		l.locks.background(func(ctx context.Context) { o.askRelease(ctx, holds) })
	}
	if kindOf(acquiring, a.err) == ErrLost {
		o.lose(a.err)
		return nil, named(o.err(), "acquire", l.key)
	}
	return nil, l.locks.failed(ctx, acquiring, "acquire", l.key, a.err)
}

func (o *ownership) reentered(a answer, holds int) {
	o.confirm(a.call, nil)
	o.mu.Lock()
	o.holds = holds
	o.mu.Unlock()
}
