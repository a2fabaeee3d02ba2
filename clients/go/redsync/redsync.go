// Package redsync has the API of go-redsync, version 4, over the locks of the Redis module redis-lock, on one server
// or on several that decide together. A change of imports suffices:
//
//	import (
//		"github.com/redis-lock/redis-lock/clients/go/redsync"
//		goredis "github.com/redis-lock/redis-lock/clients/go/redsync"
//	)
//
//	rs := redsync.New(goredis.NewPool(client))
//	mutex := rs.NewMutex("my-global-mutex")
//	if err := mutex.Lock(); err != nil {
//		panic(err)
//	}
//	defer mutex.Unlock()
//
// [Mutex.Token] is new: a fencing token that rises from holder to holder. README.md lists the other differences. New
// code uses [the client itself], because its callers queue on the server, and the server renews its locks.
//
// [the client itself]: https://pkg.go.dev/github.com/redis-lock/redis-lock/clients/go
package redsync

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/redis-lock/redis-lock/clients/go/internal/server"
)

// Pool is a server.
type Pool interface {
	client() (*redis.Client, error)
}

type pool struct{ redis.UniversalClient }

func (p pool) client() (*redis.Client, error) {
	if client, isOne := p.UniversalClient.(*redis.Client); isOne && client != nil {
		return client, nil
	}
	return nil, fmt.Errorf("redsync: a pool must be made of a *redis.Client, not of a %T", p.UniversalClient)
}

// NewPool makes a server of a client of go-redis: a *redis.Client, of one server or by Sentinels. The locks use its
// options, but connections of their own.
func NewPool(client redis.UniversalClient) Pool { return pool{client} }

// Redsync makes mutexes.
type Redsync struct {
	servers servers
	closed  chan struct{}
	end     sync.Once
	misuse  error
}

// New makes a Redsync of one server, or of several that are no replicas of each other, best an odd number.
func New(pools ...Pool) *Redsync {
	r := &Redsync{closed: make(chan struct{})}
	for _, pool := range pools {
		client, err := pool.client()
		if err != nil {
			r.misuse = err
			continue
		}
		r.servers = append(r.servers, server.New(client))
	}
	if len(pools) == 0 {
		r.misuse = errors.New("redsync: no pool")
	}
	return r
}

// Close closes the connections. Without it, they close when they have been idle for as long as the client says.
func (r *Redsync) Close() {
	r.end.Do(func() {
		close(r.closed)
		for _, one := range r.servers {
			one.Close()
		}
	})
}

// NewMutex makes a mutex of this name. Nothing is called yet.
func (r *Redsync) NewMutex(name string, options ...Option) *Mutex {
	m := &Mutex{
		redsync: r, name: name, expiry: 8 * time.Second, tries: 32, genValue: newValue,
		driftFactor: 0.01, timeoutFactor: 0.05,
		delay: func(int) time.Duration { return 50*time.Millisecond + rand.N(200*time.Millisecond) },
	}
	for _, option := range options {
		option.Apply(m)
	}
	return m
}

// newValue tells an operator who holds a lock.
func newValue() (string, error) {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s:%s:%d:%s", filepath.Base(os.Args[0]), host, os.Getpid(), uuid.NewString()), nil
}

// DelayFunc says how long to wait before the try of this number, from 1.
type DelayFunc func(tries int) time.Duration

// Option changes a mutex that is being made.
type Option interface {
	Apply(*Mutex)
}

// OptionFunc is an Option.
type OptionFunc func(*Mutex)

// Apply calls it.
func (f OptionFunc) Apply(m *Mutex) { f(m) }

// WithExpiry is the lease: how long the lock is held without [Mutex.Extend], 8 seconds by default.
func WithExpiry(expiry time.Duration) Option { return OptionFunc(func(m *Mutex) { m.expiry = expiry }) }

// WithTries is how often Lock tries: 32 times by default.
func WithTries(tries int) Option { return OptionFunc(func(m *Mutex) { m.tries = tries }) }

// WithRetryDelay is the pause between two tries: random, 50 to 250 milliseconds by default.
func WithRetryDelay(delay time.Duration) Option {
	return WithRetryDelayFunc(func(int) time.Duration { return delay })
}

// WithRetryDelayFunc is the pause before each try but the first.
func WithRetryDelayFunc(delay DelayFunc) Option {
	return OptionFunc(func(m *Mutex) { m.delay = delay })
}

// WithDriftFactor is the part of the expiry by which the lock is trusted less, in addition to 2
// milliseconds: 0.01 by default.
func WithDriftFactor(factor float64) Option {
	return OptionFunc(func(m *Mutex) { m.driftFactor = factor })
}

// WithTimeoutFactor is the part of the expiry that a server may take to answer: 0.05 by default.
func WithTimeoutFactor(factor float64) Option {
	return OptionFunc(func(m *Mutex) { m.timeoutFactor = factor })
}

// WithGenValueFunc makes the beginning of the values, one for each try. What follows it is unique.
func WithGenValueFunc(genValue func() (string, error)) Option {
	return OptionFunc(func(m *Mutex) {
		m.genValue = func() (string, error) {
			value, err := genValue()
			return value + ":" + uuid.NewString(), err
		}
	})
}

// WithValue takes the [Mutex.Value] of a mutex that is locked, to extend or unlock it from elsewhere.
func WithValue(value string) Option { return OptionFunc(func(m *Mutex) { m.value = value }) }

// WithFailFast fails when a majority has refused, without waiting for the other servers.
func WithFailFast(b bool) Option { return OptionFunc(func(m *Mutex) { m.failFast = b }) }

// WithShufflePools changes nothing: all servers are always asked at once.
func WithShufflePools(bool) Option { return OptionFunc(func(*Mutex) {}) }

// WithSetNXOnExtend lets [Mutex.Extend] acquire a lost lock again, if it is free. That is another grant: its Value and
// its Token are new.
func WithSetNXOnExtend() Option { return OptionFunc(func(m *Mutex) { m.takesAgain = true }) }
