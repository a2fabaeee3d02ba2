package redislock

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestATaskEntersAgainAndReleasesInAnyOrder(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
		task := locks.Task()
		outer, between, inner := acquire(t, task.Lock("k")), acquire(t, task.Lock("k", patient)), acquire(t, task.Shared("k"))
		if server.info("k", "holds") != int64(3) || inner.Token() != outer.Token() || inner.Owner() != task.Owner() {
			t.Fatal("holds", server.info("k", "holds"))
		}
		grants := []*Grant{outer, between, inner}
		for i, n := range order {
			mustSay(t, grants[n].Err(), nil)
			mustSay(t, grants[n].Release(background), nil)
			mustSay(t, grants[n].Release(background), ErrMisuse)
			if left, _ := server.info("k", "holds").(int64); left != int64(2-i) {
				t.Fatal("holds", left, "after", i+1)
			}
		}
		mustSay(t, acquire(t, task.Lock("k")).Release(background), nil)
	}
}

// Re-entry is never by accident: another task, or none, is another owner; and so is each permit.
func TestOnlyATaskEntersAgain(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	task := locks.Task()
	acquire(t, task.Lock("k"))
	for _, lock := range []*Lock{locks.Lock("k"), locks.Task().Lock("k")} {
		_, err := lock.Acquire(background)
		mustSay(t, err, ErrBusy)
	}
	// Nor does a context carry an owner along: that of the work under a lock is as any other.
	err := locks.Lock("by context").Do(background, func(ctx context.Context, _ *Grant) error {
		_, err := locks.Lock("by context").Acquire(ctx)
		return err
	})
	mustSay(t, err, ErrBusy)
	one, two := acquire(t, task.Permit("seats", 2)), acquire(t, task.Permit("seats", 2))
	if one.Owner() == two.Owner() || one.Token() == two.Token() {
		t.Fatal("one permit")
	}
	_, err = task.Permit("seats", 2).Acquire(background)
	mustSay(t, err, ErrBusy)
	acquire(t, task.Permit("seat", 1))
	_, err = task.Permit("seat", 1).Acquire(background)
	mustSay(t, err, ErrBusy)
}

// A second grant in its name would be no second place.
func TestAPermitTakesNoName(t *testing.T) {
	t.Parallel()
	server := start(t)
	_, err := server.locks().Permit("k", 2, Owner("me")).Acquire(background)
	mustSay(t, err, ErrMisuse)
	if server.do("EXISTS k") != int64(0) {
		t.Fatal("stayed behind")
	}
}

// The longest silence that is asked for is the server's, on the next connection too.
func TestWhatIsEnteredAgainIsKeptForTheLongerSilence(t *testing.T) {
	t.Parallel()
	server := start(t)
	task := server.locks().Task()
	acquire(t, task.Lock("k"))
	grant := acquire(t, task.Lock("k", Keep(time.Minute)))
	acquire(t, task.Lock("k"))
	server.do("CLIENT KILL TYPE normal SKIPME yes")
	eventually(t, "kept again", func() bool { return server.calls("lock.renew") == 1 && grant.Check(background) == nil })
	if silence := server.holder("k")["keep-ms"]; silence != int64(60000) {
		t.Fatal("kept for", silence)
	}
}

func TestADeadlockIsToldAtOnce(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	one, two := locks.Task(), locks.Task()
	acquire(t, one.Lock("a"))
	held := acquire(t, two.Lock("b"))
	waiting := inBackground(background, one.Lock("b", patient))
	server.waiting("b", 1)
	_, err := two.Lock("a", patient).Acquire(background)
	mustSay(t, err, ErrDeadlock)
	mustSay(t, held.Release(background), nil)
	mustSay(t, (<-waiting).err, nil)
}

func TestReadersShareAndAWriterDoesNot(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	task := locks.Task()
	reader, other := acquire(t, task.Shared("k")), acquire(t, locks.Shared("k"))
	_, err := locks.Lock("k").Acquire(background)
	mustSay(t, err, ErrBusy)
	_, err = task.Lock("k", patient).Acquire(background)
	mustSay(t, err, ErrNotAlone)
	mustSay(t, reader.Err(), nil)
	mustSay(t, other.Release(background), nil)
	mustSay(t, reader.Release(background), nil)
	writer := acquire(t, locks.Lock("k"))
	waiting := inBackground(background, locks.Shared("k", patient))
	server.waiting("k", 1)
	mustSay(t, writer.Downgrade(background), nil)
	mustSay(t, (<-waiting).err, nil)
	mustSay(t, writer.Check(background), nil)
}

