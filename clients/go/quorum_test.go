package redislock

// One lock on five servers that answer. The promises: docs/quorum.md.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

type five []*server

func startFive(t *testing.T) (servers five) {
	t.Helper()
	for range 5 {
		servers = append(servers, start(t))
	}
	return servers
}

// behind is a proxy for each.
func (f five) behind(t *testing.T) (proxies five) {
	t.Helper()
	for _, s := range f {
		proxies = append(proxies, before(t, s))
	}
	return proxies
}

func (f five) locks() *Locks { return f.locksWith(Options{}) }

func (f five) locksWith(options Options) *Locks {
	var clients []*redis.Client
	for _, s := range f {
		clients = append(clients, s.client())
	}
	options.Service = "tests"
	locks := NewQuorum(clients, options)
	f[0].t.Cleanup(func() { _ = locks.Close(background) })
	return locks
}

// standing is the owner and the token of a grant at a server.
type standing struct {
	owner string
	token int64
}

// grants are those of the servers that answer.
func (f five) grants(key string) (grants []standing) {
	for _, s := range f {
		answer, err := s.Do(background, "LOCK.INFO", key).Slice()
		if err == nil && len(answer) > 3 {
			grants = append(grants, standing{answer[1].(string), answer[3].(int64)})
		}
	}
	return grants
}

// hold takes a lock that all of them have: an attempt goes on without those that come late, on a busy machine.
func (f five) hold(t *testing.T, lock *Lock) *Grant {
	t.Helper()
	for range 20 {
		grant := acquire(t, lock)
		for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if f.stand(grant) == len(f) {
				return grant
			}
		}
		mustSay(t, grant.Release(background), nil)
	}
	t.Fatal("not all servers have it")
	return nil
}

// stand is at how many servers this grant stands, and no other.
func (f five) stand(grant *Grant) (count int) {
	for _, it := range f.grants(grant.Key()) {
		if it != (standing{grant.Owner(), grant.Token()}) {
			return -1
		}
		count++
	}
	return count
}

func (f five) free(t *testing.T, key string) {
	t.Helper()
	eventually(t, key+" is free", func() bool { return len(f.grants(key)) == 0 })
}

func (f five) order(do string) {
	for _, s := range f {
		s.order(do, words{})
	}
}

func (f five) hang(t *testing.T) {
	f.order("pause")
	t.Cleanup(func() { f.order("resume") })
}

func TestQuorumHasOneTokenThatRises(t *testing.T) {
	t.Parallel()
	five := startFive(t)
	clients := []*Locks{five.locks(), five.locks()}
	last := int64(0)
	for turn := range 10 {
		grant := five.hold(t, clients[turn%2].Lock("k", patient))
		if grant.Token() <= last || !strings.HasPrefix(grant.Owner(), "tests:") {
			t.Fatal(grant.Token(), "after", last, grant.Owner())
		}
		if left := grant.Remaining(); left > 9900*time.Millisecond || left < 5*time.Second {
			t.Fatal("remaining", left)
		}
		last = grant.Token()
		mustSay(t, grant.Release(background), nil)
		mustSay(t, grant.Release(background), ErrMisuse)
		five.free(t, "k")
	}
}

func TestQuorumRenewsWhatItHolds(t *testing.T) {
	t.Parallel()
	five := startFive(t)
	locks := five.locks()
	grant := five.hold(t, locks.Lock("k", Lease(4*time.Second)))
	fixed := five.hold(t, locks.Lock("fixed", Lease(2*time.Second), Fixed()))
	most := acquire(t, locks.Lock("most", Lease(4*time.Second), AtMost(6*time.Second)))
	begun := time.Now()
	mustSay(t, fixed.Check(background), nil)
	five[:2].hang(t)
	<-fixed.Lost()
	if stood := time.Since(begun); stood > 2500*time.Millisecond {
		t.Fatal("fixed, and stood for", stood)
	}
	mustSay(t, fixed.Err(), ErrLost)
	<-most.Lost()
	if stood := time.Since(begun); stood < 4500*time.Millisecond || stood > 6500*time.Millisecond {
		t.Fatal("at most 6 s, and stood for", stood)
	}
	mustSay(t, grant.Check(background), nil)
	mustSay(t, grant.Extend(background, 20*time.Second), nil)
	if left := grant.Remaining(); left < 15*time.Second {
		t.Fatal("remaining", left)
	}
	mustSay(t, grant.Release(background), nil)
}

