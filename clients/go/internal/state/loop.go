package state

import (
	"cmp"
	"slices"
	"time"
)

// Due is a command that is sent before a POLL, and what its reply, to a sending at this time, changes.
type Due struct {
	Command []any
	Apply   func(sent Time, reply Reply)
}

// Opened begins a session.
func (s *State) Opened(session int64) {
	s.Session, s.seen, s.excess, s.refused, s.outside = session, 0, -1, nil, true
	for _, wait := range s.waits {
		s.Changed = append(s.Changed, wait)
	}
}

// Ended forgets the session. The leases of its grants run on.
func (s *State) Ended() {
	for _, c := range s.grants {
		c.sure = s.Sure(c)
	}
	s.Session, s.sures = 0, nil
}

// LeaveSession leaves a session with a grant whose release was refused, so that it is not renewed for ever.
func (s *State) LeaveSession() {
	if s.leaving && s.Session != 0 {
		s.left[s.Session] = s.At
		s.Ended()
	}
	s.leaving = false
}

// Due returns what is due before a POLL of the session, in the order of sending.
func (s *State) Due() (due []Due) {
	session := s.Session
	if s.outside {
		s.outside = false
		for _, c := range s.grants {
			if c.Session != session && c.doubt == "" && !c.Fixed {
				command := []any{"LOCK.RENEW", c.Key, c.Owner, "SESSION", session, "TOKEN", c.Token}
				changes := c.changes
				due = append(due, Due{command, func(sent Time, reply Reply) { s.moved(c, session, changes, sent, reply) }})
			}
		}
		due = append(due, s.queueAgain(session)...)
	}
	for of, how := range s.unfinished {
		if how.session != session && s.At > how.till {
			delete(s.unfinished, of)
			continue
		}
		command := append([]any{"LOCK.RELEASE", of.Key, of.Owner}, how.words...)
		if of.token != 0 {
			command = append(command, "TOKEN", of.token)
		}
		due = append(due, Due{command, func(_ Time, reply Reply) {
			if reply.Fault != nil && reply.Fault.Word == "MOVED" {
				delete(s.unfinished, of)
				s.Misplaced = append(s.Misplaced, command)
				return
			}
			s.finished(of, reply)
		}})
	}
	if s.excess >= 0 && s.At > s.excess+s.lease {
		called := map[Name]bool{}
		for _, name := range s.calls {
			called[name] = true
		}
		due = append(due, Due{[]any{"LOCK.SESSION", "GRANTS", session}, func(_ Time, reply Reply) { s.listed(called, reply) }})
	}
	for old, since := range s.left {
		if s.At > since+2*s.reply && !s.hasGrantIn(old) {
			due = append(due, Due{[]any{"LOCK.SESSION", "CLOSE", old}, func(_ Time, reply Reply) {
				if reply.Fault == nil || reply.Fault.Lasting() || reply.Fault.Word == "NOSESSION" {
					delete(s.left, old)
				}
			}})
		}
	}
	return due
}

// queueAgain asks for the places that went with an earlier session, in the order of their asking.
func (s *State) queueAgain(session int64) (due []Due) {
	var waits []*Claim
	for _, wait := range s.waits {
		if wait.Phase == InLine && wait.Session != session && wait.end > s.At {
			waits = append(waits, wait)
		}
	}
	slices.SortFunc(waits, func(a, b *Claim) int { return cmp.Compare(a.order, b.order) })
	for _, wait := range waits {
		call := s.BeginCall(wait.Name)
		wait.open++
		due = append(due, Due{wait.AcquireCommand(session, s.At), func(sent Time, reply Reply) {
			s.Answered(wait, session, sent, reply)
			s.outside = s.outside || reply.Fault != nil
			s.EndCall(call)
		}})
	}
	return due
}

func (s *State) hasGrantIn(session int64) bool {
	for _, c := range s.grants {
		if c.Session == session {
			return true
		}
	}
	return false
}

// moved applies the reply to the RENEW of a grant that is not in this session.
func (s *State) moved(c *Claim, session int64, changes int, sent Time, reply Reply) {
	granted, ok := parseGrant(reply.Value)
	switch {
	case s.grants[c.Name] != c:
	case ok:
		if changes == c.changes {
			c.sure = max(s.Sure(c), sent+granted.lease)
		}
		c.Session, c.joined = session, s.polls
	case reply.Fault.Gone():
		s.lose(c, s.reason(c, reply.Fault))
	case s.isCluster && (reply.Fault.Word == "MOVED" || reply.Fault.Word == "ASK"):
		s.doubtful(c, "moved")
	default:
		s.outside = true
	}
}

// finished applies the reply to an unfinished release.
func (s *State) finished(of release, reply Reply) {
	if reply.Fault.Passing() {
		return
	}
	delete(s.unfinished, of)
	s.leaving = s.leaving || of.token != 0 && reply.Fault.Lasting() && !reply.Fault.Gone()
}

// listed releases the grants of the session that nobody knows.
func (s *State) listed(calledBefore map[Name]bool, reply Reply) {
	s.excess = -1
	for _, row := range list(reply.Value) {
		parts := Fields(row)
		name, token := Name{text(parts["key"]), text(parts["owner"])}, number(parts["token"])
		isCalled := calledBefore[name]
		for _, called := range s.calls {
			isCalled = isCalled || called == name
		}
		of := release{name, token}
		if _, isBegun := s.unfinished[of]; !isCalled && !isBegun && s.find(name) == nil && s.waits[name] == nil {
			s.finishLater(of, []any{"ALL"}, s.lease)
		}
	}
}

