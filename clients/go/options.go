package redislock

import (
	"log/slog"
	"math"
	"time"
)

// Forever is how long [Wait] waits for as long as it takes.
const Forever time.Duration = math.MaxInt64

const (
	defaultLease = 10 * time.Second
	defaultKeep  = 30 * time.Second
	leastKept    = time.Second // the shortest lease that the server keeps
	longestTime  = 10 * 365 * 24 * time.Hour
)

// Options of [New]. The zero value does.
type Options struct {
	// Service begins the name of each owner, so that LOCK.INFO tells an operator who it is. By default it is the
	// name of the program.
	Service string
	// Reply is how long a reply may take, connecting included; and the whole of an acquire that does not wait.
	// By default 1 second.
	Reply time.Duration
	// Release limits a release. By default 2 seconds.
	Release time.Duration
	// Close limits Close. By default 2 seconds.
	Close time.Duration
	// Logger is told when a connection that keeps locks is lost and when it is back. By default nobody is.
	Logger *slog.Logger
	// Hooks are told what happens, for metrics.
	Hooks Hooks
}

// Hooks are called as things happen, and must not block. Those that are nil are left out.
type Hooks struct {
	// Acquired follows every acquire, with how long it took; err is nil where the lock was granted.
	Acquired func(key string, took time.Duration, err error)
	// Released follows every release, with how long the lock was held.
	Released func(key string, held time.Duration, err error)
	// Lost follows every loss, as it is told.
	Lost func(key string, err error)
	// Keeper follows every end and every return of a connection that keeps locks, and of a server of a quorum; err is
	// nil when it is back, and when the Locks are closed meanwhile.
	Keeper func(address string, err error)
}

func (o Options) withDefaults(service string) Options {
	orElse := func(value *time.Duration, other time.Duration) {
		if *value <= 0 {
			*value = other
		}
	}
	orElse(&o.Reply, time.Second)
	orElse(&o.Release, 2*time.Second)
	orElse(&o.Close, 2*time.Second)
	if o.Service == "" {
		o.Service = service
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// LockOption says how a lock is taken. A duration of 0 is the default.
type LockOption func(*terms)

// Wait waits for the lock, in line, for so long; [Forever] as long as it takes. Without it, a lock that others
// hold is [ErrBusy] at once.
func Wait(wait time.Duration) LockOption { return func(t *terms) { t.wait = wait } }

// Lease is how long others wait when this process has died: 10 seconds, unless said, and at least 1 second for a
// lock that is kept.
func Lease(lease time.Duration) LockOption { return func(t *terms) { t.lease = lease } }

// Keep is how long the process may stand still, or the network be silent, and keep its locks: 30 seconds, unless
// said.
func Keep(keep time.Duration) LockOption { return func(t *terms) { t.keep = keep } }

// Fixed makes the lease the whole life of the grant: nothing renews it but [Grant.Extend].
func Fixed() LockOption { return func(t *terms) { t.fixed = true } }

// AtMost lets the lock be kept for so long at most; then it is lost.
func AtMost(most time.Duration) LockOption { return func(t *terms) { t.atMost = most } }

// Owner names the owner: for a lock that is handed on ([Locks.Adopt]), or that several processes have as one. Grants of one
// owner and key in these Locks count their holds, as those of a [Task] do, each with its own release; a permit takes no
// name. Of several processes, the last one to ask keeps the lock, and the others hear that they have lost it; with
// [Fixed] nobody keeps it, and all have it. A release in this name by another process frees the lock, whoever took it:
// [Grant.Check] tells of that, and nothing else does. What is left of a call that was given up ends with its lease. Without
// Owner, every acquire is an owner of its own.
func Owner(owner string) LockOption { return func(t *terms) { t.owner, t.named = owner, true } }

// Replicas asks for the acknowledgement of the grant by so many replicas. Without it the grant is given back, and
// the error is [ErrUnavailable].
func Replicas(n int) LockOption { return func(t *terms) { t.replicas = n } }

// terms are all that says how a lock is taken.
type terms struct {
	wait, lease, keep, atMost time.Duration
	fixed, named              bool
	owner                     string
	replicas                  int
	spent                     time.Duration // of the time for a try
}

func newTerms(options []LockOption) (t terms, err error) {
	for _, option := range options {
		option(&t)
	}
	if t.lease == 0 {
		t.lease = defaultLease
	}
	if t.keep == 0 {
		t.keep = defaultKeep
	}
	if t.atMost != 0 && t.atMost <= t.lease {
		t.lease, t.fixed = t.atMost, true
	}
	switch {
	case t.wait < 0, t.lease < 0, t.keep < 0, t.atMost < 0, t.replicas < 0:
		return t, misuse("a time or a number below 0")
	case t.lease > longestTime, t.keep > longestTime:
		return t, misuse("a lease or a silence of more than ten years")
	case t.named && (t.owner == "" || len(t.owner) > 256):
		return t, misuse("an owner has 1 to 256 bytes")
	case !t.fixed && t.lease < leastKept:
		return t, misuse("the lease of a lock that is kept is 1 second or more (Fixed locks may have less)")
	case !t.fixed && t.keep < leastKept:
		return t, misuse("the silence of a lock that is kept is 1 second or more")
	}
	if t.fixed {
		t.keep = 0
	}
	return t, nil
}

func (t terms) keepWords() []any {
	if t.keep == 0 {
		return nil
	}
	return []any{"KEEP", milliseconds(t.keep)}
}

// milliseconds are rounded up.
func milliseconds(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}
