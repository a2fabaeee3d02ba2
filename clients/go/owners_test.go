package redislock

// Owners that come back: named ones, those of adopted grants, and tasks.

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// comingBack are the locks of many owners, one for each key. A task has another lock too.
func comingBack(t *testing.T, locks *Locks, who string, n int) (all []*Lock) {
	t.Helper()
	for i := range n {
		key := fmt.Sprint("k", i)
		if who == "named" {
			all = append(all, locks.Lock(key, patient, Owner("me:"+key)))
			continue
		}
		task := locks.Task()
		acquire(t, task.Lock("held "+key))
		all = append(all, task.Lock(key, patient))
	}
	return all
}

func keysOf(all []*Lock) (keys []string) {
	for _, lock := range all {
		keys = append(keys, lock.key)
	}
	return keys
}

// What was given up while the server stood still is undone. That ends nothing which the same owner gets later.
func TestWhatIsUndoneLateEndsNoLaterGrant(t *testing.T) {
	t.Parallel()
	const many = 20
	for _, who := range []string{"named", "task"} {
		for _, what := range []string{"a try", "a wait", "a release"} {
			for _, trouble := range []string{"stopped", "silent", "swallowed"} {
				t.Run(who+" "+what+" "+trouble, func(t *testing.T) {
					t.Parallel()
					server := start(t)
					proxy := before(t, server)
					ended := make(chan error, 100)
					locks := testLocks(t, proxy.client(), Options{Hooks: Hooks{Keeper: func(_ string, err error) { ended <- err }}})
					all := comingBack(t, locks, who, many)
					stop, goOn := func() { server.order("pause", words{}) }, func() { server.order("resume", words{}) }
					if trouble != "stopped" {
						how := map[string]string{"silent": "silence", "swallowed": "swallow"}[trouble]
						stop, goOn = func() { proxy.order(how, words{}) }, func() { proxy.order("speak", words{}) }
					}
					mustSay(t, acquire(t, locks.Lock("warm")).Release(background), nil)
					ctx, cancel := context.WithCancel(background)
					defer cancel()
					var calls []chan error
					call := func(do func(*Lock) error) {
						for _, lock := range all {
							calls = append(calls, meanwhile(func() error { return do(lock) }))
						}
					}
					tries := func(lock *Lock) error {
						_, err := lock.Acquire(ctx)
						return err
					}
					switch what {
					case "a try":
						stop()
						call(tries)
						time.Sleep(100 * time.Millisecond) // they are sent, and not answered
					case "a wait":
						for _, lock := range all {
							server.do("LOCK.ACQUIRE " + lock.key + " other EX 60")
						}
						call(tries)
						for _, lock := range all {
							server.waiting(lock.key, 1)
						}
						stop()
					case "a release":
						grants := map[*Lock]*Grant{}
						for _, lock := range all {
							grants[lock] = acquire(t, lock)
						}
						stop()
						call(func(lock *Lock) error { return grants[lock].Release(ctx) })
						time.Sleep(100 * time.Millisecond)
					}
					cancel()
					for _, over := range calls {
						mustSay(t, <-over, context.Canceled)
					}
					var again []chan result
					for _, lock := range all {
						again = append(again, inBackground(background, lock))
					}
					if err := <-ended; err == nil {
						t.Fatal("back before it ended")
					}
					if what == "a wait" {
						freed := meanwhile(func() error { return server.Del(background, keysOf(all)...).Err() })
						if trouble == "stopped" {
							time.Sleep(50 * time.Millisecond) // the server reads it before all that comes on new connections
						} else {
							mustSay(t, <-freed, nil)
						}
					}
					goOn()
					var grants []*Grant
					for _, waiting := range again {
						got := <-waiting
						mustSay(t, got.err, nil)
						grants = append(grants, got.grant)
					}
					eventually(t, "nothing is undone any more", func() bool {
						locks.mu.Lock()
						defer locks.mu.Unlock()
						return locks.works == 0
					})
					for _, grant := range grants {
						if server.info(grant.Key(), "token") != grant.Token() {
							t.Fatal(grant.Key(), "is held by", server.info(grant.Key(), "owner"), "and by", grant.Owner())
						}
						mustSay(t, grant.Check(background), nil)
					}
				})
			}
		}
	}
}

