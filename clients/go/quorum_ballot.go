package redislock

import (
	"context"
	"errors"
	"sync"
	"time"
)

// patience is how long replies are waited for at least when a majority has answered.
const patience = 50 * time.Millisecond

// ballot is what an acquire has got of each server. Each of its calls has an owner of its own, so that a late one never
// counts for another.
type ballot struct {
	*Quorum
	key     string
	t       terms
	ctx     context.Context // of the calls
	cancel  context.CancelFunc
	votes   []*vote
	calls   int         // under way
	replies chan func() // that are to be applied
	token   int64       // that a majority has acknowledged
}

// vote is what it has got of one server.
type vote struct {
	*member
	grant    *Grant
	token    int64 // of the grant
	isRaised bool  // the server has acknowledged the token
	refused  int64 // the token that is too far ahead of its clock
	err      error // why there is no grant, or no token

	isOpen   bool // an acquire or a raise is under way
	isInLine bool // an acquire waits in line for its turn
	asks     int  // acquires so far: only the last one counts
	leave    context.CancelFunc
}

func isGranted(v *vote) bool { return v.grant != nil }
func isOpen(v *vote) bool    { return v.isOpen }
func isBusy(v *vote) bool    { return errors.Is(v.err, ErrBusy) }

// isAwaited reports whether a reply is to be expected soon.
func isAwaited(v *vote) bool { return v.isOpen && !v.isDown() }

// has reports whether the grant stands, and the server has acknowledged the token.
func (v *vote) has(token int64) bool {
	return v.grant != nil && v.isRaised && v.token == token && v.grant.Held()
}

// canHave reports whether the server can be raised to a token, as far as is known.
func (v *vote) canHave(token int64) bool {
	return v.grant != nil && v.token <= token && (v.refused == 0 || token < v.refused)
}

func (q *Quorum) ballot(ctx context.Context, key string, t terms) *ballot {
	a := &ballot{Quorum: q, key: key, t: t, replies: make(chan func())}
	a.ctx, a.cancel = context.WithCancel(ctx)
	for _, m := range q.members {
		a.votes = append(a.votes, &vote{member: m})
	}
	return a
}

func (a *ballot) count(is func(*vote) bool) (count int) {
	for _, v := range a.votes {
		if is(v) {
			count++
		}
	}
	return count
}

// first returns the first server that has answered.
func (a *ballot) first() *vote {
	for _, v := range a.votes {
		if v.grant != nil || isBusy(v) || v.isInLine && !v.isDown() {
			return v
		}
	}
	return nil
}

// call makes a call in the background. apply uses the reply.
func (a *ballot) call(call func() (apply func())) {
	a.calls++
	go func() { a.replies <- call() }()
}

// askRest acquires the lock of all servers that have neither granted it nor are being asked.
func (a *ballot) askRest(wait time.Duration) {
	if a.t.isFixed { // nobody renews what it has
		wait = min(wait, a.t.lease/2)
	}
	for _, v := range a.votes {
		if v.grant == nil && !v.isOpen && !v.isInLine {
			a.ask(v, wait, false)
		}
	}
	a.collect(isGranted, patience)
}

// ask acquires the lock of one server.
func (a *ballot) ask(v *vote, wait time.Duration, inLine bool) {
	t := a.t
	t.wait, t.onLost, v.asks, v.isOpen, v.isInLine = wait, nil, v.asks+1, !inLine, inLine
	asks, ctx := v.asks, a.ctx
	ctx, v.leave = context.WithCancel(ctx)
	a.call(func() func() {
		grant, err := v.acquire(ctx, nil, a.key, t)
		return func() {
			switch {
			case v.asks == asks:
				v.leave()
				if v.grant, v.err, v.isOpen, v.isInLine = grant, err, false, false; grant != nil {
					v.token, v.isRaised, v.refused = grant.Token(), false, 0
				}
			case grant != nil:
				go grant.giveUp()
			}
		}
	})
}

