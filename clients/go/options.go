package redislock

import (
	"cmp"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// Options of [New]. The zero value works.
type Options struct {
	// Service begins the name of each owner and names the session, so that an operator sees whose lock it is. By default
	// it is the name of the program.
	Service string
	// Prefix begins the key of each lock.
	Prefix string
	// Lease is how long others wait for a lock when this process has died: 10 seconds by default, at least 1. With less
	// each acquire is [ErrMisuse].
	Lease time.Duration
	// Silence is how long the process may be suspended and keep its locks: 30 seconds by default, at least 1.
	Silence time.Duration
	// Reply limits each reply of the server, connecting included: 1 second by default.
	Reply time.Duration
	// Observer is notified of what happens, for metrics.
	Observer Observer
}

func (o Options) withDefaults(service string) Options {
	o.Lease, o.Silence = cmp.Or(o.Lease, 10*time.Second), cmp.Or(o.Silence, 30*time.Second)
	o.Reply, o.Service = cmp.Or(max(o.Reply, 0), time.Second), cmp.Or(o.Service, service)
	return o
}

// LockOption says how a lock is acquired.
type LockOption func(*terms)

// terms are the settings of one acquire.
type terms = state.Claim

// Wait limits the wait, in addition to the context. When it is over the error is [ErrBusy]. Zero does not wait.
func Wait(wait time.Duration) LockOption { return func(t *terms) { t.Wait = max(wait, 0) } }

// Shared acquires the lock together with other shared holders: for readers, if the writers use none of the options
// Shared and Permits.
func Shared() LockOption { return func(t *terms) { t.Mode = append(t.Mode, "SHARED") } }

// Permits acquires one of n permits: a semaphore, if all callers give the same n. With n below 1 the acquire is
// [ErrMisuse].
func Permits(n int) LockOption {
	return func(t *terms) {
		if t.Mode = append(t.Mode, "LIMIT", n); n < 1 { // the server takes 0 for any number
			t.Failure = state.Fail(ErrMisuse, "a semaphore must have at least one permit")
		}
	}
}

// Fixed makes the lease the whole life of the grant: only [Grant.Extend] renews it. A lease of zero or less is
// [ErrMisuse].
func Fixed(lease time.Duration) LockOption {
	return func(t *terms) { t.Lease, t.Fixed = lease, true }
}

// AtMost ends the grant after this time: then it is lost.
func AtMost(most time.Duration) LockOption { return func(t *terms) { t.Longest = most } }

func (l *Locks) terms(options ...LockOption) terms {
	t := terms{Lease: l.options.Lease, Task: l.task, Wait: -1}
	for _, option := range options {
		option(&t)
	}
	if l.servers == nil {
		t.Failure = state.Fail(ErrMisuse, "the client is neither a *redis.Client nor a *redis.ClusterClient")
	}
	return t
}
