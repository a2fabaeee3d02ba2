package redislock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A grant that was to be adopted, and was not, is its owner's: nobody keeps it here, and nobody releases it.
func TestAnAdoptionGivenUpKeepsNothing(t *testing.T) {
	t.Parallel()
	server := start(t)
	proxy := before(t, server)
	locks := proxy.locks()
	token := server.do("LOCK.ACQUIRE k other EX 60").([]any)[0].(int64)
	mustSay(t, acquire(t, locks.Lock("warm")).Release(background), nil)
	proxy.inject(map[string]any{"delay": 400}, "LOCK.RENEW")
	ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
	defer cancel()
	_, err := locks.Adopt(ctx, "k", "other", token)
	mustSay(t, err, context.DeadlineExceeded)
	eventually(t, "not kept", func() bool { return server.calls("lock.renew") == 2 && server.holder("k")["kept-by"] == int64(0) })
	if server.info("k", "owner") != "other" {
		t.Fatal("released")
	}
}

// A release that the server refuses leaves nothing that is kept for ever.
func TestAnAcquireGivenUpThatCannotBeReleasedIsNotKept(t *testing.T) {
	t.Parallel()
	server := start(t)
	server.do("ACL SETUSER app on >secret ~* +@all -lock.release")
	proxy := before(t, server)
	locks := proxy.locks(func(o *redis.Options) { o.Username, o.Password = "app", "secret" })
	held := acquire(t, locks.Lock("held"))
	proxy.inject(map[string]any{"delay": 400}, "LOCK.ACQUIRE")
	ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
	defer cancel()
	_, err := locks.Lock("k", short).Acquire(ctx)
	mustSay(t, err, context.DeadlineExceeded)
	eventually(t, "refused", func() bool { return len(server.do("ACL LOG").([]any)) > 0 })
	eventually(t, "free", func() bool { return server.do("EXISTS k") == int64(0) })
	mustSay(t, held.Check(background), nil)
}

// Whoever was told that the lock is lost does not have it kept on.
func TestALossThatNoServerToldIsGivenBack(t *testing.T) {
	t.Parallel()
	server := start(t)
	proxy := before(t, server)
	locks := testLocks(t, proxy.client(), Options{Reply: 4 * time.Second})
	grant := acquire(t, locks.Lock("k", Lease(time.Second)))
	proxy.inject(map[string]any{"delay": 3000}, "PING")
	within(t, 5*time.Second, "told", func() bool { return errors.Is(grant.Err(), ErrLost) })
	within(t, 8*time.Second, "free", func() bool { return server.info("k", "owner") == nil })
}

// The keeper asks often enough for a lease that has become shorter.
func TestAShorterLeaseIsWatched(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	grant := acquire(t, locks.Lock("k", Lease(30*time.Second)))
	mustSay(t, grant.Extend(background, 1500*time.Millisecond), nil)
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if grant.Remaining() == 0 {
			t.Fatal("nothing is known of it", grant.Err())
		}
	}
}

// A shorter lease may have come to the server though its answer did not come back.
func TestAShorterLeaseThatWasGivenUpIsReckonedWith(t *testing.T) {
	t.Parallel()
	server, five := start(t), startFive(t)
	over, cancel := context.WithCancel(background)
	cancel()
	t.Run("fixed", func(t *testing.T) {
		grant := acquire(t, server.locks().Lock("fixed", Lease(30*time.Second), Fixed()))
		for server.do("PTTL fixed").(int64) > 1000 { // unless the answer is there first
			_ = grant.Extend(over, time.Second)
		}
		eventually(t, "over", func() bool { return server.do("EXISTS fixed") == int64(0) })
		within(t, 500*time.Millisecond, "told", func() bool { return errors.Is(grant.Err(), ErrLost) })
	})
	t.Run("kept", func(t *testing.T) {
		proxy := before(t, server)
		grant := acquire(t, proxy.locks().Lock("kept", Lease(30*time.Second)))
		for server.holder("kept")["lease-ms"] != int64(2000) {
			_ = grant.Extend(over, 2*time.Second)
		}
		proxy.order("silence", words{})
		server.do("CLIENT KILL TYPE normal SKIPME yes")
		eventually(t, "over", func() bool { return server.do("EXISTS kept") == int64(0) })
		within(t, 500*time.Millisecond, "told", func() bool { return errors.Is(grant.Err(), ErrLost) })
	})
	t.Run("before its answer", func(t *testing.T) {
		proxy := before(t, server)
		grant := acquire(t, proxy.locks().Lock("late", Lease(30*time.Second), Fixed()))
		proxy.inject(map[string]any{"delay": 800}, "LOCK.RENEW")
		extended := meanwhile(func() error { return grant.Extend(background, 200*time.Millisecond) })
		eventually(t, "over", func() bool { return server.do("EXISTS late") == int64(0) })
		within(t, 200*time.Millisecond, "told", func() bool { return errors.Is(grant.Err(), ErrLost) })
		mustSay(t, <-extended, ErrLost)
	})
	t.Run("refused", func(t *testing.T) {
		server.do("ACL SETUSER app on >secret ~* +@all -lock.renew")
		locks := server.locks(func(o *redis.Options) { o.Username, o.Password = "app", "secret" })
		grant := acquire(t, locks.Lock("refused", Lease(30*time.Second), Fixed()))
		mustSay(t, grant.Extend(background, 3*time.Second), ErrUnavailable)
		if left := grant.Remaining(); left < 20*time.Second || left > 30*time.Second {
			t.Fatal("remaining", left)
		}
	})
	t.Run("on a quorum", func(t *testing.T) {
		grant := five.hold(t, five.locks().Lock("k", Lease(30*time.Second)))
		for range 5 {
			mustSay(t, grant.Extend(over, time.Second), context.Canceled)
		}
		time.Sleep(2 * time.Second) // it is renewed
		if five.stand(grant) < 3 {
			t.Fatal("free;", grant.Err())
		}
		mustSay(t, grant.Check(background), nil)
	})
}

