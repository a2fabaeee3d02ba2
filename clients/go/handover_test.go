package redislock

// Grants that are handed on, and calls of one owner that are in each other's way.

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestADetachedGrantIsForWhoeverAdoptsIt(t *testing.T) {
	t.Parallel()
	server := start(t)
	ended := make(chan error, 10)
	first := testLocks(t, server.client(), Options{Hooks: Hooks{Keeper: func(_ string, err error) { ended <- err }}})
	second := server.locks()
	grant, other := acquire(t, first.Lock("k")), acquire(t, first.Lock("other"))
	mustSay(t, grant.Detach(background), nil)
	<-grant.Lost()
	mustSay(t, grant.Err(), ErrMisuse)
	mustSay(t, grant.Release(background), ErrMisuse)
	mustSay(t, grant.Detach(background), ErrMisuse)
	if holder := server.holder("k"); holder["kept-by"] != int64(0) || holder["token"] != grant.Token() {
		t.Fatal(holder)
	}
	adopted := must[*Grant](t)(second.Adopt(background, "k", grant.Owner(), grant.Token()))
	mustSay(t, adopted.Check(background), nil)
	mustSay(t, other.Check(background), nil)
	mustSay(t, first.Close(background), nil)
	mustSay(t, adopted.Check(background), nil)
	mustSay(t, adopted.Release(background), nil)
	if len(ended) > 0 {
		t.Fatal("a keeper has ended", <-ended)
	}
}

// Whoever has adopted it goes on under the owner of the task, which must not get in beside it.
func TestATaskDoesNotEnterWhatItHasDetached(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	task := locks.Task()
	grant, other := acquire(t, task.Lock("k")), acquire(t, task.Lock("other"))
	mustSay(t, grant.Detach(background), nil)
	adopted := must[*Grant](t)(server.locks().Adopt(background, "k", grant.Owner(), grant.Token()))
	_, err := task.Lock("k").Acquire(background)
	mustSay(t, err, ErrBusy)
	mustSay(t, adopted.Check(background), nil)
	again := acquire(t, task.Lock("other"))
	if again.Token() != other.Token() {
		t.Fatal("not the same grant")
	}
}

func TestWhatCannotBeDetached(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := testLocks(t, server.client(), Options{Release: 500 * time.Millisecond})
	task := locks.Task()
	one, two := acquire(t, task.Lock("k")), acquire(t, task.Lock("k"))
	mustSay(t, one.Detach(background), ErrMisuse)
	mustSay(t, one.Err(), nil)
	mustSay(t, two.Release(background), nil)
	server.do("LOCK.RELEASE k " + one.Owner() + " ALL") // nobody is told
	mustSay(t, one.Detach(background), ErrLost)
	fixed := acquire(t, locks.Lock("fixed", Fixed()))
	mustSay(t, fixed.Detach(background), nil)
	if server.info("fixed", "token") != fixed.Token() {
		t.Fatal("gone")
	}
	hung := acquire(t, locks.Lock("hung", short))
	server.order("pause", words{})
	mustSay(t, hung.Detach(background), ErrUnavailable)
	if hung.Held() {
		t.Fatal("held")
	}
	server.order("resume", words{})
	within(t, 4*time.Second, "free a lease later", func() bool { return server.do("EXISTS hung") == int64(0) })
}

func TestAGrantOfAQuorumIsHandedOn(t *testing.T) {
	t.Parallel()
	five := startFive(t)
	grant := five.hold(t, five.locks().Lock("k", Lease(2*time.Second)))
	mustSay(t, grant.Detach(background), nil)
	mustSay(t, grant.Err(), ErrMisuse)
	adopted := must[*Grant](t)(five.locks().Adopt(background, "k", grant.Owner(), grant.Token(), Lease(2*time.Second)))
	time.Sleep(2500 * time.Millisecond) // it is renewed there, and not here
	mustSay(t, adopted.Check(background), nil)
	mustSay(t, adopted.Release(background), nil)
	five.free(t, "k")
}