// BeginPoll returns the number of a POLL that is sent now, and how long it may block.
func (s *State) BeginPoll() (poll int, block time.Duration) {
	s.polls++
	if s.IsUnsure() {
		return s.polls, 100 * time.Millisecond
	}
	return s.polls, s.lease / 3
}

// IsUnsure reports whether the time of a grant has passed, so that the next reply decides.
func (s *State) IsUnsure() bool {
	if s.At >= s.soonest {
		s.soonest = far
		for _, c := range s.grants {
			s.soonest = min(s.soonest, s.Sure(c))
		}
	}
	return s.At >= s.soonest
}

// Polled applies the reply to a POLL that was sent at this time.
func (s *State) Polled(poll int, sent Time, value any) {
	parts := Fields(value)
	till := sent + s.lease
	if ms := number(parts["sure-ms"]); ms >= 0 {
		till = sent + milliseconds(ms)
	}
	strays := map[release]bool{}
	for _, event := range list(parts["events"]) {
		s.event(list(event), till, strays)
	}
	for of := range strays {
		s.finishLater(of, []any{"ALL"}, s.lease)
	}
	for n := len(s.sures); n > 0 && s.sures[n-1].till <= till; n-- {
		s.sures = s.sures[:n-1]
	}
	s.sures = append(s.sures, sure{poll, till})
	for c := range s.pending {
		s.Changed = append(s.Changed, c)
	}
	if number(parts["grants"]) <= int64(len(s.grants)+len(s.unfinished)) {
		s.excess = -1
	} else if s.excess < 0 {
		s.excess = sent
	}
	s.refused, s.tries = nil, nil
	s.silent(sent)
}

// event applies one event. strays are the grants of waits that were given up.
func (s *State) event(event []any, till Time, strays map[release]bool) {
	if len(event) < 5 || number(event[0]) <= s.seen {
		return // answered before
	}
	s.seen = number(event[0])
	name := Name{text(event[2]), text(event[3])}
	switch kind := text(event[1]); kind {
	case "granted":
		token := number(event[4])
		if !s.granted(name, token, s.Session, till) && !s.isCalled(name) {
			strays[release{name, token}] = true
		}
	case "ended":
		if wait := s.waits[name]; wait != nil {
			s.ended(wait, text(event[4]))
		}
	case "lost", "taken":
		c, token, reason := s.find(name), number(event[4]), kind
		isKnown := c != nil && c.Token == token
		if isKnown && c.Fixed && kind == "taken" && len(event) > 5 && number(event[5]) == 0 {
			return // by this client: see TakenOut
		}
		if kind == "lost" && len(event) > 5 {
			reason = text(event[5])
		}
		if len(s.calls) > 0 {
			s.losses[token] = loss{reason, s.lastCall}
		}
		delete(strays, release{name, token})
		switch {
		case !isKnown || c.doubt != "":
		case s.isCluster && reason == "deleted":
			s.doubtful(c, reason)
		default:
			s.lose(c, reason)
		}
	}
}

func (s *State) isCalled(name Name) bool {
	for _, called := range s.calls {
		if called == name {
			return true
		}
	}
	return false
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
		s.endWait(wait, fault.Failure())
	}
}

// Failed applies a try to connect or to poll that began at this time and failed. One that failed at once counts only
// after a reply timeout of tries.
func (s *State) Failed(began Time, fault *Fault) {
	s.tries = append(s.tries, began)
	for len(s.tries) > 0 && s.At >= s.tries[0]+s.reply {
		s.silent(s.tries[0])
		s.tries = s.tries[1:]
	}
	s.refused = nil
	if fault.Lasting() {
		s.refused = fault
	}
	for _, wait := range s.waits {
		if s.Session == 0 {
			wait.cause = fault
		}
		if s.refused != nil {
			s.Changed = append(s.Changed, wait)
		}
	}
}

// silent ends the grants that a POLL or connect which began then has not made sure again.
func (s *State) silent(since Time) {
	if since <= s.soonest {
		return
	}
	s.soonest = far
	for _, c := range s.grants {
		till := s.Sure(c)
		if till < since && c.doubt == "" {
			s.finishLater(release{c.Name, c.Token}, []any{"ALL"}, c.Lease)
			s.lose(c, "silence")
		} else {
			s.soonest = min(s.soonest, till)
		}
	}
}

// Close ends all waits and grants. It returns the sessions to close, and the grants.
func (s *State) Close() (sessions []int64, grants []*Claim) {
	s.isClosed = true
	for _, wait := range s.waits {
		s.endWait(wait, Fail(ErrClosed, "the client is closed"))
	}
	for _, all := range []map[Name]*Claim{s.grants, s.fixed} {
		for _, c := range all {
			s.forget(c)
			c.Phase, c.Holds = Released, 0
			s.Changed = append(s.Changed, c)
			grants = append(grants, c)
		}
	}
	if s.Session != 0 {
		sessions = append(sessions, s.Session)
	}
	for session := range s.left {
		sessions = append(sessions, session)
	}
	return sessions, grants
}
