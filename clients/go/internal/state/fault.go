// Package state holds what a client of redis-lock knows, and the rules by which it changes: sessions, waits, grants,
// calls under way, and releases that are not finished. It has no I/O, goroutines, timers or clock: replies and events
// go in with the time, and commands that are due come out. Its callers hold a mutex.
package state

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The kinds of an Error.
var (
	ErrBusy        = errors.New("other owners hold the lock or wait for it")
	ErrLost        = errors.New("the lock was lost")
	ErrDeadlock    = errors.New("waiting would create a deadlock cycle: release another lock first")
	ErrNotAlone    = errors.New("the lock has more holders than this call allows: release it first")
	ErrRefused     = errors.New("the server refuses")
	ErrUnavailable = errors.New("the server did not answer in time")
	ErrMisuse      = errors.New("misuse")
	ErrClosed      = fmt.Errorf("the client is closed: %w", ErrMisuse)
)

// Error ends a call of the user.
type Error struct {
	Op   string // what was attempted: "acquire", "release", ...
	Key  string
	Kind error // one of the errors above; nil if the caller's context has ended the call
	// Cause is what the server, the network or the context said.
	Cause error
}

func (e *Error) Error() string {
	text := strings.TrimSpace("redislock: " + e.Op + " " + e.Key)
	for _, part := range e.Unwrap() {
		text += ": " + part.Error()
	}
	return text
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	return slices.DeleteFunc([]error{e.Kind, e.Cause}, func(part error) bool { return part == nil })
}

// Fail makes an Error.
func Fail(kind error, cause string) *Error { return &Error{Kind: kind, Cause: errors.New(cause)} }

// Reply is the answer to one command, or to the last try of it.
type Reply struct {
	Value   any
	Fault   *Fault
	From    *Node // that was asked
	Sent    Time  // when the command was sent
	WasOpen bool  // an earlier try had no reply
}

// Fault is an error reply of the server, or a reply that did not come.
type Fault struct {
	Word string // the first word of an error reply; empty without a reply
	Sent bool   // without a reply: the server may have received the call, or may yet
	Err  error

	kind error
}

func (f *Fault) Error() string { return f.Err.Error() }

// Unwrap returns what the network or the server said.
func (f *Fault) Unwrap() error { return f.Err }

// The kinds of error replies, by how they begin. Others are misuse.
var kinds = map[error]string{
	ErrUnavailable: "NOSESSION|LOADING|BUSY|READONLY|MASTERDOWN|NOREPLICAS|MISCONF|UNBLOCKED|CLUSTERDOWN|TRYAGAIN|MOVED|ASK|" +
		"ERR max number of clients",
	ErrLost: "NOTHELD|NOTOWNER|FENCED",
	ErrRefused: "NOPERM|NOAUTH|WRONGPASS|OOM|MAXWAITERS|MAXSESSIONS|DENIED|CERTIFICATE|ERR unknown|ERR AUTH|" +
		"ERR invalid password|ERR no fencing token is left|ERR a fault inside the module",
	ErrDeadlock: "DEADLOCK",
	ErrNotAlone: "NOTALONE",
}

// The likely causes of those that say too little.
var hints = map[string]string{
	"WRONGTYPE":   "this key is not a lock of the module: an old SET NX lock of this name?",
	"ERR unknown": "is the module lock, 0.3 or later, loaded there?",
	"NOPERM":      "the user needs permission for this command, LOCK.SESSION and the key",
}

// ErrorReply makes a Fault of the text of an error reply.
func ErrorReply(text string) *Fault {
	word, _, _ := strings.Cut(text, " ")
	fault := &Fault{Word: word, Err: errors.New(text), kind: ErrMisuse}
	for kind, list := range kinds {
		for begin := range strings.SplitSeq(list, "|") {
			if strings.HasPrefix(text, begin) {
				fault.kind = kind
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
func (f *Fault) Passing() bool { return f != nil && (f.kind == nil || f.kind == ErrUnavailable) }

// Lasting reports whether the same call would get the same error again.
func (f *Fault) Lasting() bool { return f != nil && !f.Passing() }

// Gone reports whether the grant that the call was about is over.
func (f *Fault) Gone() bool { return f != nil && (f.kind == ErrLost || f.Word == "WRONGTYPE") }

// Redirects reports whether the key is at another node of the cluster.
func (f *Fault) Redirects() bool { return f != nil && (f.Word == "MOVED" || f.Word == "ASK") }

// Failure is what a fault means to the user. It names the server.
func (f *Fault) Failure(server string) *Error {
	return &Error{Kind: cmp.Or(f.kind, ErrUnavailable), Cause: fmt.Errorf("%s: %w", server, f.Err)}
}
