package redislock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	once    = Options{Lease: 20 * time.Second}
	patient = Options{Lease: 20 * time.Second, Wait: 20 * time.Second}
	short   = Options{Lease: 900 * time.Millisecond}
)

// result is what a Lock in another goroutine comes to.
type result struct {
	lock *Lock
	err  error
}

func inBackground(locks *Locks, ctx context.Context, key string, options Options) chan result {
	results := make(chan result, 1)
	go func() {
		lock, err := locks.Lock(ctx, key, options)
		results <- result{lock, err}
	}()
	return results
}

func TestTakesAndGivesBack(t *testing.T) {
	server := start(t)
	locks := server.locks()
	lock := must[*Lock](t)(locks.Lock(background, "k", once))
	if server.info("k", "token") != lock.Token() || lock.Token() < 1<<50 {
		t.Fatal("another token", lock.Token())
	}
	_, err := locks.Lock(background, "k", once)
	mustSay(t, err, ErrTaken)
	if calls := server.calls("lock.acquire"); calls != 2 {
		t.Fatal("acquires:", calls)
	}
	mustSay(t, lock.Unlock(), nil)
	if server.do("EXISTS k") != int64(0) {
		t.Fatal("still held")
	}
	mustSay(t, lock.Unlock(), ErrUnlocked)
	mustSay(t, lock.Err(), ErrUnlocked)
	mustSay(t, context.Cause(lock.Context()), ErrUnlocked)
}

func TestSaysWhatTheServerRefuses(t *testing.T) {
	server := start(t)
	server.do("SET k text")
	if _, err := server.locks().Lock(background, "k", patient); firstWord(err) != "WRONGTYPE" {
		t.Fatal(err)
	}
}

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
	for round := range 60 {
		key := fmt.Sprint("k", round)
		server.do("LOCK.ACQUIRE " + key + " other EX 60")
		ctx, cancel := context.WithCancel(background)
		waiting := inBackground(locks, ctx, key, patient)
		eventually(t, "a waiter", func() bool { return len(server.waiters(key)) == 1 })
		go func() {
			time.Sleep(time.Duration(round%6) * 100 * time.Microsecond)
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
			t.Fatal("something stayed behind in round", round)
		}
		cancel()
	}
	t.Log(granted, "granted,", cancelled, "cancelled")
}

