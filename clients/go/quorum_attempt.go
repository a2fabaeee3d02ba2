package redislock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// patience is how long replies are waited for at least when a majority has answered.
const patience = 50 * time.Millisecond

// attempt is one try to get a lock from a majority. Each of its calls has an owner of its own, so that a late one never
// counts for another attempt.
type attempt struct {
	*Quorum
	key     string
	t       terms
	ctx     context.Context // of the calls
	cancel  context.CancelFunc
	votes   []*vote
	replies chan func() // to be applied
	token   int64       // that a majority has acknowledged
	lock    *QuorumGrant
	backs   sync.WaitGroup // what is given back
}

// vote is how far an attempt has come with one member.
type vote struct {
	*member
	grant    *Grant
	token    int64 // of the grant
	isRaised bool  // the member has acknowledged the token
	refused  int64 // the token that is too far ahead of its clock
	err      error // why there is no grant
	isOpen   bool  // a call is under way
}

func isGranted(v *vote) bool { return v.grant != nil }
func isOpen(v *vote) bool    { return v.isOpen }
func isAwaited(v *vote) bool { return v.isOpen && !v.isSilent.Load() }
func isBusy(v *vote) bool    { return errors.Is(v.err, ErrBusy) }

// has reports whether the grant stands, and the member has acknowledged the token.
func (v *vote) has(token int64) bool {
	return v.grant != nil && v.isRaised && v.token == token && v.grant.Held()
}

// canHave reports whether the member can be raised to a token, as far as is known.
func (v *vote) canHave(token int64) bool {
	return v.grant != nil && v.token <= token && (v.refused == 0 || token < v.refused)
}

func (q *Quorum) attempt(ctx context.Context, key string, t terms) *attempt {
	a := &attempt{Quorum: q, key: key, t: t, replies: make(chan func(), len(q.members))}
	a.ctx, a.cancel = context.WithCancel(ctx)
	for _, m := range q.members {
		a.votes = append(a.votes, &vote{member: m})
	}
	return a
}

func (a *attempt) count(is func(*vote) bool) (count int) {
	for _, v := range a.votes {
		if is(v) {
			count++
		}
	}
	return count
}

// begin asks all members at once, if it is not the caller's turn at one. It returns the first member that has answered.
func (a *attempt) begin(line *place, turn *Grant) *vote {
	for _, v := range a.votes {
		switch {
		case turn == nil:
			a.ask(v, 0)
		case v.member == line.at:
			v.grant, v.token = turn, turn.Token()
			return v
		}
	}
	a.collect(isGranted, patience)
	for _, v := range a.votes {
		if v.grant != nil || isBusy(v) {
			return v
		}
	}
	return nil
}

// queue waits in line at all members that have not granted the lock.
func (a *attempt) queue(wait time.Duration) {
	if a.t.isFixed { // nobody renews what it has
		wait = min(wait, a.t.lease/2)
	}
	for _, v := range a.votes {
		if v.grant == nil && !v.isOpen {
			a.ask(v, wait)
		}
	}
	a.collect(isGranted, patience)
}

// ask acquires the lock of one member. A member that is silent is asked by one caller at a time.
func (a *attempt) ask(v *vote, wait time.Duration) {
	if v.isSilent.Load() && v.isAsked.Swap(true) {
		v.err = failed("acquire", a.key, state.Fail(ErrUnavailable, "it has not answered lately"))
		return
	}
	t := a.t
	t.wait, t.onLost, v.isOpen = wait, nil, true
	go func() {
		grant, err := v.acquire(a.ctx, nil, a.key, t)
		if isSilent := errors.Is(err, ErrUnavailable); !isSilent || a.ctx.Err() == nil {
			v.isSilent.Store(isSilent)
		}
		v.isAsked.Store(false)
		a.replies <- func() {
			if v.isOpen, v.grant, v.err = false, grant, err; grant != nil {
				v.token = grant.Token()
			}
		}
	}()
}

