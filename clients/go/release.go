package redislock

import (
	"context"
	"errors"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/quorum"
)

// ReleaseAfter gives the lock up, but lets others have it after so long only: nobody keeps or renews it, and it ends
// by itself, whatever becomes of this process. So a short piece of work is not done twice by those whose clocks
// differ a little. It is not held from the call on. With no time left, or where the task has other holds, it is a
// [Grant.Release].
func (g *Grant) ReleaseAfter(ctx context.Context, after time.Duration) error {
	g.mu.Lock()
	isKept, holds := g.keep > 0, g.holds
	g.mu.Unlock()
	if after < time.Millisecond || holds > 1 {
		return g.Release(ctx)
	}
	if g.released.Swap(true) {
		return &Error{Op: "release", Key: g.key, Kind: ErrMisuse, Cause: errReleased}
	}
	defer g.end(errReleased)
	if err := g.locks.begin(); err != nil {
		return named(err, "release", g.key)
	}
	defer g.locks.finish()
	if !g.abandon(errReleased) {
		return named(g.err(), "release", g.key)
	}
	err := g.letEnd(ctx, after, isKept)
	g.given(err)
	return err
}

func (o *ownership) letEnd(ctx context.Context, after time.Duration, isKept bool) error {
	limited, cancel := context.WithTimeout(ctx, o.locks.options.Release)
	defer cancel()
	if q := o.locks.quorum; q != nil {
		_, err := q.Renew(limited, quorum.Grant{Key: o.key, Owner: o.owner, Token: o.token}, q.TermsOf(after))
		if err != nil {
			err = o.locks.failedOnQuorum(ctx, "release", o.key, err)
		}
		return err
	}
	command := []any{"LOCK.RENEW", o.key, o.owner, "TOKEN", o.token, "PX", milliseconds(after)}
	if isKept {
		command = append(command, "KEEP", 0)
	}
	return o.released(ctx, o.locks.ask(limited, renewing, o.key, command...), 0)
}

// giveBack releases all holds but these. With the last one it is not held from here on, whatever the server says.
func (o *ownership) giveBack(ctx context.Context, holds int, why error) error {
	if holds == 0 && !o.abandon(why) {
		return o.err()
	}
	err := o.sayRelease(ctx, holds)
	if holds == 0 {
		o.given(err)
	}
	return err
}

// given tells of the last release.
func (o *ownership) given(err error) {
	o.locks.mu.Lock()
	delete(o.locks.held, o)
	o.locks.mu.Unlock()
	if told := o.locks.options.Hooks.Released; told != nil {
		told(o.key, time.Since(o.since), err)
	}
}

func (o *ownership) sayRelease(ctx context.Context, holds int) error {
	if o.locks.quorum != nil {
		if holds > 0 {
			return nil // they are counted here alone
		}
		return o.releaseOnQuorum(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, o.locks.options.Release)
	a := o.askRelease(limited, holds)
	cancel()
	return o.released(ctx, a, holds)
}

func (o *ownership) askRelease(ctx context.Context, holds int) answer {
	return o.locks.ask(ctx, releasing, o.key, "LOCK.RELEASE", o.key, o.owner, "HOLDS", holds, "TOKEN", o.token)
}

// released judges the answer to a release.
func (o *ownership) released(ctx context.Context, a answer, holds int) error {
	kind := kindOf(releasing, a.err)
	switch {
	case a.err == nil, kind == ErrLost && a.repeated && holds == 0:
		return nil // it may have been done the first time
	case kind == ErrLost:
		err := newError("release", o.key, ErrLost, a.err)
		if holds > 0 {
			o.lose(a.err)
		} else if told := o.locks.options.Hooks.Lost; told != nil {
			told(o.key, err)
		}
		return err
	}
	if holds == 0 {
		o.unanswered(ctx, a)
	}
	switch {
	case kind != errPassing:
		return newError("release", o.key, kind, missing(a.err))
	case ctx.Err() != nil:
		return cancelled(ctx, "release", o.key)
	}
	return newError("release", o.key, ErrUnavailable, a.err)
}

// unanswered sees to it that the server keeps no longer what is not held any more: it comes free a lease later at
// the latest. A caller that had no time has the release carried on.
func (o *ownership) unanswered(ctx context.Context, a answer) {
	if ctx.Err() != nil {
		o.locks.background(func(ctx context.Context) {
			if again := o.askRelease(ctx, 0); again.err != nil && kindOf(releasing, again.err) != ErrLost {
				o.unkept(again)
			}
		})
		return
	}
	o.unkept(a)
}

func (o *ownership) unkept(a answer) {
	o.mu.Lock()
	isKept, k := o.keep > 0, o.keeper
	o.mu.Unlock()
	if isKept {
		k.leave()
	}
}

// closeDown releases it as a part of Close.
func (o *ownership) closeDown(ctx context.Context) error {
	err := o.giveBack(ctx, 0, ErrClosed)
	if errors.Is(err, ErrClosed) && ctx.Err() == nil {
		return nil // somebody else does
	}
	return err
}
