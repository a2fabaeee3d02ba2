package state

import (
	"errors"
	"fmt"
	"time"
)

// State is what is known of one server: the session, waits, grants, calls under way and unfinished releases.
type State struct {
	At        Time // of this call: the caller sets it
	Session   int64
	Changed   []*Claim // their callers have to look again
	Elsewhere []*Claim // grants that another node of the cluster may have: to be found
	Misplaced [][]any  // releases that belong to another node of the cluster

	server       string
	lease, reply time.Duration
	isCluster    bool

	seen       int64 // the number of the last event that was applied
	waits      map[Name]*Claim
	asked      int             // waits so far
	grants     map[Name]*Claim // that the session renews, or will
	fixed      map[Name]*Claim // grants without a session
	pending    map[*Claim]bool // grants that the user does not have yet
	unfinished map[release]unfinished
	calls      map[int]Name // calls under way
	lastCall   int
	losses     map[int64]loss // by token

	polls    int    // POLLs sent
	sures    []sure // by POLL; each reaches less far than those before it
	soonest  Time   // no grant's time ends before
	outside  bool   // a grant or place may belong to an earlier session
	excess   Time   // since when every reply shows more grants than are known; below 0: it does not
	tries    []Time
	refused  *Fault // the server refuses a session
	leaving  bool
	left     map[int64]Time // sessions left after a refused release, and when
	isClosed bool
}

type (
	// sure is until when a POLL makes grants sure.
	sure struct {
		poll int
		till Time
	}
	// release names an unfinished release: without a token, it cancels a wait too.
	release struct {
		Name
		token int64
	}
	unfinished struct {
		words   []any
		session int64 // when it was begun
		till    Time  // without that session, nothing is left to release then
	}
	loss struct {
		reason string
		call   int // the last one then under way
	}
)

// New makes the State of one server. lease is that of its session, reply how long a reply may take.
func New(server string, lease, reply time.Duration, isCluster bool) *State {
	return &State{server: server, lease: lease, reply: reply, isCluster: isCluster, excess: -1,
		waits: map[Name]*Claim{}, grants: map[Name]*Claim{}, fixed: map[Name]*Claim{}, pending: map[*Claim]bool{},
		unfinished: map[release]unfinished{}, calls: map[int]Name{}, losses: map[int64]loss{}, left: map[int64]Time{}}
}

// IsIdle reports whether nothing depends on the session.
func (s *State) IsIdle() bool {
	return len(s.waits)+len(s.grants)+len(s.unfinished)+len(s.calls)+len(s.left) == 0
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
	for token, loss := range s.losses {
		if loss.call < first { // no later reply can name it
			delete(s.losses, token)
		}
	}
}

// UsableOwner returns the owner that the task may use for another call; empty: it needs a fresh one.
func (s *State) UsableOwner(task *Task) string {
	for _, name := range s.calls {
		if name.Owner == task.Owner {
			task.Owner = ""
		}
	}
	for of := range s.unfinished {
		if of.Owner == task.Owner {
			task.Owner = ""
		}
	}
	return task.Owner
}

func (c *Claim) renounceOwner() {
	if c.Task != nil {
		c.Task.Owner = ""
	}
}

// Ask registers a wait before its call is sent: its event may arrive before its reply.
func (s *State) Ask(wait *Claim) *Failure {
	if s.isClosed {
		return &Failure{ErrClosed, errors.New("the client is closed")}
	}
	if s.waits[wait.Name] != nil || s.find(wait.Name) != nil {
		return Fail(ErrMisuse, "this owner waits for the lock, or has it, already")
	}
	s.asked++
	wait.order = s.asked
	s.waits[wait.Name] = wait
	return nil
}

// Move hands a wait that has no place to the State of another node.
func (s *State) Move(wait *Claim, to *State) {
	if s.waits[wait.Name] != wait {
		return // it has ended, or has been granted
	}
	delete(s.waits, wait.Name)
	if wait.open > 0 || wait.Phase == InLine {
		s.cancelLater(wait)
	}
	wait.Phase, wait.Session, wait.open, wait.noSession = Asked, 0, 0, 0
	to.asked++
	wait.order = to.asked
	to.waits[wait.Name] = wait
}

// NextStep returns what the caller of an acquire does next: it has the grant, sends the ACQUIRE, waits for Wake, or fails.
func (s *State) NextStep(wait *Claim) (done, send bool, rest time.Duration, err *Failure) {
	switch {
	case wait.Phase == Over:
		return false, false, 0, wait.failure
	case wait.Phase == Lost || wait.Phase == Released:
		return false, false, 0, s.RequireHeld(wait)
	case wait.Phase == Held && s.Sure(wait) > s.At:
		if wait.HandedOver = !wait.Fixed || wait.Session == 0; wait.HandedOver { // else after TakenOut
			delete(s.pending, wait)
		}
		return true, false, 0, nil
	case s.Session == 0 && s.refused != nil && wait.NeedsSession():
		return false, false, 0, s.refused.Failure()
	}
	end := wait.last
	if wait.Phase == Asked {
		end = wait.askedEnd
	}
	switch {
	case s.At >= end && wait.Phase == InLine && wait.Session == s.Session:
		return false, false, 0, Fail(ErrBusy, "the time to wait is over")
	case s.At >= end && wait.cause == nil:
		return false, false, 0, s.Unavailable(errors.New("no answer in time"))
	case s.At >= end:
		return false, false, 0, s.Unavailable(wait.cause)
	case wait.Phase != Asked,
		wait.NeedsSession() && (s.Session == 0 || s.Session == wait.noSession):
		return false, false, end - s.At, nil
	}
	wait.open++
	return false, true, 0, nil
}

