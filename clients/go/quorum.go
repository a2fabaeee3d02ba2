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
	if l.terms.spent > 0 {
		limited, cancel := context.WithTimeout(calling, l.locks.options.Reply-l.terms.spent)
		defer cancel()
		calling = limited
	}
	q := l.locks.quorum
	wait := l.terms.wait
	if wait >= longestTime {
		wait = quorum.Forever
	}
	grant, err := q.Obtain(calling, l.key, q.TermsOf(l.terms.lease), wait)
	if err != nil {
		return nil, l.locks.failedOnQuorum(ctx, "acquire", l.key, err)
	}
	o := newOnQuorum(l.locks, grant, l.terms)
	if err := l.locks.hold(o); err != nil {
		l.locks.background(func(ctx context.Context) { _ = q.Release(ctx, o.key, o.owner, l.locks.options.Reply) })
		return nil, named(err, "acquire", l.key)
	}
	return o, nil
}

// newOnQuorum is of a grant of a majority.
func newOnQuorum(locks *Locks, grant quorum.Grant, terms terms) *ownership {
	o := &ownership{
		locks: locks, key: grant.Key, owner: grant.Owner, token: grant.Token, holds: 1, since: time.Now(),
		lease: terms.lease, proof: grant.Until.Add(-terms.lease), turn: make(chan struct{}, 1),
		changed: make(chan struct{}, 1), renewing: make(chan struct{}, 1), fixed: terms.fixed,
	}
	o.life, o.end = context.WithCancelCause(context.Background())
	if terms.atMost > 0 {
		o.most = o.proof.Add(terms.atMost)
	}
	go o.renewOn()
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
func (o *ownership) renewOn() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var again time.Time // after a failure
	for {
		due := o.dueOnQuorum()
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
			o.expire()
			return
		}
		limited, cancel := context.WithDeadline(o.life, until)
		err := o.renewOnQuorum(limited, limited, "renew", 0)
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
func (o *ownership) dueOnQuorum() time.Time {
	until, lease := o.until(), o.remembered()
	if o.fixed || !o.most.IsZero() && !until.Add(2*quorum.Drift(lease)).Before(o.most) {
		return until
	}
	return until.Add(-lease * 2 / 3)
}

func (o *ownership) remembered() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lease
}

// renewOnQuorum begins a lease anew, the one that is remembered where none is given; ctx is the caller's, and limited
// ends with the time for it. One renewal comes after the other: the servers would not all have the same one last.
func (o *ownership) renewOnQuorum(ctx, limited context.Context, op string, lease time.Duration) error {
	select {
	case o.renewing <- struct{}{}:
		defer func() { <-o.renewing }()
	case <-limited.Done():
		return o.locks.failedOnQuorum(ctx, op, o.key, limited.Err())
	}
	if lease == 0 {
		lease = o.remembered()
		if !o.most.IsZero() {
			lease = min(lease, max(time.Until(o.most), time.Millisecond))
		}
	}
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
	o.isChanged()
	return nil
}

func (o *ownership) isChanged() {
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

// checkOnQuorum asks by a renewal, which a fixed lease does not get.
func (g *Grant) checkOnQuorum(ctx context.Context) error {
	if !g.fixed {
		return g.changeOnQuorum(ctx, "check", 0)
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

// changeOnQuorum begins a lease of this length, or the one that is remembered.
func (g *Grant) changeOnQuorum(ctx context.Context, op string, lease time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, g.locks.options.Reply)
	defer cancel()
	if lease > 0 { // some servers may begin it, whatever becomes of this
		g.mayEnd(time.Now().Add(-quorum.Drift(lease)), lease)
	}
	err := g.renewOnQuorum(ctx, limited, op, lease)
	if err != nil && lease > 0 {
		g.mayLast()
	}
	return err
}

// releaseOnQuorum frees it there. What a server could not be told it is told when it is back.
func (o *ownership) releaseOnQuorum(ctx, limited context.Context) error {
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
func (l *Lock) adoptOnQuorum(limited, ctx context.Context, token int64) (*ownership, error) {
	q := l.locks.quorum
	grant, err := q.Renew(limited, quorum.Grant{Key: l.key, Owner: l.terms.owner, Token: token}, q.TermsOf(l.terms.lease))
	if err != nil {
		return nil, l.locks.failedOnQuorum(ctx, "adopt", l.key, err)
	}
	o := newOnQuorum(l.locks, grant, l.terms)
	if err := l.locks.hold(o); err != nil {
		return nil, named(err, "adopt", l.key)
	}
	return o, nil
}
