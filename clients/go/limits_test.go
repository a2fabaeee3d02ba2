package redislock

// Every call has a limit of its own, and obeys it; what does not pass is told at once.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// takes fails unless the work is over in time, and never by a deadline of the caller's.
func takes(t *testing.T, limit time.Duration, work func() error) error {
	t.Helper()
	begun := time.Now()
	err := work()
	if took := time.Since(begun); took > limit {
		t.Fatal("took", took, err)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		t.Fatal("as if the caller had ended it:", err)
	}
	return err
}

func try(lock *Lock) func() error {
	return func() error {
		_, err := lock.Acquire(background)
		return err
	}
}

func TestNowOrNotAtAllIsOverInTime(t *testing.T) {
	t.Parallel()
	down := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	nowhere := redis.NewClient(&redis.Options{Addr: "192.0.2.1:6379"}) // a network that swallows everything
	hung := start(t)
	hung.order("pause", words{})
	t.Cleanup(func() { hung.order("resume", words{}) })
	silent := before(t, start(t))
	silent.order("silence", words{})
	for name, client := range map[string]*redis.Client{
		"down": down, "nowhere": nowhere, "hung": hung.client(), "silent": silent.client(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locks := testLocks(t, client, Options{})
			err := takes(t, 1500*time.Millisecond, try(locks.Lock("k")))
			mustSay(t, err, ErrUnavailable)
			if name == "down" {
				mustSay(t, err, syscall.ECONNREFUSED)
			}
			mustSay(t, takes(t, 3*time.Second, try(locks.Lock("k", Wait(time.Second)))), ErrUnavailable)
			_, err = locks.Holders(background, "k")
			mustSay(t, err, ErrUnavailable)
			mustSay(t, takes(t, 2500*time.Millisecond, func() error { _ = locks.Close(background); return nil }), nil)
		})
	}
}

func TestWhatIsRefusedIsToldAtOnce(t *testing.T) {
	t.Parallel()
	server := start(t)
	server.do("ACL SETUSER poor on >secret ~other:* +@all")
	server.do("CONFIG SET maxmemory 1")
	_, _, other := startSentinel(t) // a server without the module
	as := func(user, password string) *Locks {
		return server.locks(func(o *redis.Options) { o.Username, o.Password = user, password })
	}
	for begin, locks := range map[string]*Locks{
		"WRONGPASS": as("poor", "wrong"), "NOPERM": as("poor", "secret"), "OOM": as("", ""),
		"ERR unknown command": other.locks(),
	} {
		for _, lock := range []*Lock{locks.Lock("k"), locks.Lock("k", Wait(Forever))} {
			err := takes(t, time.Second, try(lock))
			mustSay(t, err, ErrRefused)
			if !begins(err, begin) || begin == "ERR unknown command" && !strings.HasSuffix(err.Error(), "is the module lock loaded?") {
				t.Fatal(err)
			}
		}
	}
	if received := server.stat("total_connections_received"); received > 25 {
		t.Fatal("connections:", received)
	}
}

func TestAFullServerPasses(t *testing.T) {
	t.Parallel()
	server := start(t)
	server.do("CONFIG SET maxclients 1")
	locks := server.locks()
	mustSay(t, takes(t, 1500*time.Millisecond, try(locks.Lock("k"))), ErrUnavailable)
	before := server.stat("total_connections_received")
	waiting := inBackground(background, locks.Lock("k", Wait(10*time.Second)))
	time.Sleep(2 * time.Second)
	if tried := server.stat("total_connections_received") - before; tried > 20 {
		t.Fatal("connections tried in 2 s:", tried)
	}
	server.do("CONFIG SET maxclients 100")
	mustSay(t, (<-waiting).err, nil)
}

