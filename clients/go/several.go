package redislock

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Grants are several locks that were acquired together, sorted by key.
type Grants []*Grant

// AcquireAll acquires the locks of several keys, or none: one after the other in the order of their names, so that two
// callers never wait for each other. They have one owner, and one time to wait. The errors are those of [Locks.Acquire];
// then none of the locks is held.
func (l *Locks) AcquireAll(ctx context.Context, keys []string, options ...LockOption) (grants Grants, err error) {
	keys = slices.Clone(keys)
	slices.Sort(keys)
	if l.task == nil {
		l = l.Task()
	}
	terms, begun := l.terms(options...), time.Now()
	for _, key := range slices.Compact(keys) {
		left := terms
		if terms.Wait > 0 {
			left.Wait = max(0, terms.Wait-time.Since(begun))
		}
		grant, err := l.acquire(ctx, key, left)
		if err != nil {
			return nil, errors.Join(err, grants.Release(context.WithoutCancel(ctx)))
		}
		grants = append(grants, grant)
	}
	for _, grant := range grants { // while the others were waited for
		if err := grant.Err(); err != nil {
			return nil, errors.Join(err, grants.Release(context.WithoutCancel(ctx)))
		}
	}
	return grants, nil
}

// Release gives all back, the last one first. Their errors are joined.
func (g Grants) Release(ctx context.Context) (err error) {
	for _, grant := range slices.Backward(g) {
		err = errors.Join(err, grant.Release(ctx))
	}
	return err
}

// Lead waits for the lock as long as it takes, works while it holds it, and starts again when the work has ended or
// the lock is lost. It returns when the context ends, when the work fails for another reason than the loss, and when
// the lock fails with an error that is not temporary.
func (l *Locks) Lead(ctx context.Context, key string, work func(ctx context.Context, grant *Grant) error,
	options ...LockOption) error {
	for pause := (pauses{}); ; {
		var own error // of the work, not from the loss
		err := l.Do(ctx, key, func(ctx context.Context, grant *Grant) error {
			pause = pauses{}
			err := work(ctx, grant)
			if lost := grant.Err(); !errors.Is(lost, ErrLost) || !errors.Is(err, context.Canceled) && !errors.Is(err, ErrLost) {
				own = err
			}
			return err
		}, options...)
		switch {
		case own != nil && (ctx.Err() == nil || !errors.Is(own, ctx.Err())):
			return err
		case ctx.Err() != nil:
			return failed("lead", l.options.Prefix+key, ended(ctx, nil))
		case err != nil && !errors.Is(err, ErrLost) && !errors.Is(err, ErrUnavailable):
			return err
		}
		sleep(ctx, nil, pause.next())
	}
}
