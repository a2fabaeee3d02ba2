package redislock

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func bySentinel(t *testing.T, watching *server, change ...func(*redis.FailoverOptions)) *redis.Client {
	options := redis.FailoverOptions{SentinelAddrs: []string{watching.address}, MasterName: "lock"}
	for _, change := range change {
		change(&options)
	}
	client := redis.NewFailoverClient(&options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func inCluster(t *testing.T, nodes []*server, change ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	var options redis.ClusterOptions
	for _, node := range nodes {
		options.Addrs = append(options.Addrs, node.address)
	}
	for _, change := range change {
		change(&options)
	}
	client := redis.NewClusterClient(&options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// homeOf is the node that serves the key.
func homeOf(key string, nodes []*server) int {
	for n, node := range nodes {
		if err := node.Do(background, "LOCK.INFO", key).Err(); err == nil || err == redis.Nil {
			return n
		}
	}
	return -1
}

func TestHoldsAndWaitsThroughASentinelFailover(t *testing.T) {
	t.Parallel()
	primary, replica, watching := startSentinel(t)
	locks := testLocks(t, bySentinel(t, watching), Options{})
	grant := acquire(t, locks.Lock("k", Lease(30*time.Second)))
	waiting := inBackground(background, locks.Lock("k", Wait(time.Minute)))
	primary.waiting("k", 1)
	eventually(t, "the replica has it", func() bool { return replica.info("k", "token") == grant.Token() })
	primary.order("kill", words{})
	within(t, 40*time.Second, "the wait goes on at the new primary", func() bool { return len(replica.waiters("k")) == 1 })
	within(t, 15*time.Second, "kept by the new primary", func() bool { return replica.holder("k")["kept-by"] != int64(0) })
	mustSay(t, grant.Check(background), nil)
	mustSay(t, grant.Release(background), nil)
	got := <-waiting
	mustSay(t, got.err, nil)
	if got.grant.Token() <= grant.Token() {
		t.Fatal("token", got.grant.Token(), "after", grant.Token())
	}
}

// Whose database cannot be seen would take locks in another one.
func TestByClustersOfSentinelsInTheFirstDatabaseOnly(t *testing.T) {
	t.Parallel()
	_, _, watching := startSentinel(t)
	grant := acquire(t, testLocks(t, bySentinel(t, watching), Options{}).Lock("k"))
	options := redis.FailoverOptions{SentinelAddrs: []string{watching.address}, MasterName: "lock"}
	for _, database := range []int{0, 2} {
		options := options
		options.DB = database
		client := redis.NewFailoverClusterClient(&options)
		t.Cleanup(func() { _ = client.Close() })
		_, err := testLocks(t, client, Options{}).Lock("k").Acquire(background)
		mustSay(t, err, []error{ErrBusy, nil, ErrMisuse}[database])
	}
	mustSay(t, grant.Check(background), nil)
}

// The one that is asked first may hang for longer than a reply may take.
func TestASentinelThatHangsIsLeftForAnother(t *testing.T) {
	t.Parallel()
	primary, _, watching := startSentinel(t)
	proxy := before(t, watching)
	var isThere atomic.Bool
	client := bySentinel(t, watching, func(o *redis.FailoverOptions) {
		o.SentinelAddrs = []string{proxy.address, watching.address}
		o.ReadTimeout, o.MaxRetries = 500*time.Millisecond, -1
		o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == watching.address && !isThere.Load() {
				return nil, syscall.ECONNREFUSED
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	})
	locks := testLocks(t, client, Options{Reply: 200 * time.Millisecond})
	grant := acquire(t, locks.Lock("k"))
	isThere.Store(true)
	proxy.order("silence", words{})
	primary.do("CLIENT KILL TYPE normal SKIPME yes")
	within(t, 8*time.Second, "kept again", func() bool { return primary.holder("k")["kept-by"] != int64(0) })
	mustSay(t, grant.Err(), nil)
}

func TestInAClusterEachLockIsAtTheNodeOfItsKey(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t)
	locks := testLocks(t, inCluster(t, nodes[:1]), Options{})
	at := map[int]int{}
	for i := range 12 {
		key := fmt.Sprint("k", i)
		grant := acquire(t, locks.Lock(key))
		home := homeOf(key, nodes)
		at[home]++
		ctx, cancel := context.WithCancel(background)
		lost := inBackground(ctx, locks.Lock(key, patient))
		waiting := inBackground(background, locks.Lock(key, patient))
		nodes[home].waiting(key, 2)
		cancel()
		mustSay(t, (<-lost).err, context.Canceled)
		nodes[home].waiting(key, 1)
		mustSay(t, grant.Check(background), nil)
		mustSay(t, grant.Release(background), nil)
		got := <-waiting
		mustSay(t, got.err, nil)
		mustSay(t, got.grant.Release(background), nil)
	}
	if len(at) != 3 {
		t.Fatal("locks at", at)
	}
}

func TestInAClusterItFollowsASlotThatMoves(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t)
	locks := testLocks(t, inCluster(t, nodes), Options{})
	mustSay(t, acquire(t, locks.Lock("k")).Release(background), nil)
	move(nodes, "k")
	grant := acquire(t, locks.Lock("k"))
	to := homeOf("k", nodes)
	if nodes[to].info("k", "token") != grant.Token() {
		t.Fatal("it is elsewhere")
	}
	waiting := inBackground(background, locks.Lock("k", patient))
	nodes[to].waiting("k", 1)
	mustSay(t, grant.Release(background), nil)
	mustSay(t, (<-waiting).err, nil)
}

// A lock that is held moves with its slot: nothing is lost, and it is kept at the new node.
func TestInAClusterAHeldLockMovesWithItsSlot(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t)
	locks := testLocks(t, inCluster(t, nodes), Options{})
	grant, other := acquire(t, locks.Lock("k")), acquire(t, locks.Lock("{k}other", Fixed()))
	mustSay(t, other.Release(background), nil)
	from := homeOf("k", nodes)
	to := (from + 1) % 3
	slot := nodes[0].do("CLUSTER KEYSLOT k")
	ids := []any{nodes[from].do("CLUSTER MYID"), nodes[to].do("CLUSTER MYID")}
	nodes[to].do(fmt.Sprint("CLUSTER SETSLOT ", slot, " IMPORTING ", ids[0]))
	nodes[from].do(fmt.Sprint("CLUSTER SETSLOT ", slot, " MIGRATING ", ids[1]))
	nodes[from].do(fmt.Sprint("MIGRATE 127.0.0.1 ", nodes[to].port, " k 0 5000"))
	for _, n := range []int{to, from} {
		nodes[n].do(fmt.Sprint("CLUSTER SETSLOT ", slot, " NODE ", ids[1]))
	}
	eventually(t, "kept there", func() bool {
		kept, _ := nodes[to].holder("k")["kept-by"].(int64)
		return kept != 0
	})
	mustSay(t, grant.Check(background), nil)
	mustSay(t, grant.Release(background), nil)
}

// In the middle of such a move, the node that the slot leaves answers ASK for a key that it does not have.
func TestInAClusterTheAnswerAskPasses(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t)
	locks := testLocks(t, inCluster(t, nodes), Options{})
	grant := acquire(t, locks.Lock("k", Lease(30*time.Second)))
	from := homeOf("k", nodes)
	to := (from + 1) % 3
	slot := nodes[0].do("CLUSTER KEYSLOT k")
	ids := []any{nodes[from].do("CLUSTER MYID"), nodes[to].do("CLUSTER MYID")}
	nodes[to].do(fmt.Sprint("CLUSTER SETSLOT ", slot, " IMPORTING ", ids[0]))
	nodes[from].do(fmt.Sprint("CLUSTER SETSLOT ", slot, " MIGRATING ", ids[1]))
	nodes[from].do(fmt.Sprint("MIGRATE 127.0.0.1 ", nodes[to].port, " k 0 5000"))
	asked := func() bool { return strings.Contains(nodes[from].do("INFO errorstats").(string), "errorstat_ASK") }
	eventually(t, "a renewal is sent on", asked)
	mustSay(t, grant.Check(background), ErrUnavailable)
	mustSay(t, try(locks.Lock("{k}new"))(), ErrUnavailable)
	nodes[from].do("CONFIG RESETSTAT")
	waiting := inBackground(background, locks.Lock("{k}new", patient))
	eventually(t, "a call is sent on", asked)
	for _, n := range []int{to, from} {
		nodes[n].do(fmt.Sprint("CLUSTER SETSLOT ", slot, " NODE ", ids[1]))
	}
	got := <-waiting
	mustSay(t, got.err, nil)
	if nodes[to].info("{k}new", "token") != got.grant.Token() {
		t.Fatal("it is elsewhere")
	}
	mustSay(t, got.grant.Release(background), nil)
	eventually(t, "kept there", func() bool {
		kept, _ := nodes[to].holder("k")["kept-by"].(int64)
		return kept != 0
	})
	mustSay(t, grant.Check(background), nil)
	mustSay(t, grant.Release(background), nil)
}

// move gives the key's slot, that has no keys, to the next node.
func move(nodes []*server, key string) {
	from := homeOf(key, nodes)
	to := (from + 1) % 3
	slot, id := nodes[0].do("CLUSTER KEYSLOT "+key), nodes[to].do("CLUSTER MYID")
	for _, n := range []int{to, from} {
		nodes[n].do(fmt.Sprint("CLUSTER SETSLOT ", slot, " NODE ", id))
	}
}

// A node that hangs holds up no lock of another, from the first lock on.
func TestInAClusterOneHungNodeHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t)
	early := testLocks(t, inCluster(t, nodes), Options{})
	var grants []*Grant
	var keys []string
	for n := range 3 {
		for i := 0; ; i++ {
			if key := fmt.Sprint("k", n, i); homeOf(key, nodes) == n {
				keys = append(keys, key)
				grants = append(grants, acquire(t, early.Lock(key, Lease(2*time.Second))))
				break
			}
		}
	}
	nodes[0].order("pause", words{})
	t.Cleanup(func() { nodes[0].order("resume", words{}) })
	late := testLocks(t, inCluster(t, nodes), Options{})
	for _, locks := range []*Locks{early, late} {
		for _, key := range []string{keys[1] + "b", keys[2] + "b"} {
			key = "{" + key[:len(key)-1] + "}b"
			mustSay(t, acquire(t, locks.Lock(key)).Release(background), nil)
		}
		mustSay(t, takes(t, 1500*time.Millisecond, try(locks.Lock("{"+keys[0]+"}b"))), ErrUnavailable)
	}
	<-grants[0].Lost()
	mustSay(t, grants[1].Check(background), nil)
	mustSay(t, grants[2].Check(background), nil)
}

