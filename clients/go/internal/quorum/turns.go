package quorum

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/kinds"
)

// patience is how long a wait in one server's line lasts before all servers are tried again, besides up to as much
// again by chance: that server may be the only one where the lock is not free.
const patience = time.Second

// Forever is a wait without an end.
const Forever time.Duration = 1<<63 - 1

// Obtain makes attempt after attempt for so long, and in between has a place in the line of a server that says
// that the lock is not free. An error is a *Failure, or that of the context.
func (q *Quorum) Obtain(ctx context.Context, key string, terms Terms, wait time.Duration) (Grant, error) {
	left := func() time.Duration { return Forever }
	if wait < Forever {
		until := time.Now().Add(cmp.Or(wait, q.Reply)) // without a wait, it is for servers alone, not for the lock
		left = func() time.Duration { return time.Until(until) }
	}
	limited := ctx
	if wait == 0 { // then the last attempt, too, is over in time
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, q.Reply)
		defer cancel()
	}
	line, longest := -1, time.Duration(0)
	for {
		start := time.Now()
		grant, err := q.inTurn(limited, key, terms, line, left())
		if err == nil || ctx.Err() != nil {
			return grant, err
		}
		var failure *Failure
		if !errors.As(err, &failure) {
			if limited.Err() != nil {
				err = q.failure(kinds.ErrUnavailable, nil, "no majority has answered in time")
			}
			return grant, err
		}
		isBusy := failure.Kind == kinds.ErrBusy
		if !isBusy && failure.Kind != kinds.ErrUnavailable || isBusy && wait == 0 || left() <= 0 {
			return grant, failure
		}
		line = failure.First
		longest = pause(longest, time.Since(start))
		select {
		case <-time.After(min(left(), partOf(longest))):
		case <-ctx.Done():
			return grant, ctx.Err()
		}
	}
}

// pause is the longest one after another failure: as long as the attempt took at first, then twice as long each
// time. A part of it by chance lets one of several that have split the servers among them come first.
func pause(before, attempt time.Duration) time.Duration {
	const shortest, longest = time.Millisecond, 250 * time.Millisecond
	first := min(max(attempt, shortest), 20*shortest)
	return min(max(first, 2*before), longest)
}

func partOf(whole time.Duration) time.Duration { return rand.N(whole) + 1 }

// inTurn is an attempt under a new owner, when its turn has come in the line of the server at this place.
func (q *Quorum) inTurn(ctx context.Context, key string, terms Terms, line int, left time.Duration) (Grant, error) {
	owner := q.Owner()
	if line < 0 {
		return q.Attempt(ctx, key, owner, terms)
	}
	m := q.members[line]
	if !m.stand(ctx, key, owner, terms, min(max(left, time.Millisecond), patience+partOf(patience))) {
		if ctx.Err() != nil {
			return Grant{}, ctx.Err()
		}
		return q.Attempt(ctx, key, q.Owner(), terms)
	}
	down := m.isDown() != nil
	grant, err := q.Attempt(ctx, key, owner, terms)
	if err != nil && (down || asFailure(err).Kind == kinds.ErrUnavailable) {
		q.Go(func() { m.release(terms.Limit, nil, key, owner) }) // it may not have been asked
	}
	return grant, err
}

// stand waits in the line of a server, and says whether the attempt may go on under the owner's name. Where it may
// not, the owner has left the line, and frees what it has got.
func (m *member) stand(ctx context.Context, key, owner string, terms Terms, wait time.Duration) bool {
	reply := m.quorum.Reply
	limited, cancel := context.WithTimeout(ctx, wait+reply/2)
	defer cancel()
	leave := func() { m.quorum.Go(func() { m.release(reply, nil, key, owner) }) }
	conn, err := m.waits.Take(limited)
	if err != nil {
		if ctx.Err() == nil {
			m.learn(err, nil)
		}
		return false
	}
	call := conn.Start(wait+reply/2, "LOCK.ACQUIRE", key, owner, "PX", Milliseconds(terms.Lease), "HOLDS", 1,
		"BLOCK", Milliseconds(wait))
	select {
	case <-call.Done():
	case <-limited.Done():
		m.quorum.Go(func() {
			m.release(reply, nil, key, owner)
			select {
			case <-call.Done():
			case <-time.After(reply):
				conn.Close()
			}
			if call.IsOver() && call.Err == nil && call.Reply != nil { // the release has overtaken the wait
				m.release(reply, nil, key, owner)
			}
			m.waits.Put(conn)
		})
		return false
	}
	m.waits.Put(conn)
	if call.Err != nil {
		m.learn(call.Err, nil)
		leave()
		return false
	}
	return true
}

// asFailure finds it in an error; an empty one where there is none.
func asFailure(err error) *Failure {
	var f *Failure
	if !errors.As(err, &f) {
		return &Failure{}
	}
	return f
}
