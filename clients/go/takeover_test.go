package redislock

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// waited is a grant that a wait has brought just now.
func waited(t *testing.T, s *server, lock *Lock) *Grant {
	t.Helper()
	s.do("LOCK.ACQUIRE " + lock.Key() + " other EX 60")
	waiting := inBackground(background, lock)
	s.waiting(lock.Key(), 1)
	s.do("LOCK.RELEASE " + lock.Key() + " other")
	got := <-waiting
	mustSay(t, got.err, nil)
	return got.grant
}

func TestAContendedLockOfAMomentCostsTwoCommands(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	grant := waited(t, server, locks.Lock("k", patient))
	if left := grant.Remaining(); left < 8*time.Second || left > 10*time.Second {
		t.Fatal("remaining", left)
	}
	mustSay(t, grant.Release(background), nil)
	const contenders, rounds = 8, 50
	acquired, released := server.calls("lock.acquire"), server.calls("lock.release")
	var all sync.WaitGroup
	slow := 0 // a busy machine may hold one for longer
	var one sync.Mutex
	for range contenders {
		all.Go(func() {
			for range rounds {
				var begun time.Time
				mustSay(t, locks.Lock("k", patient).Do(background, func(context.Context, *Grant) error {
					begun = time.Now()
					return nil
				}), nil)
				if time.Since(begun) > moment/2 {
					one.Lock()
					slow++
					one.Unlock()
				}
			}
		})
	}
	all.Wait()
	if renewed := server.calls("lock.renew"); renewed > slow {
		t.Fatal("renewed", renewed, "slow", slow)
	}
	if server.calls("lock.release")-released != contenders*rounds {
		t.Fatal("releases", server.calls("lock.release")-released)
	}
	// A try before the wait is sent only while nobody else of this process waits.
	if calls := server.calls("lock.acquire") - acquired; calls > contenders*rounds*3/2 {
		t.Fatal("acquires", calls)
	}
}

func TestAWaitedLockThatIsHeldIsKept(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	grants := map[string]*Grant{
		"k": waited(t, server, locks.Lock("k", patient, short)),
		"s": waited(t, server, locks.Shared("s", patient, short)),
		"p": waited(t, server, locks.Permit("p", 2, Wait(Forever), short)),
	}
	for key := range grants {
		eventually(t, "kept", func() bool { return server.holder(key)["kept-by"] != int64(0) })
	}
	time.Sleep(1500 * time.Millisecond)
	for key, grant := range grants {
		mustSay(t, grant.Err(), nil)
		if server.info(key, "token") != grant.Token() {
			t.Fatal(key, "has not outlived its lease")
		}
	}
	if renewed := server.calls("lock.renew"); renewed != len(grants) {
		t.Fatal("renewed", renewed)
	}
	for key, grant := range grants {
		mustSay(t, grant.Release(background), nil)
		if server.do("EXISTS "+key) != int64(0) {
			t.Fatal(key, "stayed behind")
		}
	}
}

// The keeper has gone, and nothing was to be kept: the takeover opens the next one.
func TestATakeoverOpensAKeeper(t *testing.T) {
	t.Parallel()
	server := start(t)
	grant := waited(t, server, server.locks().Lock("k", patient, short))
	server.do("CLIENT KILL TYPE normal SKIPME yes")
	eventually(t, "kept", func() bool { return server.holder("k")["kept-by"] != int64(0) })
	time.Sleep(1200 * time.Millisecond)
	mustSay(t, grant.Check(background), nil)
}

func TestTheEndOfALockInItsFirstMomentIsTold(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	for refusal, next := range map[string]string{"NOTHELD": "PING", "NOTOWNER": "LOCK.ACQUIRE k another EX 60"} {
		grant := waited(t, server, locks.Lock("k", patient))
		begun := time.Now()
		server.pipe("DEL k", next)
		<-grant.Lost()
		mustSay(t, grant.Err(), ErrLost)
		if took := time.Since(begun); took > 2*time.Second || !begins(grant.Err(), refusal) {
			t.Fatal(grant.Err(), "told after", took)
		}
		mustSay(t, grant.Release(background), ErrLost)
		server.do("DEL k")
	}
}

func TestCheckIsTheTakeover(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	grant := waited(t, server, locks.Lock("k", patient))
	mustSay(t, grant.Check(background), nil)
	if server.holder("k")["kept-by"] == int64(0) || server.calls("lock.renew") != 1 {
		t.Fatal("not kept;", server.calls("lock.renew"), "renewals")
	}
	mustSay(t, grant.Release(background), nil)
	checks, took := 1, moment
	for ; took > moment/2 && checks < 20; checks++ { // a busy machine may be slow
		grant = waited(t, server, locks.Lock("k", patient))
		begun := time.Now()
		server.do("DEL k")
		mustSay(t, grant.Check(background), ErrLost)
		took = time.Since(begun)
		mustSay(t, grant.Release(background), ErrLost)
	}
	if took > moment/2 {
		t.Fatal("it waits for the takeover:", took)
	}
	time.Sleep(2 * moment)
	if server.calls("lock.renew") != checks {
		t.Fatal(checks, "checks, and renewals:", server.calls("lock.renew"))
	}
}

