package redislock

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestALossIsToldAtOnceByEveryWay(t *testing.T) {
	t.Parallel()
	server := start(t)
	var told atomic.Int32
	locks := testLocks(t, server.client(), Options{Hooks: Hooks{Lost: func(string, error) { told.Add(1) }}})
	losses := int32(0)
	for refusal, lose := range map[string]func(owner string){
		"NOTHELD":   func(string) { server.do("DEL k") },
		"NOTOWNER":  func(string) { server.pipe("DEL k", "LOCK.ACQUIRE k other EX 60") },
		"FENCED":    func(owner string) { server.pipe("DEL k", "LOCK.ACQUIRE k "+owner+" EX 60") },
		"WRONGTYPE": func(string) { server.do("SET k text") },
	} {
		server.do("DEL k")
		other := acquire(t, locks.Lock("other"))
		var stopped time.Duration
		heard := make(chan error, 2)
		err := locks.Lock("k").Do(background, func(ctx context.Context, grant *Grant) error {
			grant.OnLost(func(err error) { heard <- err })
			lose(grant.Owner())
			begun := time.Now()
			<-ctx.Done()
			stopped = time.Since(begun)
			mustSay(t, context.Cause(ctx), ErrLost)
			mustSay(t, grant.Err(), ErrLost)
			mustSay(t, grant.Check(background), ErrLost)
			return context.Cause(ctx)
		})
		losses++
		mustSay(t, err, ErrLost)
		mustSay(t, <-heard, ErrLost)
		if !begins(err, refusal) || stopped > time.Second {
			t.Fatal(refusal, err, "after", stopped)
		}
		eventually(t, "the hook", func() bool { return told.Load() == losses })
		mustSay(t, other.Release(background), nil) // it stands, on another connection
	}
}

func TestTheWorksErrorStaysBesideTheLoss(t *testing.T) {
	t.Parallel()
	server := start(t)
	bad := errors.New("bad")
	err := server.locks().Lock("k").Do(background, func(ctx context.Context, _ *Grant) error {
		server.do("DEL k")
		<-ctx.Done()
		return bad
	})
	mustSay(t, err, bad)
	mustSay(t, err, ErrLost)
}

func TestTheEndOfConnectionsLosesNothing(t *testing.T) {
	t.Parallel()
	server := start(t)
	var events atomic.Int32
	locks := testLocks(t, server.client(), Options{Hooks: Hooks{Keeper: func(string, error) { events.Add(1) }}})
	grants := []*Grant{acquire(t, locks.Lock("a", short)), acquire(t, locks.Shared("b", short)), acquire(t, locks.Permit("c", 3))}
	for range 3 {
		before := server.calls("lock.renew")
		server.do("CLIENT KILL TYPE normal SKIPME yes")
		eventually(t, "asked again", func() bool { return server.calls("lock.renew") >= before+3 })
	}
	for _, grant := range grants {
		mustSay(t, grant.Check(background), nil)
		mustSay(t, grant.Release(background), nil)
	}
	if events.Load() != 6 {
		t.Fatal("events of the keeper:", events.Load())
	}
}

// One renewal that is answered with an error ends nothing: it is asked again while the grant is known.
func TestARenewalThatIsRefusedForAWhileLosesNothing(t *testing.T) {
	t.Parallel()
	server := start(t)
	server.do("ACL SETUSER app on >secret ~* +@all")
	locks := server.locks(func(o *redis.Options) { o.Username, o.Password = "app", "secret" })
	grant := acquire(t, locks.Lock("k", Lease(3*time.Second)))
	server.do("ACL SETUSER app -lock.renew")
	server.do("CLIENT KILL USER app")
	eventually(t, "refused", func() bool { return len(server.do("ACL LOG").([]any)) > 0 })
	mustSay(t, grant.Err(), nil)
	server.do("ACL SETUSER app +lock.renew")
	eventually(t, "kept again", func() bool { return server.holder("k")["kept-by"] != int64(0) })
	time.Sleep(3 * time.Second)
	mustSay(t, grant.Check(background), nil)
}

func TestAShortHangLosesNothing(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	grant := acquire(t, locks.Lock("k", Lease(5*time.Second)))
	server.order("pause", words{})
	time.Sleep(2500 * time.Millisecond)
	mustSay(t, grant.Err(), nil)
	server.order("resume", words{})
	eventually(t, "stands", func() bool { return grant.Check(background) == nil })
	if server.info("k", "token") != grant.Token() {
		t.Fatal("another has it")
	}
}

