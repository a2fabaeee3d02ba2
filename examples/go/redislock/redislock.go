// Package redislock takes the locks of the server module redis-lock with go-redis. To use it, copy
// this file.
//
//	locks := redislock.New(redis.UniversalOptions{Addrs: []string{"127.0.0.1:6379"}}, "billing")
//	defer locks.Close() // call it on SIGTERM too: it stops renewing and waiting, and releases
//	options := redislock.Options{Lease: 30 * time.Second, Wait: time.Minute}
//	err := locks.WithLock(ctx, "lock:{order:42}", options,
//		func(ctx context.Context, lock *redislock.Lock) error {
//			return pay(ctx, lock.Token()) // ctx ends when the lock is lost
//		})
//
// What it sees to:
//   - Waiting is one call for the full time, on a connection of its own. When its context ends, the
//     wait is called off, and neither a hold nor a place in the queue stays behind.
//   - A lock is renewed every third of its lease. It is lost when the server says so, or when a
//     lease has passed, by the monotonic clock, since the last call that was answered was sent. Then
//     Context ends at once with the cause ErrLost, and so say Err and Unlock.
//   - Each Lock is an owner of its own, but with a context that comes from Lock.Context it enters
//     the same lock again. Every Lock needs its own Unlock; the order does not matter.
//   - A call whose answer was lost is sent again, and does not count twice.
//   - Single servers, Sentinel and clusters: whichever redis.UniversalOptions describes.
//
// What no client can promise is that the lock is still held when a write arrives. So send Token with
// each write, and let the place that is written to refuse a lower one than it has seen.
package redislock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
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

const (
	patience = 3 * time.Second       // how long to try to reach the server, where no lease says it
	pause    = 50 * time.Millisecond // before a call is sent again
	margin   = 5 * time.Second       // how much longer than a wait its read timeout is
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

// place is under which a context keeps the grant of a lock.
type place struct {
	locks *Locks
	key   string
}

// grant is one ownership of a lock, from the first Lock to the last Unlock.
type grant struct {
	locks      *Locks
	key, owner string
	token      int64
	ctx        context.Context
	end        context.CancelCauseFunc
	turn       sync.Mutex // one change of holds at a time
	holds      int

	mu             sync.Mutex
	until          time.Time
	over           error // why it has ended
	renewal, lapse *time.Timer
}

func (g *grant) acquire(ctx context.Context, options Options) (answer []any, sent time.Time, err error) {
	begun := time.Now()
	until := begun.Add(max(patience, options.Wait))
	if options.Wait < 0 {
		until = begun.Add(100 * 365 * 24 * time.Hour)
	}
	command := []any{"LOCK.ACQUIRE", g.key, g.owner, "PX", options.Lease.Milliseconds(), "HOLDS", 1}
	for {
		answer, sent, err = g.locks.call(ctx, until, g.key, command...)
		left := options.Wait - time.Since(begun)
		if err == nil && answer == nil && (options.Wait < 0 || left >= time.Millisecond) {
			answer, err = g.wait(ctx, command, max(0, left))
			if err == nil && answer != nil { // when the lease began is not known, so it begins anew
				answer, sent, err = g.locks.call(ctx, until, g.key, "LOCK.RENEW", g.key, g.owner, "TOKEN", answer[0])
			}
			if err != nil && (refused(err) || !final(err)) && ctx.Err() == nil && time.Now().Before(until) {
				continue // the connection broke, or the lease passed before the answer was here
			}
		}
		switch {
		case err != nil && !final(err):
			g.callOff() // the server may have done what it was asked
			return nil, sent, errors.Join(err, context.Cause(ctx))
		case err == nil && answer == nil:
			return nil, sent, ErrTaken
		default:
			return answer, sent, err
		}
	}
}

// wait stands in the queue, with a connection of its own.
func (g *grant) wait(ctx context.Context, command []any, wait time.Duration) ([]any, error) {
	node, err := g.locks.node(ctx, g.key)
	if err != nil {
		return nil, err
	}
	options := *node.Options()
	options.PoolSize, options.MinIdleConns, options.ReadTimeout = 1, 0, -1
	if wait > 0 {
		options.ReadTimeout = wait + margin
	}
	own := redis.NewClient(&options)
	defer own.Close()
	answer, failure := []any(nil), make(chan error, 1)
	go func() {
		command := slices.Concat(command, []any{"BLOCK", wait.Milliseconds()})
		var err error
		answer, err = array(own.Do(context.WithoutCancel(ctx), command...))
		failure <- err
	}()
	select {
	case err := <-failure:
		return answer, err
	case <-ctx.Done():
		g.callOff()
		select {
		case <-failure: // nil, or a grant that was called off too, or that came after all
		case <-time.After(time.Second):
			own.Close()
		}
		return nil, context.Cause(ctx) // and acquire calls it off again
	}
}

// callOff leaves neither a hold nor a wait of this owner.
func (g *grant) callOff() {
	until := time.Now().Add(time.Second)
	_, _, _ = g.locks.call(context.Background(), until, g.key, "LOCK.RELEASE", g.key, g.owner, "ALL")
}

func (g *grant) enter(ctx context.Context, lease time.Duration) error {
	g.turn.Lock()
	defer g.turn.Unlock()
	if err := g.expire(); err != nil {
		return err
	}
	answer, sent, err := g.locks.call(ctx, g.trusted(), g.key, "LOCK.ACQUIRE", g.key, g.owner,
		"PX", lease.Milliseconds(), "HOLDS", g.holds+1, "TOKEN", g.token)
	if err == nil {
		g.holds++
		g.trust(answer, sent)
	}
	return g.judge(err)
}

func (g *grant) unlock() error {
	g.turn.Lock()
	defer g.turn.Unlock()
	if err := g.expire(); err != nil {
		return err
	}
	g.holds--
	return g.giveBack(g.holds, ErrUnlocked)
}

// giveBack releases all holds but these. With the last one the work has to end first.
func (g *grant) giveBack(holds int, why error) error {
	if holds == 0 {
		g.finish(why)
	}
	_, _, err := g.locks.call(context.Background(), g.trusted(), g.key, "LOCK.RELEASE", g.key, g.owner,
		"HOLDS", holds, "TOKEN", g.token)
	if holds == 0 && refused(err) && errors.Is(err, errRepeated) {
		return nil // it was done the first time
	}
	return g.judge(err)
}

// trust counts the lease from when the call that set it was sent.
func (g *grant) trust(answer []any, sent time.Time) {
	lease := time.Duration(answer[3].(int64)) * time.Millisecond
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.over != nil || sent.Add(lease).Before(g.until):
	case g.renewal == nil:
		g.until = sent.Add(lease)
		g.renewal = time.AfterFunc(time.Until(sent.Add(lease/3)), g.renew)
		g.lapse = time.AfterFunc(time.Until(g.until), func() { _ = g.expire() })
		g.locks.mu.Lock()
		g.locks.grants[g] = struct{}{}
		g.locks.mu.Unlock()
	default:
		g.until = sent.Add(lease)
		g.renewal.Reset(time.Until(sent.Add(lease / 3)))
		g.lapse.Reset(time.Until(g.until))
	}
}

