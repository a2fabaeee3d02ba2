package redislock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sync"
	"testing"
	"time"
)

func TestTakesAndGivesBack(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	grant := acquire(t, locks.Lock("k"))
	if server.info("k", "token") != grant.Token() || grant.Token() < 1<<50 || !grant.Held() {
		t.Fatal("another token", grant.Token())
	}
	_, err := locks.Lock("k").Acquire(background)
	mustSay(t, err, ErrBusy)
	if calls := server.calls("lock.acquire"); calls != 2 {
		t.Fatal("acquires:", calls)
	}
	mustSay(t, grant.Release(background), nil)
	if server.do("EXISTS k") != int64(0) || grant.Held() {
		t.Fatal("still held")
	}
	mustSay(t, grant.Release(background), ErrMisuse)
	mustSay(t, grant.Err(), ErrMisuse)
	<-grant.Lost()
}

func TestEachAcquireIsAnOwnerOfItsOwn(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	host, _ := os.Hostname()
	form := regexp.MustCompile(fmt.Sprintf(`^tests:%s:%d:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, host, os.Getpid()))
	owners := map[any]bool{}
	for _, key := range []string{"a", "b", "c"} {
		grant := acquire(t, locks.Lock(key))
		owner := server.info(key, "owner")
		if owners[owner] || !form.MatchString(owner.(string)) || owner != grant.Owner() {
			t.Fatal("owner", owner)
		}
		owners[owner] = true
	}
}

func TestWaitsInLine(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	grant := acquire(t, locks.Lock("k"))
	waiting := inBackground(background, locks.Lock("k", patient))
	server.waiting("k", 1)
	mustSay(t, grant.Release(background), nil)
	got := <-waiting
	mustSay(t, got.err, nil)
	if got.grant.Token() <= grant.Token() {
		t.Fatal("tokens fall")
	}
	eventually(t, "kept", func() bool { return server.holder("k")["kept-by"] != int64(0) })
	mustSay(t, got.grant.Release(background), nil)
}

func TestDoSaysWhatTheWorkSays(t *testing.T) {
	t.Parallel()
	server := start(t)
	bad := errors.New("bad")
	err := server.locks().Lock("k").Do(background, func(context.Context, *Grant) error { return bad })
	if err != bad || server.do("EXISTS k") != int64(0) {
		t.Fatal(err)
	}
}

func TestIsKeptForLongerThanItsLease(t *testing.T) {
	t.Parallel()
	server := start(t)
	grant := acquire(t, server.locks().Lock("k", short))
	time.Sleep(2500 * time.Millisecond)
	mustSay(t, grant.Check(background), nil)
	if server.info("k", "token") != grant.Token() || server.calls("lock.renew") != 0 {
		t.Fatal("renewed by calls", server.calls("lock.renew"))
	}
	if left := grant.Remaining(); left < 300*time.Millisecond || left > time.Second {
		t.Fatal("remaining", left)
	}
	mustSay(t, grant.Release(background), nil)
}

// The client connects at the same moment as the locks do: neither touches the other's options.
func TestTheClientMayDialAtTheSameTime(t *testing.T) {
	t.Parallel()
	server := start(t)
	for range 40 {
		client := server.client()
		locks := testLocks(t, client, Options{})
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { mustSay(t, client.Ping(background).Err(), nil) })
			all.Go(func() {
				err := locks.Lock("k", Wait(Forever)).Do(background, func(context.Context, *Grant) error { return nil })
				mustSay(t, err, nil)
			})
		}
		all.Wait()
		mustSay(t, locks.Close(background), nil)
	}
}
