package redislock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
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
		if err := m.usable("acquire", full, t); err != nil {
			return nil, err
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
	a := q.ballot(ctx, key, t)
	defer func() { a.finish(lock) }()
	for pause, isStuck := (pauses{}), t.wait == 0; ; {
		a.askRest(0)
		first := a.first()
		isTurn := first != nil && first.grant != nil
		if isTurn && left() != 0 && a.count(isGranted) < q.majority {
			a.leaveLines() // where it would wait behind itself
			a.askRest(turnTime(left()))
		}
		// Callers in line at the first server come before, unless the line there does not move.
		if (isTurn || isStuck) && a.raise() {
			lock = &QuorumGrant{quorum: q, key: full, token: a.token, taken: time.Now(), lost: make(chan struct{}), onLost: t.onLost}
			a.hand(lock)
			return lock, nil
		}
		err := a.failure(ctx, full, left() == 0)
		if a.giveBack(); err != nil {
			return nil, err
		}
		if first == nil || isTurn { // too few servers answer, or the turn is over
			isStuck = false
			sleep(ctx.Done(), pause.next())
			continue
		}
		if !first.isInLine {
			a.leaveLines()
			a.ask(first, left(), true)
		}
		pause, isStuck = pauses{}, !a.await(first, turnTime(left()))
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
func (a *ballot) failure(ctx context.Context, full string, isOver bool) error {
	kind, causes, refusals, differ := error(nil), errors.New("no majority of the servers"), 0, false
	for _, v := range a.votes {
		if v.err != nil {
			causes = fmt.Errorf("%w; %s: %v", causes, v.name, v.err)
		}
		if differ = differ || v.refused != 0; v.refused != 0 || v.err == nil || isBusy(v) || errors.Is(v.err, ErrUnavailable) {
			continue
		}
		refusals++
		kind = kindOf(v.err)
	}
	switch {
	case ctx.Err() == nil && len(a.votes)-refusals < a.majority:
	case differ && a.count(isGranted) >= a.majority:
		kind = ErrRefused
	case !isOver && ctx.Err() == nil:
		return nil
	case a.count(isBusy)+a.count(isGranted) >= a.majority:
		kind = ErrBusy
	default:
		kind = ErrUnavailable
	}
	if ctx.Err() != nil {
		return errors.Join(ended(ctx, "acquire", full, kind), causes)
	}
	return failed("acquire", full, &state.Failure{Kind: kind, Cause: causes})
}