func TestABusyServerPasses(t *testing.T) {
	t.Parallel()
	server := start(t)
	server.do("CONFIG SET busy-reply-threshold 10")
	locks := server.locks()
	kept := acquire(t, locks.Lock("kept", short))
	other := server.client(func(o *redis.Options) { o.ReadTimeout = time.Minute })
	script := meanwhile(func() error { return other.Eval(background, "while true do end", nil).Err() })
	busy := func() bool { return begins(server.Ping(background).Err(), "BUSY") }
	eventually(t, "busy", busy)
	mustSay(t, takes(t, 1500*time.Millisecond, try(locks.Lock("k"))), ErrUnavailable)
	waiting := inBackground(background, locks.Lock("k", patient))
	time.Sleep(200 * time.Millisecond)
	mustSay(t, server.Do(background, "SCRIPT", "KILL").Err(), nil)
	<-script
	mustSay(t, (<-waiting).err, nil)
	time.Sleep(1200 * time.Millisecond)
	if server.info("kept", "token") == kept.Token() {
		mustSay(t, kept.Check(background), nil)
	} else {
		eventually(t, "it is told", func() bool { return !kept.Held() })
	}
}

func TestReleaseAndCloseAreBounded(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	one, two, three := acquire(t, locks.Lock("a")), acquire(t, locks.Lock("b")), acquire(t, locks.Lock("c"))
	server.order("pause", words{})
	defer server.order("resume", words{})
	mustSay(t, takes(t, 2500*time.Millisecond, func() error { return one.Release(background) }), ErrUnavailable)
	if one.Held() {
		t.Fatal("held after its release")
	}
	ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
	defer cancel()
	begun := time.Now()
	mustSay(t, two.Release(ctx), context.DeadlineExceeded)
	if took := time.Since(begun); took > 1500*time.Millisecond {
		t.Fatal("took", took)
	}
	ctx, stop := context.WithTimeout(background, 100*time.Millisecond)
	defer stop()
	begun = time.Now()
	mustSay(t, locks.Close(ctx), context.DeadlineExceeded)
	if took := time.Since(begun); took > 1500*time.Millisecond {
		t.Fatal("took", took)
	}
	mustSay(t, three.Err(), ErrClosed)
	mustSay(t, locks.Close(background), nil)
}

// The time for the turn of an owner is a part of the call's time, and all of several locks have the time of one.
func TestCallsThatHaveToWaitForOthersAreOverInTime(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	task := locks.Task()
	var calls []func() error
	for range 2 {
		grant := acquire(t, task.Lock("k", Lease(30*time.Second)))
		calls = append(calls, func() error { return grant.Release(background) })
	}
	all := must[Grants](t)(locks.All(background, []string{"a", "b", "c", "d"}))
	calls = append(calls, func() error { return all.Release(background) })
	tries := []func() error{try(locks.Lock("n", Owner("me"))), try(locks.Lock("n", Owner("me")))}
	server.order("pause", words{})
	defer server.order("resume", words{})
	var group sync.WaitGroup
	for _, some := range []struct {
		calls []func() error
		limit time.Duration
	}{{calls, 2500 * time.Millisecond}, {tries, 1500 * time.Millisecond}} {
		for i, call := range some.calls {
			time.Sleep(time.Duration(i) * 50 * time.Millisecond) // one comes behind the other
			group.Go(func() {
				begun := time.Now()
				err := call()
				if took := time.Since(begun); took > some.limit || !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrBusy) ||
					errors.Is(err, context.DeadlineExceeded) {
					t.Error("took", took, err)
				}
			})
		}
		group.Wait()
	}
}

func TestCloseOfAHungServerWithWaits(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	acquire(t, locks.Lock("k"))
	var waits []chan result
	for range 30 {
		waits = append(waits, inBackground(background, locks.Lock("k", Wait(Forever))))
	}
	server.waiting("k", 30)
	server.order("pause", words{})
	defer server.order("resume", words{})
	mustSay(t, takes(t, 2500*time.Millisecond, func() error { return locks.Close(background) }), ErrUnavailable)
	for _, waiting := range waits {
		mustSay(t, (<-waiting).err, ErrClosed)
	}
}

func TestAReleaseWithoutTimeIsCarriedOn(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	grant := acquire(t, locks.Lock("k"))
	ctx, cancel := context.WithCancel(background)
	cancel()
	mustSay(t, grant.Release(ctx), context.Canceled)
	eventually(t, "released", func() bool { return server.do("EXISTS k") == int64(0) })
}

