package redislock

// The users of docs/operations.md: what go-redis sends by itself is allowed to them.

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// addUser makes a user as the manual says.
func (s *server) addUser(name string) {
	s.t.Helper()
	s.order("user", words{"name": name})
}

// refusedNothing fails when the server has refused something to a user.
func (s *server) refusedNothing() {
	s.t.Helper()
	if log := s.do("ACL LOG").([]any); len(log) > 0 {
		s.t.Fatal(fmt.Sprint(log))
	}
}

func asApplication(options redis.UniversalOptions) redis.UniversalOptions {
	options.Username, options.Password, options.ClientName = "application", "secret", "orders"
	return options
}

// holdWaitRenewRelease does so also when all connections are closed meanwhile; home has the lock.
func holdWaitRenewRelease(t *testing.T, options redis.UniversalOptions, key string, home *server, all ...*server) {
	t.Helper()
	locks := newLocks(t, asApplication(options))
	lock := must[*Lock](t)(locks.Lock(background, key, Options{Lease: 1500 * time.Millisecond}))
	waiting := inBackground(locks, background, key, Options{Lease: 30 * time.Second, Wait: time.Minute})
	eventually(t, "a waiter", func() bool { return len(home.waiters(key)) == 1 })
	for _, s := range all {
		s.do("CLIENT KILL TYPE normal SKIPME yes")
	}
	renewals := home.calls("lock.renew")
	eventually(t, "renewals", func() bool { return home.calls("lock.renew") > renewals+3 })
	eventually(t, "the waiter is back", func() bool { return len(home.waiters(key)) == 1 })
	mustSay(t, lock.Err(), nil)
	mustSay(t, lock.Unlock(), nil)
	got := <-waiting
	mustSay(t, got.err, nil)
	mustSay(t, got.lock.Unlock(), nil)

	client := redis.NewUniversalClient(ptr(asApplication(options)))
	defer client.Close()
	mustSay(t, client.Ping(background).Err(), nil)
	for _, s := range all {
		s.refusedNothing()
	}
}

func ptr[T any](value T) *T { return &value }

func TestAUserOnOneServerInAnotherDatabase(t *testing.T) {
	s := start(t)
	s.addUser("application")
	options := redis.UniversalOptions{Addrs: []string{s.address}, DB: 2}
	home := &server{redis.NewClient(&redis.Options{Addr: s.address, DB: 2, Protocol: 2}), t, s.address, s.port}
	t.Cleanup(func() { _ = home.Close() })
	holdWaitRenewRelease(t, options, "lock:orders:42", home, s)
}

func TestAUserInACluster(t *testing.T) {
	nodes := cluster(t)
	for _, node := range nodes {
		node.addUser("application")
	}
	options := redis.UniversalOptions{Addrs: []string{nodes[0].address}, IsClusterMode: true}
	for i := range 3 { // with a lock on each node
		key := fmt.Sprint("lock:", i)
		for _, home := range nodes {
			if home.Do(background, "LOCK.INFO", key).Err() == redis.Nil {
				holdWaitRenewRelease(t, options, key, home, nodes...)
			}
		}
	}
}

func TestAUserBySentinel(t *testing.T) {
	primary, replica, watching := sentinel(t)
	primary.addUser("application")
	replica.addUser("application")
	watching.addUser("discovery")
	options := redis.UniversalOptions{Addrs: []string{watching.address}, MasterName: "lock",
		SentinelUsername: "discovery", SentinelPassword: "secret"}
	holdWaitRenewRelease(t, options, "lock:orders:42", primary, primary, replica)
	watching.refusedNothing()
}

func TestAUserRunsAScriptThatFences(t *testing.T) {
	s := start(t)
	s.addUser("application")
	client := redis.NewUniversalClient(ptr(asApplication(redis.UniversalOptions{Addrs: []string{s.address}})))
	defer client.Close()
	lock := must[*Lock](t)(s.locks().Lock(background, "lock:orders:42", Options{Lease: time.Minute}))
	write := redis.NewScript(`
		redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
		return redis.call('SET', KEYS[2], ARGV[2])`)
	keys := []string{"lock:orders:42", "stock:apples"}
	mustSay(t, write.Run(background, client, keys, lock.Token(), 7).Err(), nil)
	s.refusedNothing()
}
