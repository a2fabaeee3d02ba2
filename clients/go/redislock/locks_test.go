package redislock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/redis/go-redis/v9"
)

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
	cut := 0
	wasCut := func() {
		t.Helper()
		if cut++; cutting.order("lost", words{}).Lost != cut {
			t.Fatal("cut", cutting.order("lost", words{}).Lost, "times and not", cut)
		}
	}
	cutting.inject("cut", "LOCK.ACQUIRE")
	outer := must[*Lock](t)(locks.Lock(background, "k", short))
	wasCut()
	holds(int64(1))
	cutting.inject("cut", "LOCK.ACQUIRE")
	inner := must[*Lock](t)(locks.Lock(outer.Context(), "k", short))
	wasCut()
	holds(int64(2))

	cutting.inject("cut", "LOCK.RENEW")
	eventually(t, "a renewal is cut", func() bool { return cutting.order("lost", words{}).Lost == 3 })
	wasCut()
	until := outer.Until()
	eventually(t, "renewed all the same", func() bool { return outer.Until().After(until) })
	mustSay(t, outer.Err(), nil)
	holds(int64(2))

	cutting.inject("cut", "LOCK.RELEASE")
	mustSay(t, inner.Unlock(), nil)
	wasCut()
	holds(int64(1))
	cutting.inject("cut", "LOCK.RELEASE")
	mustSay(t, outer.Unlock(), nil)
	wasCut()
	holds(nil)
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
