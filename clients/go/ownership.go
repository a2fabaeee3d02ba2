package redislock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/wire"
)

// ownership is what the server calls a grant: from the acquire that let an owner in to its last release, or its
// loss. It has one Grant for each hold.
type ownership struct {
	locks      *Locks
	key, owner string
	named      bool  // others may know the owner, and so end the grant or keep it: it is named, or the grant was adopted
	task       *Task // whose owner it was then; nil where it is none's
	token      int64
	pace       time.Duration // of the PINGs that it needs: the shorter of its lease and silence; the keeper's
	since      time.Time
	life       context.Context // ends with it
	end        context.CancelCauseFunc
	turn       chan struct{} // for one change of holds at a time
	entries    atomic.Int64  // how often it was asked for again

	mu     sync.Mutex
	holds  int
	lease  time.Duration // that the server remembers
	keep   time.Duration // 0: nobody keeps it
	proof  time.Time     // the sending of the last call of its own that was answered
	link   *link         // that keeps it: each PONG there proves it too
	asked  *link         // that was the last to be asked to keep it
	keeper *keeper
	over   error // why it has ended; nil while it stands
	timer  *time.Timer
	most   time.Time // AtMost: when it is over, whatever is renewed
	ending bool      // AtMost ends the keeping, or has
	longer bool      // a call that was given up may have made it last for longer

	pending *time.Timer // to its takeover by the keeper; nil where that has been done

	changed  chan struct{} // on a quorum: another lease
	renewing chan struct{} // there: for one renewal at a time
	fixed    bool          // there: not renewed
}

var errReleased = errors.New("released before")

// readGrant reads what ACQUIRE and RENEW answer.
func readGrant(reply any) (token int64, lease time.Duration, err error) {
	parts, _ := reply.([]any)
	if len(parts) < 4 {
		return 0, 0, fmt.Errorf("this is no grant: %v", reply)
	}
	token, isToken := parts[0].(int64)
	ms, isTime := parts[3].(int64)
	if !isToken || !isTime {
		return 0, 0, fmt.Errorf("this is no grant: %v", reply)
	}
	return token, time.Duration(ms) * time.Millisecond, nil
}

// newOwnership is of a grant that was answered on the keeper; or, without a link, to a wait. It is one hold here, though
// the owner may have more of another process: they end with it.
func newOwnership(l *Lock, owner string, a answer) (*ownership, error) {
	token, lease, err := readGrant(a.call.Reply)
	if err != nil {
		return nil, newError("acquire", l.key, ErrMisuse, err)
	}
	terms := l.terms
	o := &ownership{
		locks: l.locks, key: l.key, owner: owner, named: terms.named, task: l.task, token: token, holds: 1,
		since: a.call.Sent,
		lease: lease, keep: terms.keep, proof: a.call.Sent, link: a.link, asked: a.link, keeper: a.keeper,
		turn: make(chan struct{}, 1), pace: min(lease, terms.keep),
	}
	if a.link == nil {
		o.since = time.Now()
	}
	o.life, o.end = context.WithCancelCause(context.Background())
	if terms.atMost > 0 {
		o.most = o.since.Add(terms.atMost)
	}
	switch {
	case terms.keep == 0:
		o.link = nil
		o.endLater(o.until(), o.lapse)
		return o, nil
	case terms.atMost > 0:
		o.endLater(o.most.Add(-lease), o.runOut)
	}
	if a.link == nil {
		o.takeOverLater(a.early(lease))
	} else {
		o.keeper.add(o, a.link)
	}
	return o, nil
}

// endLater sets the timer, which may be over at once.
func (o *ownership) endLater(at time.Time, end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.timer = time.AfterFunc(time.Until(at), end)
}

// hold registers it, unless the Locks are closed.
func (l *Locks) hold(o *ownership) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		o.abandon(ErrClosed)
		return ErrClosed
	}
	if o.err() == nil { // not lost already
		l.held[o] = struct{}{}
	}
	return nil
}

// until is how long it is known to stand.
func (o *ownership) until() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	proof := o.proof
	if ponged := o.link.provenAt(); ponged.After(proof) {
		proof = ponged
	}
	return earlier(proof.Add(o.lease), o.most)
}

// keeping is the silence that it is kept for, while it stands.
func (o *ownership) keeping() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over != nil {
		return 0
	}
	return o.keep
}

func (o *ownership) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.over
}

// confirm takes the answer to a renewal; on is the connection that keeps it from here on, where that is another.
func (o *ownership) confirm(call *wire.Call, on *link) {
	_, lease, err := readGrant(call.Reply)
	if err != nil {
		return
	}
	o.mu.Lock()
	if call.Sent.Before(o.proof) { // a later one has been answered before
		lease = min(lease, o.lease)
	} else {
		o.proof = call.Sent
	}
	o.lease = lease
	k, keep := o.keeper, o.keep
	if keep > 0 {
		o.link = cmp.Or(on, o.link)
	} else if o.timer != nil && o.over == nil {
		o.timer.Reset(time.Until(earlier(o.proof.Add(lease), o.most)))
	}
	o.mu.Unlock()
	if keep > 0 && k != nil {
		k.repace(o, min(lease, keep))
	}
}

