package redislock

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestHoldsAndWaitsThroughASentinelFailover(t *testing.T) {
	primary, replica, watching := sentinel(t)
	locks := newLocks(t, redis.UniversalOptions{Addrs: []string{watching.address}, MasterName: "lock"})
	lock := must[*Lock](t)(locks.Lock(background, "k", Options{Lease: 30 * time.Second}))
	waiting := inBackground(locks, background, "k", Options{Lease: 30 * time.Second, Wait: time.Minute})
	eventually(t, "a waiter", func() bool { return len(primary.waiters("k")) == 1 })
	eventually(t, "the replica has it", func() bool { return replica.info("k", "token") == lock.Token() })
	primary.order("kill", words{})

	within(t, 40*time.Second, "the wait goes on at the new primary", func() bool {
		return len(replica.waiters("k")) == 1
	})
	inner := must[*Lock](t)(locks.Lock(lock.Context(), "k", Options{Lease: 30 * time.Second}))
	if inner.Token() != lock.Token() || replica.info("k", "holds") != int64(2) {
		t.Fatal("holds", replica.info("k", "holds"))
	}
	within(t, 15*time.Second, "a renewal at the new primary", func() bool { return replica.calls("lock.renew") > 0 })
	mustSay(t, lock.Unlock(), nil)
	mustSay(t, inner.Unlock(), nil)
	got := <-waiting
	mustSay(t, got.err, nil)
	if got.lock.Token() <= lock.Token() {
		t.Fatal("token", got.lock.Token(), "after", lock.Token())
	}
	mustSay(t, got.lock.Unlock(), nil)
}

func TestInAClusterEachLockIsAtTheNodeOfItsKey(t *testing.T) {
	nodes := cluster(t)
	locks := newLocks(t, redis.UniversalOptions{Addrs: []string{nodes[0].address}, IsClusterMode: true})
	at := map[int]int{}
	for i := range 30 {
		key := fmt.Sprint("k", i)
		lock := must[*Lock](t)(locks.Lock(background, key, once))
		inner := must[*Lock](t)(locks.Lock(lock.Context(), key, once))
		ctx, cancel := context.WithCancel(background)
		lost := inBackground(locks, ctx, key, patient)
		waiting := inBackground(locks, background, key, patient)
		var home *server
		for n, node := range nodes {
			if node.Do(background, "LOCK.INFO", key).Err() == nil {
				home = node
				at[n]++
			}
		}
		eventually(t, "waiters", func() bool { return len(home.waiters(key)) == 2 })
		cancel()
		mustSay(t, (<-lost).err, context.Canceled)
		if len(home.waiters(key)) != 1 {
			t.Fatal("a wait stayed behind")
		}
		mustSay(t, lock.Unlock(), nil)
		mustSay(t, inner.Unlock(), nil)
		got := <-waiting
		mustSay(t, got.err, nil)
		mustSay(t, got.lock.Unlock(), nil)
	}
	if len(at) != 3 {
		t.Fatal("locks at", at)
	}
}

func TestInAClusterItFollowsASlotThatMoves(t *testing.T) {
	nodes := cluster(t)
	locks := newLocks(t, redis.UniversalOptions{Addrs: []string{nodes[1].address}, IsClusterMode: true})
	lock := must[*Lock](t)(locks.Lock(background, "k", once))
	mustSay(t, lock.Unlock(), nil)
	slot := nodes[0].do("CLUSTER KEYSLOT k").(int64)
	from, to := int(slot)/5461, (int(slot)/5461+1)%3
	id := nodes[to].do("CLUSTER MYID")
	for _, n := range []int{to, from} {
		nodes[n].do(fmt.Sprint("CLUSTER SETSLOT ", slot, " NODE ", id))
	}
	lock = must[*Lock](t)(locks.Lock(background, "k", once))
	if nodes[to].info("k", "token") != lock.Token() {
		t.Fatal("it is elsewhere")
	}
	waiting := inBackground(locks, background, "k", patient)
	eventually(t, "a waiter", func() bool { return len(nodes[to].waiters("k")) == 1 })
	mustSay(t, lock.Unlock(), nil)
	mustSay(t, (<-waiting).err, nil)
}
