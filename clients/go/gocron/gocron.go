// Package gocron lets several schedulers of gocron, version 2, have each run of a job once, or lets one of them lead, by
// the locks of the Redis module redis-lock.
//
//	locker := redislockgocron.NewLocker(locks)
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
package gocron

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	redislock "github.com/redis-lock/redis-lock/clients/go"
)

// Locker lets one scheduler have each run of a job. It is a gocron.Locker.
type Locker struct {
	locks   *redislock.Locks
	options []redislock.LockOption
	prefix  string
	atLeast time.Duration
	failed  func(key string, err error)

	mu       sync.Mutex
	idle     map[string]*lock // held for longer than their runs
	releases sync.WaitGroup   // of those
}

var (
	_ gocron.Locker  = (*Locker)(nil)
	_ gocron.Elector = (*Elector)(nil)
)

// Option of [NewLocker].
type Option func(*Locker)

// WithPrefix sets the beginning of the names of the locks, before the name of the job: "gocron:" by default.
func WithPrefix(prefix string) Option { return func(l *Locker) { l.prefix = prefix } }

// WithLock says how the locks are acquired, with options of the client. Without [redislock.Wait] in them the Locker does
// not wait for a lock that another scheduler holds, because that one has the run.
func WithLock(options ...redislock.LockOption) Option { return func(l *Locker) { l.options = options } }

// WithAtLeast holds the lock for this long from its beginning, even if the run ends earlier, so that schedulers whose
// clocks differ by less do not run a short job twice: 500 milliseconds by default. Clocks that are set by NTP differ by
// far less, and the shortest interval of a CronJob is longer: with 1 second the lock of one run would be in the way of
// the next. The scheduler that has the lock may run the job more often, because its next run takes the lock over.
func WithAtLeast(least time.Duration) Option { return func(l *Locker) { l.atLeast = least } }

// WithFailed is called with what gocron does not report: a lock that was lost during its run, or could not be released.
func WithFailed(failed func(key string, err error)) Option {
	return func(l *Locker) { l.failed = failed }
}

// NewLocker makes a Locker. At the end shut down the scheduler, then close the Locker, then the locks.
func NewLocker(locks *redislock.Locks, options ...Option) *Locker {
	l := &Locker{locks: locks, prefix: "gocron:", atLeast: 500 * time.Millisecond, failed: func(string, error) {},
		idle: map[string]*lock{}}
	for _, option := range options {
		option(l)
	}
	return l
}

// Lock takes the lock of a job's run, by the job's name. Gocron calls it, and skips the run after an error, which is that
// of the client: [redislock.ErrBusy] if another scheduler has it.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	until := time.Now().Add(l.atLeast)
	if last := l.takeOver(key, until); last != nil {
		return last, nil
	}
	options := append([]redislock.LockOption{redislock.Wait(0)}, l.options...)
	grant, err := l.locks.Acquire(ctx, l.prefix+key, options...)
	if err != nil {
		return nil, err
	}
	held := &lock{locker: l, grant: grant, key: key, until: until}
	grant.OnLost(func(err error) {
		if l.endsIdle(held, time.Time{}) {
			l.releases.Done()
		} else {
			l.failed(key, err)
		}
	})
	return held, nil
}

// takeOver returns the lock of the last run if it is still held.
func (l *Locker) takeOver(key string, until time.Time) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.idle[key]
	if last == nil || !last.grant.Held() {
		return nil
	}
	delete(l.idle, key)
	last.until = until
	return last
}

// Close releases the locks that are held for longer than their runs, when their time is over or ctx ends.
func (l *Locker) Close(ctx context.Context) error {
	until := map[*lock]time.Time{}
	l.mu.Lock()
	for _, idle := range l.idle {
		until[idle] = idle.until
	}
	l.mu.Unlock()
	for idle, until := range until {
		select {
		case <-time.After(time.Until(until)):
		case <-ctx.Done():
		}
		l.releaseIdle(idle, until)
	}
	l.releases.Wait()
	return ctx.Err()
}

func (l *Locker) releaseIdle(idle *lock, until time.Time) {
	if l.endsIdle(idle, until) { // otherwise the next run has it
		defer l.releases.Done()
		_ = idle.release()
	}
}

// endsIdle reports whether the lock was held for longer than its run, until this time or any. Now its holding is over.
func (l *Locker) endsIdle(idle *lock, until time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.idle[idle.key] != idle || !until.IsZero() && until != idle.until {
		return false
	}
	delete(l.idle, idle.key)
	l.releases.Add(1)
	return true
}

// lock is held for the time of a run, and at least until a time.
type lock struct {
	locker *Locker
	grant  *redislock.Grant
	key    string
	until  time.Time // of the mutex of the Locker while it is idle
}

// Unlock releases the lock, even if ctx has ended: gocron's ends when the scheduler is shut down. If the lock has to be
// held for longer it is released then. No lease ends for that, because a server that counts its expirations would
// report one.
func (l *lock) Unlock(context.Context) error {
	rest := time.Until(l.until)
	if rest <= 0 || l.grant.Err() != nil {
		return l.release()
	}
	l.locker.mu.Lock()
	defer l.locker.mu.Unlock()
	l.locker.idle[l.key] = l
	until := l.until
	time.AfterFunc(rest, func() { l.locker.releaseIdle(l, until) })
	return nil
}

func (l *lock) release() error {
	err := l.grant.Release(context.Background())
	if err != nil && !errors.Is(err, redislock.ErrLost) && !errors.Is(err, redislock.ErrClosed) { // which are known
		l.locker.failed(l.key, err)
	}
	return err
}

// Elector lets one scheduler run all jobs: the one that holds the lock, until it ends. It is a gocron.Elector.
type Elector struct {
	stop  context.CancelFunc
	ended chan struct{}

	mu    sync.Mutex
	grant *redislock.Grant
	err   error // of the last election
}

// ErrNotLeader is the error of IsLeader for all schedulers but one.
var ErrNotLeader = errors.New("another scheduler leads")

const pause = time.Second // after an election that failed

// NewElector stands for election by the lock of this key, until it is closed or ctx ends. After an error, which IsLeader
// reports, it tries again: the server may let it in later.
func NewElector(ctx context.Context, locks *redislock.Locks, key string, options ...redislock.LockOption) *Elector {
	standing, stop := context.WithCancel(ctx)
	e := &Elector{stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(e.ended)
		for standing.Err() == nil {
			err := locks.Lead(standing, key, func(ctx context.Context, grant *redislock.Grant) error {
				e.set(grant, nil)
				defer e.set(nil, nil)
				<-ctx.Done()
				return nil
			}, options...)
			e.set(nil, err)
			select {
			case <-time.After(pause):
			case <-standing.Done():
			}
		}
	}()
	return e
}

func (e *Elector) set(grant *redislock.Grant, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.grant, e.err = grant, err
}

// IsLeader is nil for the scheduler that leads.
func (e *Elector) IsLeader(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.grant != nil && e.grant.Held(): // not after this process was suspended
		return nil
	case e.err != nil:
		return fmt.Errorf("%w: %w", ErrNotLeader, e.err)
	}
	return ErrNotLeader
}

// Close gives up the leadership, for another scheduler. It waits no longer than until ctx ends.
func (e *Elector) Close(ctx context.Context) error {
	e.stop()
	select {
	case <-e.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
