package redislock

import (
	"context"
	"errors"
	"testing"
	"time"
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

func TestAtMostIsAtMostWhateverIsRenewed(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	began := time.Now()
	grant := acquire(t, locks.Lock("k", Lease(2*time.Second), AtMost(3*time.Second)))
	time.Sleep(2200 * time.Millisecond)
	mustSay(t, grant.Extend(background, 2*time.Second), nil)
	within(t, 2*time.Second, "over", func() bool { return errors.Is(grant.Err(), ErrLost) })
	if took := time.Since(began); took > 3300*time.Millisecond {
		t.Fatal("lost after", took)
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
