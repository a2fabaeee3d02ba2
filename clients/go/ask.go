package redislock

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/wire"
)

// answer is what a call came to.
type answer struct {
	call     *wire.Call // of the last one that was sent
	keeper   *keeper
	link     *link
	by       *link // the last one that may have carried it out; nil where it has answered with an error
	repeated bool  // it was sent before, and that was not answered
	open     bool  // one was sent that may be carried out yet, or was
	err      error
}

// ask sends a command on the keeper of the key until it is answered by what does not pass, or the context ends:
// then the error is why it was not answered before.
func (l *Locks) ask(ctx context.Context, kind callKind, key string, command ...any) (a answer) {
	return l.askBehind(ctx, nil, kind, key, command)
}

// look asks on a connection whether anything speaks against sending a command there.
type look func(ctx context.Context, k *keeper, on *link) error

// askBehind does the same behind a look, on each connection that it is sent on.
func (l *Locks) askBehind(ctx context.Context, look look, kind callKind, key string, command []any) (a answer) {
	var before error
	for failures := 0; ; failures++ {
		a.err = l.askOnce(ctx, &a, look, key, command)
		if a.err != nil && ctx.Err() != nil && errors.Is(a.err, ctx.Err()) {
			a.err = cmp.Or(before, error(wire.ErrSilent)) // that tells more
		}
		before = a.err
		if a.err == nil || kindOf(kind, a.err) != errPassing || ctx.Err() != nil {
			return a
		}
		l.heed(&a, key)
		if failures == 0 && (a.link == nil || begins(a.err, "MOVED")) {
			continue // the next attempt to connect has a pause of its own, and a map is read at once
		}
		select {
		case <-time.After(pauseWithin(ctx, failures+1)):
		case <-ctx.Done():
			return a
		}
	}
}

// pauseWithin leaves the last try time for its answer.
func pauseWithin(ctx context.Context, failures int) time.Duration {
	const shortest = 20 * time.Millisecond
	end, isBounded := ctx.Deadline()
	left := time.Until(end)
	switch {
	case !isBounded:
		return pause(failures)
	case left < 2*shortest: // one more would not be answered
		return time.Hour
	}
	return min(pause(failures), left/2)
}

func (l *Locks) askOnce(ctx context.Context, a *answer, look look, key string, command []any) (err error) {
	a.link = nil
	if a.keeper, err = l.keeperOf(ctx, key); err != nil {
		return err
	}
	if a.link, err = a.keeper.connection(ctx); err != nil {
		return err
	}
	if look != nil {
		if err = look(ctx, a.keeper, a.link); err != nil {
			return err
		}
	}
	a.repeated, a.by = a.open, a.link
	a.call, err = a.link.Do(ctx, l.options.Reply, command...)
	isRefused := err != nil && a.call.IsOver() && a.call.Err != nil && a.call.Answered()
	if isRefused {
		a.by = nil
	}
	a.open = a.repeated || err != nil && !isRefused // an earlier one may have been carried out
	return err
}

// heed does what an error that passes tells.
func (l *Locks) heed(a *answer, key string) {
	switch {
	case a.keeper == nil:
	case begins(a.err, "MOVED"):
		l.servers.moved(key, a.keeper.address, movedTo(a.err))
	case ofReplica(a.err):
		if a.link != nil {
			a.link.Close()
		}
		l.servers.doubt()
	case begins(a.err, "CLUSTERDOWN"):
		l.servers.doubt()
	}
}

func fieldsOf(text string) []string { return strings.Fields(text) }

// failed is what the caller is told of an error.
func (l *Locks) failed(ctx context.Context, kind callKind, op, key string, err error) error {
	switch is := kindOf(kind, err); {
	case l.isClosed():
		return &Error{Op: op, Key: key, Kind: ErrClosed}
	case is != errPassing:
		return newError(op, key, is, missing(err))
	case ctx.Err() != nil:
		return cancelled(ctx, op, key)
	default:
		return newError(op, key, ErrUnavailable, err)
	}
}
