package redislock

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestWaitsInOneCallOnAConnectionOfItsOwn(t *testing.T) {
	server := start(t)
	server.do("LOCK.ACQUIRE k other EX 60")
	locks := server.locks(func(options *redis.UniversalOptions) {
		options.PoolSize = 1
		options.ReadTimeout = 300 * time.Millisecond // shorter than the wait
	})
	waiting := inBackground(locks, background, "k", patient)
	eventually(t, "a waiter", func() bool { return len(server.waiters("k")) == 1 })
	first := server.waiters("k")[0]
	if left := first["left-ms"].(int64); left < 15000 || left > 20000 {
		t.Fatal("left-ms", left)
	}
	time.Sleep(time.Second) // longer than the read timeout of other calls
	if now := server.waiters("k"); len(now) != 1 || now[0]["client-id"] != first["client-id"] {
		t.Fatal("it has left the queue", now)
	}
	lock := must[*Lock](t)(locks.Lock(background, "elsewhere", once)) // the pool of one is free
	mustSay(t, lock.Unlock(), nil)
	before := server.calls("lock.acquire")
	server.do("LOCK.RELEASE k other")
	got := <-waiting
	mustSay(t, got.err, nil)
	if server.calls("lock.acquire") != before {
		t.Fatal("asked again")
	}
}

func TestAWaitThatIsOverSaysTaken(t *testing.T) {
	server := start(t)
	server.do("LOCK.ACQUIRE k other EX 60")
	begun := time.Now()
	_, err := server.locks().Lock(background, "k", Options{time.Second, 500 * time.Millisecond})
	mustSay(t, err, ErrTaken)
	if waited := time.Since(begun); waited < 490*time.Millisecond || waited > 3*time.Second {
		t.Fatal(waited)
	}
	if server.calls("lock.acquire") != 3 {
		t.Fatal("not one wait", server.calls("lock.acquire"))
	}
}

func TestWaitsForEver(t *testing.T) {
	server := start(t)
	server.do("LOCK.ACQUIRE k other EX 60")
	waiting := inBackground(server.locks(), background, "k", Options{time.Second, -1})
	eventually(t, "a waiter", func() bool { return len(server.waiters("k")) == 1 })
	if left := server.waiters("k")[0]["left-ms"]; left != int64(-1) {
		t.Fatal("left-ms", left)
	}
	server.do("DEL k")
	mustSay(t, (<-waiting).err, nil)
}

func TestACancelledWaitLeavesTheQueueAtOnce(t *testing.T) {
	server := start(t)
	locks := server.locks()
	server.do("LOCK.ACQUIRE k other EX 60")
	ctx, cancel := context.WithCancel(background)
	first := inBackground(locks, ctx, "k", patient)
	eventually(t, "a waiter", func() bool { return len(server.waiters("k")) == 1 })
	second := inBackground(locks, background, "k", patient)
	eventually(t, "two waiters", func() bool { return len(server.waiters("k")) == 2 })
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
	server := start(t)
	locks := server.locks()
	var granted, cancelled int
	for run := range 60 {
		key := fmt.Sprint("k", run)
		server.do("LOCK.ACQUIRE " + key + " other EX 60")
		ctx, cancel := context.WithCancel(background)
		waiting := inBackground(locks, ctx, key, patient)
		eventually(t, "a waiter", func() bool { return len(server.waiters(key)) == 1 })
		go func() {
			time.Sleep(time.Duration(run%6) * 100 * time.Microsecond)
			cancel()
		}()
		server.do("LOCK.RELEASE " + key + " other")
		if got := <-waiting; got.err == nil {
			granted++
			mustSay(t, got.lock.Unlock(), nil)
		} else {
			cancelled++
		}
		if server.do("EXISTS "+key) != int64(0) || len(server.waiters(key)) != 0 {
			t.Fatal("something stayed behind in run", run)
		}
		cancel()
	}
	t.Log(granted, "granted,", cancelled, "cancelled")
}

func TestAfterAWaitItRenewsOnceAndCountsFromThere(t *testing.T) {
	server := start(t)
	server.do("LOCK.ACQUIRE k other EX 60")
	waiting := inBackground(server.locks(), background, "k", patient)
	eventually(t, "a waiter", func() bool { return len(server.waiters("k")) == 1 })
	time.Sleep(600 * time.Millisecond)
	released := time.Now()
	server.do("LOCK.RELEASE k other")
	got := <-waiting
	mustSay(t, got.err, nil)
	if renewals := server.calls("lock.renew"); renewals != 1 {
		t.Fatal("renewals:", renewals)
	}
	if until := got.lock.Until(); until.Before(released.Add(patient.Lease)) || until.After(time.Now().Add(patient.Lease)) {
		t.Fatal("trusted for", until.Sub(released))
	}
}

func TestAWaitWhoseAnswerIsLostHasTheLock(t *testing.T) {
	server := start(t)
	cutting := before(t, server)
	locks := newLocks(t, redis.UniversalOptions{Addrs: []string{cutting.address}})
	server.do("LOCK.ACQUIRE k other EX 60")
	cutting.inject("cut", "BLOCK")
	waiting := inBackground(locks, background, "k", patient)
	eventually(t, "a waiter", func() bool { return len(server.waiters("k")) == 1 })
	server.do("LOCK.RELEASE k other")
	got := <-waiting
	mustSay(t, got.err, nil)
	if cutting.order("lost", words{}).Lost != 1 || server.info("k", "holds") != int64(1) {
		t.Fatal("cuts", cutting.order("lost", words{}).Lost, "holds", server.info("k", "holds"))
	}
	mustSay(t, got.lock.Unlock(), nil)
}
