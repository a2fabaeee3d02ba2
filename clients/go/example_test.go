package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/redis-lock/redis-lock/clients/go"
	"github.com/redis-lock/redis-lock/clients/go/redislocktest"
)

// The examples run without a server. A program gives New a client of its own, and keeps one Locks.
var (
	ctx    = context.Background()
	server = redislocktest.New()
	locks  = redislock.New(server.Client(), redislock.Options{Service: "orders"})
)

func ExampleNew() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"}) // or a cluster's, or by Sentinels
	defer client.Close()
	locks := redislock.New(client, redislock.Options{Service: "orders", Prefix: "lock:", Lease: 5 * time.Second})
	fmt.Println(locks.Close(ctx))
	// Output: <nil>
}

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
	other := redislock.New(server.Client(), redislock.Options{Service: "uploads"})
	adopted, err := other.Adopt(ctx, "lock:upload:7", grant.Owner(), grant.Token())
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

func ExampleLocks_Lead() {
	ctx, stop := context.WithCancel(ctx)
	err := locks.Lead(ctx, "lock:leader", func(ctx context.Context, grant *redislock.Grant) error {
		fmt.Println("leads:", grant.Held())
		stop() // the program ends
		return nil
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// leads: true
	// true
}

func ExampleLocks_Task() {
	task := locks.Task()
	grant, _ := task.Acquire(ctx, "lock:orders:42")
	again, err := task.Acquire(ctx, "lock:orders:42") // does not wait
	fmt.Println(again == grant, err)
	fmt.Println(grant.Release(ctx), grant.Held())
	fmt.Println(grant.Release(ctx), grant.Held())
	// Output:
	// true <nil>
	// <nil> true
	// <nil> false
}

func ExampleGrant() {
	grant, err := locks.Acquire(ctx, "lock:orders:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	work, cancel := grant.Context(ctx) // ends when the lock is lost
	defer cancel()
	fmt.Println(grant.Check(work)) // before a step that matters
	fmt.Println(grant.Extend(work, 30*time.Second))
	fmt.Println(grant.Held(), grant.Remaining() > 0, grant.Err())
	fmt.Println(grant.Release(ctx))
	// Output:
	// <nil>
	// <nil>
	// true true <nil>
	// <nil>
}

func ExampleError() {
	grant, _ := locks.Acquire(ctx, "lock:orders:42")
	_, err := locks.TryAcquire(ctx, "lock:orders:42")
	var failed *redislock.Error
	if errors.As(err, &failed) {
		fmt.Println(failed.Op, failed.Key, errors.Is(err, redislock.ErrBusy))
	}
	fmt.Println(grant.Release(ctx))
	// Output:
	// acquire lock:orders:42 true
	// <nil>
}

func ExampleShared() {
	for range 2 { // readers
		grant, err := locks.TryAcquire(ctx, "lock:prices", redislock.Shared())
		fmt.Println(err)
		defer grant.Release(ctx)
	}
	_, err := locks.TryAcquire(ctx, "lock:prices") // a writer
	fmt.Println(errors.Is(err, redislock.ErrBusy))
	// Output:
	// <nil>
	// <nil>
	// true
}

func ExampleFixed() {
	grant, err := locks.Acquire(ctx, "lock:report", redislock.Wait(10*time.Second), redislock.Fixed(time.Minute))
	fmt.Println(err)
	fmt.Println(grant.Extend(ctx, time.Minute)) // nobody else renews it
	fmt.Println(grant.Release(ctx))
	// Output:
	// <nil>
	// <nil>
	// <nil>
}

func ExampleAtMost() {
	grant, _ := locks.Acquire(ctx, "lock:report", redislock.AtMost(10*time.Millisecond))
	<-grant.Lost()
	fmt.Println(errors.Is(grant.Err(), redislock.ErrLost))
	// Output: true
}

func ExampleObserver() {
	observer := redislock.Observer{Acquired: func(key string, took time.Duration, err error) {
		fmt.Println(key, took < time.Minute, err)
	}}
	locks := redislock.New(server.Client(), redislock.Options{Observer: observer})
	grant, _ := locks.Acquire(ctx, "lock:orders:42")
	fmt.Println(grant.Release(ctx))
	// Output:
	// lock:orders:42 true <nil>
	// <nil>
}

func ExampleQuorum() {
	var clients []redis.UniversalClient // of servers that fail by themselves
	for range 3 {
		clients = append(clients, redislocktest.New().Client())
	}
	quorum := redislock.NewQuorum(clients, redislock.Options{Service: "reports"})
	grant, err := quorum.Acquire(ctx, "lock:report", redislock.Wait(10*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(grant.Check(ctx)) // before a step that matters
	fmt.Println(grant.Release(ctx), quorum.Close(ctx))
	// Output:
	// <nil>
	// <nil> <nil>
}

func ExampleQuorum_Do() {
	var clients []redis.UniversalClient
	for range 3 {
		clients = append(clients, redislocktest.New().Client())
	}
	quorum := redislock.NewQuorum(clients, redislock.Options{Service: "reports"})
	err := quorum.Do(ctx, "lock:report", func(ctx context.Context, grant *redislock.QuorumGrant) error {
		fmt.Println("held:", grant.Held()) // ctx ends when the lock is lost
		return nil
	})
	fmt.Println(err, quorum.Close(ctx))
	// Output:
	// held: true
	// <nil> <nil>
}
