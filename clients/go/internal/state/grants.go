package state

import (
	"cmp"
	"time"
)

// RequireHeld fails if the grant has ended.
func (s *State) RequireHeld(c *Claim) *Error {
	switch {
	case c.Phase == Lost:
		return Fail(ErrLost, c.Reason)
	case s.isClosed:
		return &Error{Kind: ErrClosed}
	case c.Phase != Held:
		return Fail(ErrMisuse, "it was released already")
	}
	return nil
}

func (s *State) lose(c *Claim, reason string) {
	if c.Reason == "" {
		s.forget(c, Lost)
		c.Reason, c.Doubt = reason, ""
		c.renounceOwner()
		s.Changed = append(s.Changed, c)
	}
}

// gone follows a reply that the grant is over.
func (s *State) gone(c *Claim, fault *Fault) {
	reason := s.reported(release{c.Name, c.Token})
	if reason == "" {
		reason = "gone (" + fault.Word + ")"
	}
	s.lose(c, reason)
}

// Renew returns the command that gives the grant this lease, for Confirmed. leaves: it also takes the grant out of its
// session, for Left. Until it is answered, no POLL counts.
func (s *State) Renew(c *Claim, lease time.Duration, leaves bool) []any {
	if leaves && c.Session != 0 && c.Session == c.Node.Session {
		c.Node.leaves = append(c.Node.leaves, release{c.Name, c.Token})
	}
	c.Sure, c.from = min(c.Sure, s.At+lease), far
	options := []any{"PX", Milliseconds(lease)}
	if leaves {
		options = append(options, "SESSION", 0)
	}
	return c.RenewCommand(options...)
}

// Confirmed applies what became of a check, a re-entry or a renewal.
func (s *State) Confirmed(c *Claim, reply Reply) *Error {
	fault := reply.Fault
	if fault.NoReply() {
		c.renounceOwner()
	} else if c.from == far {
		c.from = s.At
	}
	if fault.Gone() {
		s.gone(c, fault)
	}
	if err := s.RequireHeld(c); err != nil {
		return err
	}
	if fault != nil {
		return fault.Failure(c.Node.Address)
	}
	if _, lease, ok := reply.grant(); ok {
		c.Lease, c.Sure = lease, max(c.Sure, reply.Sent+lease)
	}
	return nil
}

// Left applies what became of a renewal that takes the grant out of its session.
func (s *State) Left(c *Claim, reply Reply) *Error {
	if reply.Fault != nil && !reply.Fault.NoReply() && c.Session != 0 {
		c.Node.endLeave(release{c.Name, c.Token})
	}
	failure := s.Confirmed(c, reply)
	if failure == nil {
		c.Session, c.HandedOver = 0, true
		delete(c.Node.grants, c)
	}
	return failure
}

// Raised follows the reply that has lifted the token of a grant. Its loss may have been reported before.
func (s *State) Raised(c *Claim, token int64) {
	c.Token = token
	if reason := s.reported(release{c.Name, token}); reason != "" {
		s.lose(c, reason)
	}
}

// LetGo forgets a grant that is left to others.
func (s *State) LetGo(c *Claim) {
	s.forget(c, Released)
	c.renounceOwner()
}

// Release takes a hold away, and returns the command for it: from here on it is not held.
func (s *State) Release(c *Claim) []any {
	if c.Holds--; c.Holds == 0 {
		s.forget(c, Released)
	}
	return c.ReleaseCommand()
}

// Released applies what became of a release.
func (s *State) Released(c *Claim, reply Reply) *Error {
	of, fault := release{c.Name, c.Token}, reply.Fault
	if reply.WasOpen || fault.NoReply() {
		c.renounceOwner()
	}
	switch {
	case fault == nil, fault.Gone() && c.Holds == 0 && reply.WasOpen && s.reported(of) == "":
		return nil
	case fault.Gone():
		s.gone(c, fault)
		return Fail(ErrLost, c.Reason)
	case c.Holds > 0: // its release is not repeated: a re-entry may have come between
	case fault.Lasting(): // the server would go on to renew the grant: leave its session
		c.Node.leaving = c.Node.leaving || c.Session != 0 && c.Session == c.Node.Session
	default:
		s.finishLater(c.Node, of, c.ReleaseCommand()...)
	}
	return fault.Failure(c.Node.Address)
}

// End ends a grant whose maximum time is over, or whose fixed lease is: then its release is to be sent, for Released. It
// returns how long the grant lasts otherwise.
func (s *State) End(c *Claim) (isOver bool, rest time.Duration) {
	end, reason := cmp.Or(c.Most, far), "its maximum time is over"
	if c.Fixed && c.Sure <= end {
		end, reason = c.Sure, "expired"
	}
	if c.Phase != Held || s.At < end {
		return false, end - s.At
	}
	c.Holds = 0
	s.lose(c, reason)
	return true, 0
}

// doubtful marks a grant that another node of the cluster may have. It is unsure until Found.
func (s *State) doubtful(c *Claim, reason string) {
	if reason != "moved" {
		c.Sure = min(c.Sure, s.At)
	}
	c.Doubt, c.Session = reason, 0
	s.Changed = append(s.Changed, c)
}

// Found applies what became of the RENEW of a grant that another node may have. The loop of that node moves it to its
// session.
func (s *State) Found(c *Claim, reply Reply) *Error {
	_, lease, ok := reply.grant()
	switch n := reply.From; {
	case c.Phase != Held || c.Doubt == "": // it was released meanwhile
	case ok && s.reported(release{c.Name, c.Token}) == "":
		delete(c.Node.grants, c)
		n.grants[c], n.moves = true, true
		c.Node, c.Doubt, c.from, c.Sure = n, "", s.At, max(c.Sure, reply.Sent+lease)
	case c.Doubt == "moved" && reply.Fault.Passing(): // it is asked for again
		c.Doubt, c.Node.moves = "", true
	default:
		s.lose(c, c.Doubt)
	}
	return nil
}

// Relocate has a claim asked for where its key is now, which is not this node of the cluster any more.
func (s *State) Relocate(c *Claim, n *Node) {
	switch {
	case c.Node != n:
	case c.Phase == InLine:
		s.askAgain(c)
	case c.Phase == Held && c.Session != 0 && c.Doubt == "":
		s.doubtful(c, "moved")
	}
}
