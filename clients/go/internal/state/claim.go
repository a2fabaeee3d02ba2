package state

import "time"

// Phase is how far a Claim has come.
type Phase int

// The phases. A wait is Asked, InLine or Over (ended without a grant); a grant is Held, Lost or Released. A grant that
// is Held and whose time has passed is unsure.
const (
	Asked Phase = iota
	InLine
	Over
	Held
	Lost
	Released
)

// Name identifies a claim: no two claims of a client have the same key and owner.
type Name struct{ Key, Owner string }

// Task is one owner for several locks. An empty Owner means that the next acquire uses a fresh one.
type Task struct{ Owner string }

// Claim is one acquire: first a wait, then a grant.
type Claim struct {
	Name
	Mode   []any         // the words SHARED or LIMIT n
	Lease  time.Duration // of the grant
	Fixed  bool          // the lease is not renewed: the grant belongs to no session
	Task   *Task
	Caller any // who asks

	Phase      Phase
	Session    int64 // of the place, or of the grant; 0: none
	Token      int64
	Holds      int64
	Reason     string        // of the loss
	HandedOver bool          // the user has the grant
	Limit      time.Duration // of one try

	queues   bool
	end      Time // of the caller's time
	askedEnd Time // of asking without a reply
	last     Time // of waiting in line
	order    int  // among the waits of its State

	sure       Time   // see State.Sure
	joined     int    // the last POLL that was sent before the grant was known: it does not count
	changes    int    // of the lease
	shortening bool   // a RENEW that shortens the lease is unanswered: no POLL counts
	doubt      string // another cluster node may have it: the reason of its loss if not; or "moved"
	open       int    // acquires without a reply, which the server may still carry out
	failure    *Failure
	cause      *Fault
	noSession  int64 // the session that the server did not know
}

// NewClaim makes a claim that waits for this long from now on. 0: it does not wait; below 0: without a limit.
func NewClaim(name Name, mode []any, lease, wait, reply time.Duration, at Time) *Claim {
	c := &Claim{Name: name, Mode: mode, Lease: lease, Holds: 1, queues: wait != 0}
	if wait < 0 || wait > far-at-reply {
		wait = far - at - reply
	}
	asking := max(wait, reply)
	c.end, c.askedEnd, c.last = at+wait, at+asking, at+wait+reply
	c.Limit = min(reply, asking/2)
	return c
}

// Last is when the caller gives up at the latest.
func (c *Claim) Last() Time { return c.last }

// NeedsSession reports whether the ACQUIRE names a session.
func (c *Claim) NeedsSession() bool { return !c.Fixed || c.queues }

// AcquireCommand asks for the lock. HOLDS 1 makes it safe to repeat.
func (c *Claim) AcquireCommand(session int64, at Time) []any {
	lease := c.Lease
	if session != 0 {
		lease = max(lease, second) // the least that the server renews
	}
	command := append([]any{"LOCK.ACQUIRE", c.Key, c.Owner}, c.Mode...)
	command = append(command, "PX", Milliseconds(lease), "HOLDS", 1)
	if session != 0 {
		command = append(command, "SESSION", session)
	}
	switch {
	case !c.queues:
	case c.last == far:
		command = append(command, "QUEUE", 0)
	default:
		command = append(command, "QUEUE", max(1, min(c.end-at, tenYears).Milliseconds()))
	}
	return command
}

// ReleaseCommand is the user's own release. It alone names the session, so that the server reports no loss.
func (c *Claim) ReleaseCommand() []any {
	command := []any{"LOCK.RELEASE", c.Key, c.Owner, "HOLDS", c.Holds}
	if c.Session != 0 {
		command = append(command, "SESSION", c.Session)
	}
	return append(command, "TOKEN", c.Token)
}

// CancelCommand makes sure that the owner neither holds the lock nor waits for it.
func (c *Claim) CancelCommand() []any { return []any{"LOCK.RELEASE", c.Key, c.Owner, "ALL"} }

// lostFailure is what a lost grant is to its user.
func (c *Claim) lostFailure() *Failure { return Fail(ErrLost, c.Reason) }

// grant is the reply of ACQUIRE and RENEW.
type grant struct {
	token, holds int64
	lease        time.Duration
}

func parseGrant(value any) (g grant, ok bool) {
	parts := list(value)
	if len(parts) < 4 {
		return g, false
	}
	return grant{number(parts[0]), number(parts[2]), milliseconds(number(parts[3]))}, true
}