func TestAGrantThatComesTooLateIsLostAtOnce(t *testing.T) {
	t.Parallel()
	proxy := before(t, start(t))
	locks := proxy.locks()
	for n := range 22 {
		lock := locks.Lock(fmt.Sprint("k", n), Lease(20*time.Millisecond), Fixed())
		if n >= 20 {
			lock = locks.Lock(fmt.Sprint("k", n), short, AtMost(1020*time.Millisecond))
		}
		proxy.inject(map[string]any{"delay": 30}, "LOCK.ACQUIRE")
		grant := acquire(t, lock)
		<-grant.Lost()
		mustSay(t, grant.Err(), ErrLost)
	}
}

// What is to end later does, and not at once.
func TestAReleaseAfterATimeThatIsCarriedOnKeepsItsTime(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	over, cancel := context.WithCancel(background)
	cancel()
	for key, lock := range map[string]*Lock{
		"a": locks.Lock("a"), "b": locks.Lock("b", Owner("me")), "c": locks.Lock("c", Fixed()), "d": locks.Task().Lock("d"),
	} {
		_ = acquire(t, lock).ReleaseAfter(over, 5*time.Second)
		eventually(t, "it is told", func() bool { return server.holder(key)["lease-ms"] == int64(5000) })
		eventually(t, "all is done", func() bool {
			locks.mu.Lock()
			defer locks.mu.Unlock()
			return locks.works == 0
		})
		if holder := server.holder(key); holder["lease-ms"] != int64(5000) || holder["kept-by"] != int64(0) {
			t.Error(key, holder)
		}
	}
}

// A release that the server refuses is told, and the grant ends with its lease all the same.
func TestARefusedReleaseIsNotKeptOn(t *testing.T) {
	t.Parallel()
	server := start(t)
	server.do("ACL SETUSER app on >secret ~* +@all")
	locks := server.locks(func(o *redis.Options) { o.Username, o.Password = "app", "secret" })
	grant, other := acquire(t, locks.Lock("k", short)), acquire(t, locks.Lock("other", short))
	server.do("ACL SETUSER app -lock.release")
	mustSay(t, grant.Release(background), ErrRefused)
	within(t, 3*time.Second, "it ends", func() bool { return server.do("EXISTS k") == int64(0) })
	mustSay(t, other.Check(background), nil)
}

// What somebody releases already is no failure of Close, which waits for it.
func TestCloseBesideARelease(t *testing.T) {
	t.Parallel()
	server := start(t)
	proxy := before(t, server)
	locks := proxy.locks()
	grant := acquire(t, locks.Lock("k"))
	proxy.inject(map[string]any{"delay": 400}, "LOCK.RELEASE")
	released := meanwhile(func() error { return grant.Release(background) })
	eventually(t, "it is sent", func() bool { return server.calls("lock.release") == 1 })
	mustSay(t, locks.Close(background), nil)
	mustSay(t, <-released, nil)
}

// What comes free near the end of that time is had, too.
func TestTheLastTryLeavesTimeForItsAnswer(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := testLocks(t, server.client(), Options{Reply: 4 * time.Second})
	mustSay(t, acquire(t, locks.Lock("warm")).Release(background), nil)
	began := time.Now()
	server.do("CONFIG SET min-replicas-to-write 1")
	var all sync.WaitGroup
	var missed atomic.Int32
	for n := range 100 {
		all.Go(func() {
			if _, err := locks.Lock(fmt.Sprint("k", n)).Acquire(background); err != nil {
				if !errors.Is(err, ErrUnavailable) || !begins(err, "NOREPLICAS") {
					t.Error(err)
				}
				missed.Add(1)
			}
		})
	}
	time.Sleep(time.Until(began.Add(3200 * time.Millisecond))) // the longest pauses are of a second
	server.do("CONFIG SET min-replicas-to-write 0")
	all.Wait()
	if missed.Load() > 0 {
		t.Fatal("missed", missed.Load())
	}
}
