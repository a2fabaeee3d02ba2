package redislock

import (
	"context"
	"errors"
	"sync"
	"time"
)

// patience is the shortest time to wait for further replies after a majority has answered.
const patience = 50 * time.Millisecond

// ballot is what an acquire has got from each server. Each of its calls has an owner of its own, so that a late call
// never counts for another call.
type ballot struct {
	*Quorum
	key     string
	t       terms
	ctx     context.Context // of the calls
	cancel  context.CancelFunc
	votes   []*vote
	calls   int         // under way
	replies chan func() // that are to be applied
}

// vote is what an acquire has got from one server.
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
func isBusy(v *vote) bool    { return errors.Is(v.err, ErrBusy) } // by its last answer

// isAwaited reports whether a reply is expected soon.
func isAwaited(v *vote) bool { return v.isOpen && !v.isDown() }

// has reports whether the grant still exists, and the server has acknowledged the token.
func (v *vote) has(token int64) bool {
	return v.grant != nil && v.isRaised && v.token == token && v.grant.Held()
}

// canHave reports whether the server can probably be raised to a token.
func (v *vote) canHave(token int64) bool {
	return v.grant != nil && v.token <= token && (v.refused == 0 || token < v.refused)
}

func (q *Quorum) ballot(ctx context.Context, key string, t terms) *ballot {
	b := &ballot{Quorum: q, key: key, t: t, replies: make(chan func())}
	b.ctx, b.cancel = context.WithCancel(ctx)
	for _, m := range q.members {
		b.votes = append(b.votes, &vote{member: m})
	}
	return b
}

func (b *ballot) count(is func(*vote) bool) (count int) {
	for _, v := range b.votes {
		if is(v) {
			count++
		}
	}
	return count
}

// first returns the first server that has answered.
func (b *ballot) first() *vote {
	for _, v := range b.votes {
		if v.grant != nil || isBusy(v) && !v.isOpen && !v.isInLine || v.isInLine && !v.isDown() {
			return v
		}
	}
	return nil
}

// call makes a call in the background. apply uses the reply.
func (b *ballot) call(call func() (apply func())) {
	b.calls++
	go func() { b.replies <- call() }()
}

// askRest acquires the lock of all servers that have neither granted it nor are being asked.
func (b *ballot) askRest(wait time.Duration) {
	if b.t.Fixed { // nobody renews what it has
		wait = min(wait, b.t.Lease/2)
	}
	for _, v := range b.votes {
		if v.grant == nil && !v.isOpen && !v.isInLine {
			b.ask(v, wait, false)
		}
	}
	b.collect(isGranted, patience)
}

// ask acquires the lock of one server.
func (b *ballot) ask(v *vote, wait time.Duration, inLine bool) {
	t := b.t
	if inLine {
		t.Longest = 0 // the other servers see to it
	}
	t.Wait, v.asks, v.isOpen, v.isInLine = wait, v.asks+1, !inLine, inLine
	asks, ctx := v.asks, b.ctx
	ctx, v.leave = context.WithCancel(ctx)
	b.call(func() func() {
		grant, err := v.acquire(ctx, b.key, t)
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
func (b *ballot) leaveLines() {
	for _, v := range b.votes {
		if v.isInLine {
			v.isInLine, v.asks = false, v.asks+1
			v.leave()
		}
	}
}

// next applies a reply, if one comes in time.
func (b *ballot) next(over <-chan time.Time) bool {
	select {
	case apply := <-b.replies:
		b.calls--
		apply()
		return true
	case <-over:
	case <-b.ctx.Done():
	}
	return false
}

// collect applies replies until a majority has the wanted state, or can no longer have it. With patience it then waits
// for the others as long again, but not for servers that are down.
func (b *ballot) collect(is func(*vote) bool, patience time.Duration) {
	begun := time.Now()
	var over <-chan time.Time
	for b.count(isOpen) > 0 {
		if done := b.count(is); done >= b.majority || done+b.count(isOpen) < b.majority {
			if patience == 0 || b.count(isAwaited) == 0 {
				return
			}
			if over == nil {
				over = time.After(min(max(time.Since(begun), patience), 5*patience))
			}
		}
		if !b.next(over) {
			return
		}
	}
}

// common returns the highest token that a majority can probably have; 0 if there is none.
func (b *ballot) common() (common int64) {
	for _, v := range b.votes {
		able := b.count(func(other *vote) bool { return other.canHave(v.token) })
		if v.grant != nil && able >= b.majority {
			common = max(common, v.token)
		}
	}
	return common
}

// raise gives a majority one token and returns it; 0 if there is none. It leaves out servers whose clocks differ, as
// long as a majority remains.
func (b *ballot) raise() int64 {
	for {
		token, isSent := b.common(), false
		has := func(v *vote) bool { return v.has(token) }
		for _, v := range b.votes {
			if v.canHave(token) && !v.isOpen && !has(v) {
				b.raiseTo(v, token)
				isSent = true
			}
		}
		switch b.collect(has, 0); {
		case b.count(has) >= b.majority:
			return token
		case isSent: // now more is known of what they can have
		case b.count(isOpen) == 0, !b.next(nil): // a server that has not answered yet may make a majority
			return 0
		}
	}
}

func (b *ballot) raiseTo(v *vote, token int64) {
	v.isOpen = true
	b.call(func() func() {
		err := v.grant.raise(b.ctx, token)
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

// giveBack gives up the grants and waits until that is done, so that they do not block the next round.
func (b *ballot) giveBack() {
	var releases sync.WaitGroup
	for _, v := range b.votes {
		if v.grant != nil && !v.isOpen {
			releases.Go(v.grant.giveUp)
			v.grant = nil
		}
	}
	releases.Wait()
}

// hand adds the grants that have the lock's token to the lock, until it ends.
func (b *ballot) hand(lock *QuorumGrant) {
	lock.mu.Lock()
	defer lock.mu.Unlock()
	for _, v := range b.votes {
		if grant := v.grant; grant != nil && v.isRaised && v.token == lock.token && !v.isOpen && lock.failure == nil {
			lock.parts[grant], v.grant = v.member, nil
			grant.OnLost(func(err error) { lock.partLost(grant, err) })
		}
	}
}

// finish gives back the rest in the background. Grants whose raise is answered late still join the lock.
func (b *ballot) finish(lock *QuorumGrant) {
	b.leaveLines()
	if lock == nil {
		b.cancel()
	}
	go func() {
		defer b.cancel()
		for b.giveBack(); b.calls > 0; b.giveBack() {
			apply := <-b.replies
			b.calls--
			if apply(); lock != nil {
				b.hand(lock)
			}
		}
	}()
}