func (g *grant) trusted() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.until
}

// renew is run by the timers of Go, which serve all locks and need no goroutine for each.
func (g *grant) renew() {
	answer, sent, err := g.locks.call(g.locks.ctx, g.trusted(), g.key, "LOCK.RENEW", g.key, g.owner, "TOKEN", g.token)
	if err == nil {
		g.trust(answer, sent)
	}
	_ = g.judge(err)
}

// expire says why the grant has ended, and ends it when its time is up.
func (g *grant) expire() error {
	if !time.Now().Before(g.trusted()) {
		g.finish(fmt.Errorf("%w: no answer for a whole lease", ErrLost))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.over
}

// judge ends the grant when the server says that it has ended.
func (g *grant) judge(err error) error {
	if refused(err) {
		err = fmt.Errorf("%w: %w", ErrLost, err)
		g.finish(err)
	}
	return err
}

func (g *grant) finish(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over != nil {
		return
	}
	g.over = why
	g.renewal.Stop()
	g.lapse.Stop()
	g.end(why)
	g.locks.mu.Lock()
	delete(g.locks.grants, g)
	g.locks.mu.Unlock()
}

var errRepeated = errors.New("sent more than once")

// call sends a command until the server has answered it, and tells when the answered one was sent.
func (l *Locks) call(ctx context.Context, until time.Time, key string, command ...any) (answer []any, sent time.Time, err error) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for repeated := false; ; repeated = true {
		var node *redis.Client
		sent = time.Now()
		if node, err = l.node(ctx, key); err == nil {
			answer, err = array(node.Do(ctx, command...))
		}
		if err != nil && repeated {
			err = fmt.Errorf("%w (%w)", err, errRepeated)
		}
		if err == nil || final(err) {
			return answer, sent, err
		}
		if cluster, ok := l.client.(*redis.ClusterClient); ok {
			cluster.ReloadState(ctx) // the lock may have moved to another node
		}
		select {
		case <-ctx.Done():
			return nil, sent, err
		case <-time.After(pause):
		}
	}
}

// node is the primary that serves the key.
func (l *Locks) node(ctx context.Context, key string) (*redis.Client, error) {
	if cluster, ok := l.client.(*redis.ClusterClient); ok {
		return cluster.MasterForKey(ctx, key)
	}
	return l.client.(*redis.Client), nil
}

// array is the answer of all lock commands: nil, one number, or a grant.
func array(cmd *redis.Cmd) ([]any, error) {
	switch answer, err := cmd.Result(); answer := answer.(type) {
	case []any:
		return answer, err
	case int64:
		return []any{answer}, err
	default:
		if errors.Is(err, redis.Nil) {
			err = nil
		}
		return nil, err
	}
}

func firstWord(err error) string {
	var answer redis.Error
	if !errors.As(err, &answer) {
		return ""
	}
	word, _, _ := strings.Cut(answer.Error(), " ")
	return word
}

func refused(err error) bool {
	return slices.Contains([]string{"NOTHELD", "NOTOWNER", "FENCED"}, firstWord(err))
}

// final is false where nobody knows whether the command was done, or the server may do it later.
func final(err error) bool {
	passing := []string{"", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "UNBLOCKED", "LOADING",
		"MASTERDOWN", "NOREPLICAS", "MISCONF"}
	return !slices.Contains(passing, firstWord(err))
}
