package redislock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// Grants are several locks that were taken together, sorted by key.
type Grants []*Grant

// All takes the exclusive locks of several keys, or none: one after the other in the order of their names, so that
// two callers never wait for each other. They have one owner, and one time to wait for all.
func (l *Locks) All(ctx context.Context, keys []string, options ...LockOption) (Grants, error) {
	terms, err := newTerms(options)
	if err != nil || terms.named {
		return nil, named(cmp.Or(err, misuse("several locks have an owner of their own")), "acquire", "")
	}
	keys = slices.Clone(keys)
	slices.Sort(keys)
	task, until := l.Task(), time.Now().Add(min(terms.wait, longestTime))
	var grants Grants
	for _, key := range slices.Compact(keys) {
		left := terms.wait
		if terms.wait > 0 && terms.wait < longestTime {
			left = max(0, time.Until(until))
		}
		grant, err := task.Lock(key, append(slices.Clone(options), Wait(left))...).Acquire(ctx)
		if err != nil {
			return nil, errors.Join(err, grants.Release(context.WithoutCancel(ctx)))
		}
		grants = append(grants, grant)
	}
	return grants, nil
}

// Release gives all back, the last one first.
func (g Grants) Release(ctx context.Context) error {
	var failures []error
	for _, grant := range slices.Backward(g) {
		failures = append(failures, grant.Release(ctx))
	}
	return errors.Join(failures...)
}

// Lead waits for the lock for as long as it takes, and works while it has it; and then from the start: when the
// work has ended, and when the lock is lost. It returns when the context ends, and with an error of the work or of
// the lock that is neither a loss nor one that passes.
func (l *Lock) Lead(ctx context.Context, work func(ctx context.Context, grant *Grant) error) error {
	leading := *l
	leading.terms.wait = Forever
	for failures := 0; ; {
		err := leading.Do(ctx, work)
		switch {
		case ctx.Err() != nil:
			return cancelled(ctx, "lead", l.key)
		case err == nil, errors.Is(err, ErrLost):
			failures = 0
		case errors.Is(err, ErrUnavailable):
			failures++
		default:
			return err
		}
		select {
		case <-time.After(pause(failures)):
		case <-ctx.Done():
			return cancelled(ctx, "lead", l.key)
		}
	}
}

// Once does a piece of work once, however many ask for it at a time. look says whether its result is there; where
// it is not, one does the work under the exclusive lock, and all others wait until it has ended, for as long as
// the lock's [Wait] says, and look again.
func Once[T any](ctx context.Context, lock *Lock, look func(context.Context) (T, bool, error),
	work func(context.Context, *Grant) (T, error)) (result T, err error) {
	until := time.Now().Add(min(lock.terms.wait, longestTime))
	now, waiting := *lock, *lock
	now.terms.wait = 0
	waiting.mode = shared
	for {
		result, found, err := look(ctx)
		if found || err != nil {
			return result, err
		}
		err = now.Do(ctx, func(ctx context.Context, grant *Grant) (err error) {
			if result, found, err = look(ctx); !found && err == nil {
				result, err = work(ctx, grant)
			}
			return err
		})
		if !errors.Is(err, ErrBusy) {
			return result, err
		}
		if lock.terms.wait < longestTime {
			if waiting.terms.wait = time.Until(until); waiting.terms.wait <= 0 {
				return result, err
			}
		}
		if err := waiting.Do(ctx, func(context.Context, *Grant) error { return nil }); err != nil {
			return result, err
		}
	}
}
