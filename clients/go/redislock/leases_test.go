package redislock

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestTheLeaseCountsFromTheSendingOfTheCall(t *testing.T) {
	server := start(t)
	slow := before(t, server)
	locks := newLocks(t, redis.UniversalOptions{Addrs: []string{slow.address}})
	must[*Lock](t)(locks.Lock(background, "connected", once))
	slow.inject(words{"delay": 400}, "LOCK.ACQUIRE")
	sent := time.Now()
	lock := must[*Lock](t)(locks.Lock(background, "k", once))
	answered := time.Now()
	if answered.Sub(sent) < 400*time.Millisecond {
		t.Fatal("the proxy did not wait")
	}
	if lock.Until().Before(sent.Add(once.Lease)) || lock.Until().After(answered.Add(once.Lease-390*time.Millisecond)) {
		t.Fatal("trusted for", lock.Until().Sub(sent))
	}
}

func TestAfterASlowAnswerTheLeaseBeginsAnew(t *testing.T) {
	server := start(t)
	slow := before(t, server)
	locks := newLocks(t, redis.UniversalOptions{Addrs: []string{slow.address}})
	must[*Lock](t)(locks.Lock(background, "connected", once))
	slow.inject(words{"delay": 700}, "LOCK.ACQUIRE")
	locking := inBackground(locks, background, "k", short)
	eventually(t, "the answer is on its way", func() bool { return server.calls("lock.acquire") == 2 })
	got := <-locking
	mustSay(t, got.err, nil)
	if trusted := time.Until(got.lock.Until()); trusted < short.Lease/2 {
		t.Fatal("trusted for", trusted)
	}
}

func TestAllLocksAreRenewedEveryThirdOfTheirLease(t *testing.T) {
	const many = 40
	server := start(t)
	locks := server.locks()
	must[*Lock](t)(locks.Lock(background, "connected", once))
	goroutines := runtime.NumGoroutine()
	held := make([]*Lock, many)
	for i := range held {
		held[i] = must[*Lock](t)(locks.Lock(background, fmt.Sprint("k", i), short))
	}
	begun := time.Now()
	before := server.calls("lock.renew")
	within(t, time.Second, "no goroutine for each lock", func() bool { return runtime.NumGoroutine() < goroutines+many/2 })
	time.Sleep(3 * short.Lease)
	renewals := server.calls("lock.renew") - before
	thirds := many * int(time.Since(begun)/(short.Lease/3))
	if renewals < thirds/2 || renewals > thirds+many {
		t.Fatal(renewals, "renewals in", thirds, "thirds")
	}
	for _, lock := range held {
		mustSay(t, lock.Err(), nil)
		mustSay(t, lock.Unlock(), nil)
	}
	before = server.calls("lock.renew")
	time.Sleep(short.Lease)
	if renewals := server.calls("lock.renew") - before; renewals != 0 {
		t.Fatal(renewals, "renewals of released locks")
	}
}

func TestALossIsToldAtOnceAndEndsTheWork(t *testing.T) {
	server := start(t)
	locks := server.locks()
	for refusal, lose := range map[string]func(owner string){
		"NOTHELD":  func(string) { server.do("DEL k") },
		"NOTOWNER": func(string) { server.do("DEL k"); server.do("LOCK.ACQUIRE k other EX 60") },
		"FENCED":   func(owner string) { server.do("DEL k"); server.do("LOCK.ACQUIRE k " + owner + " EX 60") },
	} {
		server.do("DEL k")
		var stopped time.Duration
		err := locks.WithLock(background, "k", short, func(ctx context.Context, lock *Lock) error {
			lose(server.info("k", "owner").(string))
			begun := time.Now()
			<-ctx.Done()
			stopped = time.Since(begun)
			mustSay(t, context.Cause(ctx), ErrLost)
			mustSay(t, lock.Err(), ErrLost)
			_, err := locks.Lock(ctx, "k", short) // it refuses to go on as if nothing had been
			mustSay(t, err, ErrLost)
			return nil
		})
		mustSay(t, err, ErrLost)
		if firstWord(err) != refusal || stopped > short.Lease {
			t.Fatal(refusal, err, "after", stopped)
		}
	}
}

func TestALossIsToldByUnlockAndByEnteringAgain(t *testing.T) {
	server := start(t)
	locks := server.locks()
	lock := must[*Lock](t)(locks.Lock(background, "k", once))
	server.do("DEL k")
	mustSay(t, lock.Unlock(), ErrLost)
	lock = must[*Lock](t)(locks.Lock(background, "k", once))
	server.do("DEL k")
	_, err := locks.Lock(lock.Context(), "k", once)
	mustSay(t, err, ErrLost)
	mustSay(t, context.Cause(lock.Context()), ErrLost)
}

func TestALeaseThatPassesInSilenceIsLost(t *testing.T) {
	server := start(t)
	locks := server.locks()
	lock := must[*Lock](t)(locks.Lock(background, "k", short))
	inner := must[*Lock](t)(locks.Lock(lock.Context(), "k", short))
	eventually(t, "a renewal", func() bool { return server.calls("lock.renew") > 0 })
	server.order("pause", words{})
	defer server.order("resume", words{})
	until := lock.Until()
	<-inner.Context().Done()
	if late := time.Since(lock.Until()); late < 0 || late > 200*time.Millisecond {
		t.Fatal("told", late, "after the end of the lease")
	}
	if lock.Until().Sub(until) > short.Lease {
		t.Fatal("a lease without an answer")
	}
	mustSay(t, context.Cause(lock.Context()), ErrLost)
	mustSay(t, lock.Unlock(), ErrLost)
}
