package redislock

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-lock/redis-lock/clients/go/internal/wire"
)

func TestWaitsInOneCallOnAConnectionOfItsOwn(t *testing.T) {
	t.Parallel()
	server := start(t)
	server.do("LOCK.ACQUIRE k other EX 60")
	locks := server.locks(func(options *redis.Options) {
		options.PoolSize = 1
		options.ReadTimeout = 300 * time.Millisecond // shorter than the wait
	})
	waiting := inBackground(background, locks.Lock("k", patient))
	server.waiting("k", 1)
	first := server.waiters("k")[0]
	if left := first["left-ms"].(int64); left < 15000 || left > 20000 {
		t.Fatal("left-ms", left)
	}
	time.Sleep(1300 * time.Millisecond) // longer than the read timeout of other calls
	if now := server.waiters("k"); len(now) != 1 || now[0]["client-id"] != first["client-id"] {
		t.Fatal("it has left the queue", now)
	}
	grant := acquire(t, locks.Lock("elsewhere"))
	mustSay(t, grant.Release(background), nil)
	server.do("LOCK.RELEASE k other")
	mustSay(t, (<-waiting).err, nil)
	if server.calls("lock.acquire") != 4 { // the other's, a try, the wait, and that elsewhere
		t.Fatal("asked again")
	}
}

func TestAWaitThatIsOverSaysBusy(t *testing.T) {
	t.Parallel()
	server := start(t)
	server.do("LOCK.ACQUIRE k other EX 60")
	begun := time.Now()
	_, err := server.locks().Lock("k", Wait(500*time.Millisecond)).Acquire(background)
	mustSay(t, err, ErrBusy)
	if waited := time.Since(begun); waited < 490*time.Millisecond || waited > 2*time.Second {
		t.Fatal(waited)
	}
	if server.calls("lock.acquire") != 3 { // the other's, a try, and the wait
		t.Fatal("not one wait", server.calls("lock.acquire"))
	}
}

func TestWaitsForEver(t *testing.T) {
	t.Parallel()
	server := start(t)
	server.do("LOCK.ACQUIRE k other EX 60")
	waiting := inBackground(background, server.locks().Lock("k", Wait(Forever)))
	server.waiting("k", 1)
	if left := server.waiters("k")[0]["left-ms"]; left != int64(-1) {
		t.Fatal("left-ms", left)
	}
	server.do("DEL k")
	mustSay(t, (<-waiting).err, nil)
}

func TestACancelledWaitLeavesTheQueueAtOnce(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	server.do("LOCK.ACQUIRE k other EX 60")
	ctx, cancel := context.WithCancel(background)
	first := inBackground(ctx, locks.Lock("k", patient))
	server.waiting("k", 1)
	second := inBackground(background, locks.Lock("k", patient))
	server.waiting("k", 2)
	behind := server.waiters("k")[1]["owner"]
	cancel()
	mustSay(t, (<-first).err, context.Canceled)
	if left := server.waiters("k"); len(left) != 1 || left[0]["owner"] != behind {
		t.Fatal("the queue:", left)
	}
	server.do("LOCK.RELEASE k other")
	mustSay(t, (<-second).err, nil)
	if server.info("k", "owner") != behind {
		t.Fatal("another has it")
	}
}

// The grant and the end of the wait meet: whoever is first, nothing stays behind.
func TestAGrantThatMeetsACancelIsGivenBack(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	var granted, cancelled int
	for run := range 60 {
		key := fmt.Sprint("k", run)
		server.do("LOCK.ACQUIRE " + key + " other EX 60")
		ctx, cancel := context.WithCancel(background)
		lock := locks.Lock(key, patient)
		if run%2 == 1 {
			lock = locks.Lock(key, patient, Fixed())
		}
		waiting := inBackground(ctx, lock)
		server.waiting(key, 1)
		go func() {
			time.Sleep(time.Duration(run%6) * 100 * time.Microsecond)
			cancel()
		}()
		server.do("LOCK.RELEASE " + key + " other")
		if got := <-waiting; got.err == nil {
			granted++
			mustSay(t, got.grant.Release(background), nil)
		} else {
			cancelled++
			mustSay(t, got.err, context.Canceled)
			if owner := server.info(key, "owner"); owner != nil && owner != "other" {
				t.Fatal("who is told that it was cancelled holds it")
			}
		}
		eventually(t, "nothing stayed behind", func() bool {
			return server.do("EXISTS "+key) == int64(0) && len(server.waiters(key)) == 0
		})
		cancel()
	}
	t.Log(granted, "granted,", cancelled, "cancelled")
}

