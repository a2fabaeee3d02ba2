package redislock

import (
	"context"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// Task is one owner for all locks of one piece of work. It enters a lock again that it holds, and the server finds a
// deadlock among tasks. Pass it along with the work; never share it between two.
type Task struct {
	locks *Locks
	state state.Task // of the mutex of the Locks
}

// Task makes a task.
func (l *Locks) Task() *Task { return &Task{l, state.Task{Held: map[string]*state.Claim{}}} }

func (t *Task) terms(options []LockOption, more ...LockOption) terms {
	all := t.locks.terms(options, more...)
	all.Task = &t.state
	return all
}

// Acquire acquires the lock of a key as [Locks.Acquire] does. If the task holds the lock already, it adds a hold and
// returns the same grant, which then takes one more release.
func (t *Task) Acquire(ctx context.Context, key string, options ...LockOption) (*Grant, error) {
	return t.locks.acquire(ctx, key, t.terms(options))
}

// TryAcquire acquires the lock if it is free now, or held by the task. Otherwise the error is [ErrBusy].
func (t *Task) TryAcquire(ctx context.Context, key string, options ...LockOption) (*Grant, error) {
	return t.locks.acquire(ctx, key, t.terms(options, Wait(0)))
}

// Do works under the lock, as [Locks.Do] does.
func (t *Task) Do(ctx context.Context, key string, work func(ctx context.Context, grant *Grant) error,
	options ...LockOption) error {
	grant, err := t.Acquire(ctx, key, options...)
	return doWork(ctx, work, grant, err)
}