// What a task holds keeps the owner that it was taken with.
func TestATaskOfAnotherNameEntersAgainWhatItHas(t *testing.T) {
	t.Parallel()
	server := start(t)
	proxy := before(t, server)
	task := proxy.locks().Task()
	held, before := acquire(t, task.Lock("held")), task.Owner()
	proxy.inject(map[string]any{"delay": 400}, "LOCK.ACQUIRE")
	ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
	defer cancel()
	_, err := task.Lock("k").Acquire(ctx)
	mustSay(t, err, context.DeadlineExceeded)
	if task.Owner() == before {
		t.Fatal("a late release would be in its name")
	}
	again := acquire(t, task.Lock("held", patient))
	if again.Owner() != before || again.Token() != held.Token() {
		t.Fatal("not the same grant")
	}
	eventually(t, "undone", func() bool { return server.info("k", "owner") == nil })
	if now := acquire(t, task.Lock("k")); now.Owner() != task.Owner() {
		t.Fatal(now.Owner())
	}
	mustSay(t, held.Release(background), nil)
	mustSay(t, again.Release(background), nil)
	if server.do("EXISTS held") != int64(0) {
		t.Fatal("held")
	}
}

// A named owner's try comes behind the undoing of what it has asked before, on the same connection.
func TestANamedOwnerTriesBeforeItWaits(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	server.do("LOCK.ACQUIRE k other EX 60")
	first := inBackground(background, locks.Lock("k", patient))
	server.waiting("k", 1)
	second := inBackground(background, locks.Lock("k", patient, Owner("me")))
	server.waiting("k", 2)
	server.do("DEL k")
	mustSay(t, (<-first).grant.Release(background), nil)
	mustSay(t, (<-second).err, nil)
	// The other's, and a try and a wait of each: newer servers count a wait when it is over.
	if sent := server.calls("lock.acquire"); sent != 5 {
		t.Fatal("acquires:", sent)
	}
}

func TestTheGrantsOfANamedOwnerCountTheirHolds(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	lock := locks.Lock("k", Owner("me"))
	one, two := acquire(t, lock), acquire(t, locks.Shared("k", patient, Owner("me")))
	if server.info("k", "holds") != int64(2) || one.Token() != two.Token() {
		t.Fatal("holds", server.info("k", "holds"))
	}
	mustSay(t, one.Release(background), nil)
	mustSay(t, two.Check(background), nil)
	if server.info("k", "holds") != int64(1) {
		t.Fatal("holds", server.info("k", "holds"))
	}
	three := acquire(t, lock)
	server.do("DEL k")
	<-two.Lost()
	<-three.Lost()
	mustSay(t, two.Release(background), ErrLost)
	mustSay(t, three.Release(background), ErrLost)
	four := acquire(t, lock)
	five := must[*Grant](t)(locks.Adopt(background, "k", "me", four.Token()))
	mustSay(t, four.Release(background), nil)
	mustSay(t, five.Check(background), nil)
	mustSay(t, five.Release(background), nil)
	if server.do("EXISTS k") != int64(0) {
		t.Fatal("held")
	}
	eventually(t, "nothing is left", func() bool {
		locks.owners.mu.Lock()
		defer locks.owners.mu.Unlock()
		return len(locks.owners.turns) == 0
	})
}

// It takes away its own hold, and not the one that stands.
func TestAnAcquireOfANamedOwnerThatIsGivenUp(t *testing.T) {
	t.Parallel()
	server := start(t)
	proxy := before(t, server)
	locks := proxy.locks()
	lock := locks.Lock("k", Owner("me"))
	adopted := must[*Grant](t)(locks.Adopt(background, "a", "me", server.do("LOCK.ACQUIRE a me EX 60").([]any)[0].(int64)))
	for _, grant := range []*Grant{acquire(t, lock), adopted} {
		proxy.inject(map[string]any{"delay": 400}, "LOCK.ACQUIRE")
		before := server.calls("lock.release")
		ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
		defer cancel()
		_, err := locks.Lock(grant.Key(), Owner("me")).Acquire(ctx)
		mustSay(t, err, context.DeadlineExceeded)
		eventually(t, "undone", func() bool { return server.calls("lock.release") > before })
		if server.info(grant.Key(), "token") != grant.Token() || server.info(grant.Key(), "holds") != int64(1) {
			t.Fatal("it has taken the other hold away", server.info(grant.Key(), "holds"))
		}
		mustSay(t, grant.Check(background), nil)
		mustSay(t, grant.Release(background), nil)
	}
}

