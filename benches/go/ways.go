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
type way struct {
	handle func(key string) handle
	close  func() error
}

var ways = map[string]func(port string, contenders int) way{
	"client":   newClient,
	"commands": newCommands,
	"redsync":  newRedsync,
}

// This project's client, as docs/clients.md shows it.
func newClient(port string, _ int) way {
	client := redis.NewClient(options(port))
	locks := redislock.New(client, redislock.Options{Service: "contenders", Lease: lease})
	return way{
		handle: func(key string) handle {
			return func(work func()) error {
				return locks.Do(context.Background(), key, func(context.Context, *redislock.Grant) error {
					work()
					return nil
				})
			}
		},
		close: func() error { return errors.Join(locks.Close(context.Background()), client.Close()) },
	}
}

// LOCK.ACQUIRE and LOCK.RELEASE and nothing else, on connections that are kept.
func newCommands(port string, contenders int) way {
	client := connect(port, contenders)
	ctx := context.Background()
	return way{close: client.Close, handle: func(key string) handle {
		owner := uuid.NewString()
		return func(work func()) error {
			err := client.Do(ctx, "LOCK.ACQUIRE", key, owner, "PX", lease.Milliseconds(), "BLOCK", 0).Err()
			if err != nil {
				return err
			}
			work()
			return client.Do(ctx, "LOCK.RELEASE", key, owner).Err()
		}
	}}
}

// Redsync's mutex as it ships, on one server: who finds it taken asks again after 50 to 250 ms. Only
// that it gives up after 32 times is lifted, because the others never do.
func newRedsync(port string, contenders int) way {
	client := connect(port, contenders)
	all := redsync.New(goredis.NewPool(client))
	return way{close: client.Close, handle: func(key string) handle {
		mutex := all.NewMutex(key, redsync.WithExpiry(lease), redsync.WithTries(math.MaxInt32))
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
	}}
}

// The options of the user's client, the same for all ways.
func options(port string) *redis.Options { return &redis.Options{Addr: "127.0.0.1:" + port} }

// A call that waits in the server has its connection to itself for as long as it waits: one connection for each
// contender. No wait is longer than a lease.
func connect(port string, contenders int) *redis.Client {
	with := options(port)
	with.PoolSize, with.MinIdleConns, with.ReadTimeout = contenders, contenders, lease
	return redis.NewClient(with)
}
