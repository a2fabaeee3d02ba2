package state

import (
	"errors"
	"time"
)

// Sure is until when nobody else has the lock.
func (s *State) Sure(c *Claim) Time {
	if c.Session != s.Session || s.Session == 0 || c.shortening {
		return c.sure
	}
	for _, sure := range s.sures {
		if sure.poll > c.joined { // the grant was known when it was sent
			return max(c.sure, sure.till)
		}
	}
	return c.sure
}

// IsHeld reports whether nobody else has the lock now, by the clock alone.
func (s *State) IsHeld(c *Claim) bool { return c.Phase == Held && s.Sure(c) > s.At }

// RequireHeld fails if the grant has ended.
func (s *State) RequireHeld(c *Claim) *Failure {
	switch {
	case c.Phase == Lost:
		return c.lostFailure()
	case s.isClosed:
		return &Failure{ErrClosed, errors.New("the client is closed")}
	case c.Phase != Held:
		return Fail(ErrMisuse, "it was released already")
	}
	return nil
}

func (s *State) find(name Name) *Claim {
	if c := s.grants[name]; c != nil {
		return c
	}
	return s.fixed[name]
}

func (s *State) forget(c *Claim) {
	delete(s.grants, c.Name)
	delete(s.fixed, c.Name)
	delete(s.pending, c)
}

func (s *State) lose(c *Claim, reason string) {
	if c.Reason != "" {
		return
	}
	if s.find(c.Name) == c {
		s.forget(c)
	}
	c.Phase, c.Reason, c.doubt = Lost, reason, ""
	c.renounceOwner()
	s.Changed = append(s.Changed, c)
}

// reason is that of a loss: what the server reported, or else its reply.
func (s *State) reason(c *Claim, fault *Fault) string {
	if loss, isKnown := s.losses[c.Token]; isKnown {
		return loss.reason
	}
	return "gone (" + fault.Word + ")"
}

// Shorten precedes a RENEW with a shorter lease: until that is answered, no POLL counts.
func (s *State) Shorten(c *Claim, lease time.Duration) {
	c.sure = min(s.Sure(c), s.At+lease)
	c.shortening = true
	c.changes++
	s.soonest = min(s.soonest, c.sure)
}

// Confirmed applies the last reply to a check, an extension or a re-entry that was sent at this time.
func (s *State) Confirmed(c *Claim, sent Time, reply Reply, isRenewal bool) *Failure {
	if reply.Fault.NoReply() {
		c.renounceOwner()
	}
	if reply.Fault.Gone() {
		s.lose(c, s.reason(c, reply.Fault))
	}
	if err := s.RequireHeld(c); err != nil {
		return err
	}
	if isRenewal && !reply.Fault.NoReply() {
		c.sure = s.Sure(c)
		c.shortening, c.joined = false, s.polls
		c.changes++
	}
	switch {
	case reply.Fault.Lasting():
		return reply.Fault.Failure()
	case reply.Fault != nil:
		return s.Unavailable(reply.Fault)
	}
	if granted, ok := parseGrant(reply.Value); ok {
		c.Lease, c.sure = granted.lease, max(s.Sure(c), sent+granted.lease)
	}
	return nil
}

// Entered adds a hold, after a re-entry.
func (s *State) Entered(c *Claim) { c.Holds++ }

// Release takes a hold away before the release is sent: from here on it is not held.
func (s *State) Release(c *Claim) *Failure {
	if err := s.RequireHeld(c); err != nil {
		return err
	}
	if c.Holds--; c.Holds == 0 {
		s.forget(c)
		c.Phase = Released
	}
	return nil
}

// Released applies the last reply to a release. wasOpen: an earlier try had no reply.
func (s *State) Released(c *Claim, reply Reply, wasOpen bool) *Failure {
	if wasOpen || reply.Fault.NoReply() {
		c.renounceOwner()
	}
	switch _, isLost := s.losses[c.Token]; {
	case reply.Fault == nil:
		return nil
	case reply.Fault.Gone():
		if c.Holds == 0 && wasOpen && !isLost {
			return nil
		}
		s.lose(c, s.reason(c, reply.Fault))
		return c.lostFailure()
	case reply.Fault.Lasting(): // the server would go on to renew the grant: leave its session
		s.leaving = s.leaving || c.Holds == 0 && c.Session != 0 && c.Session == s.Session
		return reply.Fault.Failure()
	case c.Holds == 0: // the release of an inner hold is not repeated: a re-entry may have come between
		s.finishLater(release{c.Name, c.Token}, releaseWords(c), c.Lease)
	}
	return s.Unavailable(reply.Fault)
}

func releaseWords(c *Claim) []any {
	words := []any{"HOLDS", 0}
	if c.Session != 0 {
		words = append(words, "SESSION", c.Session)
	}
	return words
}

// Cut ends a grant whose maximum time is over. It returns the command that releases it, whose reply is for CutAnswered.
func (s *State) Cut(c *Claim) (command []any, failure *Failure) {
	if failure := s.RequireHeld(c); failure != nil {
		return nil, failure
	}
	c.Holds = 0
	s.finishLater(release{c.Name, c.Token}, releaseWords(c), c.Lease)
	command = c.ReleaseCommand()
	s.lose(c, "its maximum time is over")
	return command, nil
}

