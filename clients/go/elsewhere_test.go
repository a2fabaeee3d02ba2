package redislock

// Two processes of one owner: what the one gives up, or has lost, is not taken from the other, that asked later.

import (
	"context"
	"errors"
	"testing"
	"time"
)

// keepers are the Locks of two processes, the first one behind a proxy.
func keepers(t *testing.T, options Options) (server, proxy *server, first, second *Locks) {
	t.Helper()
	server = start(t)
	proxy = before(t, server)
	first, second = testLocks(t, proxy.client(), options), server.locks()
	acquire(t, first.Lock("one's")) // so its keeper comes back at once
	acquire(t, second.Lock("two's"))
	return server, proxy, first, second
}

// met waits until a request has met the fault of this proxy.
func (s *server) met() {
	s.t.Helper()
	for end := time.Now().Add(10 * time.Second); s.order("lost", words{}).Pending > 0; {
		if time.Now().After(end) {
			s.t.Fatal("nothing has met the fault")
		}
	}
}

// stands says that this grant is the one that stands, and that its process keeps it.
func (s *server) stands(grant *Grant) {
	s.t.Helper()
	if token := s.info(grant.Key(), "token"); token != grant.Token() {
		s.t.Fatal("it is another's, or free:", token)
	}
	mustSay(s.t, grant.Check(background), nil)
}

// The release comes about when its connection ends, before or after.
func TestAReleaseThatMeetsTheEndOfItsConnection(t *testing.T) {
	t.Parallel()
	server, _, _, second := keepers(t, Options{})
	first := server.locks()
	for run := range long(50, 200) {
		one := acquire(t, first.Lock("k", Owner("me")))
		two := acquire(t, second.Lock("k", Owner("me")))
		time.Sleep(time.Duration(run%20) * 20 * time.Microsecond)
		mustSay(t, one.Release(background), ErrLost)
		server.stands(two)
		mustSay(t, two.Release(background), nil)
	}
}

// A release that is sent again on another connection comes behind a look there.
func TestAReleaseThatIsRepeatedLooksEachTime(t *testing.T) {
	t.Parallel()
	server, proxy, first, second := keepers(t, Options{})
	for range 10 {
		one := waited(t, server, first.Lock("k", patient, Owner("me"))) // no connection keeps it yet
		proxy.inject("reset-request", "LOCK.RELEASE")
		released := meanwhile(func() error { return one.Release(background) })
		proxy.met()
		two := acquire(t, second.Lock("k", Owner("me")))
		mustSay(t, <-released, ErrLost)
		server.stands(two)
		mustSay(t, two.Release(background), nil)
	}
}

func TestACancelledReleaseBeforeTheTakeoverLooks(t *testing.T) {
	t.Parallel()
	server, _, first, second := keepers(t, Options{})
	over, cancel := context.WithCancel(background)
	cancel()
	for range 10 {
		one := waited(t, server, first.Lock("k", patient, Owner("me")))
		two := acquire(t, second.Lock("k", Owner("me")))
		mustSay(t, one.Release(over), context.Canceled)
		eventually(t, "over", func() bool { return idle(first) })
		server.stands(two)
		mustSay(t, two.Release(background), nil)
		// It is carried on all the same, and ends nothing that this process gets later.
		three := waited(t, server, first.Lock("k", patient, Owner("me")))
		mustSay(t, three.Release(over), context.Canceled)
		four := acquire(t, first.Lock("k", Owner("me")))
		if four.Token() == three.Token() {
			t.Fatal("it was not released")
		}
		eventually(t, "over", func() bool { return idle(first) })
		server.stands(four)
		mustSay(t, four.Release(background), nil)
	}
}

// idle says whether nothing is under way.
func idle(locks *Locks) bool {
	locks.mu.Lock()
	defer locks.mu.Unlock()
	return locks.works == 0
}

// As TestANamedGrantThatNothingIsKnownOfIsNotReleasedFromAnother, of one that its keeper has not had yet.
func TestALossInTheTakeoverReleasesNothingOfAnother(t *testing.T) {
	t.Parallel()
	server, proxy, first, second := keepers(t, Options{Reply: 4 * time.Second})
	one := waited(t, server, first.Lock("k", short, patient, Owner("me")))
	proxy.inject(map[string]any{"delay": 2500}, "LOCK.HOLDERS")
	proxy.met()
	two := acquire(t, second.Lock("k", short, Owner("me")))
	<-one.Lost()
	mustSay(t, one.Err(), ErrLost)
	eventually(t, "over", func() bool { return idle(first) })
	server.stands(two)
}

// Nor does a late answer to a wait take it over.
func TestALateGrantIsNotTakenFromWhoeverAskedLater(t *testing.T) {
	t.Parallel()
	server, proxy, first, second := keepers(t, Options{})
	server.do("LOCK.ACQUIRE k other EX 60")
	proxy.inject(map[string]any{"delay": 900}, "BLOCK")
	waiting := inBackground(background, first.Lock("k", patient, short, Owner("me")))
	server.waiting("k", 1)
	server.do("LOCK.RELEASE k other")
	two := acquire(t, second.Lock("k", Owner("me")))
	mustSay(t, (<-waiting).err, ErrLost)
	server.stands(two)
	mustSay(t, two.Err(), nil)
}

func TestAWaitThatIsCalledOffLate(t *testing.T) {
	t.Parallel()
	server, proxy, first, second := keepers(t, Options{})
	server.do("LOCK.ACQUIRE k other EX 60")
	proxy.inject(map[string]any{"delay": 900}, "BLOCK")
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	waiting := inBackground(ctx, first.Lock("k", patient, Owner("me")))
	server.waiting("k", 1)
	server.do("LOCK.RELEASE k other")
	two := acquire(t, second.Lock("k", Owner("me")))
	cancel()
	mustSay(t, (<-waiting).err, context.Canceled)
	server.stands(two)
}

