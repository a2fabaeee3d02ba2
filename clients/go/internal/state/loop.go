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

	grants  map[*Claim]bool // that the session renews, or will
	seen    int64           // the number of the last event that was applied
	sures   []sure          // by POLL; each reaches less far than those before it
	soonest Time            // no grant's time ends before
	outside bool            // a grant or place may belong to an earlier session
	excess  Time            // since when every reply shows more grants than are known; below 0: it does not
	tries   []Time          // that failed
	fault   *Fault          // of the last try
	leaving bool            // a release was refused
	left    map[int64]Time  // sessions that were left, and when
}

// sure is until when a POLL makes grants sure.
type sure struct{ sent, till Time }

// NewNode makes the Node of a server.
func NewNode(address string) Node {
	return Node{Address: address, excess: -1, soonest: far, grants: map[*Claim]bool{}, left: map[int64]Time{}}
}

// Due is a command that is sent before a POLL, and what its reply, to a sending at this time, changes.
type Due struct {
	Command []any
	Apply   func(sent Time, reply Reply)
}

// IsIdle reports whether nothing depends on the session.
func (s *State) IsIdle(n *Node) bool {
	for _, c := range s.claims {
		if c.Node == n && !(c.Fixed && c.HandedOver) {
			return false
		}
	}
	for _, how := range s.unfinished {
		if how.node == n {
			return false
		}
	}
	return len(n.left)+len(s.calls) == 0
}

// Opened begins a session.
func (s *State) Opened(n *Node, session int64) {
	n.Session, n.seen, n.excess, n.fault, n.outside = session, 0, -1, nil, true
	for _, c := range s.claims {
		if c.Node == n && c.isWaiting() {
			s.Changed = append(s.Changed, c)
		}
	}
}

// SessionEnded forgets the session. The leases of its grants run on.
func (s *State) SessionEnded(n *Node) {
	for c := range n.grants {
		c.sure = s.Sure(c)
	}
	n.Session, n.sures = 0, nil
}

// LeaveSession leaves a session with a grant whose release was refused, so that the grant is not renewed forever.
func (s *State) LeaveSession(n *Node) {
	if n.leaving && n.Session != 0 {
		n.left[n.Session] = s.At
		s.SessionEnded(n)
	}
	n.leaving = false
}

// Due returns what is due before a POLL of the session, in the order of sending.
func (s *State) Due(n *Node) (due []Due) {
	session := n.Session
	if n.outside {
		n.outside = false
		for c := range n.grants {
			if c.Session != session && c.doubt == "" {
				due = append(due, Due{c.RenewCommand(session), func(sent Time, reply Reply) { s.moved(c, n, session, sent, reply) }})
			}
		}
		due = append(due, s.queueAgain(n)...)
	}
	for of, how := range s.unfinished {
		if how.node != n {
			continue
		}
		due = append(due, Due{how.words, func(_ Time, reply Reply) {
			if reply.Fault.Redirects() {
				delete(s.unfinished, of)
				s.Misplaced = append(s.Misplaced, how.words)
			}
			s.finished(of, reply)
		}})
	}
	if n.excess >= 0 && s.At > n.excess+s.lease {
		called := maps.Clone(s.calls)
		due = append(due, Due{[]any{"LOCK.SESSION", "GRANTS", session}, func(_ Time, reply Reply) { s.listed(n, called, reply) }})
	}
	for old, since := range n.left {
		if s.At > since+2*s.reply && !n.hasGrantIn(old) {
			due = append(due, Due{[]any{"LOCK.SESSION", "CLOSE", old}, func(_ Time, reply Reply) {
				if !reply.Fault.Passing() || reply.Fault.Word == "NOSESSION" {
					delete(n.left, old)
				}
			}})
		}
	}
	return due
}

// queueAgain asks for the places that went with an earlier session, in the order of their asking.
func (s *State) queueAgain(n *Node) (due []Due) {
	var waits []*Claim
	for _, c := range s.claims {
		if c.Node == n && c.Phase == InLine && c.Session != n.Session && c.end > s.At {
			waits = append(waits, c)
		}
	}
	slices.SortFunc(waits, func(a, b *Claim) int { return cmp.Compare(a.order, b.order) })
	for _, wait := range waits {
		call, session := s.BeginCall(wait.Name), n.Session
		wait.open++
		due = append(due, Due{wait.AcquireCommand(session, s.At), func(sent Time, reply Reply) {
			s.Answered(wait, n, session, sent, reply)
			n.outside = n.outside || reply.Fault != nil
			s.EndCall(call)
		}})
	}
	return due
}

func (n *Node) hasGrantIn(session int64) bool {
	for c := range n.grants {
		if c.Session == session {
			return true
		}
	}
	return false
}

