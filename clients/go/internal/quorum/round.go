package quorum

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/kinds"
	"github.com/redis-lock/redis-lock/clients/go/internal/wire"
)

// again is the pause before the servers are asked again.
const again = 50 * time.Millisecond

// tally is what the servers have answered to a call about a held lock.
type tally struct {
	done  map[int]int64 // with the token of the grant, where one was told
	lost  int
	said  map[int]error
	token int64 // the highest
}

// agreed is how many stand at the highest token.
func (t *tally) agreed() (count int) {
	for _, token := range t.done {
		if token == t.token {
			count++
		}
	}
	return count
}

type told struct {
	place int
	answer
}

// askAll asks every server, and waits until a majority has done it or cannot do it any more; the rest goes on in
// the background, also when nobody waits any more.
func (q *Quorum) askAll(ctx context.Context, call kinds.Call, ask func(*member) answer) (*tally, error) {
	answers := make(chan told, len(q.members))
	for place, m := range q.members {
		q.Go(func() { answers <- told{place, ask(m)} })
	}
	t := &tally{done: map[int]int64{}, said: map[int]error{}}
	var grace <-chan time.Time // of an even number, one half decides, and the other may say more
	for range q.members {
		var a told
		select {
		case a = <-answers:
		case <-grace:
			return t, nil
		case <-ctx.Done():
			return t, ctx.Err()
		}
		kind := error(nil)
		if a.err != nil {
			kind = kinds.Of(call, a.err)
		}
		switch {
		case a.err == nil, kind == kinds.ErrLost && call == kinds.Releasing && a.repeated: // the first of two has done it
			token, _ := grantOf(a.reply)
			t.done[a.place] = token
			t.token = max(t.token, token)
		case kind == kinds.ErrLost:
			t.lost++
			t.said[a.place] = a.err
		default:
			t.said[a.place] = a.err
		}
		if t.agreed() >= q.Majority() || t.lost >= q.Majority() {
			break
		}
		if grace == nil && t.lost > len(q.members)-q.Majority() {
			grace = time.After(leastGrace)
		}
	}
	return t, nil
}

// verdict is an error when asking again can change nothing.
func (q *Quorum) verdict(call kinds.Call, t *tally) error {
	if t.lost > len(q.members)-q.Majority() {
		return q.failure(kinds.ErrLost, t.said, "")
	}
	if kind := q.refused(call, t.said); kind != nil {
		return q.failure(kind, t.said, "")
	}
	return nil
}

// Renew begins the lease anew, for as long as the context lasts. A server that does not have the grant any more does
// not get it back: somebody else may have had the lock there in between, and a majority pieced together like that
// would hide it. Where the token is not known (0), it is that of the majority.
func (q *Quorum) Renew(ctx context.Context, grant Grant, terms Terms) (Grant, error) {
	words := []any{"LOCK.RENEW", grant.Key, grant.Owner, "PX", Milliseconds(terms.Lease)}
	if grant.Token != 0 {
		words = append(words, "TOKEN", grant.Token)
	}
	for {
		start := time.Now()
		mine := q.renewal(grant.Owner, len(q.members))
		t, err := q.askAll(ctx, kinds.Renewing, func(m *member) answer {
			defer q.renewed(grant.Owner, mine)
			var on *wire.Conn
			return m.callUntil(q.Life, terms.Limit, &on, mine.isOver.Load, words)
		})
		if err != nil {
			return grant, q.unanswered(err, t)
		}
		if t.agreed() >= q.Majority() {
			until, isNow := terms.trusted(start)
			if !isNow {
				return grant, q.failure(kinds.ErrLost, t.said, "the answers came too late")
			}
			grant.Token, grant.Until = t.token, until
			return grant, nil
		}
		if err := q.verdict(kinds.Renewing, t); err != nil {
			return grant, err
		}
		if err := q.rest(ctx, t); err != nil {
			return grant, err
		}
	}
}

// renewal is one round of calls, also of an attempt. A later one of the same owner may be of another lease: what of this
// one was not carried out then is not sent again behind it.
type renewal struct {
	isOver atomic.Bool
	left   atomic.Int32
}

func (q *Quorum) renewal(owner string, calls int) *renewal {
	mine := &renewal{}
	mine.left.Store(int32(calls))
	q.mu.Lock()
	defer q.mu.Unlock()
	q.overtake(owner)
	q.renewals[owner] = mine
	return mine
}

// overtake lets no more be sent of the calls of an owner; mu is locked.
func (q *Quorum) overtake(owner string) {
	if before := q.renewals[owner]; before != nil {
		before.isOver.Store(true)
	}
}

// renewed is told of the end of each of its calls.
func (q *Quorum) renewed(owner string, mine *renewal) {
	if mine.left.Add(-1) > 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.renewals[owner] == mine {
		delete(q.renewals, owner)
	}
}

// Release frees it on all servers, also on those that have not granted it: they may have since.
func (q *Quorum) Release(ctx context.Context, key, owner string, limit time.Duration) error {
	q.mu.Lock()
	q.overtake(owner)
	q.mu.Unlock()
	for isRepeated := false; ; isRepeated = true {
		t, err := q.askAll(ctx, kinds.Releasing, func(m *member) answer { return m.release(limit, nil, key, owner) })
		if err != nil {
			return q.unanswered(err, t)
		}
		done, answered := len(t.done), len(t.done)+t.lost
		// Repeated, or lost by a few servers only, it is free by now: that is what was asked for.
		if done >= q.Majority() || isRepeated && answered >= q.Majority() {
			return nil
		}
		if err := q.verdict(kinds.Releasing, t); err != nil {
			return err
		}
		if answered >= q.Majority() {
			return nil
		}
		if err := q.rest(ctx, t); err != nil {
			return err
		}
	}
}

// Stands asks whether a majority has the owner's grant now; nothing is renewed.
func (q *Quorum) Stands(ctx context.Context, key, owner string, limit time.Duration) (bool, error) {
	t, err := q.askAll(ctx, kinds.Renewing, func(m *member) (a answer) {
		var on *wire.Conn
		a = m.call(q.Life, limit, &on, "LOCK.INFO", key)
		if fields, _ := a.reply.([]any); a.err == nil && (len(fields) < 2 || fields[1] != owner) {
			a.err = wire.ServerError("NOTOWNER it is not held by this owner")
		}
		a.reply = nil
		return a
	})
	if err != nil {
		return false, q.unanswered(err, t)
	}
	if len(t.done) >= q.Majority() {
		return true, nil
	}
	if err := q.verdict(kinds.Renewing, t); err != nil {
		return false, err
	}
	return false, q.tooFew(t.said)
}

// rest is the pause before all are asked again, while there is time.
func (q *Quorum) rest(ctx context.Context, t *tally) error {
	select {
	case <-time.After(again):
		return nil
	case <-ctx.Done():
		return q.unanswered(ctx.Err(), t)
	}
}

// unanswered is the end of a context, with what the servers have said until then.
func (q *Quorum) unanswered(err error, t *tally) error {
	return errors.Join(err, q.tooFew(t.said))
}
