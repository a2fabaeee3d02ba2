package redislock

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// Error is every error of this package, for errors.As.
type Error struct {
	Op   string // what was attempted: "acquire", "release", ...
	Key  string
	Kind error // one of the errors below; nil if the caller's context has ended the call
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

// The kinds of an [Error], for errors.Is.
var (
	// ErrBusy: other owners hold the lock or wait for it, and the time to wait is over.
	ErrBusy = state.ErrBusy
	// ErrLost: the grant ended before it was released. Stop the work under the lock.
	ErrLost = state.ErrLost
	// ErrDeadlock: waiting would create a deadlock cycle. Release another lock of the task first.
	ErrDeadlock = state.ErrDeadlock
	// ErrNotAlone: the lock has more holders than the call allows. Release it first, then acquire it.
	ErrNotAlone = state.ErrNotAlone
	// ErrRefused: the server refused the call: no right, memory is full, a limit is reached, the module is not loaded.
	ErrRefused = state.ErrRefused
	// ErrUnavailable: no answer, or only temporary errors, until the time was over.
	ErrUnavailable = state.ErrUnavailable
	// ErrMisuse: wrong arguments, a key of another type, a second release.
	ErrMisuse = state.ErrMisuse
	// ErrClosed: the Locks are closed. It is also an ErrMisuse.
	ErrClosed = state.ErrClosed
)

// failed returns the error of an operation; nil without a fault.
func failed(op, key string, fault *state.Fault) error {
	if fault == nil {
		return nil
	}
	return &Error{Op: op, Key: key, Kind: fault.Kind, Cause: fault.Err}
}

func misuse(op, key, cause string) error { return failed(op, key, state.Fail(ErrMisuse, cause)) }

// ended is the end of the caller's context. A wait whose deadline has passed is busy, too.
func ended(ctx context.Context, kind error) *state.Fault {
	cause := ctx.Err()
	if why := context.Cause(ctx); !errors.Is(why, cause) {
		cause = errors.Join(cause, why)
	}
	if errors.Is(cause, context.Canceled) {
		kind = nil
	}
	return &state.Fault{Kind: kind, Err: cause}
}
