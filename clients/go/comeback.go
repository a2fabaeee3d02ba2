package redislock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/wire"
)

// Of those who keep one grant, in the name of an owner that they all know, the last one to ask keeps it, and the server
// ends the connections of the others. They must not take it back when they come back, or that would have no end.

var errKeptElsewhere = errors.New("another connection keeps it now")

// mostIDs is how many connections of its own a keeper remembers, the last one included.
const mostIDs = 16

// introduce asks how the server calls a new connection.
func (k *keeper) introduce(on *link) {
	on.Go(k.locks.options.Reply, func(call *wire.Call) {
		id, isID := call.Reply.(int64)
		if call.Err != nil || !isID {
			return
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		on.id = id
		if n := len(k.ids); n > 0 && id <= k.ids[n-1] { // a server that counts anew: the earlier ones may be others' by now
			k.ids = nil
		}
		k.ids = append(k.ids, id)
		k.ids = k.ids[max(0, len(k.ids)-mostIDs):]
	}, "CLIENT", "ID")
}

// comeBack has a grant kept on a new connection. One that others may keep is looked at before.
func (k *keeper) comeBack(o *ownership, on *link) {
	if !o.named || o.keeping() == 0 {
		k.renew(o, on)
		return
	}
	entries := o.entries.Load()
	on.Go(k.locks.options.Reply, func(call *wire.Call) {
		switch {
		case call.Err == nil && k.isElsewhere(on, o.owner, o.token, call.Reply):
			go k.yield(o, on, entries)
		case call.Err != nil && call.Answered() && kindOf(acquiring, call.Err) == errPassing && !begins(call.Err, "MOVED"):
			k.doubt(o, call.Err)
		case call.Answered(): // else the next connection asks again
			k.renew(o, on)
		}
	}, "LOCK.HOLDERS", o.key)
}

// isElsewhere says whether a connection keeps the grant that is none of this keeper's, by the answer to LOCK.HOLDERS. A token
// of 0 is that of any grant of the owner.
func (k *keeper) isElsewhere(on *link, owner string, token int64, reply any) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if on.id == 0 {
		return false // not known: it was refused
	}
	holders, _ := reply.([]any)
	for _, holder := range holders {
		fields, err := fieldsByName(holder)
		if err == nil && fields["owner"] == owner && (token == 0 || fields["token"] == token) {
			by, _ := fields["kept-by"].(int64)
			return by != 0 && !slices.Contains(k.ids, by)
		}
	}
	return false
}

// yield tells as lost what another connection keeps, unless this owner has entered it again since that was asked, and so is
// the last one to ask. Where it is not known whether it has, nothing is kept for it.
func (k *keeper) yield(o *ownership, on *link, entries int64) {
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-time.After(k.locks.options.Reply):
	}
	hasAsked := o.entries.Load() != entries
	o.mu.Lock()
	isHere := o.link == on
	o.mu.Unlock()
	if hasAsked && isHere {
		return
	}
	o.lose(errKeptElsewhere)
	if hasAsked {
		on.Close()
	}
}

// lookAt looks whether another connection keeps what an owner has, before a command that ends the grant or its keeping. What
// then follows on the same connection may be sent. Where the user may not look, it is sent as any.
func (l *Locks) lookAt(key, owner string, token int64) look {
	return func(ctx context.Context, k *keeper, on *link) error {
		call, err := on.Do(ctx, l.options.Reply, "LOCK.HOLDERS", key)
		switch {
		case err == nil && k.isElsewhere(on, owner, token, call.Reply):
			return newError("hold", key, ErrLost, errKeptElsewhere)
		case err != nil && ctx.Err() == nil && call.Answered() && kindOf(acquiring, err) != errPassing:
			return nil
		}
		return err
	}
}

// askAsKept sends a command that changes or ends the grant, or the keeping, in the name of an owner.
func (o *ownership) askAsKept(ctx context.Context, kind callKind, command ...any) answer {
	if !o.mayBeElsewhere() {
		return o.locks.ask(ctx, kind, o.key, command...)
	}
	return o.askAsKnown(ctx, kind, command...)
}

// askAsKnown sends one about a grant that others know: on the connection that keeps it, which the server ends when another is
// to; on any other one it looks first, each time.
func (o *ownership) askAsKnown(ctx context.Context, kind callKind, command ...any) (a answer) {
	o.mu.Lock()
	mayBeDone, on := false, o.asked
	if o.ending {
		o.asked = nil // behind the end of the keeping, its own end would tell nothing
	}
	o.mu.Unlock()
	if on.isOpen() {
		call, err := on.Do(ctx, o.locks.options.Reply, command...)
		switch {
		case err == nil || ctx.Err() == nil && call.Answered() && kindOf(kind, err) != errPassing:
			return answer{call: call, link: on, err: err}
		case ctx.Err() != nil:
			return answer{call: call, link: on, err: wire.ErrSilent, open: true}
		}
		mayBeDone = !call.Answered()
	}
	a = o.locks.askBehind(ctx, o.locks.lookAt(o.key, o.owner, o.token), kind, o.key, command)
	a.repeated, a.open = a.repeated || mayBeDone, a.open || mayBeDone
	return a
}

// mayBeElsewhere says whether another connection may keep it by now, of which the loss of the own one tells.
func (o *ownership) mayBeElsewhere() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.named && (o.keep > 0 || o.ending)
}

// needsLook says whether what ends it has no connection to be sent on without a look.
func (o *ownership) needsLook() bool {
	return o.err() == nil && o.mayBeElsewhere() && !o.keptBy().isOpen()
}

// notAsked is of a connection that has refused to keep it.
func (o *ownership) notAsked(on, before *link) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.asked == on {
		o.asked = before
	}
}

// keptBy is the connection that keeps it, or that was asked to: what is sent on it meets no grant that another keeps. Nil:
// there is none.
func (o *ownership) keptBy() *link {
	if !o.mayBeElsewhere() {
		return o.locks.linkOf(o.key)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked
}