// leaveLines gives up the places in line.
func (a *ballot) leaveLines() {
	for _, v := range a.votes {
		if v.isInLine {
			v.isInLine, v.asks = false, v.asks+1
			v.leave()
		}
	}
}

// await reports whether the turn has come in this time.
func (a *ballot) await(v *vote, limit time.Duration) bool {
	for over := time.After(limit); v.grant == nil; {
		if !a.next(over) {
			return false
		}
	}
	return true
}

// next applies a reply, if one comes in time.
func (a *ballot) next(over <-chan time.Time) bool {
	select {
	case apply := <-a.replies:
		a.calls--
		apply()
		return true
	case <-over:
	case <-a.ctx.Done():
	}
	return false
}

// collect applies replies until a majority is as it should be, or cannot be any more. With patience it then waits for the
// others as long again, but not for servers that are down.
func (a *ballot) collect(is func(*vote) bool, patience time.Duration) {
	begun := time.Now()
	var over <-chan time.Time
	for a.count(isOpen) > 0 {
		if done := a.count(is); done >= a.majority || done+a.count(isOpen) < a.majority {
			if patience == 0 || a.count(isAwaited) == 0 {
				return
			}
			if over == nil {
				over = time.After(min(max(time.Since(begun), patience), 5*patience))
			}
		}
		if !a.next(over) {
			return
		}
	}
}

// common returns the highest token that a majority can have, as far as is known; 0: there is none.
func (a *ballot) common() (common int64) {
	for _, v := range a.votes {
		able := a.count(func(other *vote) bool { return other.canHave(v.token) })
		if v.grant != nil && able >= a.majority {
			common = max(common, v.token)
		}
	}
	return common
}

// raise gives a majority one token. Servers whose clocks differ are left out, as far as a majority remains.
func (a *ballot) raise() bool {
	for {
		token, isSent := a.common(), false
		has := func(v *vote) bool { return v.has(token) }
		for _, v := range a.votes {
			if v.canHave(token) && !v.isOpen && !has(v) {
				a.raiseTo(v, token)
				isSent = true
			}
		}
		switch a.collect(has, 0); {
		case a.count(has) >= a.majority:
			a.token = token
			return true
		case isSent: // now more is known of what they can have
		case a.count(isOpen) == 0, !a.next(nil): // a server that has not answered yet may make a majority
			return false
		}
	}
}

func (a *ballot) raiseTo(v *vote, token int64) {
	v.isOpen = true
	a.call(func() func() {
		err := v.grant.raise(a.ctx, token)
		return func() {
			switch v.isOpen, v.err = false, err; {
			case err == nil:
				v.token, v.isRaised = token, true
			case errors.Is(err, errAhead):
				v.refused = token
			default:
				go v.grant.giveUp()
				v.grant = nil
			}
		}
	})
}

// giveBack gives up what has been granted. The next round is not to meet it, if the servers answer.
func (a *ballot) giveBack() {
	var releases sync.WaitGroup
	for _, v := range a.votes {
		if v.grant != nil && !v.isOpen {
			releases.Go(v.grant.giveUp)
			v.grant = nil
		}
	}
	gone := make(chan struct{})
	go func() {
		releases.Wait()
		close(gone)
	}()
	sleep(gone, patience)
}

// hand adds to the lock what has its token.
func (a *ballot) hand(lock *QuorumGrant) {
	for _, v := range a.votes {
		if lock != nil && !v.isOpen && v.has(lock.token) && lock.add(v.member, v.grant) {
			v.grant = nil
		}
	}
}

// finish gives back the rest, in the background. Raises that are answered late still join the lock.
func (a *ballot) finish(lock *QuorumGrant) {
	a.leaveLines()
	if lock == nil {
		a.cancel()
	}
	go func() {
		defer a.cancel()
		for a.giveBack(); a.calls > 0; a.giveBack() {
			apply := <-a.replies
			a.calls--
			apply()
			a.hand(lock)
		}
	}()
}
