package redislock

import (
	"context"
	"errors"
)

// Adopt takes over a grant of another process, by its owner and token, when that has let go of it ([Grant.Detach]) or is
// gone: where two keep it, the last one to ask does, and the other is told that it is lost. Nothing is known of it
// before the server has said that it stands. The options that count are Lease, Keep, Fixed and AtMost; without Lease,
// the lease stays. One release then gives back all its holds, but where these Locks have it already: there it is one
// more hold.
func (l *Locks) Adopt(ctx context.Context, key, owner string, token int64, options ...LockOption) (*Grant, error) {
	terms, err := newTerms(options)
	if err == nil && (owner == "" || len(owner) > 256 || token < 1) {
		err = misuse("a grant has an owner of 1 to 256 bytes and a token above 0")
	}
	if err == nil {
		err = l.begin()
	}
	if err != nil {
		return nil, named(err, "adopt", key)
	}
	defer l.finish()
	terms.owner, terms.named, terms.wait = owner, true, 0
	if l.quorum == nil && !hasLease(options) && !(terms.atMost > 0 && terms.fixed) {
		terms.lease = 0
	}
	lock := &Lock{locks: l, key: key, mode: shared, terms: terms} // shared takes a grant as it is
	return l.owners.inTurn(ctx, "adopt", lock, func(limited context.Context, _ *ownership) (*ownership, error) {
		if has := l.holding(key, owner, token); has != nil {
			if isEntered, err := lock.again(limited, ctx, has); isEntered || err != nil {
				return has, err
			}
		}
		if l.quorum != nil {
			return lock.adoptOnQuorum(limited, ctx, token)
		}
		return lock.adopt(limited, ctx, token)
	})
}

func hasLease(options []LockOption) bool {
	var t terms
	for _, option := range options {
		option(&t)
	}
	return t.lease != 0
}

func (l *Lock) adopt(limited, ctx context.Context, token int64) (*ownership, error) {
	command := []any{"LOCK.RENEW", l.key, l.terms.owner, "TOKEN", token}
	if l.terms.lease > 0 {
		command = append(command, "PX", milliseconds(l.terms.lease))
	}
	a := l.locks.ask(limited, renewing, l.key, append(command, l.terms.keepWords()...)...)
	if a.err != nil {
		if l.terms.keep > 0 && a.open {
			// It may be kept there from now on, for nobody. It is another's still: it is not released.
			l.locks.once(a.by, "LOCK.RENEW", l.key, l.terms.owner, "TOKEN", token, "KEEP", 0)
		}
		return nil, l.locks.failed(ctx, renewing, "adopt", l.key, a.err)
	}
	o, err := newOwnership(l, l.terms.owner, a)
	if err != nil {
		return nil, err
	}
	if err := l.locks.hold(o); err != nil {
		return nil, named(err, "adopt", l.key)
	}
	return o, nil
}

// holding is what these Locks have of a grant, by whatever call.
func (l *Locks) holding(key, owner string, token int64) *ownership {
	l.mu.Lock()
	defer l.mu.Unlock()
	for o := range l.held {
		if o.key == key && o.owner == owner && o.token == token {
			return o
		}
	}
	return nil
}

// Detach lets go of the lock without giving it back: nobody keeps it, and it stays for a lease, for whoever calls
// [Locks.Adopt] with its key, owner and token. It is not held here from the call on. Where the server does not answer
// it ends a lease later all the same, unless it is adopted.
func (g *Grant) Detach(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, g.locks.options.Release)
	defer cancel()
	if err := g.takeTurn(ctx, limited, "detach"); err != nil {
		return err
	}
	defer func() { <-g.turn }()
	g.mu.Lock()
	isKept, holds := g.keep > 0, g.holds
	g.mu.Unlock()
	if holds > 1 {
		return &Error{Op: "detach", Key: g.key, Kind: ErrMisuse, Cause: errors.New("the owner has other holds of it")}
	}
	if err := g.locks.begin(); err != nil {
		return named(err, "detach", g.key)
	}
	defer g.locks.finish()
	if err := g.spend("detach"); err != nil {
		return err
	}
	defer g.end(errReleased)
	if !g.abandon(errReleased) {
		return named(g.err(), "detach", g.key)
	}
	g.doubt() // in this name the task would get what another has by then

	defer func() { // an adoption here comes after it
		g.locks.mu.Lock()
		defer g.locks.mu.Unlock()
		delete(g.locks.held, g.ownership)
	}()
	if !isKept {
		return nil
	}
	a := g.askAsKnown(limited, renewing, "LOCK.RENEW", g.key, g.owner, "TOKEN", g.token, "KEEP", 0)
	switch {
	case a.err == nil, !g.named && errors.Is(a.err, errKeptElsewhere): // it has been adopted already
		return nil
	case kindOf(renewing, a.err) == ErrLost:
		return newError("detach", g.key, ErrLost, a.err)
	}
	g.unkept()
	return g.locks.failed(ctx, renewing, "detach", g.key, a.err)
}
