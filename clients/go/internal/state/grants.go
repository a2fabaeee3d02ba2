package state

import (
	"slices"
	"time"
)

// Sure is until when nobody else has the lock.
func (s *State) Sure(c *Claim) Time {
	if n := c.Node; c.Session == n.Session && c.Session != 0 {
		for _, sure := range n.sures {
			if sure.sent > c.from { // the grant was known then
				return max(c.sure, sure.till)
			}
		}
	}
	return c.sure
}

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
		s.forget(c)
		c.Phase, c.Reason, c.doubt = Lost, reason, ""
		c.renounceOwner()
		s.Changed = append(s.Changed, c)
	}
}

// reason is that of a loss: what the server reported, or else its reply.
func (s *State) reason(c *Claim, fault *Fault) string {
	if loss, isKnown := s.losses[release{c.Name, c.Token}]; isKnown {
		return loss.reason
	}
	return "gone (" + fault.Word + ")"
}

// Answer is what became of a call about a grant: the last reply, when it was sent, and whether an earlier try had none.
type Answer struct {
	Sent    Time
	Reply   Reply
	WasOpen bool
}

// Check returns the command that asks whether the grant stands, for Confirmed.
func (s *State) Check(c *Claim) ([]any, *Error) {
	return []any{"LOCK.FENCE", c.Key, c.Token}, s.RequireHeld(c)
}

// Enter returns the command that adds a hold, for Confirmed.
func (s *State) Enter(c *Claim, mode []any) ([]any, *Error) {
	return slices.Concat([]any{"LOCK.ACQUIRE", c.Key, c.Owner}, mode,
		[]any{"PX", Milliseconds(c.Lease), "HOLDS", c.Holds + 1, "TOKEN", c.Token}), s.RequireHeld(c)
}

// Renew returns the command that gives the grant this lease, for Confirmed. leaves: it also takes the grant out of its
// session. Until it is answered, no POLL counts.
func (s *State) Renew(c *Claim, lease time.Duration, leaves bool) ([]any, *Error) {
	if err := s.RequireHeld(c); err != nil {
		return nil, err
	}
	c.sure, c.from, c.leaves = min(s.Sure(c), s.At+lease), far, leaves
	c.Node.soonest = min(c.Node.soonest, c.sure)
	command := []any{"LOCK.RENEW", c.Key, c.Owner, "PX", Milliseconds(lease), "TOKEN", c.Token}
	if leaves {
		command = append(command, "SESSION", 0)
	}
	return command, nil
}

// Confirmed applies what became of a check, a re-entry or a renewal.
func (s *State) Confirmed(c *Claim, a Answer) *Error {
	if a.Reply.Fault.NoReply() {
		c.renounceOwner()
	} else if c.from == far {
		c.from = s.At
	}
	if a.Reply.Fault.Gone() {
		s.lose(c, s.reason(c, a.Reply.Fault))
	}
	if err := s.RequireHeld(c); err != nil {
		return err
	}
	if a.Reply.Fault != nil {
		c.leaves = c.leaves && c.from == far
		return a.Reply.Fault.Failure(c.Node.Address)
	}
	if _, lease, ok := a.Reply.grant(); ok {
		c.Lease, c.sure = lease, max(s.Sure(c), a.Sent+lease)
	}
	if c.leaves {
		c.Session, c.HandedOver = 0, true
		delete(c.Node.grants, c)
	}
	return nil
}

// LetGo forgets a grant that is left to others.
func (s *State) LetGo(c *Claim) {
	s.forget(c)
	c.Phase = Released
	c.renounceOwner()
}

// Release takes a hold away, and returns the command for it: from here on it is not held.
func (s *State) Release(c *Claim) ([]any, *Error) {
	if err := s.RequireHeld(c); err != nil {
		return nil, err
	}
	if c.Holds--; c.Holds == 0 {
		s.forget(c)
		c.Phase = Released
	}
	return c.ReleaseCommand(), nil
}

// Released applies what became of a release.
func (s *State) Released(c *Claim, a Answer) *Error {
	fault := a.Reply.Fault
	if a.WasOpen || fault.NoReply() {
		c.renounceOwner()
	}
	_, isLost := s.losses[release{c.Name, c.Token}]
	switch {
	case fault == nil, fault.Gone() && c.Holds == 0 && a.WasOpen && !isLost:
		return nil
	case fault.Gone():
		s.lose(c, s.reason(c, fault))
		return Fail(ErrLost, c.Reason)
	case c.Holds > 0: // its release is not repeated: a re-entry may have come between
	case fault.Lasting(): // the server would go on to renew the grant: leave its session
		c.Node.leaving = c.Node.leaving || c.Session != 0 && c.Session == c.Node.Session
	default:
		s.finishLater(c.Node, release{c.Name, c.Token}, c.ReleaseCommand()...)
	}
	return fault.Failure(c.Node.Address)
}

// End ends a grant whose maximum time is over, or whose fixed lease is. It returns the release to send, for Ended, or
// how long the grant lasts.
func (s *State) End(c *Claim, most Time) (command []any, rest time.Duration) {
	end, reason := most, "its maximum time is over"
	if sure := s.Sure(c); c.Fixed && sure <= most {
		end, reason = sure, "expired"
	}
	if c.Phase != Held || s.At < end {
		return nil, end - s.At
	}
	c.Holds = 0
	s.finishLater(c.Node, release{c.Name, c.Token}, c.ReleaseCommand()...)
	command = c.ReleaseCommand()
	s.lose(c, reason)
	return command, 0
}

// Ended applies the reply to the release of End.
func (s *State) Ended(c *Claim, reply Reply) { s.finished(release{c.Name, c.Token}, reply) }

// doubtful marks a grant that another node of the cluster may have. It is unsure until Found.
func (s *State) doubtful(c *Claim, reason string) {
	c.sure = s.Sure(c)
	if reason != "moved" {
		c.sure = min(c.sure, s.At)
	}
	c.doubt, c.Session = reason, 0
	s.Elsewhere = append(s.Elsewhere, c)
}

// Found applies what became of the RENEW of a grant that another node may have, in this session of it.
func (s *State) Found(c *Claim, n *Node, session int64, a Answer) {
	_, lease, ok := a.Reply.grant()
	_, isLost := s.losses[release{c.Name, c.Token}]
	switch {
	case c.Phase != Held || c.doubt == "": // it was released meanwhile
	case ok && !isLost:
		delete(c.Node.grants, c)
		n.grants[c] = true
		c.Node, c.doubt, c.Session, c.from, c.sure = n, "", session, s.At, max(c.sure, a.Sent+lease)
		n.soonest, n.outside = min(n.soonest, c.sure), true
	case c.doubt == "moved" && a.Reply.Fault.Passing(): // it is asked for again
		c.doubt, c.Node.outside = "", true
	default:
		s.lose(c, c.doubt)
	}
}

// On returns the grants in the session of a node, and the places in line there.
func (s *State) On(n *Node) (claims []*Claim) {
	for _, c := range s.claims {
		if c.Node == n && (c.Phase == InLine || n.grants[c]) {
			claims = append(claims, c)
		}
	}
	return claims
}

// Relocate has a claim asked for at another node of the cluster, which has its key now.
func (s *State) Relocate(c *Claim) {
	switch {
	case c.Phase == InLine:
		s.set(c, Asked, nil)
	case c.Phase == Held && c.Session != 0 && c.doubt == "":
		s.doubtful(c, "moved")
	}
}
