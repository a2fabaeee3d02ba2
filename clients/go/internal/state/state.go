package state

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"
)

// State is what is known of all servers: waits, grants, calls under way and unfinished releases.
type State struct {
	At        Time     // of this call: the caller sets it, each time later
	Changed   []*Claim // their callers have to look again
	Elsewhere []*Claim // grants that another node of the cluster may have: to be found
	Misplaced [][]any  // releases that belong to another node of the cluster

	lease, reply time.Duration
	isCluster    bool
	isClosed     bool

	claims     map[Name]*Claim // waits, and grants that are held
	asked      int             // waits so far
	unfinished map[release]unfinished
	calls      map[int]Name // calls under way
	lastCall   int
	losses     map[release]loss
}

type (
	// release names a grant; without a token, all that its owner has, a wait too.
	release struct {
		Name
		token int64
	}
	unfinished struct {
		node  *Node
		words []any
	}
	loss struct {
		reason string
		call   int // the last one then under way
	}
)

// New makes a State. lease is that of the sessions, reply how long a reply may take.
func New(lease, reply time.Duration, isCluster bool) *State {
	return &State{lease: lease, reply: reply, isCluster: isCluster, claims: map[Name]*Claim{},
		unfinished: map[release]unfinished{}, calls: map[int]Name{}, losses: map[release]loss{}}
}

// BeginCall registers a call before it is sent. An owner is not used again while a call in its name is unanswered.
func (s *State) BeginCall(name Name) int {
	s.lastCall++
	s.calls[s.lastCall] = name
	return s.lastCall
}

// EndCall follows the application of the reply.
func (s *State) EndCall(call int) {
	delete(s.calls, call)
	if len(s.losses) == 0 {
		return
	}
	first := s.lastCall + 1
	for call := range s.calls {
		first = min(first, call)
	}
	for of, loss := range s.losses {
		if loss.call < first { // no later reply can name it
			delete(s.losses, of)
		}
	}
}

func (s *State) isCalled(name Name) bool {
	return slices.Contains(slices.Collect(maps.Values(s.calls)), name)
}

// UsableOwner returns the owner that the task may use for another call; empty: it needs a fresh one.
func (s *State) UsableOwner(task *Task) string {
	names := slices.Collect(maps.Values(s.calls))
	for of := range s.unfinished {
		names = append(names, of.Name)
	}
	if slices.ContainsFunc(names, func(name Name) bool { return name.Owner == task.Owner }) {
		task.Owner = ""
	}
	return task.Owner
}

// Ask registers a wait before its call is sent: its event may arrive before its reply.
func (s *State) Ask(wait *Claim) *Error {
	if s.isClosed {
		return &Error{Kind: ErrClosed}
	}
	if s.claims[wait.Name] != nil {
		return Fail(ErrMisuse, "this owner waits for the lock, or has it, already")
	}
	s.asked++
	wait.order = s.asked
	s.claims[wait.Name] = wait
	return nil
}

var noAnswer = &Fault{Err: errors.New("no answer in time")}

// NextStep returns what the caller of an acquire does next: it is done, sends the ACQUIRE, waits to be woken, or fails.
func (s *State) NextStep(wait *Claim) (done, send bool, rest time.Duration, err *Error) {
	n := wait.Node
	switch {
	case wait.Phase == Over:
		return false, false, 0, wait.failure
	case wait.Phase == Lost || wait.Phase == Released:
		return false, false, 0, s.RequireHeld(wait)
	case wait.Phase == Held && s.Sure(wait) > s.At:
		wait.HandedOver = !wait.Fixed // else when it has left the session
		return true, false, 0, nil
	case wait.Phase == Held:
		return false, false, 5 * time.Millisecond, nil // the next POLL makes it sure
	case n.Session == 0 && n.fault.Lasting():
		return false, false, 0, n.fault.Failure(n.Address)
	}
	end := wait.Last
	if wait.Phase == Asked {
		end = wait.AskedEnd
	}
	switch {
	case s.At >= end && wait.Phase == InLine && wait.Session == n.Session:
		return false, false, 0, Fail(ErrBusy, "the time to wait is over")
	case s.At >= end:
		return false, false, 0, cmp.Or(wait.cause, n.fault, noAnswer).Failure(n.Address)
	case wait.Phase == InLine, n.Session == 0:
		return false, false, end - s.At, nil
	}
	wait.open++
	return false, true, 0, nil
}

