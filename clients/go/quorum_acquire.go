package redislock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// acquire asks all servers at once. A caller that gets no majority gives back what it has, and waits in line at the
// first server that answers. Only the first in that line keeps what it has while it waits for the other servers, so no
// two callers wait for each other. If callers disagree about the first server, the end of their turns resolves that.
func (q *Quorum) acquire(ctx context.Context, key string, t terms) (lock *QuorumGrant, err error) {
	begun, full := time.Now(), q.options.Prefix+key
	defer func() { observe(q.options.Observer.Acquired, full, begun, err) }()
	for _, m := range q.members {
		if wrong := cmp.Or(t.Failure, m.terms().Failure); wrong != nil {
			return nil, failed("acquire", full, wrong)
		}
	}
	if t.Wait < 0 {
		t.Wait = math.MaxInt64
	}
	if deadline, ok := ctx.Deadline(); ok {
		t.Wait = min(t.Wait, max(0, time.Until(deadline))+patience) // the context ends first
	}
	left := func() time.Duration { return max(0, t.Wait-time.Since(begun)) }
	b := q.ballot(ctx, key, t)
	defer func() { b.finish(lock) }()
	for pause, isStuck := (pauses{}), t.Wait == 0; ; {
		b.askRest(0)
		first := b.first()
		isTurn := first != nil && first.grant != nil
		if isTurn && left() != 0 && b.count(isGranted) < q.majority {
			b.leaveLines() // where it would wait behind itself
			b.askRest(turnTime(left()))
		}
		// Callers in line at the first server come before, unless the line there does not move.
		if isTurn || isStuck {
			if token := b.raise(); token != 0 {
				lock = &QuorumGrant{quorum: q, key: full, token: token, taken: time.Now(),
					loss: newLoss(full, q.options.Observer.Lost), parts: map[*Grant]*member{}}
				b.hand(lock)
				return lock, nil
			}
		}
		failure := b.failure(ctx, full, left() == 0)
		if b.giveBack(); failure != nil {
			return nil, failure
		}
		rest := turnTime(left())
		if first == nil || isTurn { // too few servers answer, or the turn is over
			first, isStuck, rest = nil, false, min(pause.next(), left())
		} else if pause, isStuck = (pauses{}), true; !first.isInLine {
			b.leaveLines()
			b.ask(first, left(), true)
		}
		for over := time.After(rest); first == nil || first.grant == nil; {
			if !b.next(over) {
				break
			}
		}
		if isStuck = isStuck && first.grant == nil; ctx.Err() != nil || left() == 0 {
			return nil, b.failure(ctx, full, true)
		}
	}
}

// turnTime is how long the first in line waits for the other servers before it joins the end of the line. It is also how
// long the others wait before they see whether a majority is free anyway.
func turnTime(left time.Duration) time.Duration {
	return min(time.Second+rand.N(time.Second), max(left/2, patience), left)
}

// failure is why the acquire fails: a later try would not succeed either, or its time is over.
func (b *ballot) failure(ctx context.Context, full string, isOver bool) error {
	failure, answers, refusals, differ := &Error{Op: "acquire", Key: full}, 0, 0, false
	failure.Cause = errors.New("no majority of the servers")
	for _, v := range b.votes {
		if v.err != nil {
			failure.Cause = fmt.Errorf("%w; %s: %v", failure.Cause, v.name, v.err)
		}
		differ = differ || v.refused != 0
		switch kind := kindOf(v.err); {
		case v.isInLine || isBusy(v) || v.err == nil && !v.isOpen:
			answers++
		case kind != nil && kind != ErrUnavailable && kind != ErrLost && kind != errAhead: // the same again
			refusals++
			failure.Kind = kind
		}
	}
	switch {
	case len(b.votes)-refusals < b.majority:
	case differ && b.count(isGranted) >= b.majority:
		failure.Kind = ErrRefused
	case !isOver && ctx.Err() == nil:
		return nil
	case answers >= b.majority:
		failure.Kind = ErrBusy
	default:
		failure.Kind = ErrUnavailable
	}
	if ctx.Err() != nil {
		end := ended(ctx, failure.Kind)
		failure.Kind, failure.Cause = end.Kind, fmt.Errorf("%w: %w", end.Err, failure.Cause)
	}
	return failure
}