func TestQuorumContendersTakeTurns(t *testing.T) {
	t.Parallel()
	five := startFive(t)
	var inside, last atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			locks := five.locks()
			for range long(3, 20) {
				err := locks.Lock("k", Wait(Forever)).Do(background, func(_ context.Context, grant *Grant) error {
					if inside.Add(1) != 1 {
						t.Error("two holders")
					}
					if before := last.Swap(grant.Token()); before >= grant.Token() {
						t.Error(grant.Token(), "after", before)
					}
					inside.Add(-1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	five.free(t, "k")
}

func TestQuorumWaitsInTheLineOfTheFirstServer(t *testing.T) {
	t.Parallel()
	five := startFive(t)
	locks := five.locks()
	grant := five.hold(t, locks.Lock("k"))
	mustSay(t, try(locks.Lock("k"))(), ErrBusy)
	mustSay(t, try(locks.Lock("k", Wait(200*time.Millisecond)))(), ErrBusy)
	ctx, cancel := context.WithCancel(background)
	called := inBackground(ctx, locks.Lock("k", Wait(Forever)))
	five[0].waiting("k", 1)
	first := five[0].waiters("k")[0]["owner"]
	eventually(t, "another attempt has another owner", func() bool {
		now := five[0].waiters("k")
		return len(now) == 1 && now[0]["owner"] != first
	})
	cancel()
	mustSay(t, (<-called).err, context.Canceled)
	five[0].waiting("k", 0)

	waiting := inBackground(background, locks.Lock("k", Wait(Forever)))
	five[0].waiting("k", 1)
	five[0].order("kill", words{})
	five[1].waiting("k", 1)
	mustSay(t, grant.Release(background), nil)
	got := <-waiting
	mustSay(t, got.err, nil)
	if got.grant.Token() <= grant.Token() {
		t.Fatal("tokens fall")
	}
	mustSay(t, got.grant.Release(background), nil)
	five.free(t, "k")
}

func TestQuorumWaitsForNoSingleServer(t *testing.T) {
	t.Parallel()
	five := startFive(t)
	five[0].do("LOCK.ACQUIRE k other EX 60")
	locks := five.locks()
	grant := acquire(t, locks.Lock("k"))
	waiting := inBackground(background, locks.Lock("k", Wait(Forever)))
	five[0].waiting("k", 1)
	mustSay(t, grant.Release(background), nil)
	got := <-waiting
	mustSay(t, got.err, nil)
	mustSay(t, got.grant.Release(background), nil)
}

func TestQuorumReleasesWhatAMinorityHasGranted(t *testing.T) {
	t.Parallel()
	five := startFive(t)
	for _, s := range five[:3] {
		s.do("LOCK.ACQUIRE k other")
	}
	mustSay(t, try(five.locks().Lock("k"))(), ErrBusy)
	five[3:].free(t, "k")
}

// A holder that is gone is waited for until its leases end.
func TestQuorumOutlivesAHolder(t *testing.T) {
	t.Parallel()
	five := startFive(t)
	gone := five.hold(t, five.locks().Lock("k", Lease(1500*time.Millisecond), Fixed()))
	begun := time.Now()
	grant := acquire(t, five.locks().Lock("k", patient))
	if took := time.Since(begun); gone.Held() || took > 4*time.Second {
		t.Fatal(gone.Held(), took)
	}
	mustSay(t, grant.Release(background), nil)
}

func TestQuorumOfOtherServers(t *testing.T) {
	t.Parallel()
	five := startFive(t)
	for _, s := range five[:2] {
		s.do("SET k 1")
	}
	locks := five.locks()
	mustSay(t, acquire(t, locks.Lock("k")).Release(background), nil)
	five[2:].free(t, "k")
	five[2].do("SET k 1")
	err := try(locks.Lock("k", patient))()
	mustSay(t, err, ErrMisuse)
	if !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Fatal(err)
	}
}

func TestQuorumTasksRecipesAndAdoption(t *testing.T) {
	t.Parallel()
	five := startFive(t)
	locks := five.locks()
	task := locks.Task()
	outer, inner := acquire(t, task.Lock("k")), acquire(t, task.Lock("k"))
	if inner.Token() != outer.Token() {
		t.Fatal("another grant")
	}
	mustSay(t, outer.Release(background), nil)
	mustSay(t, inner.Check(background), nil)
	mustSay(t, inner.Release(background), nil)
	five.free(t, "k")

	grants := must[Grants](t)(locks.All(background, []string{"b", "a"}))
	mustSay(t, grants.Release(background), nil)

	grant := acquire(t, locks.Lock("k", Fixed(), Lease(time.Minute)))
	other := must[*Grant](t)(five.locks().Adopt(background, "k", grant.Owner(), grant.Token()))
	mustSay(t, other.Release(background), nil)
	five.free(t, "k")
	mustSay(t, grant.Check(background), ErrLost)
}

func TestQuorumIsClosed(t *testing.T) {
	t.Parallel()
	five := startFive(t)
	locks := five.locks()
	foreign := five.hold(t, five.locks().Lock("foreign"))
	grant := five.hold(t, locks.Lock("k"))
	waiting := inBackground(background, locks.Lock("foreign", Wait(Forever)))
	five[0].waiting("foreign", 1)
	mustSay(t, locks.Close(background), nil)
	mustSay(t, (<-waiting).err, ErrClosed)
	mustSay(t, grant.Err(), ErrClosed)
	five.free(t, "k")
	five[0].waiting("foreign", 0)
	mustSay(t, foreign.Check(background), nil)
}

func TestWhatIsNoQuorumIsMisuse(t *testing.T) {
	t.Parallel()
	client := func(port int) *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: fmt.Sprint("127.0.0.1:", port)})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	for _, ports := range [][]int{{}, {1}, {1, 2}, {1, 2, 3, 4}, {1, 2, 1}} {
		var clients []*redis.Client
		for _, port := range ports {
			clients = append(clients, client(port))
		}
		mustSay(t, try(NewQuorum(clients, Options{}).Lock("k"))(), ErrMisuse)
	}
	mustSay(t, try(NewQuorum([]*redis.Client{client(1), nil, client(2)}, Options{}).Lock("k"))(), ErrMisuse)
	locks := NewQuorum([]*redis.Client{client(1), client(2), client(3)}, Options{})
	defer locks.Close(background)
	for _, lock := range []*Lock{locks.Shared("k"), locks.Permit("k", 2), locks.Lock("k", Owner("me")), locks.Lock("k", Replicas(1))} {
		mustSay(t, try(lock)(), ErrMisuse)
	}
	_, err := locks.Holders(background, "k")
	mustSay(t, err, ErrMisuse)
	_, err = locks.ForceUnlock(background, "k")
	if !errors.Is(err, ErrMisuse) {
		t.Fatal(err)
	}
}