func TestAWaitWhoseAnswerIsLostHasTheLock(t *testing.T) {
	t.Parallel()
	server := start(t)
	cutting := before(t, server)
	locks := cutting.locks()
	server.do("LOCK.ACQUIRE k other EX 60")
	cutting.inject("cut", "BLOCK")
	waiting := inBackground(background, locks.Lock("k", patient))
	server.waiting("k", 1)
	server.do("LOCK.RELEASE k other")
	got := <-waiting
	mustSay(t, got.err, nil)
	if lost := cutting.order("lost", words{}).Lost; lost != 1 || server.info("k", "holds") != int64(1) {
		t.Fatal("cuts", lost, "holds", server.info("k", "holds"))
	}
	mustSay(t, got.grant.Release(background), nil)
}

func TestLostAnswersDoNotCountTwice(t *testing.T) {
	t.Parallel()
	server := start(t)
	cutting := before(t, server)
	task := cutting.locks().Task()
	cut := 0
	wasCut := func(holds any) {
		t.Helper()
		if cut++; cutting.order("lost", words{}).Lost != cut || server.info("k", "holds") != holds {
			t.Fatal("cut", cutting.order("lost", words{}).Lost, "holds", server.info("k", "holds"))
		}
	}
	cutting.inject("cut", "LOCK.ACQUIRE")
	outer := acquire(t, task.Lock("k"))
	wasCut(int64(1))
	cutting.inject("cut", "LOCK.ACQUIRE")
	inner := acquire(t, task.Lock("k"))
	wasCut(int64(2))
	cutting.inject("cut", "LOCK.RENEW")
	mustSay(t, outer.Extend(background, 20*time.Second), nil)
	wasCut(int64(2))
	cutting.inject("cut", "LOCK.RELEASE")
	mustSay(t, inner.Release(background), nil)
	wasCut(int64(1))
	cutting.inject("cut", "LOCK.RELEASE")
	mustSay(t, outer.Release(background), nil)
	wasCut(nil)
}

func TestCloseEndsWaitsAndReleases(t *testing.T) {
	t.Parallel()
	server := start(t)
	client := server.client()
	locks := New(client, Options{})
	server.do("LOCK.ACQUIRE taken other EX 60")
	grant, task := acquire(t, locks.Lock("k")), locks.Task()
	acquire(t, task.Lock("twice"))
	acquire(t, task.Lock("twice"))
	waiting := inBackground(background, locks.Lock("taken", patient))
	server.waiting("taken", 1)
	mustSay(t, locks.Close(background), nil)
	mustSay(t, (<-waiting).err, ErrClosed)
	if len(server.waiters("taken")) != 0 || server.do("EXISTS k twice") != int64(0) {
		t.Fatal("something stayed behind")
	}
	mustSay(t, grant.Err(), ErrClosed)
	mustSay(t, grant.Release(background), ErrClosed)
	_, err := locks.Lock("k").Acquire(background)
	mustSay(t, err, ErrClosed)
	mustSay(t, locks.Close(background), nil)
	mustSay(t, client.Ping(background).Err(), nil) // it is the user's
	eventually(t, "no connection is left", func() bool { return server.clients("lock-") == 0 })
}

// 500 tasks on 10 locks: one inside at a time, and no connection is opened twice.
func TestManyTasksOnFewLocks(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	goroutines := runtime.NumGoroutine()
	inside := make([]int, 10)
	var all sync.WaitGroup
	for n := range 500 {
		all.Go(func() {
			err := locks.Lock(fmt.Sprint("k", n%10), Wait(Forever)).Do(background, func(_ context.Context, grant *Grant) error {
				if inside[n%10]++; inside[n%10] != 1 {
					t.Error("two inside")
				}
				time.Sleep(time.Millisecond)
				inside[n%10]--
				return nil
			})
			mustSay(t, err, nil)
		})
	}
	all.Wait()
	if idle := server.clients("lock-wait"); idle > wire.MostIdle {
		t.Fatal("idle connections", idle)
	}
	eventually(t, "goroutines end", func() bool { return runtime.NumGoroutine() < goroutines+200 })
}

// After warming up, a contended lock opens no connection.
func TestContendedLocksOpenNoConnections(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	contend := func(rounds int) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range rounds {
					mustSay(t, locks.Lock("k", Wait(Forever)).Do(background,
						func(context.Context, *Grant) error { return nil }), nil)
				}
			})
		}
		all.Wait()
	}
	contend(10)
	before, goroutines := server.stat("total_connections_received"), runtime.NumGoroutine()
	contend(long(500, 12500))
	if opened := server.stat("total_connections_received") - before; opened > 2 {
		t.Fatal("connections opened:", opened)
	}
	t.Log("goroutines", goroutines, "then", runtime.NumGoroutine())
}
