package redislock

import (
	"context"
	"maps"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// Task is one owner for all locks of one piece of work. It enters a lock again that it holds, and the server finds a
// deadlock among tasks. Pass it along with the work; never share it between two.
type Task struct {
	locks *Locks
	// Of the mutex of the Locks.
	state state.Task
	held  map[string]*Grant
}

// Task makes a task.
func (l *Locks) Task() *Task { return &Task{locks: l, held: map[string]*Grant{}} }

// Acquire acquires the lock of a key as [Locks.Acquire] does. If the task holds the lock already, it adds a hold and
// returns the same grant, which then takes one more release.
func (t *Task) Acquire(ctx context.Context, key string, options ...LockOption) (*Grant, error) {
	return t.locks.acquire(ctx, t, key, t.locks.terms(options))
}

// TryAcquire acquires the lock if it is free now, or held by the task. Otherwise the error is [ErrBusy].
func (t *Task) TryAcquire(ctx context.Context, key string, options ...LockOption) (*Grant, error) {
	return t.locks.acquire(ctx, t, key, t.locks.terms(options, Wait(0)))
}

// Do works under the lock, as [Locks.Do] does.
func (t *Task) Do(ctx context.Context, key string, work func(ctx context.Context, grant *Grant) error,
	options ...LockOption) error {
	grant, err := t.Acquire(ctx, key, options...)
	return doWork(ctx, work, grant, err)
}

// grant returns what the task holds of a key.
func (t *Task) grant(key string) *Grant {
	if t == nil {
		return nil
	}
	t.locks.mu.Lock()
	defer t.locks.mu.Unlock()
	if held := t.held[key]; held != nil && held.claim.Phase == state.Held {
		return held
	}
	return nil
}

func (t *Task) remember(g *Grant) {
	if t != nil {
		t.locks.mu.Lock()
		defer t.locks.mu.Unlock()
		maps.DeleteFunc(t.held, func(_ string, held *Grant) bool { return held.claim.Phase != state.Held })
		t.held[g.claim.Key] = g
	}
}
