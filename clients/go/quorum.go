package redislock

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-lock/redis-lock/clients/go/internal/quorum"
)

// NewQuorum makes Locks on several independent servers that decide together: three, or a larger odd number, given
// to every process. Held is what more than half of them have granted, with one token, that rises from holder to
// holder as on one server; any minority may be down, hang or be cut off. What such a lock needs and costs:
// docs/quorum.md.
//
// This process renews its locks there, every third of their lease; no server keeps them ([Keep] says nothing). Only
// exclusive locks can be had, by an owner of their own for each attempt: [Locks.Shared], [Locks.Permit], [Owner],
// [Replicas], [Grant.Downgrade], [Locks.Holders] and [Locks.ForceUnlock] are [ErrMisuse].
func NewQuorum(clients []*redis.Client, options Options) *Locks {
	l := newLocks(options)
	if len(clients) < 3 || len(clients)%2 == 0 {
		l.misuse = misuse("a quorum has three servers, or a larger odd number of them")
	}
	var servers []quorum.Server
	names := map[string]bool{}
	for place, client := range clients {
		if client == nil {
			l.misuse = misuse("a quorum has a *redis.Client for each server")
			continue
		}
		server := quorum.ServerOf(client, place)
		if names[server.Address] {
			l.misuse = misuse("a server has only one voice in a quorum")
		}
		names[server.Address] = true
		servers = append(servers, server)
	}
	l.quorum = quorum.New(servers, quorum.Settings{
		Reply: l.options.Reply, Life: l.life, Owner: l.owner, Told: l.tell,
		Go: func(work func()) { l.background(func(context.Context) { work() }) },
	})
	context.AfterFunc(l.life, l.quorum.Close)
	return l
}

var errOnlyExclusive = misuse("on several servers a lock is exclusive, with an owner for each attempt, and no replicas")

// takeOnQuorum makes a new ownership there.
func (l *Lock) takeOnQuorum(ctx context.Context) (*ownership, error) {
	if l.mode != exclusive || l.terms.named || l.terms.replicas > 0 {
		return nil, named(errOnlyExclusive, "acquire", l.key)
	}
	calling, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.locks.calls, cancel)()
	q := l.locks.quorum
	wait := l.terms.wait
	if wait >= longestTime {
		wait = quorum.Forever
	}
	begun := time.Now()
	grant, err := q.Obtain(calling, l.key, q.TermsOf(l.terms.lease), wait)
	if err != nil {
		return nil, l.locks.failedOnQuorum(ctx, "acquire", l.key, err)
	}
	o := newOnQuorum(l.locks, grant, l.terms, begun)
	if err := l.locks.hold(o); err != nil {
		l.locks.background(func(ctx context.Context) { _ = q.Release(ctx, o.key, o.owner, l.locks.options.Reply) })
		return nil, named(err, "acquire", l.key)
	}
	return o, nil
}

// newOnQuorum is of a grant of a majority.
func newOnQuorum(locks *Locks, grant quorum.Grant, terms terms, begun time.Time) *ownership {
	o := &ownership{
		locks: locks, key: grant.Key, owner: grant.Owner, token: grant.Token, holds: 1, since: time.Now(),
		lease: terms.lease, proof: grant.Until.Add(-terms.lease), turn: make(chan struct{}, 1),
		changed: make(chan struct{}, 1), fixed: terms.fixed,
	}
	o.life, o.end = context.WithCancelCause(context.Background())
	ends := time.Time{}
	if terms.atMost > 0 && !terms.fixed {
		ends = begun.Add(terms.atMost)
	}
	go o.renewOn(ends)
	return o
}

// failedOnQuorum is what the caller is told.
func (l *Locks) failedOnQuorum(ctx context.Context, op, key string, err error) error {
	var failure *quorum.Failure
	isFailure := errors.As(err, &failure)
	switch {
	case l.isClosed():
		return &Error{Op: op, Key: key, Kind: ErrClosed}
	case ctx.Err() != nil && (!isFailure || failure.Kind == ErrUnavailable):
		return cancelled(ctx, op, key)
	case isFailure:
		return newError(op, key, failure.Kind, missing(failure))
	}
	return newError(op, key, ErrUnavailable, err)
}