func TestATaskThatIsUsedByManyGoroutines(t *testing.T) {
	t.Parallel()
	server := start(t)
	task := server.locks().Task()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				grant, err := task.Lock("k", patient).Acquire(background)
				mustSay(t, err, nil)
				mustSay(t, grant.Release(background), nil)
			}
		})
	}
	all.Wait()
	if server.do("EXISTS k") != int64(0) {
		t.Fatal("holds are left", server.info("k", "holds"))
	}
	eventually(t, "nothing is left", func() bool {
		task.mu.Lock()
		defer task.mu.Unlock()
		return len(task.turns) == 0
	})
}

func TestALossEndsAllHoldsOfATask(t *testing.T) {
	t.Parallel()
	server := start(t)
	task := server.locks().Task()
	one, two := acquire(t, task.Lock("k")), acquire(t, task.Lock("k"))
	server.do("DEL k")
	<-one.Lost()
	<-two.Lost()
	mustSay(t, two.Release(background), ErrLost)
	again := acquire(t, task.Lock("k"))
	if again.Token() <= one.Token() {
		t.Fatal("not another grant")
	}
}

func TestAGrantIsAdoptedByOwnerAndToken(t *testing.T) {
	t.Parallel()
	server := start(t)
	first, second := server.locks(), server.locks()
	grant := acquire(t, first.Lock("k", Owner("cart:7"), short))
	adopted := must[*Grant](t)(second.Adopt(background, "k", "cart:7", grant.Token()))
	if holder := server.holder("k"); holder["lease-ms"] != int64(1000) || holder["kept-by"] == int64(0) {
		t.Fatal(holder)
	}
	mustSay(t, adopted.Check(background), nil)
	mustSay(t, adopted.Release(background), nil)
	_, err := second.Adopt(background, "k", "cart:7", grant.Token())
	mustSay(t, err, ErrLost)
}

func TestWhoHoldsItAndForceUnlock(t *testing.T) {
	t.Parallel()
	server := start(t)
	for _, protocol := range []int{2, 3} {
		client := server.client()
		client.Options().Protocol = protocol
		locks := testLocks(t, client, Options{})
		grant, other := acquire(t, locks.Permit("k", 3)), acquire(t, locks.Permit("k", 2))
		holders := must[[]Holder](t)(locks.Holders(background, "k"))
		if len(holders) != 2 || holders[0].Owner != grant.Owner() || holders[1].Token != other.Token() ||
			holders[1].Limit != 2 || holders[0].Lease != defaultLease || holders[0].KeptBy == 0 {
			t.Fatal(holders)
		}
		if was := must[bool](t)(locks.ForceUnlock(background, "k")); !was {
			t.Fatal("nobody had it")
		}
		within(t, 2*time.Second, "both are told", func() bool { return !grant.Held() && !other.Held() })
		if was := must[bool](t)(locks.ForceUnlock(background, "k")); was {
			t.Fatal("somebody had it")
		}
	}
}

// registry is a context of the user that counts who wants to hear of its end.
type registry struct {
	context.Context
	listeners atomic.Int64
}

func (r *registry) Done() <-chan struct{} { return make(chan struct{}) }
func (r *registry) AfterFunc(func()) func() bool {
	r.listeners.Add(1)
	return func() bool { r.listeners.Add(-1); return true }
}

func TestATaskLeavesNothingAtTheContextOfTheUser(t *testing.T) {
	t.Parallel()
	five := startFive(t)
	for _, locks := range []*Locks{start(t).locks(), five.locks()} {
		ctx := &registry{Context: background}
		grant := must[*Grant](t)(locks.Task().Lock("k").Acquire(ctx))
		mustSay(t, grant.Release(ctx), nil)
		if left := ctx.listeners.Load(); left != 0 {
			t.Error("left", left)
		}
	}
	five.free(t, "k")
}

// A second one would be of whoever has it by then.
func TestAForcedUnlockIsSentOnce(t *testing.T) {
	t.Parallel()
	server := start(t)
	proxy := before(t, server)
	locks := proxy.locks()
	acquire(t, server.locks().Lock("k"))
	proxy.inject("cut", "DEL")
	_, err := locks.ForceUnlock(background, "k")
	mustSay(t, err, ErrUnavailable)
	if calls := server.calls("del"); calls != 1 {
		t.Fatal("sent", calls, "times")
	}
}
