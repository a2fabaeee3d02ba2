package redislock

import (
	"errors"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/wire"
)

// soon is how long a PONG may take before anybody looks whose lease would end meanwhile.
const soon = 20 * time.Millisecond

// run sends the PINGs of a keeper, connects again, and tells what is lost, until the Locks are closed.
func (k *keeper) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var planned, spare time.Time // when to wake; until when nothing is judged
	var judged bool              // whose end has passed: it is judged when it is seen again
	var seen *link               // whose end was told
	for {
		k.mu.Lock()
		now, pending := k.link, (<-chan struct{})(nil)
		var closed <-chan struct{}
		switch {
		case now.isOpen():
			closed = now.Closed()
		case len(k.grants) > 0 || k.waits.Busy():
			pending = k.try().done
		}
		k.mu.Unlock()
		if now != nil && closed == nil && now != seen {
			seen = now
			k.ended(now)
		}

		at := time.Now()
		if !planned.IsZero() && at.Sub(planned) > wire.Late {
			spare = at.Add(k.locks.options.Reply) // it stood still: it reads first
			if closed != nil {
				k.ping(now, at)
			}
		}
		pace := k.pace()
		next := at.Add(idlePace)
		if closed != nil {
			if !at.Before(now.pinged.Add(pace)) {
				k.ping(now, at)
			}
			next = now.pinged.Add(pace)
		}
		if again := k.askAgain(now, closed != nil); again > 0 {
			next = earlier(next, at.Add(again))
		}
		if trouble, from := k.trouble(now, closed != nil); trouble && at.Before(from) {
			next = earlier(next, from)
		} else if trouble {
			end, passed := k.ends(at)
			switch {
			case len(passed) > 0 && at.Before(spare):
				end = spare
			case len(passed) > 0 && !judged:
				judged, spare = true, at.Add(soon)
				end = spare
			case len(passed) > 0:
				for _, o := range passed {
					o.giveUp(k.why())
				}
				judged = false
			default:
				judged = false
			}
			next = earlier(next, end)
		}

		planned = next
		k.planned.Store(int64(next.Sub(epoch)))
		timer.Reset(max(time.Millisecond, time.Until(next)))
		select {
		case <-timer.C:
		case <-k.wake:
		case <-closed:
		case <-pending:
			k.rehomeAll()
		case <-k.locks.life.Done():
			k.end()
			return
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// ended is told once of each connection.
func (k *keeper) ended(was *link) {
	k.mu.Lock()
	told := k.down
	k.down = true
	if k.last == nil {
		k.last = was.Err()
	}
	k.mu.Unlock()
	if !told {
		k.locks.tell(k.address, was.Err())
	}
	if errors.Is(was.Err(), wire.ErrSilent) {
		k.waits.Suspect() // who waits there may never hear of a grant
	}
	k.locks.servers.doubt()
}

func (k *keeper) ping(on *link, at time.Time) {
	on.pinged = at
	on.asking.Store(true)
	on.Go(k.locks.options.Reply, func(call *wire.Call) {
		if call.Err == nil {
			on.proof.Store(int64(call.Sent.Sub(epoch)))
			on.asking.Store(false)
		}
	}, "PING")
}

// pace of the PINGs: every third of the shortest lease and silence.
func (k *keeper) pace() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	shortest := 3 * idlePace
	if k.waits.Busy() {
		shortest = defaultLease
	}
	for lease := range k.leases {
		shortest = min(shortest, lease)
	}
	return max(shortest/3, fastest)
}

// attend has the keeper find out soon enough when the server falls silent, for a call that waits there.
func (k *keeper) attend() {
	if time.Duration(k.planned.Load()) > time.Since(epoch)+defaultLease/3 {
		k.rouse()
	}
}

// askAgain sends the renewals that were answered with an error that passes.
func (k *keeper) askAgain(on *link, isOpen bool) (wait time.Duration) {
	k.mu.Lock()
	if len(k.unsure) == 0 || !isOpen {
		k.pauses = 0
		k.mu.Unlock()
		return 0
	}
	if k.pauses == 0 {
		k.pauses, k.asked = 1, time.Now()
	}
	if left := time.Until(k.asked.Add(pause(k.pauses))); left > 0 {
		k.mu.Unlock()
		return left
	}
	k.asked = time.Now()
	k.pauses++
	again := make([]*ownership, 0, len(k.unsure))
	for o := range k.unsure {
		again = append(again, o)
	}
	next := pause(k.pauses)
	k.mu.Unlock()
	for _, o := range again {
		k.comeBack(o, on)
	}
	return next
}

// trouble says whether the end of a grant may come unseen, and from when on.
func (k *keeper) trouble(on *link, isOpen bool) (yes bool, from time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case len(k.grants) == 0:
		return false, from
	case !isOpen || len(k.unsure) > 0:
		return true, from
	}
	return on.asking.Load(), on.pinged.Add(soon)
}

// ends looks at all grants: which are past what is known of them, and when the next one is.
func (k *keeper) ends(at time.Time) (next time.Time, passed []*ownership) {
	k.mu.Lock()
	grants := k.kept()
	k.mu.Unlock()
	for _, o := range grants {
		end := o.until()
		switch {
		case !at.Before(end):
			passed = append(passed, o)
		case next.IsZero() || end.Before(next):
			next = end
		}
	}
	return next, passed
}

func (k *keeper) why() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last == nil {
		return errNoAnswer
	}
	return causedError{errNoAnswer, k.last}
}

// rehomeAll follows the keys of a server that cannot be reached to its successor.
func (k *keeper) rehomeAll() {
	k.mu.Lock()
	failed, grants := k.fails > 0, []*ownership(nil)
	if failed {
		grants = k.kept()
	}
	k.mu.Unlock()
	for _, o := range grants {
		if address, known := k.locks.servers.peek(o.key); known && address != k.address {
			k.rehome(o)
		}
	}
}

func (k *keeper) end() {
	k.mu.Lock()
	now := k.link
	k.mu.Unlock()
	if now != nil {
		now.Close()
	}
	k.waits.Close()
}