// moved applies the reply to the RENEW of a grant that was not in this session.
func (s *State) moved(c *Claim, n *Node, session int64, sent Time, reply Reply) {
	_, lease, ok := reply.grant()
	switch {
	case !n.grants[c]:
	case ok:
		c.Session = session
		if sent > c.from { // no other RENEW was under way
			c.sure, c.from = max(c.sure, sent+lease), s.At
		}
	case reply.Fault.Gone():
		s.lose(c, s.reason(c, reply.Fault))
	case s.isCluster && reply.Fault.Redirects():
		s.doubtful(c, "moved")
	default:
		n.outside = true
	}
}

// listed releases the grants of the session that nobody knows, and nobody called about meanwhile.
func (s *State) listed(n *Node, called map[int]Name, reply Reply) {
	n.excess = -1
	maps.Copy(called, s.calls)
	for _, row := range list(reply.Value) {
		parts := Fields(row)
		of := release{Name{text(parts["key"]), text(parts["owner"])}, number(parts["token"])}
		isCalled := slices.Contains(slices.Collect(maps.Values(called)), of.Name)
		if !isCalled && s.claims[of.Name] == nil && s.unfinished[of].node == nil {
			s.finishLater(n, of)
		}
	}
}

// Block is how long a POLL that is sent now may block.
func (s *State) Block(n *Node) time.Duration {
	if s.IsUnsure(n) {
		return 100 * time.Millisecond
	}
	return s.lease / 3
}

// IsUnsure reports whether the time of a grant has passed, so that the next reply decides.
func (s *State) IsUnsure(n *Node) bool {
	if s.At >= n.soonest {
		n.soonest = far
		for c := range n.grants {
			n.soonest = min(n.soonest, s.Sure(c))
		}
	}
	return s.At >= n.soonest
}

// Polled applies the reply to a POLL that was sent at this time.
func (s *State) Polled(n *Node, sent Time, value any) {
	parts := Fields(value)
	till := sent + s.lease
	if ms := number(parts["sure-ms"]); ms >= 0 {
		till = sent + milliseconds(ms)
	}
	for _, event := range list(parts["events"]) {
		s.event(n, list(event), till)
	}
	for last := len(n.sures) - 1; last >= 0 && n.sures[last].till <= till; last-- {
		n.sures = n.sures[:last]
	}
	n.sures = append(n.sures, sure{sent, till})
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
	name, kind := Name{text(event[2]), text(event[3])}, text(event[1])
	of, c := release{name, number(event[4])}, s.claims[name]
	switch kind {
	case "granted":
		if !s.granted(n, name, of.token, n.Session, till) && !s.isCalled(name) {
			s.finishLater(n, of) // it was given up
		}
	case "ended":
		if c != nil && c.isWaiting() {
			s.ended(c, text(event[4]))
		}
	case "lost", "taken":
		reason, isKnown := kind, c != nil && c.Phase == Held && c.Token == of.token
		if isKnown && c.leaves && kind == "taken" && len(event) > 5 && number(event[5]) == 0 {
			return // by this client
		}
		if kind == "lost" && len(event) > 5 {
			reason = text(event[5])
		}
		if len(s.calls) > 0 {
			s.losses[of] = loss{reason, s.lastCall}
		}
		delete(s.unfinished, of) // nothing is left to release
		switch {
		case !isKnown || c.doubt != "" || c.Node != n:
		case s.isCluster && reason == "deleted":
			s.doubtful(c, reason)
		default:
			s.lose(c, reason)
		}
	}
}

// ended applies the end of a wait without a grant.
func (s *State) ended(wait *Claim, why string) {
	fault := ErrorReply(why)
	switch {
	case why == "timeout" || why == "cancelled":
		s.endWait(wait, Fail(ErrBusy, "the wait has ended: "+why))
	case fault.Passing():
		s.set(wait, Asked, nil)
		wait.cause = fault
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
	for _, c := range s.claims {
		if fault.Lasting() && c.Node == n && c.isWaiting() {
			s.Changed = append(s.Changed, c)
		}
	}
}

// silent ends the grants that a POLL or connect which began then has not made sure again.
func (s *State) silent(n *Node, since Time) {
	if since <= n.soonest {
		return
	}
	n.soonest = far
	for c := range n.grants {
		if till := s.Sure(c); till >= since || c.doubt != "" {
			n.soonest = min(n.soonest, till)
			continue
		}
		s.finishLater(n, release{c.Name, c.Token})
		s.lose(c, "silence")
	}
}

// Close ends all waits and grants. It returns the grants.
func (s *State) Close() (grants []*Claim) {
	s.isClosed = true
	for _, c := range s.claims {
		if c.Phase != Held {
			s.endWait(c, &Error{Kind: ErrClosed})
			continue
		}
		s.forget(c)
		c.Phase, c.Holds = Released, 0
		s.Changed = append(s.Changed, c)
		grants = append(grants, c)
	}
	return grants
}

// Sessions are those that Close leaves to be closed.
func (n *Node) Sessions() []int64 {
	sessions := slices.Collect(maps.Keys(n.left))
	if n.Session != 0 {
		sessions = append(sessions, n.Session)
	}
	return sessions
}

// IsClosed reports whether Close was called.
func (s *State) IsClosed() bool { return s.isClosed }
