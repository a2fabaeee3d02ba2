// Package state holds what a client of redis-lock knows, and the rules by which it changes: sessions, waits, grants,
// calls under way, and releases that are not finished. It has no I/O, goroutines, timers or clock: replies and events
// go in with the time, and commands that are due come out. Its callers hold a mutex.
package state

import (
	"errors"
	"strings"
	"time"
)

// The kinds of failures.
var (
	ErrBusy        = errors.New("other owners hold the lock or wait for it")
	ErrLost        = errors.New("the lock was lost")
	ErrDeadlock    = errors.New("waiting would create a deadlock cycle: release another lock first")
	ErrNotAlone    = errors.New("the lock has more holders than this call allows: release it first")
	ErrRefused     = errors.New("the server refuses")
	ErrUnavailable = errors.New("the server did not answer in time")
	ErrMisuse      = errors.New("misuse")
	ErrClosed      = errors.New("closed")
)

// Failure is an error that ends a call of the user: its kind, and what the server, the network or a rule said.
type Failure struct{ Kind, Cause error }

func (f *Failure) Error() string { return f.Kind.Error() + ": " + f.Cause.Error() }

// Fail makes a Failure.
func Fail(kind error, cause string) *Failure { return &Failure{kind, errors.New(cause)} }

// Fault is an error reply of the server, or a reply that did not come.
type Fault struct {
	Word string // the first word of an error reply; empty without a reply
	Sent bool   // without a reply: the server may have received the call, or may yet
	Err  error
}

func (f *Fault) Error() string { return f.Err.Error() }

// Unwrap returns what the network or the server said.
func (f *Fault) Unwrap() error { return f.Err }

// Reply is the answer to one command.
type Reply struct {
	Value any
	Fault *Fault
}

func words(list string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}

var (
	passing = words("NOSESSION LOADING BUSY READONLY MASTERDOWN NOREPLICAS MISCONF UNBLOCKED CLUSTERDOWN TRYAGAIN MOVED ASK")
	gone    = words("NOTHELD NOTOWNER FENCED WRONGTYPE")
	refused = words("NOPERM NOAUTH WRONGPASS OOM MAXWAITERS MAXSESSIONS DENIED CERTIFICATE")
	// refusals begin error replies that have no word of their own.
	refusals = []string{"ERR unknown command", "ERR unknown subcommand", "ERR invalid password", "ERR AUTH",
		"ERR no fencing token is left", "ERR a fault inside the module"}
)

// NoReply reports whether the server may still carry out the call.
func (f *Fault) NoReply() bool { return f != nil && f.Word == "" && f.Sent }

// Passing reports whether the same call may succeed later.
func (f *Fault) Passing() bool { return f != nil && (f.Word == "" || passing[f.Word]) }

// Lasting reports whether the same call would get the same error again.
func (f *Fault) Lasting() bool { return f != nil && !f.Passing() }

// Gone reports whether the grant that the call was about is over.
func (f *Fault) Gone() bool { return f != nil && gone[f.Word] }

// Failure returns what a lasting error means to the user.
func (f *Fault) Failure() *Failure {
	kind, cause := ErrMisuse, f.Err
	switch {
	case refused[f.Word]:
		kind = ErrRefused
	case f.Word == "DEADLOCK":
		kind = ErrDeadlock
	case f.Word == "NOTALONE":
		kind = ErrNotAlone
	case f.Word == "WRONGTYPE":
		cause = &hint{f.Err, "this key is not a lock of the module: an old SET NX lock of this name?"}
	case f.Gone():
		kind = ErrLost
	}
	for _, begin := range refusals {
		if strings.HasPrefix(f.Error(), begin) {
			kind = ErrRefused
		}
	}
	if strings.HasPrefix(f.Error(), "ERR unknown command") {
		cause = &hint{f.Err, "is the module lock, 0.3 or later, loaded there?"}
	}
	return &Failure{kind, cause}
}

// hint adds the likely cause to what the server said.
type hint struct {
	error
	hint string
}

func (h *hint) Error() string { return h.error.Error() + ": " + h.hint }
func (h *hint) Unwrap() error { return h.error }

// Time is a moment, as the time since a fixed moment on a monotonic clock.
type Time = time.Duration

const (
	far      Time = 1 << 61 // the end of a wait without a limit
	second        = time.Second
	tenYears      = 10 * 365 * 24 * time.Hour // the longest time that the server takes
)

// Milliseconds rounds up.
func Milliseconds(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// Fields returns a map, which RESP2 sends as a flat array.
func Fields(value any) map[string]any {
	named := map[string]any{}
	switch value := value.(type) {
	case map[any]any:
		for name, field := range value {
			named[text(name)] = field
		}
	case []any:
		for i := 0; i+1 < len(value); i += 2 {
			named[text(value[i])] = value[i+1]
		}
	}
	return named
}

func text(value any) string {
	text, _ := value.(string)
	return text
}

func number(value any) int64 {
	number, _ := value.(int64)
	return number
}

func list(value any) []any {
	list, _ := value.([]any)
	return list
}

// ErrorReply makes a Fault of the text of an error reply.
func ErrorReply(text string) *Fault {
	word, _, _ := strings.Cut(text, " ")
	fault := &Fault{Word: word, Sent: true, Err: errors.New(text)}
	if strings.HasPrefix(text, "ERR max number of clients") {
		fault.Word, fault.Sent = "", false
	}
	return fault
}
