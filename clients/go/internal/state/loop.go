package state

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Node is what is known of one server: its session.
type Node struct {
	Address string
	Session int64

	leaves  []release       // grants that leave the session, until their `taken`
	grants  map[*Claim]bool // that the session renews, or will
	seen    int64           // the number of the last event that was applied
	moves   bool            // a grant or place may belong to an earlier session
	excess  Time            // since when every reply shows more grants than are known; below 0: it does not
	tries   []Time          // that failed
	fault   *Fault          // of the last try
	leaving bool            // a release was refused
	left    map[int64]Time  // sessions that were left, and when
}

// NewNode makes the Node of a server.
func NewNode(address string) Node {
	return Node{Address: address, excess: -1, grants: map[*Claim]bool{}, left: map[int64]Time{}}
}

// endLeave ends the leave of a grant: it has happened, or was refused.
func (n *Node) endLeave(of release) {
	if i := slices.Index(n.leaves, of); i >= 0 {
		n.leaves = slices.Delete(n.leaves, i, i+1)
	}
}

// Due is a command that is sent before a POLL, and what its reply changes.
type Due struct {
	Command []any
	Apply   func(reply Reply)
}

// Claims returns those that depend on the session of a node, in the order of their asking.
func (s *State) Claims(n *Node) (claims []*Claim) {
	for _, c := range s.claims {
		if c.Node == n && (c.Phase == InLine || n.grants[c]) {
			claims = append(claims, c)
		}
	}
	slices.SortFunc(claims, func(a, b *Claim) int { return cmp.Compare(a.began, b.began) })
	return claims
}

// Opened begins a session.
func (s *State) Opened(n *Node, session int64) {
	n.Session, n.seen, n.excess, n.moves, n.leaves = session, 0, -1, true, nil
	s.wakeWaits(n)
}

func (s *State) wakeWaits(n *Node) {
	for _, c := range s.claims {
		if c.Node == n && c.isWaiting() {
			s.Changed = append(s.Changed, c)
		}
	}
}

// LeaveSession leaves a session with a grant whose release was refused, so that the grant is not renewed forever.
func (s *State) LeaveSession(n *Node) {
	if n.leaving && n.Session != 0 {
		n.left[n.Session], n.Session = s.At, 0
	}
	n.leaving = false
}

// Due returns what is due before a POLL of the session, in the order of sending.
func (s *State) Due(n *Node) (due []Due) {
	session := n.Session
	add := func(apply func(reply Reply), command ...any) { due = append(due, Due{command, apply}) }
	if n.moves {
		n.moves = false
		due = s.moves(n, session)
	}
	for of, how := range s.unfinished {
		if how.node != n {
			continue
		}
		add(func(reply Reply) {
			if reply.Fault.Redirects() { // the caller sends it there
				delete(s.unfinished, of)
			}
			s.finished(of, reply)
		}, how.words...)
	}
	if n.excess >= 0 && s.At > n.excess+s.lease {
		called := maps.Clone(s.calls)
		add(func(reply Reply) { s.listed(n, called, reply) }, "LOCK.SESSION", "GRANTS", session)
	}
	for old, since := range n.left {
		isUsed := slices.ContainsFunc(s.Claims(n), func(c *Claim) bool { return c.Phase == Held && c.Session == old })
		if isUsed || s.At <= since+2*s.reply {
			continue
		}
		add(func(reply Reply) {
			if !reply.Fault.Passing() || reply.Fault.Word == "NOSESSION" {
				delete(n.left, old)
			}
		}, "LOCK.SESSION", "CLOSE", old)
	}
	return due
}

// moves moves the grants to this session, and then asks for the places that went with an earlier one, in their order.
func (s *State) moves(n *Node, session int64) []Due {
	var grants, waits []Due
	for _, c := range s.Claims(n) {
		switch {
		case c.Session == session || c.Doubt != "":
		case c.Phase == Held:
			grants = append(grants, Due{c.RenewCommand("SESSION", session), func(reply Reply) { s.moved(c, session, reply) }})
		case c.end > s.At:
			s.BeginCall(c.Name)
			waits = append(waits, Due{c.AcquireCommand(session, s.At), func(reply Reply) {
				s.Answered(c, session, reply)
				n.moves = n.moves || reply.Fault != nil
				s.EndCall(c.Name)
			}})
		}
	}
	return append(grants, waits...)
}

// moved applies the reply to the RENEW of a grant that was not in this session.
func (s *State) moved(c *Claim, session int64, reply Reply) {
	_, lease, ok := reply.grant()
	switch n := reply.From; {
	case !n.grants[c]:
	case ok:
		c.Session = session
		if reply.Sent > c.from { // no other RENEW was under way
			c.Sure, c.from = max(c.Sure, reply.Sent+lease), s.At
		}
	case reply.Fault.Gone():
		s.gone(c, reply.Fault)
	case s.isCluster && reply.Fault.Redirects():
		s.doubtful(c, "moved")
	default:
		n.moves = true
	}
}