func TestTheLeaseCountsFromTheSendingOfTheCall(t *testing.T) {
	server := start(t)
	slow := before(t, server)
	locks := newLocks(t, redis.UniversalOptions{Addrs: []string{slow.address}})
	must[*Lock](t)(locks.Lock(background, "connected", once))
	slow.delay.Store(int64(400 * time.Millisecond))
	sent := time.Now()
	lock := must[*Lock](t)(locks.Lock(background, "k", once))
	answered := time.Now()
	slow.delay.Store(0)
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
	slow.delay.Store(int64(700 * time.Millisecond))
	locking := inBackground(locks, background, "k", short)
	eventually(t, "the answer is on its way", func() bool { return server.calls("lock.acquire") == 2 })
	slow.delay.Store(0)
	got := <-locking
	mustSay(t, got.err, nil)
	if trusted := time.Until(got.lock.Until()); trusted < short.Lease/2 {
		t.Fatal("trusted for", trusted)
	}
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

func TestEachLockIsAnOwnerOfItsOwn(t *testing.T) {
	server := start(t)
	locks := server.locks()
	host, _ := os.Hostname()
	form := regexp.MustCompile(fmt.Sprintf(`^tests:%s:%d:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, host, os.Getpid()))
	owners := map[any]bool{}
	for _, key := range []string{"a", "b", "c"} {
		must[*Lock](t)(locks.Lock(background, key, once))
		owner := server.info(key, "owner")
		if owners[owner] || !form.MatchString(owner.(string)) {
			t.Fatal("owner", owner)
		}
		owners[owner] = true
	}
}

func TestNestedUseEntersAgainAndUnlocksInAnyOrder(t *testing.T) {
	server := start(t)
	locks := server.locks()
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
		outer := must[*Lock](t)(locks.Lock(background, "k", once))
		between := must[*Lock](t)(locks.Lock(outer.Context(), "k", patient))
		inner := must[*Lock](t)(locks.Lock(between.Context(), "k", once))
		if server.info("k", "holds") != int64(3) || inner.Token() != outer.Token() {
			t.Fatal("holds", server.info("k", "holds"))
		}
		holds := []*Lock{outer, between, inner}
		for i, n := range order {
			mustSay(t, inner.Context().Err(), nil)
			mustSay(t, holds[n].Unlock(), nil)
			mustSay(t, holds[n].Unlock(), ErrUnlocked)
			if left, _ := server.info("k", "holds").(int64); left != int64(2-i) {
				t.Fatal("holds", left, "after", i+1)
			}
		}
		mustSay(t, context.Cause(outer.Context()), ErrUnlocked)
	}
	_, err := locks.Lock(background, "k", once)
	mustSay(t, err, nil)
	_, err = locks.Lock(background, "k", once) // no context of the first: another owner
	mustSay(t, err, ErrTaken)
}

func TestLostAnswersDoNotCountTwice(t *testing.T) {
	server := start(t)
	cutting := before(t, server)
	locks := newLocks(t, redis.UniversalOptions{Addrs: []string{cutting.address}})
	holds := func(want any) {
		t.Helper()
		if got := server.info("k", "holds"); got != want {
			t.Fatal("holds", got, "and not", want)
		}
	}
	cut := int64(0)
	wasCut := func() {
		t.Helper()
		if cut++; cutting.cuts.Load() != cut {
			t.Fatal("cut", cutting.cuts.Load(), "times and not", cut)
		}
	}
	cutting.loseAnswerOf("LOCK.ACQUIRE")
	outer := must[*Lock](t)(locks.Lock(background, "k", short))
	wasCut()
	holds(int64(1))
	cutting.loseAnswerOf("LOCK.ACQUIRE")
	inner := must[*Lock](t)(locks.Lock(outer.Context(), "k", short))
	wasCut()
	holds(int64(2))

	cutting.loseAnswerOf("LOCK.RENEW")
	eventually(t, "a renewal is cut", func() bool { return cutting.cuts.Load() == 3 })
	wasCut()
	until := outer.Until()
	eventually(t, "renewed all the same", func() bool { return outer.Until().After(until) })
	mustSay(t, outer.Err(), nil)
	holds(int64(2))

	cutting.loseAnswerOf("LOCK.RELEASE")
	mustSay(t, inner.Unlock(), nil)
	wasCut()
	holds(int64(1))
	cutting.loseAnswerOf("LOCK.RELEASE")
	mustSay(t, outer.Unlock(), nil)
	wasCut()
	holds(nil)
}

func TestAWaitWhoseAnswerIsLostHasTheLock(t *testing.T) {
	server := start(t)
	cutting := before(t, server)
	locks := newLocks(t, redis.UniversalOptions{Addrs: []string{cutting.address}})
	server.do("LOCK.ACQUIRE k other EX 60")
	cutting.loseAnswerOf("BLOCK")
	waiting := inBackground(locks, background, "k", patient)
	eventually(t, "a waiter", func() bool { return len(server.waiters("k")) == 1 })
	server.do("LOCK.RELEASE k other")
	got := <-waiting
	mustSay(t, got.err, nil)
	if cutting.cuts.Load() != 1 || server.info("k", "holds") != int64(1) {
		t.Fatal("cuts", cutting.cuts.Load(), "holds", server.info("k", "holds"))
	}
	mustSay(t, got.lock.Unlock(), nil)
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
	server.signal(syscall.SIGSTOP)
	defer server.signal(syscall.SIGCONT)
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

func TestCloseStopsRenewingAndWaitingAndReleases(t *testing.T) {
	server := start(t)
	locks := New(redis.UniversalOptions{Addrs: []string{server.address}}, "tests")
	server.do("LOCK.ACQUIRE taken other EX 60")
	lock := must[*Lock](t)(locks.Lock(background, "k", short))
	must[*Lock](t)(locks.Lock(lock.Context(), "k", short))
	waiting := inBackground(locks, background, "taken", patient)
	eventually(t, "a waiter", func() bool { return len(server.waiters("taken")) == 1 })
	mustSay(t, locks.Close(), nil)
	mustSay(t, (<-waiting).err, ErrClosed)
	if len(server.waiters("taken")) != 0 || server.do("EXISTS k") != int64(0) {
		t.Fatal("something stayed behind")
	}
	mustSay(t, context.Cause(lock.Context()), ErrClosed)
	mustSay(t, lock.Unlock(), ErrClosed)
	_, err := locks.Lock(background, "k", once)
	mustSay(t, err, ErrClosed)
}

func TestWithLockSaysWhatTheWorkSays(t *testing.T) {
	server := start(t)
	bad := errors.New("bad")
	err := server.locks().WithLock(background, "k", once, func(context.Context, *Lock) error { return bad })
	mustSay(t, err, bad)
	if errors.Is(err, ErrLost) || server.do("EXISTS k") != int64(0) {
		t.Fatal(err)
	}
}