// raiseTo raises the token of one member's grant.
func (a *attempt) raiseTo(v *vote, token int64) {
	v.isOpen = true
	go func() {
		err := v.grant.raise(a.ctx, token)
		a.replies <- func() {
			v.isOpen = false
			switch {
			case err == nil:
				v.token, v.isRaised = token, true
			case errors.Is(err, errAhead):
				v.refused, v.err = token, err
			default:
				v.err = err
				a.giveBack(v)
			}
		}
	}()
}

func (a *attempt) giveBack(v *vote) {
	a.backs.Go(v.grant.giveUp)
	v.grant = nil
}

// collect applies replies until a majority is as it should be, or cannot be any more. With patience it then waits for the
// others as long again, but not for members that are silent.
func (a *attempt) collect(is func(*vote) bool, patience time.Duration) {
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
		select {
		case apply := <-a.replies:
			apply()
		case <-over:
			return
		case <-a.ctx.Done():
			return
		}
	}
}

// common returns the highest token that a majority can have, as far as is known; 0: there is none.
func (a *attempt) common() (common int64) {
	for _, v := range a.votes {
		if v.grant != nil && v.token > common && a.count(func(other *vote) bool { return other.canHave(v.token) }) >= a.majority {
			common = v.token
		}
	}
	return common
}

// raise gives a majority one token. Members whose clocks differ are left out, as far as a majority remains.
func (a *attempt) raise() {
	for {
		token := a.common()
		for _, v := range a.votes {
			if token != 0 && v.canHave(token) && !v.isOpen && !v.has(token) {
				a.raiseTo(v, token)
			}
		}
		has := func(v *vote) bool { return v.has(token) }
		switch a.collect(has, 0); {
		case a.count(has) >= a.majority:
			a.token = token
			return
		case a.count(isOpen) == 0 && a.common() == token, a.ctx.Err() != nil:
			return
		}
	}
}

// end hands over the lock if a majority has acknowledged a token. Without, it gives back everything. What comes later
// still joins the lock, or is given back.
func (a *attempt) end(full string) *QuorumGrant {
	if a.token == 0 {
		a.cancel()
	} else {
		a.lock = &QuorumGrant{quorum: a.Quorum, key: full, token: a.token, lost: make(chan struct{})}
	}
	lock, gone := a.lock, make(chan struct{})
	a.settle()
	go func() {
		a.backs.Wait()
		close(gone)
		for a.count(isOpen) > 0 {
			(<-a.replies)()
			a.settle()
		}
		a.cancel()
	}()
	if lock == nil { // the next attempt is not to meet what this one had, if the servers answer
		sleep(gone, patience)
	}
	return lock
}

// settle adds to the lock what has its token, raises what can have it, and gives back the rest.
func (a *attempt) settle() {
	for _, v := range a.votes {
		switch {
		case v.grant == nil || v.isOpen:
		case a.lock != nil && v.isRaised && v.token == a.token && a.lock.add(v.member, v.grant):
			v.grant = nil
		case a.lock != nil && v.canHave(a.token) && !v.isRaised:
			a.raiseTo(v, a.token)
		default:
			a.giveBack(v)
		}
	}
}

// failure is why the acquire fails: because another attempt would do no better, or its time is over.
func (a *attempt) failure(ctx context.Context, full string, isOver bool) error {
	kind, causes := error(nil), errors.New("no majority of the servers")
	refusals := a.count(func(v *vote) bool {
		if v.err != nil {
			causes = fmt.Errorf("%w; %s: %v", causes, v.name, v.err)
		}
		if v.err == nil || isBusy(v) || errors.Is(v.err, ErrUnavailable) || errors.Is(v.err, errAhead) {
			return false
		}
		kind = kindOf(v.err)
		return true
	})
	differs := func(v *vote) bool { return v.grant != nil && v.refused != 0 }
	switch {
	case a.token != 0:
		return nil
	case ctx.Err() == nil && len(a.votes)-refusals < a.majority:
	case a.count(differs) > 0 && a.count(isGranted) >= a.majority:
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