// Answered applies the reply to an ACQUIRE that was sent at this time in this session.
func (s *State) Answered(wait *Claim, session int64, sent Time, reply Reply) {
	isOurs := s.waits[wait.Name] == wait || s.find(wait.Name) == wait // and not given up, or moved to another node
	if reply.Fault.NoReply() {
		wait.renounceOwner()
	} else if isOurs {
		wait.open--
	}
	granted, isGrant := parseGrant(reply.Value)
	switch {
	case reply.Fault.Lasting():
		s.endWait(wait, reply.Fault.Failure())
	case reply.Fault != nil:
		wait.cause = reply.Fault
		if reply.Fault.Word == "NOSESSION" {
			wait.noSession = session
		}
		if reply.Fault.Word == "MOVED" && wait.Phase == InLine && wait.Session != s.Session {
			s.set(wait, Asked, nil) // its place is gone, and its caller knows where to ask
		}
	case isGrant:
		if !s.granted(wait.Name, granted.token, session, sent+granted.lease) {
			s.finishLater(release{wait.Name, granted.token}, []any{"ALL"}, wait.Lease)
		}
	case reply.Value == nil:
		s.endWait(wait, Fail(ErrBusy, "it is not free"))
	case s.waits[wait.Name] == wait:
		if session == s.Session {
			wait.Phase, wait.Session = InLine, session
		} else {
			s.outside = true
		}
	case !isOurs:
		s.cancelLater(wait)
	}
}

// GiveUp forgets a wait. It returns true if the server may know it: then its cancel is sent, and applied by Finished.
func (s *State) GiveUp(wait *Claim) (isKnown bool) {
	isKnown = wait.open > 0 || wait.Phase == InLine || wait.Phase == Held || s.isClosed && wait.Fixed
	if s.waits[wait.Name] == wait {
		delete(s.waits, wait.Name)
	}
	if wait.Phase == Held {
		s.forget(wait)
	}
	if wait.Phase != Lost && wait.Phase != Released {
		wait.Phase = Over
	}
	if isKnown {
		s.cancelLater(wait)
		wait.renounceOwner() // an event of this wait may arrive after the cancel
	}
	return isKnown
}

func (s *State) cancelLater(wait *Claim) {
	s.finishLater(release{wait.Name, 0}, []any{"ALL"}, wait.Lease)
}

func (s *State) finishLater(of release, words []any, lease time.Duration) {
	s.unfinished[of] = unfinished{words, s.Session, s.At + max(lease, second) + s.reply}
}

// CancelAnswered applies the reply to the cancel of a wait that was given up.
func (s *State) CancelAnswered(wait *Claim, reply Reply) {
	s.finished(release{wait.Name, 0}, reply)
}

func (s *State) endWait(wait *Claim, failure *Failure) {
	if s.waits[wait.Name] == wait {
		delete(s.waits, wait.Name)
		s.set(wait, Over, failure)
	}
}

func (s *State) set(wait *Claim, phase Phase, failure *Failure) {
	wait.Phase, wait.Session, wait.failure = phase, 0, failure
	s.Changed = append(s.Changed, wait)
}

// granted applies a grant. It returns false if the grant has to be given back.
func (s *State) granted(name Name, token, session int64, till Time) bool {
	wait := s.waits[name]
	if _, isLost := s.losses[token]; isLost { // its loss was reported before: it is no grant
		if wait != nil {
			s.set(wait, Asked, nil)
		}
		return true
	}
	c := s.find(name)
	switch {
	case c == nil && wait == nil:
		return false
	case c == nil:
		c = wait
		delete(s.waits, name)
	case token < c.Token:
		return true // an earlier grant, reported late
	case token == c.Token && s.fixed[name] == c:
		return true // it has left the session since
	case token == c.Token:
		c.sure = max(s.Sure(c), till)
		if session != c.Session {
			c.Session, c.joined, s.outside = session, s.polls, true
		}
		s.Changed = append(s.Changed, c)
		return true
	case c.HandedOver:
		return false // the user counts on the earlier one
	}
	c.Phase, c.Token, c.Session, c.sure, c.joined = Held, token, session, till, s.polls
	if session == 0 {
		s.fixed[name] = c
	} else {
		s.grants[name] = c
		s.outside = s.outside || session != s.Session
		s.soonest = min(s.soonest, till)
	}
	s.pending[c] = true
	s.Changed = append(s.Changed, c)
	return true
}

// Unavailable is the failure of a call whose time is over. Its cause names the server.
func (s *State) Unavailable(cause error) *Failure {
	return &Failure{ErrUnavailable, fmt.Errorf("%s: %w", s.server, cause)}
}