// The holds that an owner has of another process are none of this one's grants: its last release ends them all.
func TestANamedOwnerLeavesNoHoldsOfAnotherProcess(t *testing.T) {
	t.Parallel()
	server := start(t)
	first, second := server.locks(), server.locks()
	for key, lock := range map[string]func(*Locks) *Lock{
		"kept":   func(locks *Locks) *Lock { return locks.Lock("kept", Owner("me")) },
		"fixed":  func(locks *Locks) *Lock { return locks.Lock("fixed", Owner("me"), Fixed()) },
		"shared": func(locks *Locks) *Lock { return locks.Shared("shared", Owner("me")) },
	} {
		for range 3 {
			acquire(t, lock(first))
		}
		one, two := acquire(t, lock(second)), acquire(t, lock(second))
		mustSay(t, one.Release(background), nil)
		mustSay(t, two.Check(background), nil)
		mustSay(t, two.Release(background), nil)
		if holds := server.info(key, "holds"); holds != nil {
			t.Error(key, "stays held:", holds)
		}
	}
}

// contended is a grant of two processes, by their Locks: the first one looks who keeps it, and the second one does.
func contended(t *testing.T, server *server, options ...LockOption) (one, two *Grant) {
	t.Helper()
	proxy := before(t, server)
	options = append(options, Owner("me"))
	one = acquire(t, proxy.locks().Lock("k", options...))
	proxy.inject(map[string]any{"delay": 400}, "LOCK.HOLDERS")
	two = acquire(t, server.locks().Lock("k", options...))
	eventually(t, "it looks", func() bool { return server.calls("lock.holders") == 1 })
	return one, two
}

// A process that enters its grant again while it looks who keeps it is the last one to ask.
func TestALookThatAnAcquireOvertakesLosesNothing(t *testing.T) {
	t.Parallel()
	server := start(t)
	one, two := contended(t, server)
	three := acquire(t, one.locks.Lock("k", Owner("me")))
	<-two.Lost()
	for _, grant := range []*Grant{one, three} {
		mustSay(t, grant.Check(background), nil)
		mustSay(t, grant.Release(background), nil)
	}
	if server.do("EXISTS k") != int64(0) {
		t.Fatal("stayed behind")
	}
}

// Where the acquire is given up, nobody keeps what it may have brought.
func TestALookBesideAnAcquireThatIsGivenUpKeepsNothing(t *testing.T) {
	t.Parallel()
	server := start(t)
	one, two := contended(t, server, short)
	before := server.calls("lock.acquire")
	ctx, cancel := context.WithCancel(background)
	entering := inBackground(ctx, one.locks.Lock("k", short, Owner("me")))
	eventually(t, "it is sent", func() bool { return server.calls("lock.acquire") > before })
	cancel()
	mustSay(t, (<-entering).err, context.Canceled)
	<-one.Lost()
	mustSay(t, one.Err(), ErrLost)
	mustSay(t, two.locks.Close(background), nil)
	eventually(t, "free", func() bool { return server.do("EXISTS k") == int64(0) })
}

// A server that counts anew gives others the numbers of this process's earlier connections.
func TestNumbersOfAnotherServerAreForgotten(t *testing.T) {
	t.Parallel()
	server := start(t)
	first, second := server.locks(), server.locks()
	one, other := acquire(t, first.Lock("k", Owner("me"))), acquire(t, second.Lock("other"))
	keeper := must[*keeper](t)(first.keeperOf(background, "k"))
	keeper.mu.Lock()
	keeper.ids = []int64{server.holder(other.Key())["kept-by"].(int64), 1 << 40} // as if it were another server
	keeper.mu.Unlock()
	two := acquire(t, second.Lock("k", Owner("me")))
	<-one.Lost()
	mustSay(t, two.Check(background), nil)
	mustSay(t, two.Release(background), nil)
}

// Whatever these Locks have already is one grant with two holds, by whatever call it was taken.
func TestAGrantThatIsHeldHereIsAdopted(t *testing.T) {
	t.Parallel()
	server, five := start(t), startFive(t)
	one, many := server.locks(), five.locks()
	for key, lock := range map[string]*Lock{
		"a": one.Lock("a"), "b": one.Task().Lock("b"), "c": one.Shared("c"), "d": one.Permit("d", 2),
		"e": one.Lock("e", Fixed()), "f": one.Lock("f", Owner("me")), "g": many.Lock("g"),
	} {
		grant := acquire(t, lock)
		adopted := must[*Grant](t)(lock.locks.Adopt(background, key, grant.Owner(), grant.Token()))
		mustSay(t, grant.Release(background), nil)
		if key == "g" {
			if five.stand(adopted) < 3 {
				t.Error(key, "is free, and held")
			}
		} else if server.info(key, "token") != adopted.Token() {
			t.Error(key, "is free, and held")
		}
		mustSay(t, adopted.Check(background), nil)
		mustSay(t, adopted.Release(background), nil)
		if server.do("EXISTS "+key) == int64(1) {
			t.Error(key, "stayed behind")
		}
	}
	five.free(t, "g")
}

