// Package redislock takes the locks of the server module redis-lock with go-redis. To use it, copy
// this folder: redislock.go and grant.go.
//
//	locks := redislock.New(redis.UniversalOptions{Addrs: []string{"127.0.0.1:6379"}}, "billing")
//	defer locks.Close() // call it on SIGTERM too: it stops renewing and waiting, and releases
//	options := redislock.Options{Lease: 30 * time.Second, Wait: time.Minute}
//	err := locks.WithLock(ctx, "lock:orders:42", options,
//		func(ctx context.Context, lock *redislock.Lock) error {
//			return pay(ctx, lock.Token()) // claims, reads, writes; ctx ends when the lock is lost
//		})
//
// What it sees to:
//   - Waiting is one call for the full time, on a connection of its own. When its context ends, the
//     wait is cancelled, and neither a hold nor a place in the queue stays behind.
//   - A lock is renewed every third of its lease. It is lost when the server says so, or when a
//     lease has passed, by the monotonic clock, since the last call that was answered was sent. Then
//     Context ends at once with the cause ErrLost, and so say Err and Unlock.
//   - Each Lock is an owner of its own, but with a context that comes from Lock.Context it enters
//     the same lock again. Every Lock needs its own Unlock; the order does not matter.
//   - A call whose answer was lost is sent again, and does not count twice.
//   - Single servers, Sentinel and clusters: whichever redis.UniversalOptions describes.
//
// What no client can promise is that the lock is still held when a write arrives. So what is written to
// has to look at the Token. In SQL, claim the row, then read, then write under the claim:
//
//	UPDATE orders SET fence = $1 WHERE id = 42 AND fence <= $1          -- no row: stale, stop
//	SELECT state FROM orders WHERE id = 42
//	UPDATE orders SET state = 'paid' WHERE id = 42 AND fence = $1       -- no row: stale, not written
//
// docs/fencing.md of redis-lock says why, and has the other cases. In Redis it is LOCK.FENCE in the
// script that writes.
package redislock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// What the methods say, beside the errors of Redis and of contexts.
var (
	ErrTaken    = errors.New("redislock: another owner holds the lock")
	ErrLost     = errors.New("redislock: the lock is lost")
	ErrClosed   = errors.New("redislock: closed, and all locks released")
	ErrUnlocked = errors.New("redislock: unlocked before")
)

// Options of a Lock: how long it outlives its holder, and how long to wait for it (0: not at all,
// less: for ever).
type Options struct{ Lease, Wait time.Duration }

// Locks are the locks of a process on one server, one Sentinel group or one cluster.
type Locks struct {
	client  redis.UniversalClient
	process string // service:host:pid
	ctx     context.Context
	end     context.CancelCauseFunc
	mu      sync.Mutex
	grants  map[*grant]struct{}
	calls   sync.WaitGroup // of Lock
}

// New connects when a lock is first asked for. The service's name begins the name of each owner.
func New(options redis.UniversalOptions, service string) *Locks {
	options.MaxRetries = -1 // calls are repeated here, where it is seen that they are
	options.ContextTimeoutEnabled = true
	if options.ReadTimeout == 0 {
		options.ReadTimeout = time.Second
	}
	host, _ := os.Hostname()
	process := fmt.Sprintf("%s:%s:%d", service, host, os.Getpid())
	l := &Locks{client: redis.NewUniversalClient(&options), process: process, grants: map[*grant]struct{}{}}
	l.ctx, l.end = context.WithCancelCause(context.Background())
	return l
}

// WithLock works under the lock. Where the lock was lost meanwhile, the error is ErrLost too.
func (l *Locks) WithLock(ctx context.Context, key string, options Options,
	work func(ctx context.Context, lock *Lock) error) (err error) {
	lock, err := l.Lock(ctx, key, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	return work(lock.Context(), lock)
}

// Close stops renewing and waiting, ends the contexts of all locks, and releases them.
func (l *Locks) Close() error {
	l.mu.Lock()
	l.end(ErrClosed)
	l.mu.Unlock()
	l.calls.Wait()
	var releases sync.WaitGroup
	l.mu.Lock()
	for g := range l.grants {
		releases.Go(func() { _ = g.giveBack(0, ErrClosed) })
	}
	l.mu.Unlock()
	releases.Wait()
	return l.client.Close()
}

// place is under which a context keeps the grant of a lock.
type place struct {
	locks *Locks
	key   string
}

// Lock takes the lock, and waits in its queue for as long as the options say: then it is ErrTaken.
func (l *Locks) Lock(ctx context.Context, key string, options Options) (*Lock, error) {
	l.mu.Lock()
	if l.ctx.Err() != nil {
		l.mu.Unlock()
		return nil, ErrClosed
	}
	l.calls.Add(1)
	l.mu.Unlock()
	defer l.calls.Done()

	if g, ok := ctx.Value(place{l, key}).(*grant); ok {
		if err := g.enter(ctx, options.Lease); err != nil {
			return nil, err
		}
		return &Lock{grant: g, ctx: ctx}, nil
	}
	g := &grant{locks: l, key: key, owner: l.process + ":" + uuid.NewString(), holds: 1}
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.ctx, func() { cancel(ErrClosed) })()
	answer, sent, err := g.acquire(waiting, options)
	if err != nil {
		return nil, err
	}
	g.token = answer[0].(int64)
	g.ctx, g.end = context.WithCancelCause(context.WithValue(ctx, place{l, key}, g))
	g.trust(answer, sent)
	return &Lock{grant: g, ctx: g.ctx}, nil
}

// Lock is one hold of a lock.
type Lock struct {
	grant    *grant
	ctx      context.Context
	unlocked sync.Once
}

// Context ends when the lock is lost, or unlocked for the last time. With it, Lock enters again.
func (k *Lock) Context() context.Context { return k.ctx }

// Token is the fencing token: later owners of the lock have higher ones.
func (k *Lock) Token() int64 { return k.grant.token }

// Until is when the lease ends unless it is renewed.
func (k *Lock) Until() time.Time { return k.grant.trusted() }

// Err is nil while the lock is held. It looks at the clock, not at the server.
func (k *Lock) Err() error { return k.grant.expire() }

// Unlock gives this hold back, with its context or without.
func (k *Lock) Unlock() error {
	err := ErrUnlocked
	k.unlocked.Do(func() { err = k.grant.unlock() })
	return err
}
