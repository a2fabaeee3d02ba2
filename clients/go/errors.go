package redislock

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redis-lock/redis-lock/clients/go/internal/wire"
)

// What an [Error] is, for errors.Is.
var (
	// ErrBusy: others hold the lock, or are in line, and the time to wait is over.
	ErrBusy = errors.New("others hold the lock")
	// ErrLost: the grant has ended otherwise than by its release.
	ErrLost = errors.New("the lock is lost")
	// ErrDeadlock: to wait would close a circle. Release what the task holds.
	ErrDeadlock = errors.New("to wait would be a deadlock")
	// ErrNotAlone: the lock has more holders than this call bears. Release first, then acquire.
	ErrNotAlone = errors.New("the lock has other holders")
	// ErrRefused: the server does not let this user do it, or cannot.
	ErrRefused = errors.New("the server refuses")
	// ErrUnavailable: the server could not be reached, or gave no answer, in time.
	ErrUnavailable = errors.New("the server cannot be reached")
	// ErrMisuse: wrong arguments, a key of another type, a second release.
	ErrMisuse = errors.New("wrong use")
	// ErrClosed: the Locks were closed. It is an ErrMisuse too.
	ErrClosed error = closedError{}
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

// errPassing is what is tried again; it is told as ErrUnavailable when time is up.
var errPassing = errors.New("passing")

// callKind is which column of the table counts.
type callKind int

const (
	acquiring callKind = iota
	renewing
	releasing
)

// An error reply is of the first class whose text begins it. It says the same as clients/protocol/errors.json.
var classes = []struct {
	begins string
	kinds  [3]error // of an acquire, a renewal, a release
}{
	{"NOTHELD", same(ErrLost)},
	{"NOTOWNER", same(ErrLost)},
	{"FENCED", same(ErrLost)},
	{"WRONGTYPE", [3]error{ErrMisuse, ErrLost, ErrLost}},
	{"NOTALONE", [3]error{ErrNotAlone, ErrNotAlone, ErrMisuse}},
	{"DEADLOCK", [3]error{ErrDeadlock, ErrMisuse, ErrMisuse}},
	{"MAXWAITERS", same(ErrRefused)},
	{"OOM", same(ErrRefused)},
	{"NOPERM", [3]error{ErrRefused, errPassing, ErrRefused}},
	{"NOAUTH", [3]error{ErrRefused, errPassing, ErrRefused}},
	{"WRONGPASS", [3]error{ErrRefused, errPassing, ErrRefused}},
	{"DENIED", [3]error{ErrRefused, errPassing, ErrRefused}},
	{"NOPROTO", [3]error{ErrRefused, errPassing, ErrRefused}},
	{"AHEAD", same(ErrRefused)},
	{"ERR unknown command", same(ErrRefused)},
	{"ERR invalid password", [3]error{ErrRefused, errPassing, ErrRefused}},
	{"ERR AUTH", [3]error{ErrRefused, errPassing, ErrRefused}},
	{"ERR Protocol error: unauthenticated", [3]error{ErrRefused, errPassing, ErrRefused}},
	{"ERR KEEP needs the command CLIENT", same(ErrRefused)},
	{"ERR no fencing token is left", same(ErrRefused)},
	{"ERR a fault inside the module", [3]error{ErrRefused, errPassing, ErrRefused}},
	{"ERR max number of clients", same(errPassing)},
	{"ERR", same(ErrMisuse)},
	{"CROSSSLOT", same(ErrMisuse)},
	{"LOADING", same(errPassing)},
	{"BUSY", same(errPassing)},
	{"NOREPLICAS", same(errPassing)},
	{"MISCONF", same(errPassing)},
	{"READONLY", same(errPassing)},
	{"MASTERDOWN", same(errPassing)},
	{"UNBLOCKED", same(errPassing)},
	{"CLUSTERDOWN", same(errPassing)},
	{"TRYAGAIN", same(errPassing)},
	{"MOVED", same(errPassing)},
	{"ASK", same(errPassing)},
	{"REDIRECT", same(errPassing)},
	{"", same(ErrMisuse)},
}

func same(kind error) [3]error { return [3]error{kind, kind, kind} }

// kindOf says what an error of a call is. All that is no reply of the server is passing.
func kindOf(call callKind, err error) error {
	text, isReply := replyText(err)
	if !isReply {
		var certificate *tls.CertificateVerificationError
		var own *Error
		switch {
		case errors.As(err, &own) && own.Kind != nil:
			return own.Kind
		case errors.As(err, &certificate):
			return ErrRefused
		}
		return errPassing
	}
	for _, class := range classes {
		if strings.HasPrefix(text, class.begins) {
			return class.kinds[call]
		}
	}
	return ErrMisuse
}

func replyText(err error) (text string, isReply bool) {
	var said wire.ServerError
	if errors.As(err, &said) {
		return string(said), true
	}
	var other redis.Error // a Sentinel's, while dialling
	if errors.As(err, &other) {
		return other.Error(), true
	}
	return "", false
}

func begins(err error, words ...string) bool {
	text, isReply := replyText(err)
	for _, word := range words {
		if isReply && strings.HasPrefix(text, word) {
			return true
		}
	}
	return false
}

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