func TestAtMostIsAtMostWhateverIsRenewed(t *testing.T) {
	t.Parallel()
	server, five := start(t), startFive(t)
	one, many := server.locks(), five.locks()
	most := AtMost(3 * time.Second)
	for _, lock := range []*Lock{
		one.Lock("kept", Lease(2*time.Second), most), one.Lock("fixed", Lease(2*time.Second), Fixed(), most),
		one.Lock("most", most), many.Lock("quorum", Lease(2*time.Second), most),
	} {
		t.Run(lock.key, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			grant := acquire(t, lock)
			for _, lease := range []time.Duration{2 * time.Second, 20 * time.Second} {
				time.Sleep(1100 * time.Millisecond)
				mustSay(t, grant.Extend(background, lease), nil)
			}
			within(t, 2*time.Second, "over", func() bool { return errors.Is(grant.Err(), ErrLost) })
			if took := time.Since(began); took < 2500*time.Millisecond || took > 3300*time.Millisecond {
				t.Error("lost after", took)
			}
			within(t, time.Second, "free", func() bool {
				return server.do("EXISTS "+lock.key) == int64(0) && len(five.grants(lock.key)) == 0
			})
		})
	}
}

// The time of a wait is no part of it.
func TestAtMostBeginsWithTheGrant(t *testing.T) {
	t.Parallel()
	server, five := start(t), startFive(t)
	for at, locks := range map[string]*Locks{"one": server.locks(), "five": five.locks()} {
		for key, most := range map[string]time.Duration{"fixed": time.Second, "kept": 2 * time.Second} {
			t.Run(at+" "+key, func(t *testing.T) {
				t.Parallel()
				other := acquire(t, locks.Lock(key))
				waiting := inBackground(background, locks.Lock(key, patient, short, AtMost(most)))
				time.Sleep(most + 100*time.Millisecond)
				mustSay(t, other.Release(background), nil)
				got := <-waiting
				mustSay(t, got.err, nil)
				began := time.Now()
				<-got.grant.Lost()
				if took := time.Since(began); took < most-100*time.Millisecond || took > most+time.Second {
					t.Error("lost after", took)
				}
			})
		}
	}
}

// The time to wait is one for the turn of the task and for the line.
func TestATaskWaitsNoLongerThanItsTime(t *testing.T) {
	t.Parallel()
	server := start(t)
	server.do("LOCK.ACQUIRE k other EX 60")
	task := server.locks().Task()
	lock := task.Lock("k", Wait(time.Second))
	first := inBackground(background, lock)
	server.waiting("k", 1)
	began := time.Now()
	_, err := lock.Acquire(background)
	if took := time.Since(began); took > 1500*time.Millisecond {
		t.Fatal("waited for", took)
	}
	mustSay(t, err, ErrBusy)
	mustSay(t, (<-first).err, ErrBusy)
}

// Nobody has it after the end, though the server was told of a longer lease.
func TestAnExtensionThatWasGivenUpDoesNotOutliveAtMost(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	over, cancel := context.WithCancel(background)
	cancel()
	grant := acquire(t, locks.Lock("k", short, AtMost(2*time.Second)))
	eventually(t, "it ends", func() bool { return server.holder("k")["kept-by"] == int64(0) })
	for server.do("PTTL k").(int64) < 10_000 {
		_ = grant.Extend(over, 20*time.Second)
	}
	<-grant.Lost()
	within(t, time.Second, "free", func() bool { return server.do("EXISTS k") == int64(0) })
}