// listed releases the grants of the session that nobody knows, and nobody called about meanwhile.
func (s *State) listed(n *Node, called map[Name]call, reply Reply) {
	n.excess = -1
	for _, row := range list(reply.Value) {
		parts := Fields(row)
		of := release{Name{text(parts["key"]), text(parts["owner"])}, number(parts["token"])}
		isCalled := called[of.Name].open+s.calls[of.Name].open > 0
		if !isCalled && s.claims[of.Name] == nil && s.unfinished[of].node == nil {
			s.finishLater(n, of)
		}
	}
}

// Block is how long a POLL that is sent now may block: briefly if its reply says that the server is back, or decides
// about a grant.
func (s *State) Block(n *Node) time.Duration {
	isBrief := n.fault != nil
	for c := range n.grants {
		isBrief = isBrief || s.At >= c.Sure
	}
	if isBrief {
		return 100 * time.Millisecond
	}
	return s.lease / 3
}

// Polled applies the reply to a POLL that was sent at this time.
func (s *State) Polled(n *Node, sent Time, value any) {
	parts := Fields(value)
	till := sent + s.lease
	if ms := number(parts["sure-ms"]); ms >= 0 {
		till = sent + milliseconds(ms)
	}
	for c := range n.grants {
		if c.Session == n.Session && sent > c.from { // it was known then
			c.Sure = max(c.Sure, till)
		}
	}
	for _, event := range list(parts["events"]) {
		s.event(n, list(event), till)
	}
	if number(parts["grants"]) <= int64(len(n.grants)+len(s.unfinished)) {
		n.excess = -1
	} else if n.excess < 0 {
		n.excess = sent
	}
	n.fault, n.tries = nil, nil
	s.silent(n, sent)
}

// event applies one event.
func (s *State) event(n *Node, event []any, till Time) {
	if len(event) < 5 || number(event[0]) <= n.seen {
		return // answered before
	}
	n.seen = number(event[0])
	name := Name{text(event[2]), text(event[3])}
	of := release{name, number(event[4])}
	c := s.claims[name]
	leaves := c != nil && c.Fixed && c.Token == of.token || slices.Contains(n.leaves, of)
	switch kind := text(event[1]); kind {
	case "granted":
		if !leaves && !s.granted(n, name, of.token, n.Session, till) && s.calls[name].open == 0 {
			s.finishLater(n, of) // it was given up
		}
	case "ended":
		if c != nil && c.isWaiting() {
			s.ended(c, text(event[4]))
		}
	case "lost", "taken":
		reason := kind
		if kind == "lost" && len(event) > 5 {
			reason = text(event[5])
		} else if leaves && len(event) > 5 && number(event[5]) == 0 {
			n.endLeave(of) // by this client
			return
		}
		s.lost(n, of, reason)
	}
}

// lost applies the loss of a grant.
func (s *State) lost(n *Node, of release, reason string) {
	c := s.claims[of.Name]
	isKnown := c != nil && c.Phase == Held && c.Token == of.token
	if call := s.calls[of.Name]; call.open > 0 {
		call.losses = maps.Collect(maps.All(call.losses))
		call.losses[of.token] = reason
		s.calls[of.Name] = call
	}
	delete(s.unfinished, of) // nothing is left to release
	switch {
	case !isKnown || c.Doubt != "" || c.Node != n:
	case s.isCluster && reason == "deleted":
		s.doubtful(c, reason)
	default:
		s.lose(c, reason)
	}
}

// ended applies the end of a wait without a grant.
func (s *State) ended(wait *Claim, why string) {
	fault := ErrorReply(why)
	switch {
	case why == "timeout" || why == "cancelled":
		s.endWait(wait, Fail(ErrBusy, "the wait has ended: "+why))
	case fault.Passing():
		s.askAgain(wait)
		wait.failure, wait.ended = fault.Failure(wait.Node.Address), s.At
	default:
		s.endWait(wait, fault.Failure(wait.Node.Address))
	}
}

// Failed applies a try to connect or to poll that began at this time and failed. One that failed at once counts only
// after a reply timeout of tries.
func (s *State) Failed(n *Node, began Time, fault *Fault) {
	n.tries, n.fault = append(n.tries, began), fault
	for len(n.tries) > 0 && s.At >= n.tries[0]+s.reply {
		s.silent(n, n.tries[0])
		n.tries = n.tries[1:]
	}
	if fault.Lasting() {
		s.wakeWaits(n)
	}
}

// silent ends the grants that a POLL or connect which began then has not made sure again.
func (s *State) silent(n *Node, since Time) {
	for c := range n.grants {
		if c.Sure < since && c.Doubt == "" {
			s.finishLater(n, release{c.Name, c.Token})
			s.lose(c, "silence")
		}
	}
}

// Close ends all waits and grants. It returns the grants.
func (s *State) Close() (grants []*Claim) {
	s.isClosed = true
	for _, c := range s.claims {
		if c.isWaiting() {
			s.endWait(c, &Error{Kind: ErrClosed})
			continue
		}
		s.forget(c, Released)
		c.Holds = 0
		s.Changed = append(s.Changed, c)
		grants = append(grants, c)
	}
	return grants
}

// IsClosed reports whether Close was called.
func (s *State) IsClosed() bool { return s.isClosed }

// Sessions are those that Close leaves to be closed.
func (n *Node) Sessions() []int64 {
	sessions := slices.Collect(maps.Keys(n.left))
	if n.Session != 0 {
		sessions = append(sessions, n.Session)
	}
	return sessions
}