// CutAnswered applies the reply to the command of Cut.
func (s *State) CutAnswered(c *Claim, reply Reply) { s.finished(release{c.Name, c.Token}, reply) }

// Expire ends a grant with a fixed lease whose time is over. It returns how long the grant lasts otherwise; 0: it has ended.
func (s *State) Expire(c *Claim) time.Duration {
	if s.fixed[c.Name] != c {
		return 0
	}
	if rest := c.sure - s.At; rest > 0 {
		return rest
	}
	s.lose(c, "expired")
	return 0
}

// TakenOut applies the reply to the RENEW that takes a grant with a fixed lease out of its session.
func (s *State) TakenOut(c *Claim, sent Time, reply Reply) *Failure {
	granted, ok := parseGrant(reply.Value)
	if reply.Fault.Gone() {
		s.lose(c, s.reason(c, reply.Fault))
	}
	if err := s.RequireHeld(c); err != nil {
		return err
	}
	switch {
	case reply.Fault.Lasting():
		return reply.Fault.Failure()
	case !ok:
		return s.Unavailable(reply.Fault)
	case granted.token != c.Token:
		return s.Unavailable(errors.New("it was granted twice"))
	}
	delete(s.grants, c.Name)
	delete(s.pending, c)
	s.fixed[c.Name] = c
	c.Session, c.sure, c.Lease, c.HandedOver = 0, sent+granted.lease, granted.lease, true
	return nil
}

// Adopted applies the reply to the RENEW that adopts a grant. The wait was registered by Ask, with the grant's owner.
func (s *State) Adopted(wait *Claim, session int64, sent Time, reply Reply) *Failure {
	granted, ok := parseGrant(reply.Value)
	if ok && s.waits[wait.Name] == wait {
		s.granted(wait.Name, granted.token, session, sent+granted.lease)
	}
	delete(s.waits, wait.Name)
	switch {
	case wait.Phase == Held:
		wait.Lease, wait.HandedOver = granted.lease, true
		delete(s.pending, wait)
		return nil
	case wait.Phase == Over && wait.failure != nil:
		return wait.failure
	}
	wait.Phase = Over
	switch {
	case ok:
		return Fail(ErrLost, "it was lost at once")
	case reply.Fault.Lasting():
		return reply.Fault.Failure()
	}
	return s.Unavailable(reply.Fault)
}

// Detach lets go of a grant, which stays on the server for its lease.
func (s *State) Detach(c *Claim) *Failure {
	if err := s.RequireHeld(c); err != nil {
		return err
	}
	if c.Holds > 1 {
		return Fail(ErrMisuse, "its owner has other holds of it")
	}
	s.forget(c)
	c.Phase = Released
	c.renounceOwner()
	return nil
}

// Detached applies the reply to the RENEW that took a grant out of its session.
func (s *State) Detached(c *Claim, reply Reply) *Failure {
	switch {
	case reply.Fault.Gone():
		return Fail(ErrLost, s.reason(c, reply.Fault))
	case reply.Fault.Lasting():
		return reply.Fault.Failure()
	case reply.Fault != nil:
		return s.Unavailable(reply.Fault)
	}
	return nil
}

// doubtful marks a grant that another node of the cluster may have. It is unsure until Resolve.
func (s *State) doubtful(c *Claim, reason string) {
	c.sure = s.Sure(c)
	if reason != "moved" {
		c.sure = min(c.sure, s.At)
	}
	c.doubt, c.Session = reason, 0
	s.Elsewhere = append(s.Elsewhere, c)
}

// Claims are the grants of the session and the places in line.
func (s *State) Claims() (claims []*Claim) {
	for _, c := range s.grants {
		claims = append(claims, c)
	}
	for _, wait := range s.waits {
		if wait.Phase == InLine {
			claims = append(claims, wait)
		}
	}
	return claims
}

// Relocate has a claim asked for again, because another node of the cluster has its key now.
func (s *State) Relocate(c *Claim) {
	switch {
	case s.grants[c.Name] == c && c.doubt == "":
		s.doubtful(c, "moved")
	case s.waits[c.Name] == c:
		s.set(c, Asked, nil)
	}
}

// Resolve applies the reply of another node, whose State is to, about a grant that may be there, in its session. It
// returns true if the grant is there.
func (s *State) Resolve(c *Claim, to *State, session int64, sent Time, reply Reply) bool {
	if s.grants[c.Name] != c || c.doubt == "" {
		return false // it was released meanwhile
	}
	granted, ok := parseGrant(reply.Value)
	_, isLost := to.losses[c.Token]
	switch {
	case ok && !isLost:
		delete(s.grants, c.Name)
		to.grants[c.Name] = c
		c.doubt, c.Session, c.joined, c.sure = "", session, to.polls, max(c.sure, sent+granted.lease)
		to.soonest, to.outside = min(to.soonest, c.sure), true
		return true
	case c.doubt == "moved" && !ok && !reply.Fault.Gone():
		c.doubt, s.outside = "", true // it is asked for again
	case c.doubt == "moved":
		s.lose(c, "moved to another node, and gone")
	default:
		s.lose(c, c.doubt)
	}
	return false
}