// The release comes before the takeover, in the middle of it, or after: whatever is first, nothing stays behind.
func TestAReleaseThatMeetsTheTakeover(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	const lines = 20
	var all sync.WaitGroup
	for line := range lines {
		task := locks.Task() // an owner that comes back
		all.Go(func() {
			for run := range long(8, 100) {
				key := fmt.Sprint("k", line)
				lock := locks.Lock(key, patient)
				if line%2 == 0 {
					lock = task.Lock(key, patient)
				}
				grant := waited(t, server, lock)
				at := moment + time.Duration((run*lines+line)%9-4)*500*time.Microsecond
				if run%4 == 3 {
					at = 0
				}
				time.Sleep(at)
				if run%3 == 2 { // it ends by itself, and is not kept
					mustSay(t, grant.ReleaseAfter(background, 5*time.Millisecond), nil)
					within(t, 2*time.Second, "ended", func() bool { return server.do("EXISTS "+key) == int64(0) })
					continue
				}
				mustSay(t, grant.Release(background), nil)
				if server.do("EXISTS "+key) != int64(0) {
					t.Error(key, "stayed behind")
				}
			}
		})
	}
	all.Wait()
	renewed := server.calls("lock.renew")
	time.Sleep(2 * moment)
	if again := server.calls("lock.renew"); again != renewed {
		t.Fatal("renewed after the release:", again-renewed)
	}
	keeper := must[*keeper](t)(locks.keeperOf(background, "k"))
	late := waited(t, server, locks.Lock("late", patient))
	mustSay(t, late.Release(background), nil)
	keeper.add(late.ownership, nil) // by a timer that had come, and then stood still
	keeper.mu.Lock()
	defer keeper.mu.Unlock()
	if len(keeper.grants) != 0 || len(keeper.leases) != 0 {
		t.Fatal("the keeper keeps", len(keeper.grants), "grants,", len(keeper.leases), "leases")
	}
}

func TestCloseEndsAGrantBeforeItsTakeover(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	grant := waited(t, server, locks.Lock("k", patient))
	mustSay(t, locks.Close(background), nil)
	mustSay(t, grant.Err(), ErrClosed)
	time.Sleep(2 * moment)
	if server.do("EXISTS k") != int64(0) || server.calls("lock.renew") != 0 {
		t.Fatal("something stayed behind;", server.calls("lock.renew"), "renewals")
	}
}

// Of a grant that comes late in its lease, or that nobody keeps, it is not known when it began: that is asked first.
func TestALongWaitAndAFixedLeaseAreRenewedFirst(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	server.do("LOCK.ACQUIRE k other EX 60")
	waiting := inBackground(background, locks.Lock("k", patient, short))
	server.waiting("k", 1)
	time.Sleep(400 * time.Millisecond)
	server.do("LOCK.RELEASE k other")
	mustSay(t, (<-waiting).err, nil)
	if server.calls("lock.renew") != 1 || server.holder("k")["kept-by"] == int64(0) {
		t.Fatal("not kept;", server.calls("lock.renew"), "renewals")
	}
	waited(t, server, locks.Lock("fixed", patient, Fixed()))
	if server.calls("lock.renew") != 2 || server.holder("fixed")["kept-by"] != int64(0) {
		t.Fatal("kept;", server.calls("lock.renew"), "renewals")
	}
}

// The end of the keeping may come before its beginning.
func TestAtMostMeetsTheTakeover(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	var all sync.WaitGroup
	for n := range 40 {
		all.Go(func() {
			key := fmt.Sprint("k", n)
			most := time.Second + moment + time.Duration(n-30)*2*time.Millisecond
			grant := waited(t, server, locks.Lock(key, patient, short, AtMost(most)))
			begun := time.Now()
			<-grant.Lost()
			if took := time.Since(begun); took < most-50*time.Millisecond || took > most+time.Second {
				t.Error("lost after", took, "and not", most)
			}
			within(t, 500*time.Millisecond, "free", func() bool { return server.do("EXISTS "+key) == int64(0) })
		})
	}
	all.Wait()
}

func TestATaskEntersAgainBeforeTheTakeover(t *testing.T) {
	t.Parallel()
	server := start(t)
	task := server.locks().Task()
	outer := waited(t, server, task.Lock("k", patient))
	inner := acquire(t, task.Lock("k"))
	eventually(t, "kept", func() bool { return server.holder("k")["kept-by"] != int64(0) })
	mustSay(t, outer.Release(background), nil)
	time.Sleep(2 * moment)
	mustSay(t, inner.Check(background), nil)
	mustSay(t, inner.Release(background), nil)
	if server.do("EXISTS k") != int64(0) {
		t.Fatal("stayed behind")
	}
}

// Another process asks in the owner's name before the takeover, and so is the last one to ask.
func TestATakeoverTakesNothingFromWhoeverAskedLater(t *testing.T) {
	t.Parallel()
	server := start(t)
	first, second := server.locks(), server.locks()
	mustSay(t, acquire(t, second.Lock("warm")).Release(background), nil)
	for tries := 0; ; tries++ {
		begun := time.Now()
		one := waited(t, server, first.Lock("k", patient, Owner("me")))
		two := acquire(t, second.Lock("k", Owner("me")))
		if took := time.Since(begun); took > moment && tries < 20 { // a busy machine may be slow
			mustSay(t, two.Release(background), nil)
			_ = one.Release(background)
			continue
		}
		within(t, 2*time.Second, "told", func() bool { return one.Err() != nil })
		mustSay(t, one.Err(), ErrLost)
		mustSay(t, two.Check(background), nil)
		mustSay(t, two.Release(background), nil)
		return
	}
}
