// Package gocron lets several schedulers of gocron, version 2, run each job once, or lets one of them lead, by the
// locks of the Redis module redis-lock.
//
//	locker := redislockgocron.NewLocker(locks)
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
package gocron

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-co-op/gocron/v2"

	redislock "github.com/redis-lock/redis-lock/clients/go"
)

// Locker lets each run of a job be had by one scheduler. It is a gocron.Locker.
type Locker struct {
	locks   *redislock.Locks
	options []redislock.LockOption
	prefix  string
	atLeast time.Duration
	failed  func(key string, err error)
}

var (
	_ gocron.Locker  = (*Locker)(nil)
	_ gocron.Elector = (*Elector)(nil)
)

// Option of [NewLocker].
type Option func(*Locker)

// WithPrefix is what the names of the locks begin with, before the name of the job: "gocron:", unless said.
func WithPrefix(prefix string) Option { return func(l *Locker) { l.prefix = prefix } }

// WithLock says how the locks are acquired, with options of the client. Without [redislock.Wait] in them, a lock that
// another scheduler holds is not waited for: the run is left to that one.
func WithLock(options ...redislock.LockOption) Option { return func(l *Locker) { l.options = options } }

// WithAtLeast keeps the lock for this long from its beginning, even if the job ends earlier, so that schedulers whose
// clocks differ by less than that do not run a short job twice: 500 milliseconds by default. It has to be shorter than
// the interval of the job, or else the next run is refused.
func WithAtLeast(least time.Duration) Option { return func(l *Locker) { l.atLeast = least } }

// WithFailed hears of what gocron does not tell: a lock that was lost while its job ran, or could not be given back.
func WithFailed(failed func(key string, err error)) Option {
	return func(l *Locker) { l.failed = failed }
}

// NewLocker makes a Locker. Close the locks after the scheduler has been shut down.
func NewLocker(locks *redislock.Locks, options ...Option) *Locker {
	l := &Locker{locks: locks, prefix: "gocron:", atLeast: 500 * time.Millisecond, failed: func(string, error) {}}
	for _, option := range options {
		option(l)
	}
	return l
}

// Lock takes the lock of a job's run. The error is of the client: [redislock.ErrBusy] where another scheduler has it.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	begun := time.Now()
	options := append([]redislock.LockOption{redislock.Wait(0)}, l.options...)
	grant, err := l.locks.Acquire(ctx, l.prefix+key, options...)
	if err != nil {
		return nil, err
	}
	grant.OnLost(func(err error) { l.failed(key, err) })
	return &lock{locker: l, grant: grant, key: key, until: begun.Add(l.atLeast)}, nil
}

// lock is held for the time of a run.
type lock struct {
	locker *Locker
	grant  *redislock.Grant
	key    string
	until  time.Time
}

// Unlock gives the lock back, though ctx has ended: gocron's ends when the scheduler is shut down. Where the lock is
// to be held longer, it ends by itself then.
func (l *lock) Unlock(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var err error
	if rest := time.Until(l.until); rest > time.Millisecond {
		err = l.grant.Detach(ctx, rest)
	} else {
		err = l.grant.Release(ctx)
	}
	if err != nil && !errors.Is(err, redislock.ErrLost) { // a loss has been told
		l.locker.failed(l.key, err)
	}
	return err
}

// Elector lets one scheduler run all jobs: the one that has the lock, for as long as it lives. It is a
// gocron.Elector.
type Elector struct {
	leads atomic.Pointer[redislock.Grant]
	stop  context.CancelFunc
	ended chan struct{}

	mu  sync.Mutex
	err error // why nobody leads here any more
}

// ErrNotLeader is what IsLeader says of all schedulers but one.
var ErrNotLeader = errors.New("another scheduler leads")

// NewElector stands for election by the lock of this key, until it is closed or ctx ends.
func NewElector(ctx context.Context, locks *redislock.Locks, key string, options ...redislock.LockOption) *Elector {
	standing, stop := context.WithCancel(ctx)
	e := &Elector{stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(e.ended)
		err := locks.Lead(standing, key, func(ctx context.Context, grant *redislock.Grant) error {
			e.leads.Store(grant)
			defer e.leads.Store(nil)
			<-ctx.Done()
			return nil
		}, options...)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.err = err
	}()
	return e
}

// IsLeader is nil where this scheduler leads.
func (e *Elector) IsLeader(context.Context) error {
	if grant := e.leads.Load(); grant != nil && grant.Remaining() > 0 { // also where this process stood still
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return fmt.Errorf("%w: %w", ErrNotLeader, e.err)
	}
	return ErrNotLeader
}

// Close gives the leadership to another, and does not wait longer for that than ctx says.
func (e *Elector) Close(ctx context.Context) error {
	e.stop()
	select {
	case <-e.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