func TestInAClusterLocksGoOverToAReplica(t *testing.T) {
	t.Parallel()
	nodes := launch(t, "cluster", words{"primaries": 3, "replicas": 1})
	locks := testLocks(t, inCluster(t, nodes), Options{})
	grant := acquire(t, locks.Lock("k"))
	home := homeOf("k", nodes[:3])
	nodes[3+home].order("fail-over", words{})
	eventually(t, "kept by the new primary", func() bool {
		return homeOf("k", nodes[3+home:4+home]) == 0 && nodes[3+home].holder("k")["kept-by"] != int64(0)
	})
	mustSay(t, grant.Check(background), nil)
	mustSay(t, grant.Release(background), nil)
}

func TestReplicasAcknowledge(t *testing.T) {
	t.Parallel()
	primary, replica, watching := startSentinel(t)
	locks := testLocks(t, bySentinel(t, watching), Options{})
	grant := acquire(t, locks.Lock("k", Replicas(1)))
	if replica.info("k", "token") != grant.Token() || primary.holder("k")["kept-by"] == int64(0) {
		t.Fatal("not there")
	}
	_, err := locks.Lock("other", Replicas(2), Wait(time.Second)).Acquire(background)
	mustSay(t, err, ErrUnavailable)
	eventually(t, "given back", func() bool { return primary.do("EXISTS other") == int64(0) })
}

