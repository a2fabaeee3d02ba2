package main

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	redislock "github.com/redis-lock/redis-lock/clients/go"
)

const lease = 30 * time.Second

// A handle is one contender's view of a lock: it takes the lock, works, and gives it back.
type handle func(work func()) error

// A way of locking, connected for so many contenders.
type way interface {
	handle(key string) handle
	close() error
}

var ways = map[string]func(port string, contenders int) way{
	"client":   newClient,
	"commands": newCommands,
	"redsync":  newRedsync,
}

// This project's client, as docs/clients.md shows it.
type client struct {
	redis *redis.Client
	locks *redislock.Locks
}

func newClient(port string, _ int) way {
	connected := redis.NewClient(options(port))
	return client{connected, redislock.New(connected, redislock.Options{Service: "contenders", Lease: lease})}
}

func (c client) handle(key string) handle {
	return func(work func()) error {
		return c.locks.Do(context.Background(), key, func(context.Context, *redislock.Grant) error {
			work()
			return nil
		})
	}
}

func (c client) close() error {
	return errors.Join(c.locks.Close(context.Background()), c.redis.Close())
}

// LOCK.ACQUIRE and LOCK.RELEASE and nothing else, on connections that are kept.
type commands struct{ redis *redis.Client }

func newCommands(port string, contenders int) way { return commands{connect(port, contenders)} }

func (c commands) handle(key string) handle {
	owner := uuid.NewString()
	return func(work func()) error {
		ctx := context.Background()
		err := c.redis.Do(ctx, "LOCK.ACQUIRE", key, owner, "PX", lease.Milliseconds(), "BLOCK", 0).Err()
		if err != nil {
			return err
		}
		work()
		return c.redis.Do(ctx, "LOCK.RELEASE", key, owner).Err()
	}
}

func (c commands) close() error { return c.redis.Close() }

// Redsync's mutex as it ships, on one server: who finds it taken asks again after 50 to 250 ms. Only
// that it gives up after 32 times is lifted, because the others never do.
type redsyncs struct {
	redis *redis.Client
	sync  *redsync.Redsync
}

func newRedsync(port string, contenders int) way {
	client := connect(port, contenders)
	return redsyncs{client, redsync.New(goredis.NewPool(client))}
}

func (r redsyncs) handle(key string) handle {
	mutex := r.sync.NewMutex(key, redsync.WithExpiry(lease), redsync.WithTries(math.MaxInt32))
	return func(work func()) error {
		if err := mutex.Lock(); err != nil {
			return err
		}
		work()
		released, err := mutex.Unlock()
		if err == nil && !released {
			return errors.New("the lock was lost")
		}
		return err
	}
}

func (r redsyncs) close() error { return r.redis.Close() }

// The options of the user's client, the same for all ways.
func options(port string) *redis.Options { return &redis.Options{Addr: "127.0.0.1:" + port} }

// A call that waits in the server has its connection to itself for as long as it waits: one connection for each
// contender. No wait is longer than a lease.
func connect(port string, contenders int) *redis.Client {
	with := options(port)
	with.PoolSize, with.MinIdleConns, with.ReadTimeout = contenders, contenders, lease
	return redis.NewClient(with)
}
