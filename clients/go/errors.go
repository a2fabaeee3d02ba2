package redislock

import (
	"context"
	"errors"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// The kinds of an [Error], for errors.Is.
var (
	// ErrBusy: other owners hold the lock or wait for it, and the time to wait is over.
	ErrBusy = state.ErrBusy
	// ErrLost: the grant ended otherwise than by its release. Stop the work under the lock.
	ErrLost = state.ErrLost
	// ErrDeadlock: waiting would create a deadlock cycle. Release another lock of the task first.
	ErrDeadlock = state.ErrDeadlock
	// ErrNotAlone: the lock has more holders than the call allows. Release it first, then acquire it.
	ErrNotAlone = state.ErrNotAlone
	// ErrRefused: the server refuses: no right, memory is full, a limit is reached, the module is not loaded.
	ErrRefused = state.ErrRefused
	// ErrUnavailable: no answer, or only passing errors, until the time was over.
	ErrUnavailable = state.ErrUnavailable
	// ErrMisuse: wrong arguments, a key of another type, a second release.
	ErrMisuse = state.ErrMisuse
	// ErrClosed: the Locks are closed. It is an ErrMisuse too.
	ErrClosed error = closedError{}
)

type closedError struct{}

func (closedError) Error() string { return "the client is closed" }
func (closedError) Unwrap() error { return ErrMisuse }

// Error is every error of this package, for errors.As.
type Error struct {
	Op  string // what was attempted: "acquire", "release", ...
	Key string
	// Kind is one of the errors of this package. It is nil if the caller's context has ended the call.
	Kind error
	// Cause is what the server, the network or the context said.
	Cause error
}

func (e *Error) Error() string {
	text := "redislock: " + e.Op
	if e.Key != "" {
		text += " " + e.Key
	}
	for _, part := range e.Unwrap() {
		text += ": " + part.Error()
	}
	return text
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() (parts []error) {
	for _, part := range []error{e.Kind, e.Cause} {
		if part != nil {
			parts = append(parts, part)
		}
	}
	return parts
}

// failed makes an Error of a failure, if there is one.
func failed(op, key string, failure *state.Failure) error {
	switch {
	case failure == nil:
		return nil
	case failure.Kind == state.ErrClosed:
		return &Error{op, key, ErrClosed, nil}
	}
	return &Error{op, key, failure.Kind, hidden{failure.Cause}}
}

func misuse(op, key, cause string) error { return failed(op, key, state.Fail(ErrMisuse, cause)) }

// hidden hides that a limit of ours, or of the network, is of the same kind as one of the caller's.
type hidden struct{ error }

func (h hidden) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(h.error, target)
}

func (h hidden) As(target any) bool { return errors.As(h.error, target) }

// ended is the end of the caller's context. A wait whose deadline has passed is busy, too.
func ended(ctx context.Context, op, key string, kind error) error {
	cause := ctx.Err()
	if why := context.Cause(ctx); !errors.Is(why, cause) {
		cause = errors.Join(cause, why)
	}
	if errors.Is(cause, context.Canceled) {
		kind = nil
	}
	return &Error{op, key, kind, cause}
}
