package state

import (
	"cmp"
	"errors"
	"maps"
	"time"
)

// State is what is known of all servers: waits, grants, calls under way and unfinished releases.
type State struct {
	At      Time     // of this call: the caller sets it, each time later
	Changed []*Claim // their callers have to look again

	lease, reply time.Duration
	isCluster    bool
	isClosed     bool

	claims     map[Name]*Claim    // waits, and grants that are held
	calls      map[Name]int       // under way
	losses     map[release]string // that were reported while calls in the name are under way, and why: replies may name them
	unfinished map[release]unfinished
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
)

// New makes a State. lease is that of the sessions, reply how long a reply may take.
func New(lease, reply time.Duration, isCluster bool) *State {
	return &State{lease: lease, reply: reply, isCluster: isCluster, claims: map[Name]*Claim{}, calls: map[Name]int{},
		losses: map[release]string{}, unfinished: map[release]unfinished{}}
}

// BeginCall registers a call before it is sent. An owner is not used again while a call in its name is unanswered.
func (s *State) BeginCall(name Name) { s.calls[name]++ }

// EndCall ends a call, after its reply was applied.
func (s *State) EndCall(name Name) {
	if s.calls[name]--; s.calls[name] == 0 {
		delete(s.calls, name)
		maps.DeleteFunc(s.losses, func(of release, _ string) bool { return of.Name == name })
	}
}

// Kept is how much is remembered of claims, calls and releases.
func (s *State) Kept() int {
	return len(s.claims) + len(s.calls) + len(s.losses) + len(s.unfinished)
}

var (
	errClosed   = &Fault{Kind: ErrClosed}
	errReleased = Fail(ErrMisuse, "it was released already")
)

// Ask registers a wait before its call is sent: its event may arrive before its reply. Its owner is fresh, unless its task
// has one that it may use again.
func (s *State) Ask(c *Claim) *Fault {
	if c.Task != nil {
		c.Owner = cmp.Or(s.usableOwner(c.Task), c.Owner)
		c.Task.Owner = c.Owner
	}
	wait := c.Wait
	if wait < 0 || wait > tenYears {
		wait = far - s.At - s.reply
	}
	asking := max(wait, s.reply)
	c.Holds, c.Limit, c.began, c.end = 1, min(s.reply, asking/2), s.At, s.At+wait
	c.AskedEnd, c.Last = s.At+asking, s.At+wait+s.reply
	switch {
	case s.isClosed:
		return errClosed
	case s.claims[c.Name] != nil:
		return Fail(ErrMisuse, "this owner already waits for the lock or holds it")
	}
	s.claims[c.Name] = c
	return nil
}

// usableOwner returns the owner of a task, unless a call in its name is unanswered.
func (s *State) usableOwner(task *Task) string {
	for name := range s.calls {
		if name.Owner == task.Owner {
			return ""
		}
	}
	for of := range s.unfinished {
		if of.Owner == task.Owner {
			return ""
		}
	}
	return task.Owner
}

// NextStep returns what the caller of an acquire does next: it is done, sends the ACQUIRE, waits to be woken, or fails.
func (s *State) NextStep(wait *Claim) (done, send bool, rest time.Duration, failure *Fault) {
	n, end := wait.Node, wait.Last
	if wait.Phase == Asked {
		end = wait.AskedEnd
	}
	switch {
	case wait.Phase == Ended:
		return false, false, 0, wait.Failure
	case wait.Phase == Held && wait.Sure > s.At:
		if wait.Task != nil {
			wait.Task.Held[wait.Key] = wait
		}
		wait.Taken, wait.HandedOver = s.At, !wait.Fixed // else when it has left the session
		return true, false, 0, nil
	case wait.Phase == Held:
		return false, false, 5 * time.Millisecond, nil // the next POLL makes it sure
	case n.Session == 0 && n.fault.Lasting():
		return false, false, 0, n.fault
	case s.At >= end && wait.Phase == InLine && wait.Session == n.Session:
		return false, false, 0, Fail(ErrBusy, "the time to wait is over")
	case s.At >= end:
		return false, false, 0, cmp.Or(wait.Failure, n.fault, NoReply(n.Address, errors.New("no answer in time"), false))
	}
	send = wait.Phase == Asked && n.Session != 0
	return false, send, end - s.At, nil
}