// renewOn renews it every third of its lease, unless it is fixed, and tells when it is lost. A lock that is kept for
// so long at most is renewed no more when its lease ends then.
func (o *ownership) renewOn(ends time.Time) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var again time.Time // after a failure
	for {
		due := o.dueOnQuorum(ends)
		if !again.IsZero() {
			due = earlier(again, o.until())
		}
		timer.Reset(max(0, time.Until(due)))
		select {
		case <-timer.C:
		case <-o.changed:
			again = time.Time{}
			continue
		case <-o.life.Done():
			return
		}
		until := o.until()
		if !time.Now().Before(until) {
			o.lose(errLapsed)
			return
		}
		lease := o.remembered()
		if !ends.IsZero() {
			lease = min(lease, max(time.Until(ends), time.Millisecond))
		}
		limited, cancel := context.WithDeadline(o.life, until)
		err := o.renewOnQuorum(limited, limited, "renew", lease)
		cancel()
		switch {
		case err == nil:
			again = time.Time{}
		case errors.Is(err, ErrLost):
			return
		default:
			again = time.Now().Add(min(max(time.Until(until)/10, 5*time.Millisecond), time.Second))
		}
	}
}

// dueOnQuorum is when its lease is to begin anew; where it is not, its end.
func (o *ownership) dueOnQuorum(ends time.Time) time.Time {
	until, lease := o.until(), o.remembered()
	if o.fixed || !ends.IsZero() && !until.Add(2*quorum.Drift(lease)).Before(ends) {
		return until
	}
	return until.Add(-lease * 2 / 3)
}

func (o *ownership) remembered() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lease
}

// renewOnQuorum begins a lease anew; ctx is the caller's, and limited ends with the time for it.
func (o *ownership) renewOnQuorum(ctx, limited context.Context, op string, lease time.Duration) error {
	q := o.locks.quorum
	grant, err := q.Renew(limited, quorum.Grant{Key: o.key, Owner: o.owner, Token: o.token}, q.TermsOf(lease))
	if err != nil {
		err = o.locks.failedOnQuorum(ctx, op, o.key, err)
		if errors.Is(err, ErrLost) {
			o.lose(err)
		}
		return err
	}
	o.mu.Lock()
	o.lease, o.proof = lease, grant.Until.Add(-lease)
	o.mu.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
	return nil
}

// checkOnQuorum asks by a renewal, which a fixed lease does not get.
func (g *Grant) checkOnQuorum(ctx context.Context) error {
	if !g.fixed {
		return g.changeOnQuorum(ctx, "check", g.remembered())
	}
	limited, cancel := context.WithTimeout(ctx, g.locks.options.Reply)
	defer cancel()
	q := g.locks.quorum
	_, err := q.Stands(limited, g.key, g.owner, q.TermsOf(g.remembered()).Limit)
	if err == nil {
		return nil
	}
	if err = g.locks.failedOnQuorum(ctx, "check", g.key, err); errors.Is(err, ErrLost) {
		g.lose(err)
	}
	return err
}

// changeOnQuorum begins a lease of this length.
func (g *Grant) changeOnQuorum(ctx context.Context, op string, lease time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, g.locks.options.Reply)
	defer cancel()
	return g.renewOnQuorum(ctx, limited, op, lease)
}

// releaseOnQuorum frees it there. What a server could not be told it is told when it is back.
func (o *ownership) releaseOnQuorum(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, o.locks.options.Release)
	defer cancel()
	err := o.locks.quorum.Release(limited, o.key, o.owner, o.locks.options.Reply)
	if err == nil {
		return nil
	}
	var failure *quorum.Failure
	if errors.As(err, &failure) && failure.Kind == ErrLost {
		err = newError("release", o.key, ErrLost, failure)
		if told := o.locks.options.Hooks.Lost; told != nil {
			told(o.key, err)
		}
		return err
	}
	if ctx.Err() != nil {
		return cancelled(ctx, "release", o.key)
	}
	if errors.As(err, &failure) {
		return newError("release", o.key, failure.Kind, missing(failure))
	}
	return newError("release", o.key, ErrUnavailable, err)
}

// adoptOnQuorum takes over a grant of a majority.
func (l *Locks) adoptOnQuorum(ctx context.Context, key, owner string, token int64, terms terms) (*Grant, error) {
	limited, cancel := context.WithTimeout(ctx, l.options.Reply)
	defer cancel()
	begun := time.Now()
	grant, err := l.quorum.Renew(limited, quorum.Grant{Key: key, Owner: owner, Token: token}, l.quorum.TermsOf(terms.lease))
	if err != nil {
		return nil, l.failedOnQuorum(ctx, "adopt", key, err)
	}
	o := newOnQuorum(l, grant, terms, begun)
	if err := l.hold(o); err != nil {
		return nil, named(err, "adopt", key)
	}
	return newGrant(o), nil
}
