package state

import (
	"slices"
	"time"
)

// Phase is how far a Claim has come.
type Phase int

// The phases. A wait is Asked, then maybe InLine. A grant that is Held and whose time has passed is unsure. A claim
// that has Ended has a Failure: why there is no grant, or why it is no longer held.
const (
	Asked Phase = iota
	InLine
	Held
	Ended
)

// Name identifies a claim: no two claims of a client have the same key and owner.
type Name struct{ Key, Owner string }

// Task is one owner for several locks. An empty Owner means that the next acquire uses a fresh one.
type Task struct {
	Owner string
	Held  map[string]*Claim // by the key
}

// Claim is one acquire: first a wait, then a grant, then its release.
type Claim struct {
	Name
	Mode    []any         // the words SHARED or LIMIT n
	Lease   time.Duration // of the grant
	Longest time.Duration // of the grant, which ends then; 0: without a limit
	Wait    time.Duration // 0: it does not wait; below 0: without a limit
	Fixed   bool          // the lease is not renewed: the grant leaves the session before the user has it
	Adopted int64         // the token of a grant to adopt, instead of a new one
	Task    *Task
	Caller  any // who asks

	Node       *Node // the server that has the lock
	Phase      Phase
	Session    int64 // of the place, or of the grant; 0: none
	Token      int64
	Holds      int64
	Sure       Time          // until when nobody else has the lock
	Doubt      string        // another node may have the grant: the reason of its loss if not
	HandedOver bool          // the user has the grant
	Failure    *Fault        // of the last try to acquire, or of the end
	Limit      time.Duration // of one try
	AskedEnd   Time          // of asking without a reply
	Last       Time          // when the caller gives up at the latest
	Taken      Time          // when the user got the grant

	began  Time // orders the waits
	end    Time // of the caller's time
	ended  Time // of its last place, if its session has reported that with a passing error
	isOpen bool // an acquire had no reply, so the server may still carry it out
	from   Time // no POLL sent before makes the grant sure
	tried  Time // since when the server has not answered after Sure
}

// AcquireCommand asks for the lock. HOLDS 1 makes it safe to repeat.
func (c *Claim) AcquireCommand(session int64, at Time) []any {
	lease := Milliseconds(c.Lease)
	if c.Fixed {
		lease = max(lease, 1000) // the least in a session, which it leaves
	}
	if c.Adopted != 0 {
		return []any{"LOCK.RENEW", c.Key, c.Owner, "PX", lease, "SESSION", session, "TOKEN", c.Adopted}
	}
	command := append(make([]any, 0, 13), "LOCK.ACQUIRE", c.Key, c.Owner)
	command = append(append(command, c.Mode...), "PX", lease, "HOLDS", 1, "SESSION", session)
	switch {
	case c.end == c.began:
		return command
	case c.Last == far:
		return append(command, "QUEUE", 0)
	}
	return append(command, "QUEUE", max(1, Milliseconds(c.end-at)))
}

// EnterCommand adds a hold.
func (c *Claim) EnterCommand(mode []any) []any {
	return slices.Concat([]any{"LOCK.ACQUIRE", c.Key, c.Owner}, mode,
		[]any{"PX", Milliseconds(c.Lease), "HOLDS", c.Holds + 1, "TOKEN", c.Token})
}

// ReleaseCommand is the user's own release. It alone names the session, so that the server reports no loss.
func (c *Claim) ReleaseCommand() []any {
	command := append(make([]any, 0, 9), "LOCK.RELEASE", c.Key, c.Owner, "HOLDS", c.Holds, "TOKEN", c.Token)
	if c.Session != 0 {
		command = append(command, "SESSION", c.Session)
	}
	return command
}

// RenewCommand renews the grant with its lease, wherever it is; options may move it to a session.
func (c *Claim) RenewCommand(options ...any) []any {
	return append([]any{"LOCK.RENEW", c.Key, c.Owner, "TOKEN", c.Token}, options...)
}

// CancelCommand makes sure that the owner neither holds the lock nor waits for it.
func (n Name) CancelCommand() []any { return []any{"LOCK.RELEASE", n.Key, n.Owner, "ALL"} }

func (c *Claim) isWaiting() bool { return c.Phase == Asked || c.Phase == InLine }

func (c *Claim) renounceOwner() {
	if c.Task != nil {
		c.Task.Owner = ""
	}
}