// A release is not lost because another call of its owner stands in its way.
func TestAReleaseThatHasToWaitIsCarriedOn(t *testing.T) {
	t.Parallel()
	server := start(t)
	proxy := before(t, server)
	task := proxy.locks().Task()
	grant := acquire(t, task.Lock("k"))
	proxy.order("silence", words{})
	entering := inBackground(background, task.Lock("k", patient))
	eventually(t, "it is sent", func() bool { return server.calls("lock.acquire") == 2 })
	ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
	defer cancel()
	mustSay(t, grant.Release(ctx), context.DeadlineExceeded)
	proxy.order("speak", words{})
	got := <-entering
	mustSay(t, got.err, nil)
	eventually(t, "released", func() bool { return server.info("k", "holds") == int64(1) })
	mustSay(t, got.grant.Release(background), nil)
	if server.do("EXISTS k") != int64(0) {
		t.Fatal("held")
	}
}

func TestCloseEndsWhatATaskIsEnteringAgain(t *testing.T) {
	t.Parallel()
	server := start(t)
	proxy := before(t, server)
	locks := proxy.locks()
	task := locks.Task()
	acquire(t, task.Lock("k"))
	proxy.order("silence", words{})
	entering := inBackground(background, task.Lock("k", Wait(Forever)))
	eventually(t, "it is sent", func() bool { return server.calls("lock.acquire") == 2 })
	behind := inBackground(background, task.Lock("k", Wait(Forever)))
	begun := time.Now()
	_ = locks.Close(background)
	for _, waiting := range []chan result{entering, behind} {
		if err := (<-waiting).err; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
	if took := time.Since(begun); took > 3*time.Second {
		t.Fatal("took", took)
	}
}

// A loss that no server told may be one that another process of the owner has caused: that keeps its grant.
func TestANamedGrantThatNothingIsKnownOfIsNotReleasedFromAnother(t *testing.T) {
	t.Parallel()
	server := start(t)
	proxy := before(t, server)
	first, second := testLocks(t, proxy.client(), Options{Reply: 4 * time.Second}), server.locks()
	one := acquire(t, first.Lock("k", short, Owner("me")))
	proxy.inject(map[string]any{"delay": 2500}, "LOCK.HOLDERS")
	two := acquire(t, second.Lock("k", short, Owner("me")))
	<-one.Lost()
	mustSay(t, one.Err(), ErrLost)
	_ = first.Close(background) // so all has been sent
	mustSay(t, two.Check(background), nil)
}

// Nor does a release take it away that comes before the loss is known.
func TestAReleaseOfANamedOwnerFreesNothingThatAnotherKeeps(t *testing.T) {
	t.Parallel()
	one, two := contended(t, start(t))
	mustSay(t, one.Release(background), ErrLost)
	mustSay(t, two.Check(background), nil)
}

// Else the end of the keeping, sent again, would be of the adopted grant.
func TestAnAdoptionWaitsForTheDetaching(t *testing.T) {
	t.Parallel()
	server := start(t)
	proxy := before(t, server)
	locks := proxy.locks()
	grant := acquire(t, locks.Lock("k"))
	proxy.inject("cut", "LOCK.RENEW")
	detached := meanwhile(func() error { return grant.Detach(background) })
	eventually(t, "it is sent", func() bool { return server.calls("lock.renew") == 1 })
	adopted := must[*Grant](t)(locks.Adopt(background, "k", grant.Owner(), grant.Token()))
	mustSay(t, <-detached, nil)
	if server.holder("k")["kept-by"] == int64(0) {
		t.Fatal("nobody keeps it")
	}
	mustSay(t, adopted.Release(background), nil)
}