// Answered applies the reply to an ACQUIRE that was sent at this time to this server, in this session.
func (s *State) Answered(wait *Claim, n *Node, session int64, sent Time, reply Reply) {
	if reply.Fault.NoReply() {
		wait.renounceOwner()
	} else {
		wait.open--
	}
	token, lease, isGrant := reply.grant()
	switch {
	case reply.Fault.Lasting():
		s.endWait(wait, reply.Fault.Failure(n.Address))
	case reply.Fault != nil:
		wait.cause = reply.Fault
		if reply.Fault.Word == "NOSESSION" && session == n.Session {
			s.SessionEnded(n)
		}
		if reply.Fault.Redirects() && wait.Phase == InLine && wait.Session != n.Session { // its place has gone
			s.set(wait, Asked, nil)
		}
	case isGrant:
		if !s.granted(n, wait.Name, token, session, sent+lease) {
			s.finishLater(n, release{wait.Name, token})
		}
	case reply.Value == nil:
		s.endWait(wait, Fail(ErrBusy, "it is not free"))
	case wait.isWaiting():
		if n == wait.Node && session == n.Session {
			wait.Phase, wait.Session = InLine, session
		}
	case wait.Phase != Held:
		s.finishLater(n, release{wait.Name, 0})
	}
}

// GiveUp forgets a wait. It returns true if the server may know it: then its cancel is sent, for CancelAnswered.
func (s *State) GiveUp(wait *Claim) (isKnown bool) {
	isKnown = wait.open > 0 || wait.Phase == InLine || wait.Phase == Held
	if wait.Phase != Lost && wait.Phase != Released {
		s.forget(wait)
		wait.Phase = Over
	}
	if isKnown {
		s.finishLater(wait.Node, release{wait.Name, 0})
		wait.renounceOwner() // an event of this wait may arrive after the cancel
	}
	return isKnown
}

// CancelAnswered applies the reply to the cancel of a wait that was given up.
func (s *State) CancelAnswered(wait *Claim, reply Reply) {
	s.finished(release{wait.Name, 0}, reply)
}

// finishLater has the loop repeat a release, by default of all holds and without the session.
func (s *State) finishLater(n *Node, of release, words ...any) {
	if len(words) == 0 {
		words = []any{"LOCK.RELEASE", of.Key, of.Owner, "ALL"}
		if of.token != 0 {
			words = append(words, "TOKEN", of.token)
		}
	}
	s.unfinished[of] = unfinished{n, words}
}

// finished applies the reply to an unfinished release.
func (s *State) finished(of release, reply Reply) {
	if how := s.unfinished[of]; how.node != nil && !reply.Fault.Passing() {
		delete(s.unfinished, of)
		how.node.leaving = how.node.leaving || of.token != 0 && reply.Fault.Lasting() && !reply.Fault.Gone()
	}
}

func (s *State) endWait(wait *Claim, failure *Error) {
	if wait.isWaiting() {
		s.forget(wait)
		s.set(wait, Over, failure)
	}
}

func (s *State) set(wait *Claim, phase Phase, failure *Error) {
	wait.Phase, wait.Session, wait.failure = phase, 0, failure
	s.Changed = append(s.Changed, wait)
}

func (s *State) forget(c *Claim) {
	if s.claims[c.Name] == c {
		delete(s.claims, c.Name)
		delete(c.Node.grants, c)
	}
}

// granted applies a grant. It returns false if the grant has to be given back.
func (s *State) granted(n *Node, name Name, token, session int64, till Time) bool {
	c := s.claims[name]
	if _, isLost := s.losses[release{name, token}]; isLost { // its loss was reported before: it is no grant
		if c != nil && c.isWaiting() {
			s.set(c, Asked, nil)
		}
		return true
	}
	switch {
	case c == nil:
		return false
	case c.Phase != Held || token > c.Token && !c.HandedOver:
		delete(c.Node.grants, c)
		c.Phase, c.Node, c.Token, c.Session, c.sure, c.from = Held, n, token, session, till, s.At
		n.grants[c] = true
		n.soonest = min(n.soonest, till)
	case token > c.Token:
		return false // the user counts on the earlier one
	case token < c.Token || c.Session == 0 || c.Node != n:
		return true // an earlier grant, or one that has left the session since
	default:
		c.sure, c.Session, c.from = max(s.Sure(c), till), session, max(c.from, s.At)
	}
	n.outside = n.outside || session != n.Session
	s.Changed = append(s.Changed, c)
	return true
}
