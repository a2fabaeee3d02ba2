package state

import (
	"cmp"
	"time"
)

// RequireHeld fails if the grant has ended.
func (c *Claim) RequireHeld() *Fault {
	if c.Phase == Ended {
		return c.Failure
	}
	return nil
}

// IsLost reports whether the grant has ended before it was released.
func (c *Claim) IsLost() bool { return c.Phase == Ended && c.Failure.Kind == ErrLost }

func (s *State) lose(c *Claim, reason string) {
	if !c.IsLost() {
		s.end(c, Fail(ErrLost, reason))
		c.renounceOwner()
	}
}

// gone applies a reply that says that the grant is over.
func (s *State) gone(c *Claim, fault *Fault) {
	s.lose(c, cmp.Or(c.Doubt, s.losses[release{c.Name, c.Token}], "gone ("+fault.Word+")"))
}

// Renew returns the command that gives the grant this lease, for Confirmed. leaves: it also takes the grant out of its
// session, for Left. Until it is answered, no POLL counts.
func (s *State) Renew(c *Claim, lease time.Duration, leaves bool) []any {
	if leaves && c.Session != 0 && c.Session == c.Node.Session {
		c.Node.leaves[release{c.Name, c.Token}]++
	}
	c.Sure, c.from = min(c.Sure, s.At+lease), far
	options := []any{"PX", Milliseconds(lease)}
	if leaves {
		options = append(options, "SESSION", 0)
	}
	return c.RenewCommand(options...)
}

// Confirmed applies the last reply to a check, a re-entry, a renewal or a raise, which changes the token.
func (s *State) Confirmed(c *Claim, reply Reply) *Fault {
	fault := reply.Fault
	if fault.NoReply() {
		c.renounceOwner()
	} else if c.from == far {
		c.from = s.At
	}
	if fault.Gone() {
		s.gone(c, fault)
	}
	if token, lease, ok := reply.grant(); ok && c.Phase == Held {
		c.Token, c.Lease, c.Sure = token, lease, max(c.Sure, reply.Sent+lease)
		if reason := s.losses[release{c.Name, token}]; reason != "" { // reported before this reply named the token
			s.lose(c, reason)
		}
	}
	return cmp.Or(c.RequireHeld(), fault)
}

// Left applies the last reply to a renewal that takes the grant out of its session.
func (s *State) Left(c *Claim, reply Reply) *Fault {
	if reply.Fault != nil && !reply.Fault.NoReply() && c.Session != 0 {
		c.Node.hasLeft(release{c.Name, c.Token})
	}
	failure := s.Confirmed(c, reply)
	if failure == nil {
		c.Session, c.HandedOver = 0, true
		delete(c.Node.grants, c)
	}
	return failure
}

// LetGo forgets a grant that is left to others.
func (s *State) LetGo(c *Claim) {
	s.end(c, errReleased)
	c.renounceOwner()
}

// Release takes a hold away, and returns the command for it. A grant without holds is no longer held from here on.
func (s *State) Release(c *Claim) []any {
	if c.Holds--; c.Holds == 0 {
		s.end(c, errReleased)
	}
	return c.ReleaseCommand()
}

// Released applies the last reply to a release.
func (s *State) Released(c *Claim, reply Reply) *Fault {
	of, fault := release{c.Name, c.Token}, reply.Fault
	if reply.WasOpen || fault.NoReply() {
		c.renounceOwner()
	}
	switch {
	case fault == nil, fault.Gone() && c.Holds == 0 && reply.WasOpen && s.losses[of] == "":
		return nil
	case fault.Gone():
		s.gone(c, fault)
		return c.Failure
	case c.Holds > 0: // its release is not repeated: a re-entry may have come between
	case fault.Lasting(): // the server would go on to renew the grant: leave its session
		c.Node.leaving = c.Node.leaving || c.Session != 0 && c.Session == c.Node.Session
	default:
		s.finishLater(c.Node, of, c.ReleaseCommand()...)
	}
	return fault
}

// End ends a grant whose maximum time or fixed lease is over. Then its release is to be sent, for Released. Otherwise
// it returns how long the grant lasts.
func (s *State) End(c *Claim) (isOver bool, rest time.Duration) {
	end, reason := far, "its maximum time is over"
	if c.Longest > 0 {
		end = c.Taken + c.Longest
	}
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

// doubtful marks a grant that another node of the cluster may have. It is unsure until Moved.
func (s *State) doubtful(c *Claim, reason string) {
	if reason != "moved" {
		c.Sure = min(c.Sure, s.At)
	}
	c.Doubt, c.Session = reason, 0
	s.Changed = append(s.Changed, c)
}

// Moved applies the reply to the RENEW of a grant that was not in this session of a node. Session 0: it was looked for
// in the cluster, and the loop of the node that has it moves it to its session.
func (s *State) Moved(c *Claim, session int64, reply Reply) *Fault {
	n, reported := reply.From, s.losses[release{c.Name, c.Token}]
	_, lease, ok := reply.grant()
	switch {
	case c.Phase != Held, session == 0 && c.Doubt == "", session != 0 && !n.grants[c]: // nothing is left to move
	case ok && reported == "":
		delete(c.Node.grants, c)
		n.grants[c] = true
		n.moves = n.moves || session == 0
		c.Node, c.Session, c.Doubt = n, session, ""
		if reply.Sent > c.from { // no other RENEW was under way
			c.Sure, c.from = max(c.Sure, reply.Sent+lease), s.At
		}
	case ok, c.Doubt == "deleted":
		s.lose(c, cmp.Or(c.Doubt, reported))
	case reply.Fault.Gone():
		s.gone(c, reply.Fault)
	case session != 0 && s.isCluster && reply.Fault.Redirects():
		s.doubtful(c, "moved")
	default: // it is asked for again
		c.Doubt, c.Node.moves = "", true
	}
	return nil
}

// Relocate makes the program ask for a claim where its key is now, which is no longer this node of the cluster.
func (s *State) Relocate(c *Claim, n *Node) {
	switch {
	case c.Node != n:
	case c.isWaiting():
		s.askAgain(c)
	case c.Phase == Held && c.Doubt == "":
		s.doubtful(c, "moved")
	}
}
