package quorum

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/kinds"
)

// leastGrace is how long the others are waited for at least, when the majority has answered.
const leastGrace = 50 * time.Millisecond

// attempt is one attempt to take a lock: ask all servers, lift the grants of a majority to one token.
type attempt struct {
	quorum     *Quorum
	key, owner string
	terms      Terms
	calls      *renewal // of this attempt
	start      time.Time
	orders     orders
	reports    chan report
	settled    chan struct{} // nobody hears reports any more
	stop       context.CancelFunc
	unheard    int // servers that have still to answer the first question
	grants     map[int]int64
	raised     map[int]int64 // the tokens to which grants have been lifted
	refused    map[int]int64 // and those that were the last to be too far ahead
	gone       map[int]bool  // grants that cannot be lifted any more
	said       map[int]error // by the others
}

// Attempt asks all servers at once that are not known to be down. The owner has not been used before, but to wait
// in a line. An error is a *Failure, or that of the context.
func (q *Quorum) Attempt(ctx context.Context, key, owner string, terms Terms) (Grant, error) {
	a := &attempt{quorum: q, key: key, owner: owner, terms: terms, start: time.Now(), orders: orders{changed: make(chan struct{})},
		reports: make(chan report, len(q.members)), settled: make(chan struct{}), grants: map[int]int64{}, raised: map[int]int64{}, refused: map[int]int64{},
		gone: map[int]bool{}, said: map[int]error{}}
	var parts []*part
	for place, m := range q.members {
		if m.isDown() == nil {
			parts = append(parts, &part{attempt: a, place: place, member: m})
		}
	}
	if len(parts) < q.Majority() {
		return Grant{}, q.tooFew(nil)
	}
	var calls context.Context
	calls, a.stop = context.WithCancel(q.Life)
	left := atomic.Int64{}
	left.Store(int64(len(parts)))
	a.calls = q.renewal(owner, len(parts))
	a.unheard = len(parts)
	for _, p := range parts {
		q.Go(func() {
			defer q.renewed(owner, a.calls)
			defer func() {
				if left.Add(-1) == 0 {
					a.stop()
				}
			}()
			p.play(calls)
		})
	}
	grant, err := a.finish(ctx)
	if err != nil {
		a.orders.set(order{giveUp: true})
		a.stop() // what is under way is not waited for, but released
	}
	close(a.settled)
	return grant, err
}

// finish plays both rounds.
func (a *attempt) finish(ctx context.Context) (Grant, error) {
	if err := a.gather(ctx); err != nil {
		return Grant{}, err
	}
	if len(a.quorum.members) == 1 {
		return a.keep(a.grants[0], a.start)
	}
	chosen := maps.Clone(a.grants)
	for {
		if len(chosen) == 0 {
			return Grant{}, a.late()
		}
		token := slices.Max(slices.Collect(maps.Values(chosen)))
		start := time.Now()
		isLifted, behind, err := a.lift(ctx, chosen, token)
		switch {
		case err != nil:
			return Grant{}, err
		case isLifted:
			return a.keep(token, start)
		case len(behind) == 0:
			return Grant{}, a.failure()
		case len(behind) < a.quorum.Majority():
			return Grant{}, a.differ(behind, token)
		}
		chosen = behind // it may be the clock of the server that gave the token: without it, then
		for place := range behind {
			delete(a.said, place)
		}
	}
}

