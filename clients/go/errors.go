package redislock

import (
	"context"
	"errors"

	"github.com/redis-lock/redis-lock/clients/go/internal/kinds"
)

// What an [Error] is, for errors.Is.
var (
	// ErrBusy: others hold the lock, or are in line, and the time to wait is over.
	ErrBusy = kinds.ErrBusy
	// ErrLost: the grant has ended otherwise than by its release.
	ErrLost = kinds.ErrLost
	// ErrDeadlock: to wait would close a circle. Release what the task holds.
	ErrDeadlock = kinds.ErrDeadlock
	// ErrNotAlone: the lock has more holders than this call bears. Release first, then acquire.
	ErrNotAlone = kinds.ErrNotAlone
	// ErrRefused: the server does not let this user do it, or cannot.
	ErrRefused = kinds.ErrRefused
	// ErrUnavailable: the server could not be reached, or gave no answer, in time.
	ErrUnavailable = kinds.ErrUnavailable
	// ErrMisuse: wrong arguments, a key of another type, a second release.
	ErrMisuse = kinds.ErrMisuse
	// ErrClosed: the Locks were closed. It is an ErrMisuse too.
	ErrClosed error = closedError{}

	errPassing = kinds.ErrPassing
)

type closedError struct{}

func (closedError) Error() string { return "closed" }
func (closedError) Unwrap() error { return ErrMisuse }

// Error is every error of this package, by errors.As. What caused it is inside.
type Error struct {
	Op  string // what was to be done: "acquire", "release", ...
	Key string
	// Kind is one of the errors of this package. It is nil where the caller's context has ended.
	Kind error
	// Cause is what the server or the network said, or the context; nil where nothing did.
	Cause error
}

func (e *Error) Error() string {
	text := "redislock: " + e.Op
	if e.Key != "" {
		text += " " + e.Key
	}
	for _, part := range []error{e.Kind, e.Cause} {
		if part != nil {
			text += ": " + part.Error()
		}
	}
	return text
}

// Unwrap gives what it is and what caused it.
func (e *Error) Unwrap() []error {
	var parts []error
	for _, part := range []error{e.Kind, e.Cause} {
		if part != nil {
			parts = append(parts, part)
		}
	}
	return parts
}

// newError hides from errors.Is what a limit of our own, or of the network, has in common with the caller's.
func newError(op, key string, kind, cause error) *Error {
	if errors.Is(cause, context.DeadlineExceeded) || errors.Is(cause, context.Canceled) {
		cause = hidden{cause}
	}
	return &Error{Op: op, Key: key, Kind: kind, Cause: cause}
}

type hidden struct{ error }

func (h hidden) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(h.error, target)
}

func (h hidden) As(target any) bool { return errors.As(h.error, target) }

// cancelled is the end of the caller's context: with its cause, where that is another.
func cancelled(ctx context.Context, op, key string) error {
	return &Error{Op: op, Key: key, Cause: ended(ctx)}
}

func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return causedError{err, cause}
}

type causedError struct{ err, cause error }

func (e causedError) Error() string   { return e.err.Error() + ": " + e.cause.Error() }
func (e causedError) Unwrap() []error { return []error{e.err, e.cause} }

type callKind = kinds.Call

const (
	acquiring = kinds.Acquiring
	renewing  = kinds.Renewing
	releasing = kinds.Releasing
)

// kindOf says what an error of a call is. One of this package is what it says itself.
func kindOf(call callKind, err error) error {
	var own *Error
	if errors.As(err, &own) && own.Kind != nil {
		return own.Kind
	}
	return kinds.Of(call, err)
}

func begins(err error, words ...string) bool { return kinds.Begins(err, words...) }

// ofReplica says whether a server has told that it is not the primary any more, or was none at that moment.
func ofReplica(err error) bool { return begins(err, "READONLY", "MASTERDOWN", "UNBLOCKED") }

// missing adds what an operator needs to know.
func missing(err error) error {
	if begins(err, "ERR unknown command") {
		return unknownCommand{err}
	}
	return err
}

type unknownCommand struct{ error }

func (e unknownCommand) Error() string { return e.error.Error() + ": is the module lock loaded?" }
func (e unknownCommand) Unwrap() error { return e.error }
