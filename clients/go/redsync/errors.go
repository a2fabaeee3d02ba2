package redsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

var (
	// ErrFailed is a lock that was not obtained, for no better reason: its context ended between two tries, or its
	// grants came too late.
	ErrFailed = errors.New("redsync: failed to acquire lock")
	// ErrExtendFailed is an extension that came too late.
	ErrExtendFailed = errors.New("redsync: failed to extend lock")
	// ErrLockAlreadyExpired is a lock that is unlocked after its end.
	ErrLockAlreadyExpired = errors.New("redsync: failed to unlock, lock was already expired")
)

// ErrTaken says that others have the lock, on a majority of the servers: these.
type ErrTaken struct{ Nodes []int }

// Error names the servers by their number, from 0.
func (e ErrTaken) Error() string {
	return fmt.Sprintf("lock already taken, locked nodes: %v", e.Nodes)
}

// ErrNodeTaken says that others have the lock on this server.
type ErrNodeTaken struct{ Node int }

// Error names the server by its number, from 0.
func (e ErrNodeTaken) Error() string { return fmt.Sprintf("node #%d: lock already taken", e.Node) }

// RedisError is what a server, or the network, has said.
type RedisError struct {
	Node int
	Err  error
}

// Error names the server by its number, from 0, and gives what was said.
func (e RedisError) Error() string { return fmt.Sprintf("node #%d: %s", e.Node, e.Err) }

// Unwrap gives what was said.
func (e RedisError) Unwrap() error { return e.Err }

// failed translates the failure of a majority into the errors of redsync: freed where the lock is free (nil: it counts as
// taken), and otherwise if no server has said why.
func (m *Mutex) failed(ctx context.Context, err, freed, otherwise error) error {
	var failure *failure
	if !errors.As(err, &failure) {
		return errors.Join(cmp.Or(otherwise, err), ctx.Err())
	}
	var taken []int
	var all []error
	for node, said := range failure.servers {
		isLost := said == errGone || isGone(said)
		var fault *state.Fault
		switch {
		case said == nil:
		case isLost && freed != nil && errors.As(said, &fault) && fault.Word == "NOTHELD":
			all = append(all, freed)
		case said == errTaken, isLost:
			taken = append(taken, node)
			all = append(all, &ErrNodeTaken{node})
		default:
			all = append(all, &RedisError{node, said})
		}
	}
	switch {
	case len(taken) >= m.redsync.servers.majority():
		return &ErrTaken{taken}
	case len(all) == 0 || failure.isLate:
		return errors.Join(otherwise, ctx.Err())
	}
	if ctx.Err() != nil {
		all = append(all, ctx.Err())
	}
	return errors.Join(all...)
}

// errGone is of a server that does not have the lock for this value.
var errGone = errors.New("gone")

// isGone reports whether a server no longer has the grant.
func isGone(said error) bool {
	var fault *state.Fault
	return errors.As(said, &fault) && (fault.Word == "NOTHELD" || fault.Word == "NOTOWNER" || fault.Word == "FENCED")
}

// isGone reports whether a majority of the servers has lost the lock.
func (m *Mutex) isGone(err error) bool {
	var failure *failure
	gone := 0
	if errors.As(err, &failure) {
		for _, said := range failure.servers {
			if isGone(said) {
				gone++
			}
		}
	}
	return gone >= m.redsync.servers.majority()
}
