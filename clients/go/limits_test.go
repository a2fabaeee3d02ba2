package redislock

// Every call has a limit of its own, and obeys it; what does not pass is told at once.

import (
	"context"
	"errors"
	"strings"
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
	script := make(chan error, 1)
	other := server.client(func(o *redis.Options) { o.ReadTimeout = time.Minute })
	go func() { script <- other.Eval(background, "while true do end", nil).Err() }()
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
	if took := time.Since(begun); took > 300*time.Millisecond {
		t.Fatal("took", took)
	}
	ctx, stop := context.WithTimeout(background, 100*time.Millisecond)
	defer stop()
	begun = time.Now()
	mustSay(t, locks.Close(ctx), context.DeadlineExceeded)
	if took := time.Since(begun); took > 300*time.Millisecond {
		t.Fatal("took", took)
	}
	mustSay(t, three.Err(), ErrClosed)
	mustSay(t, locks.Close(background), nil)
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