// gather waits for the first answers of a majority, and then as long again for those of the others: each server
// that is with it from the start is one more that can fail later.
func (a *attempt) gather(ctx context.Context) error {
	majority := a.quorum.Majority()
	var grace <-chan time.Time
	isGraceOver := false
	for a.unheard > 0 && !(isGraceOver && !a.mayYetBeTooFew()) {
		isLost := len(a.grants)+a.unheard < majority
		if isLost && a.terms.Eager && a.busy() >= majority {
			return a.failure()
		}
		if grace == nil && (isLost || len(a.grants) >= majority) {
			wait := max(time.Since(a.start), leastGrace)
			if isLost {
				wait = leastGrace
			}
			grace = time.After(wait)
		}
		select {
		case said := <-a.reports:
			a.note(said)
		case <-grace:
			isGraceOver = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if len(a.grants) < majority {
		return a.failure()
	}
	return nil
}

// mayYetBeTooFew says whether it hangs on servers that have yet to answer that a majority can be used.
func (a *attempt) mayYetBeTooFew() bool {
	answered := 0
	for place, m := range a.quorum.members {
		_, hasGranted := a.grants[place]
		said, isSaid := a.said[place]
		if m.isDown() == nil && (hasGranted && !isSaid || said == kinds.ErrBusy) {
			answered++
		}
	}
	return answered < a.quorum.Majority() && answered+a.unheard >= a.quorum.Majority()
}

// lift lifts these grants to a token, and those that came too late to be among them and can be lifted. behind are
// the grants of servers for which it is too far ahead: less than a majority only when all have been heard.
func (a *attempt) lift(ctx context.Context, chosen map[int]int64, token int64) (isLifted bool, behind map[int]int64, err error) {
	a.orders.set(order{raise: token})
	for {
		lifted := 0
		behind = map[int]int64{}
		for place, granted := range a.grants {
			switch {
			case a.raised[place] == token:
				lifted++
			case a.refused[place] == token && !a.gone[place]:
				behind[place] = granted
			}
		}
		if lifted >= a.quorum.Majority() {
			return true, behind, nil
		}
		isEnough := len(behind) >= a.quorum.Majority() || len(behind) == 0 && !a.mayYetBeTooFew()
		if a.areDecided(chosen, token) && (isEnough || a.unheard == 0 && a.areDecided(a.grants, token)) {
			return false, behind, nil
		}
		select {
		case said := <-a.reports:
			a.note(said)
		case <-ctx.Done():
			return false, nil, ctx.Err()
		}
	}
}

// areDecided says whether it is known of each of these grants what became of lifting it to the token. One that is
// higher cannot be lifted to it, and what has been lifted is lifted no more.
func (a *attempt) areDecided(grants map[int]int64, token int64) bool {
	for place, granted := range grants {
		if granted <= token && !a.gone[place] && a.raised[place] == 0 && a.refused[place] != token {
			return false
		}
	}
	return true
}

func (a *attempt) keep(token int64, start time.Time) (Grant, error) {
	until, isNow := a.terms.trusted(start)
	if !isNow {
		return Grant{}, a.late()
	}
	if len(a.quorum.members) == 1 {
		// One server has no other to agree with: its grant is not lifted.
		a.orders.set(order{keep: true})
	} else {
		a.orders.set(order{raise: token, keep: true})
	}
	return Grant{a.key, a.owner, token, until}, nil
}

func (a *attempt) note(said report) {
	if _, isKnown := a.grants[said.place]; !isKnown {
		a.unheard--
	}
	switch said.what {
	case granted:
		a.grants[said.place] = said.token
	case busy:
		a.said[said.place] = kinds.ErrBusy
	case raised:
		a.raised[said.place] = said.token
	case ahead:
		a.refused[said.place] = said.token
		a.said[said.place] = said.err
	case gone:
		a.gone[said.place] = true
	case failed:
		a.gone[said.place] = true
		a.said[said.place] = said.err
	}
}

// busy is how many servers say that others have it.
func (a *attempt) busy() (count int) {
	for _, said := range a.said {
		if said == kinds.ErrBusy {
			count++
		}
	}
	return count
}

func (a *attempt) late() *Failure {
	return a.quorum.failure(kinds.ErrBusy, a.said, "the grants came too late")
}

func (a *attempt) failure() *Failure {
	q := a.quorum
	if kind := q.refused(kinds.Acquiring, a.said); kind != nil {
		return q.failure(kind, a.said, "")
	}
	usable, isBusy, first := 0, false, -1
	for place, m := range q.members {
		said := a.said[place]
		isBusy = isBusy || said == kinds.ErrBusy
		if m.isDown() != nil || said != nil && said != kinds.ErrBusy {
			continue
		}
		usable++
		// Which servers said no is chance; that all go to the same line is what makes it one.
		if _, hasGranted := a.grants[place]; !hasGranted && first < 0 {
			first = place
		}
	}
	if usable < q.Majority() {
		return q.tooFew(a.said)
	}
	if !isBusy {
		return a.late()
	}
	f := q.failure(kinds.ErrBusy, a.said, "")
	f.First = first
	return f
}

// differ names the servers whose clocks differ too much.
func (a *attempt) differ(behind map[int]int64, token int64) *Failure {
	var low, far []string
	for place, m := range a.quorum.members {
		if _, isBehind := behind[place]; isBehind {
			low = append(low, m.address)
		}
		if a.grants[place] == token {
			far = append(far, m.address)
		}
	}
	return a.quorum.failure(kinds.ErrRefused, a.said, "the clock of "+strings.Join(low, " and ")+" is too far behind that of "+
		strings.Join(far, " and ")+", and there is no majority without them")
}