// comesBack waits for the next connection of a keeper, for no longer than until a call is sent again.
func (l *Locks) comesBack(was *link) {
	for end := time.Now().Add(firstPause / 2); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
		if now := l.linkOf("k"); now != was && now.isOpen() {
			return
		}
	}
}

// What was asked for, on a connection that has ended, is not undone on the next one.
func TestAnAcquireGivenUpUndoesNothingOfAnother(t *testing.T) {
	t.Parallel()
	server, proxy, first, second := keepers(t, Options{})
	shown := 0
	for range 40 {
		time.Sleep(firstPause) // so the keeper comes back at once
		asked, was := server.calls("lock.acquire"), first.linkOf("k")
		ctx, cancel := context.WithCancel(background)
		proxy.inject("cut", "LOCK.ACQUIRE")
		asking := inBackground(ctx, first.Lock("k", Owner("me")))
		eventually(t, "it is carried out", func() bool { return server.calls("lock.acquire") > asked })
		two := acquire(t, second.Lock("k", Owner("me")))
		first.comesBack(was)
		cancel()
		got := <-asking
		eventually(t, "over", func() bool { return idle(first) })
		if server.calls("lock.acquire") == asked+2 { // and not sent again
			shown++
			mustSay(t, got.err, context.Canceled)
			server.stands(two)
		}
		if got.err == nil {
			_ = got.grant.Release(background)
		}
		_ = two.Release(background)
		server.do("DEL k")
	}
	t.Log("shown", shown, "times")
}

// Nor are the holds of another process taken away.
func TestAnEntryGivenUpUndoesNothingOfAnother(t *testing.T) {
	t.Parallel()
	server, proxy, first, second := keepers(t, Options{})
	shown := 0
	for range 20 {
		time.Sleep(firstPause)
		one := acquire(t, first.Lock("k", Owner("me")))
		asked, was := server.calls("lock.acquire"), first.linkOf("k")
		ctx, cancel := context.WithCancel(background)
		proxy.inject("cut", "LOCK.ACQUIRE")
		asking := inBackground(ctx, first.Lock("k", Owner("me")))
		eventually(t, "it is carried out", func() bool { return server.calls("lock.acquire") > asked })
		two := acquire(t, second.Lock("k", Owner("me")))
		three, four := acquire(t, second.Lock("k", Owner("me"))), acquire(t, second.Lock("k", Owner("me")))
		first.comesBack(was)
		cancel()
		got := <-asking
		eventually(t, "over", func() bool { return idle(first) })
		if server.calls("lock.acquire") == asked+4 {
			shown++
			mustSay(t, got.err, context.Canceled)
			if holds := server.info("k", "holds").(int64); holds < 2 {
				t.Fatal("holds", holds)
			}
		}
		if got.err == nil {
			_ = got.grant.Release(background)
		}
		for _, grant := range []*Grant{one, two, three, four} {
			_ = grant.Release(background)
		}
		server.do("DEL k")
	}
	t.Log("shown", shown, "times")
}

func TestAChangeOfWhatAnotherKeepsIsALoss(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Grant) error{
		"downgrade": func(one *Grant) error { return one.Downgrade(background) },
		"extend":    func(one *Grant) error { return one.Extend(background, 3*time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t)
			one, two := contended(t, server)
			mustSay(t, change(one), ErrLost)
			if server.holder("k")["limit"] != int64(1) || server.holder("k")["lease-ms"] != int64(10_000) {
				t.Fatal(server.holder("k"))
			}
			server.stands(two)
			mustSay(t, two.Release(background), nil)
		})
	}
}

// The end of the keeping, sent again, would be of the adopted grant.
func TestADetachingThatIsRepeatedLooks(t *testing.T) {
	t.Parallel()
	server, proxy, first, second := keepers(t, Options{})
	shown := 0
	for range 10 {
		for key, owner := range map[string][]LockOption{"fresh": nil, "named": {Owner("me")}} {
			one, on := acquire(t, first.Lock(key, owner...)), second.linkOf(key)
			renewed, looked := server.calls("lock.renew"), server.calls("lock.holders")
			proxy.inject("cut", "LOCK.RENEW")
			detached := meanwhile(func() error { return one.Detach(background) })
			eventually(t, "it is carried out", func() bool { return server.calls("lock.renew") > renewed })
			two := must[*Grant](t)(second.Adopt(background, key, one.Owner(), one.Token()))
			isFirst := server.calls("lock.holders") == looked
			err := <-detached
			if isFirst && owner == nil {
				mustSay(t, err, nil) // it was to be adopted
			} else if isFirst {
				mustSay(t, err, ErrLost)
			}
			if isFirst {
				shown++
				server.stands(two)
				if !on.isOpen() {
					t.Fatal("its keeping was ended")
				}
			}
			_ = two.Release(background)
			server.do("DEL " + key)
		}
	}
	t.Log("shown", shown, "times")
}

// A grant that lasts no longer than AtMost is kept by nobody at its end, unless another process asks.
func TestTheEndOfAtMostTakesNothingFromAnother(t *testing.T) {
	t.Parallel()
	server, _, first, second := keepers(t, Options{})
	one := acquire(t, first.Lock("k", short, Owner("me"), AtMost(3*time.Second)))
	eventually(t, "not kept any more", func() bool { return server.holder("k")["kept-by"] == int64(0) })
	two := acquire(t, second.Lock("k", Owner("me")))
	mustSay(t, one.Release(background), ErrLost)
	if !errors.Is(one.Release(background), ErrMisuse) {
		t.Fatal("released twice")
	}
	server.stands(two)
}
