package redislock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// acquire asks all servers at once. A caller that gets no majority gives back what it has, and waits in line at the
// first server that answers. Only the first in that line keeps what it has while it waits for the other servers, so no
// two callers wait for each other. Where callers disagree about the first server, the end of their turns parts them.
func (q *Quorum) acquire(ctx context.Context, key string, t terms) (lock *QuorumGrant, err error) {
	begun, full := time.Now(), q.options.Prefix+key
	if observed := q.options.Observer.Acquired; observed != nil {
		defer func() { observed(full, time.Since(begun), err) }()
	}
	for _, m := range q.members {
		if failure := m.usable(t); failure != nil {
			return nil, failed("acquire", full, failure)
		}
	}
	if deadline, ok := ctx.Deadline(); ok {
		if left := max(time.Until(deadline), time.Millisecond); t.wait < 0 || left < t.wait {
			t.wait = left
		}
	}
	left := func() time.Duration { // below 0: without a limit
		if t.wait < 0 {
			return t.wait
		}
		return max(0, t.wait-time.Since(begun))
	}
	b := q.ballot(ctx, key, t)
	defer func() { b.finish(lock) }()
	for pause, isStuck := (pauses{}), t.wait == 0; ; {
		b.askRest(0)
		first := b.first()
		isTurn := first != nil && first.grant != nil
		if isTurn && left() != 0 && b.count(isGranted) < q.majority {
			b.leaveLines() // where it would wait behind itself
			b.askRest(turnTime(left()))
		}
		// Callers in line at the first server come before, unless the line there does not move.
		if (isTurn || isStuck) && b.raise() {
			lock = &QuorumGrant{quorum: q, key: full, token: b.token, taken: time.Now(), lost: make(chan struct{}), onLost: t.onLost}
			b.hand(lock)
			return lock, nil
		}
		err := b.failure(ctx, full, left() == 0)
		if b.giveBack(); err != nil {
			return nil, err
		}
		if first == nil || isTurn { // too few servers answer, or the turn is over
			isStuck = false
			sleep(ctx.Done(), pause.next())
			continue
		}
		if !first.isInLine {
			b.leaveLines()
			b.ask(first, left(), true)
		}
		pause, isStuck = pauses{}, !b.await(first, turnTime(left()))
	}
}

// turnTime is how long the first in line waits for the other servers before it joins the end of the line. It is also how
// long the others wait before they see whether a majority is free all the same.
func turnTime(left time.Duration) time.Duration {
	turn := time.Second + rand.N(time.Second)
	if left >= 0 {
		turn = min(turn, max(left/2, patience), left)
	}
	return turn
}

func sleep(end <-chan struct{}, pause time.Duration) {
	select {
	case <-time.After(pause):
	case <-end:
	}
}

// failure is why the acquire fails: because it would not do better later, or its time is over.
func (b *ballot) failure(ctx context.Context, full string, isOver bool) error {
	failure, refusals, differ := &Error{Op: "acquire", Key: full}, 0, false
	failure.Cause = errors.New("no majority of the servers")
	for _, v := range b.votes {
		if v.err != nil {
			failure.Cause = fmt.Errorf("%w; %s: %v", failure.Cause, v.name, v.err)
		}
		if differ = differ || v.refused != 0; v.isRefused() {
			failure.Kind = kindOf(v.err)
			refusals++
		}
	}
	switch {
	case len(b.votes)-refusals < b.majority:
	case differ && b.count(isGranted) >= b.majority:
		failure.Kind = ErrRefused
	case !isOver && ctx.Err() == nil:
		return nil
	case b.count(isBusy)+b.count(isGranted) >= b.majority:
		failure.Kind = ErrBusy
	default:
		failure.Kind = ErrUnavailable
	}
	if ctx.Err() != nil {
		end := ended(ctx, failure.Kind)
		failure.Kind, failure.Cause = end.Kind, fmt.Errorf("%w: %w", end.Cause, failure.Cause)
	}
	return failure
}
