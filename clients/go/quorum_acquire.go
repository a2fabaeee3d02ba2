package redislock

import (
	"context"
	"math/rand/v2"
	"time"
)

// acquire asks all servers at once. A caller that gets no majority gives back what it has, and waits in line at the
// first server that answers. Only the first in that line keeps what it has while it waits for the other servers, so no
// two callers wait for each other. Where callers disagree about the first server, the end of their turns parts them.
func (q *Quorum) acquire(ctx context.Context, key string, t terms) (grant *QuorumGrant, err error) {
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
	var line *place
	defer func() { line.leave() }()
	var turn *Grant // of the first in line
	for pause, isStuck := (pauses{}), t.wait == 0; ; {
		a := q.attempt(ctx, key, t)
		first := a.begin(line, turn)
		isTurn := first != nil && first.grant != nil
		if turn != nil || isTurn && left() != 0 && a.count(isGranted) < q.majority {
			if turn == nil { // it would wait behind itself
				line.leave()
			}
			line, turn = nil, nil
			a.queue(turnTime(left()))
		}
		// Callers in line at the first server come before, unless the line there does not move.
		if isTurn || isStuck {
			a.raise()
		}
		failure := a.failure(ctx, full, left() == 0)
		if grant = a.end(full); grant != nil {
			grant.start(t)
			return grant, nil
		}
		switch {
		case failure != nil:
			return nil, failure
		case first == nil || isTurn: // too few servers answer, or the turn is over
			isStuck = false
			sleep(ctx.Done(), pause.next())
			continue
		case line == nil || line.at != first.member:
			line.leave()
			line = newPlace(ctx, first.member, key, t, left())
		}
		var isOver bool
		if turn, isOver = line.await(ctx, turnTime(left())); isOver && turn == nil {
			line = nil
		}
		pause, isStuck = pauses{}, turn == nil
	}
}

// turnTime is how long the first in line waits for the other servers before it joins the end of the line. It is also how
// long the others wait before they see whether a majority is free all the same.
func turnTime(left time.Duration) time.Duration {
	turn := time.Second + rand.N(time.Second)
	if left >= 0 {
		turn = min(turn, max(left/2, 50*time.Millisecond), left)
	}
	return turn
}

func sleep(end <-chan struct{}, pause time.Duration) {
	select {
	case <-time.After(pause):
	case <-end:
	}
}

// place is a place in the line of one server.
type place struct {
	at     *member
	cancel context.CancelFunc
	turn   chan *Grant // nil: the server has ended the wait
}

func newPlace(ctx context.Context, at *member, key string, t terms, wait time.Duration) *place {
	p := &place{at: at, turn: make(chan *Grant, 1)}
	ctx, p.cancel = context.WithCancel(ctx)
	t.wait, t.atMost, t.onLost = wait, 0, nil
	go func() {
		grant, _ := at.acquire(ctx, nil, key, t)
		p.turn <- grant
	}()
	return p
}

// await returns the turn if it comes within this time, and whether the wait is over.
func (p *place) await(ctx context.Context, limit time.Duration) (turn *Grant, isOver bool) {
	select {
	case turn = <-p.turn:
		if turn == nil {
			sleep(ctx.Done(), limit)
		}
		return turn, true
	case <-time.After(limit):
	case <-ctx.Done():
	}
	return nil, false
}

// leave gives up the place.
func (p *place) leave() {
	if p == nil {
		return
	}
	p.cancel()
	go func() {
		if turn := <-p.turn; turn != nil {
			turn.giveUp()
		}
	}()
}