// mayEnd takes note of a lease that may begin now, or has: nothing is known beyond it until an answer tells. Where it has
// not begun, all is as before.
func (o *ownership) mayEnd(began time.Time, lease time.Duration) (asBefore func()) {
	if !began.Add(lease).Before(o.until()) {
		return func() {}
	}
	o.mu.Lock()
	oldLease, oldProof := o.lease, o.proof
	o.lease, o.proof = lease, later(o.proof, began)
	proof := o.proof
	o.mu.Unlock()
	o.paceAnew()
	return func() {
		o.mu.Lock()
		if o.lease == lease && o.proof.Equal(proof) {
			o.lease, o.proof = oldLease, oldProof
		}
		o.mu.Unlock()
		o.paceAnew()
	}
}

// mayLast takes note of a call that was given up: it may have come to the server.
func (o *ownership) mayLast() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.longer = true
}

// paceAnew has another lease watched.
func (o *ownership) paceAnew() {
	o.mu.Lock()
	k, keep, lease := o.keeper, o.keep, o.lease
	o.mu.Unlock()
	switch {
	case o.changed != nil:
		o.isChanged()
	case keep == 0:
		o.lapse() // at its new end
	default:
		k.repace(o, min(lease, keep))
	}
}

// moveTo has another keeper keep it.
func (o *ownership) moveTo(k *keeper) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over != nil || o.keep == 0 {
		return false
	}
	o.proof = later(o.proof, o.link.provenAt())
	o.link, o.keeper = nil, k
	return true
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// abandon ends it here; nothing is sent. It says whether it stood till now.
func (o *ownership) abandon(why error) bool {
	o.mu.Lock()
	stood := o.over == nil
	if stood {
		o.over = why
		for _, timer := range []*time.Timer{o.timer, o.pending} {
			if timer != nil {
				timer.Stop()
			}
		}
		o.pending = nil
	}
	k := o.keeper
	o.mu.Unlock()
	if stood {
		if k != nil {
			k.drop(o)
		}
		o.end(why)
	}
	return stood
}

// lose tells the loss, once.
func (o *ownership) lose(cause error) {
	err := newError("hold", o.key, ErrLost, cause)
	if !o.abandon(err) {
		return
	}
	o.locks.mu.Lock()
	delete(o.locks.held, o)
	o.locks.mu.Unlock()
	if told := o.locks.options.Hooks.Lost; told != nil {
		told(o.key, err)
	}
}

// giveUp tells a loss after which the server may have it still: it need not keep it any more. Whoever hears of the loss
// may ask for the lock again, so the release is sent before.
func (o *ownership) giveUp(cause error) {
	if o.err() != nil {
		return
	}
	o.letGo(o.releaseTo(0))
	o.lose(cause)
}

var errLapsed = errors.New("its time is over")

// lapse ends a fixed lease, where it has not been extended meanwhile.
func (o *ownership) lapse() {
	if left := time.Until(o.until()); left > 0 {
		o.mu.Lock()
		if o.over == nil {
			o.timer.Reset(left)
		}
		o.mu.Unlock()
		return
	}
	o.expire()
}

// expire ends it at its end. Where that is AtMost's, the server may have been told of a longer lease.
func (o *ownership) expire() {
	o.mu.Lock()
	isCut := !o.most.IsZero() && (o.longer || o.proof.Add(o.lease).After(o.most))
	o.mu.Unlock()
	if isCut {
		o.giveUp(errLapsed)
	} else {
		o.lose(errLapsed)
	}
}

// runOut ends the keeping of a grant that lasts no longer than AtMost.
func (o *ownership) runOut() {
	o.mu.Lock()
	o.ending = true
	o.mu.Unlock()
	ctx, cancel := context.WithDeadline(o.life, o.most)
	defer cancel()
	rest := max(time.Millisecond, time.Until(o.most))
	a := o.askAsKept(ctx, renewing, "LOCK.RENEW", o.key, o.owner, "TOKEN", o.token, "PX", milliseconds(rest), "KEEP", 0)
	if a.err != nil && kindOf(renewing, a.err) == ErrLost {
		o.lose(a.err)
		return
	}
	o.mu.Lock()
	k := o.keeper
	if a.err == nil {
		o.lease, o.proof = rest, o.most.Add(-rest)
	} else { // what was heard before counts
		o.proof = later(o.proof, o.link.provenAt())
	}
	o.keep, o.link, o.asked = 0, nil, nil
	if o.over == nil {
		o.timer = time.AfterFunc(time.Until(earlier(o.proof.Add(o.lease), o.most)), o.lapse)
	}
	o.mu.Unlock()
	k.drop(o)
	if a.err != nil {
		k.leave() // nobody is told to keep it any more
	}
}