func TestALeaseThatPassesInSilenceIsLost(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	grant := acquire(t, locks.Lock("k", short))
	ctx, cancel := grant.Context(background)
	defer cancel()
	time.Sleep(500 * time.Millisecond) // a PING
	server.order("pause", words{})
	defer server.order("resume", words{})
	begun := time.Now()
	<-ctx.Done()
	if took := time.Since(begun); took < 300*time.Millisecond || took > 1500*time.Millisecond {
		t.Fatal("told after", took)
	}
	mustSay(t, context.Cause(ctx), ErrLost)
	mustSay(t, grant.Release(background), ErrLost)
}

func TestASilentNetworkIsOneThatHasEnded(t *testing.T) {
	t.Parallel()
	server := start(t)
	proxy := before(t, server)
	locks := proxy.locks()
	grant := acquire(t, locks.Lock("k", Lease(4*time.Second)))
	server.do("LOCK.ACQUIRE taken other EX 60")
	waiting := inBackground(background, locks.Lock("taken", Wait(Forever), short))
	server.waiting("taken", 1)
	proxy.order("silence", words{})
	time.Sleep(2500 * time.Millisecond)
	server.do("LOCK.RELEASE taken other") // nobody hears of this
	mustSay(t, grant.Err(), nil)
	proxy.order("speak", words{})
	eventually(t, "stands", func() bool { return grant.Check(background) == nil })
	got := <-waiting // and a wait without an end asks again
	mustSay(t, got.err, nil)
	mustSay(t, got.grant.Check(background), nil)
}

func TestARestartWithoutDataIsALoss(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	grant := acquire(t, locks.Lock("k"))
	server.order("kill", words{})
	mustSay(t, grant.Err(), nil)
	server.order("restart", words{})
	within(t, 3*time.Second, "told", func() bool { return errors.Is(grant.Err(), ErrLost) })
	again := acquire(t, locks.Lock("k", patient))
	mustSay(t, again.Release(background), nil)
}

func TestARestartWithDataIsNone(t *testing.T) {
	t.Parallel()
	server := launch(t, "server", words{"config": words{"appendonly": "yes", "appendfsync": "always"}})[0]
	locks := server.locks()
	grant := acquire(t, locks.Lock("k"))
	server.order("kill", words{})
	server.order("restart", words{})
	eventually(t, "kept again", func() bool { return server.holder("k")["kept-by"] != int64(0) })
	mustSay(t, grant.Check(background), nil)
	mustSay(t, grant.Release(background), nil)
}

func TestAFixedLeaseEndsUnlessItIsExtended(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	begun := time.Now()
	grant := acquire(t, locks.Lock("k", Lease(400*time.Millisecond), Fixed()))
	if server.holder("k")["kept-by"] != int64(0) {
		t.Fatal("kept")
	}
	mustSay(t, grant.Check(background), nil)
	mustSay(t, grant.Extend(background, time.Second), nil)
	<-grant.Lost()
	if took := time.Since(begun); took < time.Second || took > 2*time.Second {
		t.Fatal("lost after", took)
	}
	mustSay(t, grant.Release(background), ErrLost)
}

func TestAtMostEndsTheKeeping(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	for _, most := range []time.Duration{500 * time.Millisecond, 2500 * time.Millisecond} {
		begun := time.Now()
		grant := acquire(t, locks.Lock("k", short, AtMost(most)))
		<-grant.Lost()
		if took := time.Since(begun); took < most || took > most+time.Second {
			t.Fatal("lost after", took)
		}
		mustSay(t, grant.Err(), ErrLost)
		within(t, 300*time.Millisecond, "free", func() bool { return server.do("EXISTS k") == int64(0) })
	}
}

func TestExtendChangesTheLeaseThatIsKept(t *testing.T) {
	t.Parallel()
	server := start(t)
	grant := acquire(t, server.locks().Lock("k"))
	mustSay(t, grant.Extend(background, 40*time.Second), nil)
	if holder := server.holder("k"); holder["lease-ms"] != int64(40000) || holder["kept-by"] == int64(0) {
		t.Fatal(holder)
	}
	if left := grant.Remaining(); left < 35*time.Second {
		t.Fatal("remaining", left)
	}
	mustSay(t, grant.Extend(background, time.Millisecond), ErrMisuse)
}
