// Package state holds what a client of redis-lock knows, and the rules by which it changes: sessions, waits, grants,
// calls under way, and releases that are not finished. It has no I/O, goroutines, timers or clock: replies and events
// go in with the time, and the commands to send come out. Its callers hold a mutex.
package state

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// The kinds of a Fault.
var (
	ErrBusy        = errors.New("other owners hold the lock or wait for it")
	ErrLost        = errors.New("the lock was lost")
	ErrDeadlock    = errors.New("waiting would create a deadlock cycle: release another lock first")
	ErrNotAlone    = errors.New("the lock has more holders than this call allows: release it first")
	ErrRefused     = errors.New("the server refused the call")
	ErrUnavailable = errors.New("the server did not answer in time")
	ErrMisuse      = errors.New("misuse")
	ErrClosed      = fmt.Errorf("the client is closed: %w", ErrMisuse)
	ErrAhead       = errors.New("its clock is behind that of another server")
)

// Fault is why a call failed: an error reply, a reply that did not come, or what the client knows by itself.
type Fault struct {
	Kind error  // one of the above; nil if the caller's context has ended the call
	Word string // the first word of an error reply; empty without a reply
	Sent bool   // without a reply: the server may have received the call, or may yet
	Err  error  // what the server, the network or the context said. It names the server
}

func (f *Fault) Error() string { return cmp.Or(f.Err, f.Kind).Error() }

// Unwrap returns what was said.
func (f *Fault) Unwrap() error { return f.Err }

// Fail makes a Fault that no server has caused.
func Fail(kind error, cause string) *Fault { return &Fault{Kind: kind, Err: errors.New(cause)} }

// NoReply makes the Fault of a call without a reply.
func NoReply(server string, cause error, isSent bool) *Fault {
	return &Fault{Kind: ErrUnavailable, Sent: isSent, Err: fmt.Errorf("%s: %w", server, cause)}
}

// Reply is the answer to one command, or to the last try of it.
type Reply struct {
	Value   any
	Fault   *Fault
	From    *Node // that was asked
	Sent    Time  // when the command was sent
	WasOpen bool  // an earlier try had no reply
}

// The kinds of error replies, by how they begin. Others are misuse.
var kinds = map[error]string{
	ErrUnavailable: "NOSESSION|LOADING|BUSY|READONLY|MASTERDOWN|NOREPLICAS|MISCONF|UNBLOCKED|CLUSTERDOWN|TRYAGAIN|MOVED|ASK|" +
		"ERR max number of clients",
	ErrLost: "NOTHELD|NOTOWNER|FENCED",
	ErrRefused: "NOPERM|NOAUTH|WRONGPASS|OOM|MAXWAITERS|MAXSESSIONS|DENIED|ERR unknown|ERR AUTH|" +
		"ERR invalid password|ERR no fencing token is left|ERR a fault inside the module",
	ErrDeadlock: "DEADLOCK",
	ErrNotAlone: "NOTALONE",
	ErrAhead:    "AHEAD",
}

// The likely causes of those that say too little.
var hints = map[string]string{
	"WRONGTYPE":   "this key is not a lock of the module: an old SET NX lock of this name?",
	"ERR unknown": "is the module lock, 0.3 or later, loaded there?",
	"NOPERM":      "the user needs permission for this command, LOCK.SESSION and the key",
}

// ErrorReply makes a Fault of the text of an error reply.
func ErrorReply(server, text string) *Fault {
	word, _, _ := strings.Cut(text, " ")
	fault := &Fault{Kind: ErrMisuse, Word: word, Err: fmt.Errorf("%s: %s", server, text)}
	for kind, list := range kinds {
		for begin := range strings.SplitSeq(list, "|") {
			if strings.HasPrefix(text, begin) {
				fault.Kind = kind
			}
		}
	}
	for begin, hint := range hints {
		if strings.HasPrefix(text, begin) {
			fault.Err = fmt.Errorf("%w: %s", fault.Err, hint)
		}
	}
	return fault
}

// NoReply reports whether the server may still carry out the call.
func (f *Fault) NoReply() bool { return f != nil && f.Sent }

// Passing reports whether the same call may succeed later.
func (f *Fault) Passing() bool { return f != nil && f.Kind == ErrUnavailable }

// Lasting reports whether the same call would get the same error again.
func (f *Fault) Lasting() bool { return f != nil && !f.Passing() }

// Gone reports whether the grant that the call was about is over.
func (f *Fault) Gone() bool { return f != nil && (f.Kind == ErrLost || f.Word == "WRONGTYPE") }

// Redirects reports whether the key is at another node of the cluster.
func (f *Fault) Redirects() bool { return f != nil && (f.Word == "MOVED" || f.Word == "ASK") }
