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

	leaves  map[release]int // grants that leave the session, how often, until their `taken`
	grants  map[*Claim]bool // that the session renews, or will
	seen    int64           // the number of the last event that was applied
	moves   bool            // a grant or place may belong to an earlier session
	excess  Time            // since when every reply shows more grants than are known; below 0: it does not
	fault   *Fault          // of the last try
	leaving bool            // a release was refused
	left    int64           // the session that was left, until it is closed
	since   Time            // when
}

// NewNode makes the Node of a server.
func NewNode(address string) Node {
	return Node{Address: address, grants: map[*Claim]bool{}}
}

// hasLeft ends a leave of a grant: it has happened, or was refused. It returns false if there was none.
func (n *Node) hasLeft(of release) bool {
	count := n.leaves[of]
	if n.leaves[of]--; count <= 1 {
		delete(n.leaves, of)
	}
	return count > 0
}

// Due is a command that is sent before a POLL, and what its reply changes.
type Due struct {
	Command []any
	Apply   func(reply Reply)
}

// Claims returns the waits and the grants of the sessions of a node, in the order of their asking.
func (s *State) Claims(n *Node) (claims []*Claim) {
	for _, c := range s.claims {
		if c.Node == n && (c.isWaiting() || n.grants[c]) {
			claims = append(claims, c)
		}
	}
	slices.SortFunc(claims, func(a, b *Claim) int { return cmp.Compare(a.began, b.began) })
	return claims
}

// Opened begins a session.
func (s *State) Opened(n *Node, session int64) {
	n.Session, n.seen, n.excess, n.moves, n.leaves = session, 0, -1, true, map[release]int{}
	s.wakeWaits(n)
}

func (s *State) wakeWaits(n *Node) {
	for _, c := range s.Claims(n) {
		if c.isWaiting() {
			s.Changed = append(s.Changed, c)
		}
	}
}

// LeaveSession leaves a session with a grant whose release was refused, so that the grant is not renewed forever.
func (s *State) LeaveSession(n *Node) {
	if n.leaving && n.left == 0 {
		n.left, n.since, n.Session, n.leaving = n.Session, s.At, 0, false
	}
}

// Due returns the commands that are due before a POLL of the session, in the order of sending.
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
	isUsed := func(c *Claim) bool { return c.Phase == Held && c.Session == n.left }
	if n.left != 0 && s.At > n.since+2*s.reply && !slices.ContainsFunc(s.Claims(n), isUsed) {
		add(func(reply Reply) {
			if !reply.Fault.Passing() || reply.Fault.Word == "NOSESSION" {
				n.left = 0
			}
		}, "LOCK.SESSION", "CLOSE", n.left)
	}
	return due
}

// moves moves the grants to this session, and then asks for the places that ended with an earlier session, in their
// order.
func (s *State) moves(n *Node, session int64) []Due {
	var grants, waits []Due
	for _, c := range s.Claims(n) {
		switch {
		case c.Session == session || c.Doubt != "" || c.Phase == Asked:
		case c.Phase == Held:
			grants = append(grants, Due{c.RenewCommand("SESSION", session), func(reply Reply) { s.Moved(c, session, reply) }})
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

// listed releases the grants of the session that nobody knows, and nobody called about meanwhile.
func (s *State) listed(n *Node, called map[Name]int, reply Reply) {
	n.excess = -1
	for _, row := range list(reply.Value) {
		parts := Fields(row)
		of := release{Name{text(parts["key"]), text(parts["owner"])}, number(parts["token"])}
		isKnown := s.claims[of.Name] != nil || s.unfinished[of].node != nil
		if !isKnown && called[of.Name]+s.calls[of.Name] == 0 {
			s.finishLater(n, of)
		}
	}
}

// Block is how long a POLL that is sent now may block: briefly if its reply says that the server is back, or decides
// about a grant, and while a session that was left is to be closed.
func (s *State) Block(n *Node) time.Duration {
	isBrief := n.fault != nil || n.left != 0
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
	n.fault = nil
	s.silent(n, sent, 0)
}

// event applies one event.
func (s *State) event(n *Node, event []any, till Time) {
	if len(event) < 5 || number(event[0]) <= n.seen {
		return // answered before
	}
	n.seen = number(event[0])
	of := release{Name{text(event[2]), text(event[3])}, number(event[4])}
	detail := append(event[5:], nil)[0]
	switch kind := text(event[1]); kind {
	case "granted":
		if n.leaves[of] == 0 && !s.granted(n, of.Name, of.token, n.Session, till) && s.calls[of.Name] == 0 {
			s.finishLater(n, of) // it was given up
		}
	case "ended":
		s.ended(s.claims[of.Name], text(event[4]))
	case "lost":
		s.lost(n, of, cmp.Or(text(detail), kind))
	case "taken":
		if number(detail) != 0 || !n.hasLeft(of) { // else by this client
			s.lost(n, of, kind)
		}
	}
}

// lost applies the loss of a grant. In a cluster, one that was deleted may be at another node: the search decides.
func (s *State) lost(n *Node, of release, reason string) {
	delete(s.unfinished, of) // nothing is left to release
	c := s.claims[of.Name]
	isHeld := c != nil && c.Phase == Held && c.Token == of.token
	mayHaveMoved := isHeld && s.isCluster && reason == "deleted"
	if s.calls[of.Name] > 0 && !mayHaveMoved {
		s.losses[of] = reason
	}
	switch {
	case !isHeld || c.Doubt != "" || c.Node != n:
	case mayHaveMoved:
		s.doubtful(c, reason)
	default:
		s.lose(c, reason)
	}
}

// ended applies the end of a wait without a grant.
func (s *State) ended(wait *Claim, why string) {
	if wait == nil || !wait.isWaiting() {
		return
	}
	switch fault := ErrorReply(wait.Node.Address, why); {
	case why == "timeout" || why == "cancelled":
		s.end(wait, Fail(ErrBusy, "the wait has ended: "+why))
	case fault.Passing():
		s.askAgain(wait)
		wait.Failure, wait.ended = fault, s.At
	default:
		s.end(wait, fault)
	}
}

// Failed applies a try to connect or to poll that began at this time and failed. A try that failed immediately counts
// only after tries for a whole reply timeout.
func (s *State) Failed(n *Node, began Time, fault *Fault) {
	n.fault = fault
	s.silent(n, began, s.reply)
	if fault.Lasting() {
		s.wakeWaits(n)
	}
}

// silent applies that a POLL or connect that began at since has failed. It ends each grant whose time was over by then,
// when tries have failed for as long as patience.
func (s *State) silent(n *Node, since, patience Time) {
	for c := range n.grants {
		if c.Sure >= since || c.Doubt != "" {
			continue
		}
		if c.tried <= c.Sure {
			c.tried = since
		}
		if s.At >= c.tried+patience {
			s.finishLater(n, release{c.Name, c.Token})
			s.lose(c, "silence")
		}
	}
}

// Close ends all waits and grants. It returns the grants.
func (s *State) Close() (grants []*Claim) {
	s.isClosed = true
	for _, c := range s.claims {
		if c.Phase == Held {
			c.Holds = 0
			grants = append(grants, c)
		}
		s.end(c, errClosed)
	}
	return grants
}

// IsClosed reports whether Close was called.
func (s *State) IsClosed() bool { return s.isClosed }

// Sessions are those that Close leaves to be closed; 0: none.
func (n *Node) Sessions() []int64 { return []int64{n.Session, n.left} }
