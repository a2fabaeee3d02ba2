package redislock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/wire"
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
	for _, grant := range grants { // while the others were waited for
		if err := grant.err(); err != nil {
			return nil, errors.Join(named(err, "acquire", grant.key), grants.Release(context.WithoutCancel(ctx)))
		}
	}
	return grants, nil
}

// Release gives all back, the last one first, and waits no longer for all than for one.
func (g Grants) Release(ctx context.Context) error {
	if len(g) == 0 {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, g[0].locks.options.Release)
	defer cancel()
	var failures []error
	for _, grant := range slices.Backward(g) {
		err := grant.Release(limited)
		if err != nil && limited.Err() != nil && ctx.Err() == nil && errors.Is(err, limited.Err()) { // no end of the caller's
			err = newError("release", grant.Key(), ErrUnavailable, wire.ErrSilent)
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// Lead waits for the lock for as long as it takes, and works while it has it; and then from the start: when the
// work has ended, and when the lock is lost. It returns when the context ends, with an error of the work that does not
// tell of this lock's loss, and with one of the lock itself that does not pass. The context of the work ends with the
// lock, so context.Canceled tells of its loss, too.
func (l *Lock) Lead(ctx context.Context, work func(ctx context.Context, grant *Grant) error) error {
	leading := *l
	leading.terms.wait = Forever
	for failures := 0; ; {
		var failed error // the work did, by itself
		err := leading.Do(ctx, func(working context.Context, grant *Grant) error {
			failures = 0
			err := work(working, grant)
			if err != nil && !grant.lostBy(err) {
				failed = err
			}
			return err
		})
		switch {
		case failed != nil && (ctx.Err() == nil || !tellsOf(failed, ctx)):
			return err
		case ctx.Err() != nil:
			return cancelled(ctx, "lead", l.key)
		case err == nil, errors.Is(err, ErrLost):
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

// lostBy says whether an error of the work tells of the loss of this grant.
func (g *Grant) lostBy(err error) bool {
	lost := g.err()
	if !errors.Is(lost, ErrLost) {
		return false
	}
	var own *Error
	return errors.Is(err, lost) || errors.Is(err, context.Canceled) ||
		errors.As(err, &own) && own.Kind == ErrLost && own.Key == g.key
}

// tellsOf says whether an error tells of the end of a context.
func tellsOf(err error, ctx context.Context) bool {
	return errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))
}

// Once does a piece of work once, however many ask for it at a time. look says whether its result is there; where
// it is not, one does the work under the lock, which is exclusive, and all others wait until it has ended, for as long
// as the lock's [Wait] says, and look again.
func Once[T any](ctx context.Context, lock *Lock, look func(context.Context) (T, bool, error),
	work func(context.Context, *Grant) (T, error)) (result T, err error) {
	until := time.Now().Add(min(lock.terms.wait, longestTime))
	now, waiting := *lock, *lock
	now.terms.wait = 0
	if lock.mode != exclusive {
		return result, named(misuse("work is done once under an exclusive lock"), "once", lock.key)
	}
	waiting.mode = shared
	left := func() time.Duration {
		if lock.terms.wait >= longestTime {
			return lock.terms.wait
		}
		return max(0, time.Until(until))
	}
	for isFirst := lock.locks.quorum == nil; ; isFirst = false { // on several servers they come in one after the other
		result, found, err := look(ctx)
		if found || err != nil {
			return result, err
		}
		isMine := false
		if !isFirst { // those who share it for another end may stay
			now.terms.wait = left()
		}
		err = now.Do(ctx, func(ctx context.Context, grant *Grant) (err error) {
			isMine = true
			if result, found, err = look(ctx); !found && err == nil {
				result, err = work(ctx, grant)
			}
			return err
		})
		if isMine || !isFirst || !errors.Is(err, ErrBusy) {
			return result, err
		}
		if waiting.terms.wait = left(); waiting.terms.wait == 0 {
			return result, err
		}
		if err := waiting.Do(ctx, func(context.Context, *Grant) error { return nil }); err != nil {
			return result, err
		}
	}
}