func TestWhoAsksLastHasItAlsoWithReplicas(t *testing.T) {
	t.Parallel()
	primary, _, watching := startSentinel(t)
	first := acquire(t, primary.locks().Lock("k", Owner("me")))
	locks := testLocks(t, bySentinel(t, watching), Options{})
	second := acquire(t, locks.Lock("k", Owner("me"), Replicas(1), patient))
	mustSay(t, first.Check(background), ErrLost)
	mustSay(t, second.Check(background), nil)
	mustSay(t, second.Release(background), nil)
}

// What an owner has already is acknowledged too, and stands where that fails.
func TestReplicasAcknowledgeWhatIsEnteredAgain(t *testing.T) {
	t.Parallel()
	primary, _, watching := startSentinel(t)
	locks := testLocks(t, bySentinel(t, watching), Options{})
	task := locks.Task()
	for key, lock := range map[string]func(...LockOption) *Lock{
		"task":  func(options ...LockOption) *Lock { return task.Lock("task", options...) },
		"named": func(options ...LockOption) *Lock { return locks.Lock("named", append(options, Owner("me"))...) },
	} {
		outer, inner := acquire(t, lock()), acquire(t, lock(Replicas(1)))
		_, err := lock(Replicas(2), patient).Acquire(background)
		mustSay(t, err, ErrUnavailable)
		eventually(t, "given back", func() bool { return primary.info(key, "holds") == int64(2) })
		mustSay(t, outer.Check(background), nil)
		mustSay(t, outer.Release(background), nil)
		mustSay(t, inner.Release(background), nil)
		if primary.do("EXISTS "+key) != int64(0) {
			t.Fatal(key, "stayed behind")
		}
	}
}

// The grant of a wait comes by another's command; WAIT is about it all the same.
func TestAReplicaThatHangsAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	primary, replica, watching := startSentinel(t)
	locks := testLocks(t, bySentinel(t, watching), Options{})
	mustSay(t, acquire(t, locks.Lock("k", Replicas(1))).Release(background), nil)
	primary.do("LOCK.ACQUIRE k other EX 60")
	waiting := inBackground(background, locks.Lock("k", Replicas(1), patient))
	primary.waiting("k", 1)
	replica.order("pause", words{})
	defer replica.order("resume", words{})
	primary.do("LOCK.RELEASE k other")
	mustSay(t, (<-waiting).err, ErrUnavailable)
	eventually(t, "given back", func() bool { return primary.do("EXISTS k") == int64(0) })
}

// Each of its calls may hang; all have one time.
func TestReplicasTakeNoLongerThanTheCallMay(t *testing.T) {
	t.Parallel()
	proxy := before(t, start(t))
	locks := proxy.locks()
	proxy.inject("silence", "WAIT\r")
	mustSay(t, takes(t, 1300*time.Millisecond, try(locks.Lock("k", Replicas(1)))), ErrUnavailable)
	proxy.order("speak", words{})
	mustSay(t, takes(t, 1300*time.Millisecond, try(locks.Lock("k", Replicas(1)))), ErrUnavailable)
}
