package redislock

import (
	"context"
	"errors"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/quorum"
)

// Release gives the lock back, and does not wait longer than the context and [Options].Release say. It is not
// held from the call on, whatever comes of it; where the server does not answer, it comes free a lease later. Where
// the context has ended, the release is carried on without the caller. [ErrLost] says that the lock had been
// lost before; a second release is [ErrMisuse].
func (g *Grant) Release(ctx context.Context) error { return g.release(ctx, 0) }

// ReleaseAfter gives the lock up, but lets others have it after so long only: nobody keeps or renews it, and it ends
// by itself, whatever becomes of this process. So a short piece of work is not done twice by those whose clocks
// differ a little. It is not held from the call on. With no time left, or where the task has other holds, it is a
// [Grant.Release].
func (g *Grant) ReleaseAfter(ctx context.Context, after time.Duration) error {
	return g.release(ctx, after)
}

func (g *Grant) release(ctx context.Context, after time.Duration) error {
	if err := g.spend("release"); err != nil {
		return err
	}
	defer g.end(errReleased)
	limited, cancel := context.WithTimeout(ctx, g.locks.options.Release) // its turn included
	defer cancel()
	err := g.takeTurn(ctx, limited, "release")
	hasTurn := err == nil
	if hasTurn && ctx.Err() != nil && g.needsLook() { // for which there is no time here
		err = cancelled(ctx, "release", g.key)
	}
	switch {
	case err == nil:
		return g.releaseInTurn(ctx, limited, after)
	case g.locks.begin() == nil:
		go func() {
			defer g.locks.finish()
			g.carryOn(hasTurn, after)
		}()
	case hasTurn:
		<-g.turn
	}
	return err
}

// carryOn releases it without the caller, when the other call of its owner is over.
func (g *Grant) carryOn(hasTurn bool, after time.Duration) {
	if !hasTurn {
		select {
		case g.turn <- struct{}{}:
		case <-g.locks.life.Done():
			return
		}
	}
	limited, cancel := context.WithTimeout(g.locks.life, g.locks.options.Release)
	defer cancel()
	_ = g.releaseInTurn(g.locks.life, limited, after)
}

// spend ends this hold, once.
func (g *Grant) spend(op string) error {
	if g.released.Swap(true) {
		return &Error{Op: op, Key: g.key, Kind: ErrMisuse, Cause: errReleased}
	}
	return nil
}

func (g *Grant) releaseInTurn(ctx, limited context.Context, after time.Duration) error {
	defer func() { <-g.turn }()
	if err := g.err(); err != nil {
		return named(err, "release", g.key)
	}
	g.mu.Lock()
	g.holds--
	left, isKept := g.holds, g.keep > 0
	g.mu.Unlock()
	if err := g.locks.begin(); err != nil {
		return named(err, "release", g.key)
	}
	defer g.locks.finish()
	if left > 0 || after < time.Millisecond {
		return g.giveBack(ctx, limited, left, errReleased)
	}
	if !g.abandon(errReleased) {
		return named(g.err(), "release", g.key)
	}
	err := g.letEnd(ctx, limited, after, isKept)
	g.given(err)
	return err
}

// takeTurn waits for the turn to change the holds of an owner.
func (o *ownership) takeTurn(ctx, limited context.Context, op string) error {
	select {
	case o.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case o.turn <- struct{}{}:
		return nil
	case <-limited.Done():
	}
	if ctx.Err() != nil {
		return cancelled(ctx, op, o.key)
	}
	return newError(op, o.key, ErrUnavailable, errors.New("another call of the owner is under way"))
}

func (o *ownership) letEnd(ctx, limited context.Context, after time.Duration, isKept bool) error {
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
	return o.released(ctx, o.askAsKept(limited, renewing, command...), 0, command)
}

// giveBack releases all holds but these. With the last one it is not held from here on, whatever the server says.
func (o *ownership) giveBack(ctx, limited context.Context, holds int, why error) error {
	if holds == 0 && !o.abandon(why) {
		return o.err()
	}
	err := o.sayRelease(ctx, limited, holds)
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

func (o *ownership) sayRelease(ctx, limited context.Context, holds int) error {
	if o.locks.quorum != nil {
		if holds > 0 {
			return nil // they are counted here alone
		}
		return o.releaseOnQuorum(ctx, limited)
	}
	command := o.releaseTo(holds)
	return o.released(ctx, o.askAsKept(limited, releasing, command...), holds, command)
}

// releaseTo leaves so many holds.
func (o *ownership) releaseTo(holds int) []any {
	return []any{"LOCK.RELEASE", o.key, o.owner, "HOLDS", holds, "TOKEN", o.token}
}

// released judges the answer to a release, by this command.
func (o *ownership) released(ctx context.Context, a answer, holds int, command []any) error {
	kind := kindOf(releasing, a.err)
	switch {
	case a.err == nil, kind == ErrLost && a.repeated && holds == 0 && !errors.Is(a.err, errKeptElsewhere):
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
		o.unanswered(ctx, command)
	}
	switch {
	case kind != errPassing:
		return newError("release", o.key, kind, missing(a.err))
	case ctx.Err() != nil:
		return cancelled(ctx, "release", o.key)
	}
	return newError("release", o.key, ErrUnavailable, a.err)
}

// unanswered: a caller that had no time has the release carried on.
func (o *ownership) unanswered(ctx context.Context, command []any) {
	if ctx.Err() != nil {
		o.letGo(command)
		return
	}
	o.doubt()
	o.unkept()
}

// closeDown releases it as a part of Close.
func (o *ownership) closeDown(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, o.locks.options.Release)
	defer cancel()
	err := o.giveBack(ctx, limited, 0, ErrClosed)
	if (errors.Is(err, ErrClosed) || errors.Is(err, errReleased)) && ctx.Err() == nil {
		return nil // somebody else does
	}
	return err
}
