package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	redislock "github.com/redis-lock/redis-lock/clients/go"
)

// The task that the contenders of this process share.
type task struct {
	ports      []string
	contenders int
	lease      time.Duration
	// The port of the server where a holder writes, or none.
	register []string
}

// A handle is one contender's view of a lock: it takes the lock, works, and gives it back.
type handle func(work func()) error

// Each way of locking connects, and gives handles by the names of locks.
var ways = map[string]func(task) func(key string) handle{
	"client":        client,
	"commands":      commands,
	"redsync":       func(task task) func(string) handle { return mutexes(task, false) },
	"redsync-quick": func(task task) func(string) handle { return mutexes(task, true) },
}

// This project's client, as docs/clients.md shows it.
func client(task task) func(key string) handle {
	user := redis.NewClient(&redis.Options{Addr: address(task.ports[0])})
	locks := redislock.New(user, redislock.Options{Service: "contenders", Lease: task.lease})
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
func commands(task task) func(key string) handle {
	connected := redis.NewClient(&redis.Options{
		Addr: address(task.ports[0]), PoolSize: task.contenders, MinIdleConns: task.contenders, ReadTimeout: task.lease,
	})
	ctx := context.Background()
	return func(key string) handle {
		owner := uuid.NewString()
		return func(work func()) error {
			err := connected.Do(ctx, "LOCK.ACQUIRE", key, owner, "PX", task.lease.Milliseconds(), "BLOCK", 0).Err()
			if err != nil {
				return err
			}
			work()
			return connected.Do(ctx, "LOCK.RELEASE", key, owner).Err()
		}
	}
}

// Redsync's mutex as it ships: a contender that finds it taken asks again after 50 to 250 ms. Only that it gives up
// after 32 times is lifted, because the others never do. It waits for the answers of all servers, and go-redis repeats
// calls and connects again where a server does not answer; quick is without that. There is nothing that a register could
// refuse a write by.
func mutexes(task task, isQuick bool) func(key string) handle {
	pools := []redsyncredis.Pool{}
	for _, port := range task.ports {
		options := redis.Options{Addr: address(port)}
		if isQuick {
			options.MaxRetries = -1
			options.DialerRetries = 1
		}
		pools = append(pools, goredis.NewPool(redis.NewClient(&options)))
	}
	all, failFast := redsync.New(pools...), redsync.WithFailFast(isQuick)
	return func(key string) handle {
		mutex := all.NewMutex(key, redsync.WithExpiry(task.lease), redsync.WithTries(math.MaxInt32), failFast)
		return func(work func()) error {
			if err := mutex.Lock(); err != nil {
				return err
			}
			work()
			for _, port := range task.register {
				fmt.Println("held")
				input.Scan()
				register := redis.NewClient(&redis.Options{Addr: address(port)})
				err := register.HSet(context.Background(), "register", "text", os.Getpid()).Err()
				if err != nil {
					return err
				}
			}
			released, err := mutex.Unlock()
			if err == nil && !released {
				return errors.New("the lock was lost")
			}
			return err
		}
	}
}

func address(port string) string {
	return "127.0.0.1:" + port
}