// Answered applies the reply to an ACQUIRE that was sent in this session.
func (s *State) Answered(wait *Claim, session int64, reply Reply) {
	n, fault := reply.From, reply.Fault
	if fault.NoReply() {
		wait.isOpen = true
		wait.renounceOwner()
	}
	token, lease, isGrant := reply.grant()
	switch {
	case fault.Lasting():
		s.endWait(wait, fault)
	case fault != nil:
		if fault.Word == "NOSESSION" && session == n.Session {
			n.Session = 0
		}
		if fault.Redirects() && wait.Phase == InLine && wait.Session != n.Session {
			s.askAgain(wait) // its place has gone
		}
		if wait.isWaiting() {
			wait.Failure = fault
		}
	case isGrant:
		if !s.granted(n, wait.Name, token, session, reply.Sent+lease) {
			s.finishLater(n, release{wait.Name, token})
		}
	case reply.Value == nil:
		s.endWait(wait, &Fault{Kind: ErrBusy})
	case wait.isWaiting():
		if n == wait.Node && session == n.Session && reply.Sent > wait.ended { // else the place has gone already
			wait.Phase, wait.Session = InLine, session
		}
	case wait.Phase != Held:
		s.finishLater(n, release{wait.Name, 0})
	}
}

// GiveUp forgets a wait. It returns true if the server may know it: then its cancel is sent, for CancelAnswered.
func (s *State) GiveUp(wait *Claim) (isKnown bool) {
	isKnown = wait.isOpen || wait.Phase == InLine || wait.Phase == Held
	if wait.Phase != Ended {
		s.end(wait, errReleased)
	}
	if isKnown {
		s.finishLater(wait.Node, release{wait.Name, 0})
		wait.renounceOwner() // an event of this wait may arrive after the cancel
	}
	return isKnown
}

// CancelAnswered applies the reply to the cancel of a wait that was given up.
func (s *State) CancelAnswered(wait *Claim, reply Reply) *Fault {
	s.finished(release{wait.Name, 0}, reply)
	return nil
}

// finishLater has the loop repeat a release, by default of all holds and without the session.
func (s *State) finishLater(n *Node, of release, words ...any) {
	if len(words) == 0 {
		words = of.CancelCommand()
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

// end ends a claim.
func (s *State) end(c *Claim, failure *Fault) {
	c.Phase, c.Failure = Ended, failure
	if s.claims[c.Name] == c {
		delete(s.claims, c.Name)
		delete(c.Node.grants, c)
	}
	if c.Task != nil && c.Task.Held[c.Key] == c {
		delete(c.Task.Held, c.Key)
	}
	s.Changed = append(s.Changed, c)
}

func (s *State) endWait(wait *Claim, failure *Fault) {
	if wait.isWaiting() {
		s.end(wait, failure)
	}
}

// askAgain follows the loss of a place in line.
func (s *State) askAgain(wait *Claim) {
	wait.Phase, wait.Session = Asked, 0
	s.Changed = append(s.Changed, wait)
}

// granted applies a grant. It returns false if the grant has to be given back.
func (s *State) granted(n *Node, name Name, token, session int64, till Time) bool {
	c := s.claims[name]
	switch {
	case s.losses[release{name, token}] != "": // its loss was reported before: it is no grant
		if c != nil && c.isWaiting() {
			s.askAgain(c)
		}
		return true
	case c == nil:
		return false
	case c.Phase != Held || token > c.Token && !c.HandedOver:
		delete(c.Node.grants, c)
		c.Phase, c.Node, c.Token, c.Session, c.Sure, c.from = Held, n, token, session, till, s.At
		n.grants[c] = true
	case token > c.Token:
		return false // the user counts on the earlier one
	case token < c.Token || c.Session == 0 || c.Node != n:
		return true // an earlier grant, or one that has left the session since
	default:
		c.Sure, c.Session, c.from = max(c.Sure, till), session, max(c.from, s.At)
	}
	n.moves = n.moves || session != n.Session
	s.Changed = append(s.Changed, c)
	return true
}
