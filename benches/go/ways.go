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

// Each way of locking connects for so many contenders, and gives handles by the names of locks.
var ways = map[string]func(port string, contenders int) func(key string) handle{
	"client":   client,
	"commands": commands,
	"redsync":  mutexes,
}

// This project's client, as docs/clients.md shows it.
func client(port string, _ int) func(key string) handle {
	user := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
	locks := redislock.New(user, redislock.Options{Service: "contenders", Lease: lease})
	return func(key string) handle {
		return func(work func()) error {
			return locks.Do(context.Background(), key, func(context.Context, *redislock.Grant) error {
				work()
				return nil
			})
		}
	}
}

// LOCK.ACQUIRE and LOCK.RELEASE and nothing else. A call that waits in the server has its connection to itself for
// as long as it waits, which is no longer than a lease: one connection for each contender.
func commands(port string, contenders int) func(key string) handle {
	connected := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:" + port, PoolSize: contenders, MinIdleConns: contenders, ReadTimeout: lease,
	})
	ctx := context.Background()
	return func(key string) handle {
		owner := uuid.NewString()
		return func(work func()) error {
			err := connected.Do(ctx, "LOCK.ACQUIRE", key, owner, "PX", lease.Milliseconds(), "BLOCK", 0).Err()
			if err != nil {
				return err
			}
			work()
			return connected.Do(ctx, "LOCK.RELEASE", key, owner).Err()
		}
	}
}

// Redsync's mutex as it ships, on one server: a contender that finds it taken asks again after 50 to 250 ms. Only
// that it gives up after 32 times is lifted, because the others never do.
func mutexes(port string, _ int) func(key string) handle {
	all := redsync.New(goredis.NewPool(redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})))
	return func(key string) handle {
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
	}
}
