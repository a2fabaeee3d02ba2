package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	redislock "github.com/redis-lock/redis-lock/clients/go"
	"github.com/redis-lock/redis-lock/clients/go/redislocktest"
)

// The examples run without a server. A program gives New a client of its own, and keeps one Locks.
var (
	ctx    = context.Background()
	server = redislocktest.New()
	locks  = redislock.New(server.Client(), redislock.Options{Service: "orders"})
)

func ExampleLocks_Do() {
	err := locks.Do(ctx, "lock:orders:42", func(ctx context.Context, grant *redislock.Grant) error {
		fmt.Println("held:", grant.Held()) // ctx ends when the lock is lost
		return nil
	})
	fmt.Println(err)
	// Output:
	// held: true
	// <nil>
}

func ExampleLocks_Acquire() {
	grant, err := locks.Acquire(ctx, "lock:orders:42", redislock.Wait(10*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(grant.Key(), grant.Token() > 0)
	fmt.Println(grant.Release(ctx))
	// Output:
	// lock:orders:42 true
	// <nil>
}

func ExampleLocks_TryAcquire() {
	grant, _ := locks.Acquire(ctx, "lock:orders:42")
	_, err := locks.TryAcquire(ctx, "lock:orders:42")
	fmt.Println(errors.Is(err, redislock.ErrBusy))
	fmt.Println(grant.Release(ctx))
	// Output:
	// true
	// <nil>
}

func ExampleLocks_AcquireAll() {
	grants, err := locks.AcquireAll(ctx, []string{"lock:seat:2", "lock:seat:1"})
	for _, grant := range grants {
		fmt.Println(grant.Key())
	}
	fmt.Println(err, grants.Release(ctx))
	// Output:
	// lock:seat:1
	// lock:seat:2
	// <nil> <nil>
}

func ExamplePermits() {
	for range 2 { // two of three
		_, err := locks.TryAcquire(ctx, "lock:exports", redislock.Permits(3))
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// <nil>
}

func ExampleLocks_Adopt() {
	grant, _ := locks.Acquire(ctx, "lock:upload:7")
	fmt.Println(grant.Detach(ctx, time.Minute)) // then another process:
	adopted, err := locks.Adopt(ctx, "lock:upload:7", grant.Owner(), grant.Token())
	fmt.Println(adopted.Token() == grant.Token(), err)
	fmt.Println(adopted.Release(ctx))
	// Output:
	// <nil>
	// true <nil>
	// <nil>
}

func ExampleGrant_OnLost() {
	grant, _ := locks.Acquire(ctx, "lock:orders:42")
	told := make(chan error)
	grant.OnLost(func(err error) { told <- err })
	server.Lose("lock:orders:42")
	fmt.Println(errors.Is(<-told, redislock.ErrLost))
	// Output: true
}