// An owner that has fewer holds than were counted has lost the grant, of which nothing is kept on.
func TestHoldsThatOthersReleaseAreALoss(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	lock := locks.Lock("k", Owner("me"))
	one := acquire(t, lock)
	acquire(t, lock)
	server.do("LOCK.RELEASE k me")
	_, err := lock.Acquire(background)
	mustSay(t, err, ErrLost)
	mustSay(t, one.Err(), ErrLost)
	eventually(t, "free", func() bool { return server.do("EXISTS k") == int64(0) })
}

// Who releases it in the owner's name closes no connection.
func TestACheckSeesAReleaseInTheOwnersName(t *testing.T) {
	t.Parallel()
	server := start(t)
	locks := server.locks()
	named := acquire(t, locks.Lock("named", Owner("me")))
	token := server.do("LOCK.ACQUIRE adopted other EX 60").([]any)[0].(int64)
	adopted := must[*Grant](t)(locks.Adopt(background, "adopted", "other", token))
	for _, grant := range []*Grant{named, adopted} {
		told := make(chan error, 1)
		grant.OnLost(func(err error) { told <- err })
		mustSay(t, grant.Check(background), nil)
		server.do("LOCK.RELEASE " + grant.Key() + " " + grant.Owner() + " ALL")
		server.do("LOCK.ACQUIRE " + grant.Key() + " another EX 60")
		mustSay(t, grant.Check(background), ErrLost)
		mustSay(t, <-told, ErrLost)
		mustSay(t, grant.Release(background), ErrLost)
	}
}

// Of two that keep one grant the last one to ask does; the other hears of it, once, and sends nothing more for it.
func TestAGrantThatAnotherKeepsIsNotTakenBack(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"named", "adopted"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			server := start(t)
			first, second := server.locks(), server.locks()
			lock := first.Lock("k", Owner("me"))
			one, other := acquire(t, lock), acquire(t, first.Lock("other", Owner("me")))
			fresh := acquire(t, first.Lock("fresh"))
			two, err := second.Adopt(background, "k", "me", one.Token())
			if how == "named" {
				two, err = second.Lock("k", Owner("me")).Acquire(background)
			}
			mustSay(t, err, nil)
			<-one.Lost()
			mustSay(t, one.Err(), ErrLost)
			if !errors.Is(one.Err(), errKeptElsewhere) {
				t.Fatal(one.Err())
			}
			mustSay(t, one.Release(background), ErrLost)
			for _, grant := range []*Grant{two, other, fresh} {
				eventually(t, "kept", func() bool { return server.holder(grant.Key())["kept-by"] != int64(0) })
				mustSay(t, grant.Check(background), nil)
			}
			for range 3 { // its own it takes back
				before := server.calls("lock.renew")
				server.do("CLIENT KILL TYPE normal SKIPME yes")
				eventually(t, "asked again", func() bool { return server.calls("lock.renew") >= before+3 })
			}
			for _, grant := range []*Grant{two, other, fresh} {
				eventually(t, "kept again", func() bool { return server.holder(grant.Key())["kept-by"] != int64(0) })
				mustSay(t, grant.Check(background), nil)
				mustSay(t, grant.Release(background), nil)
			}
			if server.calls("lock.release") != 3 {
				t.Fatal("releases:", server.calls("lock.release"))
			}
		})
	}
}

// Where the server does not say who keeps a grant, it is renewed as any.
func TestAUserThatMayNotLookComesBackAllTheSame(t *testing.T) {
	t.Parallel()
	for _, refused := range []string{"-lock.holders", "-client|id"} {
		server := start(t)
		server.do("ACL SETUSER app on >secret ~* +@all " + refused)
		locks := server.locks(func(o *redis.Options) { o.Username, o.Password = "app", "secret" })
		grant := acquire(t, locks.Lock("k", Owner("me")))
		server.do("CLIENT KILL USER app")
		eventually(t, "kept again", func() bool { return server.calls("lock.renew") == 1 && server.holder("k")["kept-by"] != int64(0) })
		mustSay(t, grant.Check(background), nil)
	}
}

func TestAUserThatMayNotFenceIsToldSo(t *testing.T) {
	t.Parallel()
	server := start(t)
	server.do("ACL SETUSER app on >secret ~* +@all -lock.fence")
	locks := server.locks(func(o *redis.Options) { o.Username, o.Password = "app", "secret" })
	grant, fresh := acquire(t, locks.Lock("k", Owner("me"))), acquire(t, locks.Lock("fresh"))
	mustSay(t, takes(t, 500*time.Millisecond, func() error { return grant.Check(background) }), ErrRefused)
	mustSay(t, grant.Err(), nil)
	mustSay(t, fresh.Check(background), nil)
}
