package redislock

import (
	"context"
	"errors"
	"time"
)

// mode is how many holders a lock may have: one, any number, or n. A permit of one is no exclusive lock: each has an
// owner of its own.
type mode int

const (
	exclusive mode = -1
	shared    mode = 0
)

func permit(n int) mode {
	if n < 1 {
		return exclusive - 1
	}
	return mode(n)
}

func (m mode) words() []any {
	switch m {
	case exclusive:
		return nil
	case shared:
		return []any{"SHARED"}
	}
	return []any{"LIMIT", int(m)}
}

// Lock is a key, a mode and options. It can be acquired any number of times, by any number of goroutines.
type Lock struct {
	locks *Locks
	task  *Task
	key   string
	mode  mode
	terms terms
	err   error
}

func newLock(locks *Locks, task *Task, key string, mode mode, options []LockOption) *Lock {
	terms, err := newTerms(options)
	switch {
	case err != nil:
	case mode < exclusive || mode > 1<<31-1:
		err = misuse("a semaphore has 1 to 2^31 - 1 places")
	case task != nil && terms.named:
		err = misuse("a task is an owner itself")
	case mode > shared && terms.named:
		err = misuse("a permit has an owner of its own")
	}
	return &Lock{locks, task, key, mode, terms, err}
}

// Key is the key of the lock.
func (l *Lock) Key() string { return l.key }

// Acquire takes the lock. The context limits the wait, not the grant: that lasts until [Grant.Release].
func (l *Lock) Acquire(ctx context.Context) (grant *Grant, err error) {
	begun := time.Now()
	defer func() {
		if told := l.locks.options.Hooks.Acquired; told != nil {
			told(l.key, time.Since(begun), err)
		}
	}()
	if l.err != nil {
		return nil, named(l.err, "acquire", l.key)
	}
	if err := l.locks.begin(); err != nil {
		return nil, named(err, "acquire", l.key)
	}
	defer l.locks.finish()
	if ctx.Err() != nil {
		return nil, cancelled(ctx, "acquire", l.key)
	}
	task := l.task
	if l.terms.named {
		task = l.locks.owners
	}
	if task != nil && l.mode <= shared {
		return task.acquire(ctx, l)
	}
	o, err := l.take(ctx, l.locks.owner())
	if err != nil {
		return nil, err
	}
	return newGrant(o), nil
}

// named puts an error that was found before the call into the words of the call.
func named(err error, op, key string) error {
	var own *Error
	if errors.As(err, &own) {
		return &Error{Op: op, Key: key, Kind: own.Kind, Cause: own.Cause}
	}
	return &Error{Op: op, Key: key, Kind: err}
}

// Do works under the lock. The context of the work ends when the lock is lost, with [ErrLost] as its cause. The
// lock is released in any case, whatever has become of ctx. An error of the work comes back as it is; where the
// lock was lost or could not be released, that is joined to it.
func (l *Lock) Do(ctx context.Context, work func(ctx context.Context, grant *Grant) error) (err error) {
	grant, err := l.Acquire(ctx)
	if err != nil {
		return err
	}
	working, cancel := grant.Context(ctx)
	defer func() {
		cancel()
		if failure := grant.Release(context.WithoutCancel(ctx)); failure != nil {
			err = errors.Join(err, failure)
		}
	}()
	return work(working, grant)
}
