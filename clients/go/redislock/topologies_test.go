package redislock

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func (s *server) port() string { return strings.TrimPrefix(s.address, "127.0.0.1:") }

// sentinel watches a primary, and has seen its replica.
func sentinel(t *testing.T, primary *server) *server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	settings := fmt.Sprintf("sentinel monitor primary 127.0.0.1 %s 1\n"+
		"sentinel down-after-milliseconds primary 1000\n"+
		"sentinel failover-timeout primary 10000\n", primary.port())
	mustSay(t, os.WriteFile(file, []byte(settings), 0o600), nil)
	s := launch(t, file, "--sentinel")
	eventually(t, "the replica is known", func() bool {
		replicas, _ := s.Do(background, "SENTINEL", "REPLICAS", "primary").Slice()
		return len(replicas) == 1 && strings.Contains(fmt.Sprint(replicas), "flags slave ")
	})
	return s
}

func TestHoldsAndWaitsThroughASentinelFailover(t *testing.T) {
	primary := start(t)
	replica := start(t, "--replicaof", "127.0.0.1 "+primary.port())
	watching := sentinel(t, primary)
	locks := newLocks(t, redis.UniversalOptions{Addrs: []string{watching.address}, MasterName: "primary"})
	lock := must[*Lock](t)(locks.Lock(background, "k", Options{Lease: 30 * time.Second}))
	waiting := inBackground(locks, background, "k", Options{Lease: 30 * time.Second, Wait: time.Minute})
	eventually(t, "a waiter", func() bool { return len(primary.waiters("k")) == 1 })
	eventually(t, "the replica has it", func() bool { return replica.info("k", "token") == lock.Token() })
	primary.signal(syscall.SIGKILL)

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

// cluster has three nodes, with a third of the slots each.
func cluster(t *testing.T) (nodes []*server) {
	t.Helper()
	slots := []int{0, 5461, 10923, 16384}
	for i := range 3 {
		node := start(t, "--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1")
		node.do(fmt.Sprint("CLUSTER ADDSLOTSRANGE ", slots[i], " ", slots[i+1]-1))
		node.do(fmt.Sprint("CLUSTER SET-CONFIG-EPOCH ", i+1))
		for _, other := range nodes {
			node.do("CLUSTER MEET 127.0.0.1 " + other.port())
		}
		nodes = append(nodes, node)
	}
	within(t, 30*time.Second, "the cluster is whole", func() bool {
		for _, node := range nodes {
			if info := node.do("CLUSTER INFO").(string); !strings.Contains(info, "cluster_state:ok") ||
				!strings.Contains(info, "cluster_known_nodes:3") {
				return false
			}
		}
		return true
	})
	return nodes
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
