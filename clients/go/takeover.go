package redislock

import "time"

// A contended lock is mostly held for a moment. So a grant that a wait has brought is told to the caller as it is,
// known from the sending of the wait, and its keeper takes it over only where it is held for longer.

// moment is how long it is left without a keeper.
const moment = 100 * time.Millisecond

// early is what is left, since its wait was sent, of the third of its lease in which a grant can do without a keeper.
func (a answer) early(lease time.Duration) time.Duration {
	return time.Until(a.call.Sent.Add(lease / 3))
}

// takeOverLater has the keeper take it over, unless it has ended before.
func (o *ownership) takeOverLater(early time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending = time.AfterFunc(min(moment, max(0, early)), o.takeOver)
}

// takeOver does that now, where it has not been done.
func (o *ownership) takeOver() {
	o.mu.Lock()
	timer, k := o.pending, o.keeper
	o.pending = nil
	o.mu.Unlock()
	if timer != nil {
		timer.Stop()
		k.add(o, nil)
	}
}
