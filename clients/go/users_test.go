package redislock

// The users of docs/operations.md: what this client sends is allowed to them.

import (
	"fmt"
	"testing"

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

// holdWaitRelease does so though all connections are closed meanwhile; home has the lock.
func holdWaitRelease(t *testing.T, client redis.UniversalClient, key string, home *server, all ...*server) {
	t.Helper()
	locks := testLocks(t, client, Options{})
	grant := acquire(t, locks.Lock(key, short))
	waiting := inBackground(background, locks.Lock(key, patient))
	home.waiting(key, 1)
	for _, s := range all {
		s.do("CLIENT KILL TYPE normal SKIPME yes")
	}
	eventually(t, "kept again", func() bool { return home.calls("lock.renew") > 0 })
	home.waiting(key, 1)
	mustSay(t, grant.Check(background), nil)
	mustSay(t, grant.Release(background), nil)
	got := <-waiting
	mustSay(t, got.err, nil)
	mustSay(t, got.grant.Release(background), nil)
	for _, s := range all {
		s.refusedNothing()
	}
}

func TestAUserOnOneServerInAnotherDatabase(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.addUser("application")
	home := &server{redis.NewClient(&redis.Options{Addr: s.address, DB: 2, Protocol: 2}), t, s.address, s.port}
	t.Cleanup(func() { _ = home.Close() })
	client := s.client(func(o *redis.Options) { o.Username, o.Password, o.DB = "application", "secret", 2 })
	holdWaitRelease(t, client, "lock:orders:42", home, s)
}

func TestAUserInACluster(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t)
	for _, node := range nodes {
		node.addUser("application")
	}
	client := inCluster(t, nodes[:1], func(o *redis.ClusterOptions) { o.Username, o.Password = "application", "secret" })
	for i := range 3 { // with a lock on each node
		key := fmt.Sprint("lock:", i)
		holdWaitRelease(t, client, key, nodes[homeOf(key, nodes)], nodes...)
	}
}

func TestAUserBySentinel(t *testing.T) {
	t.Parallel()
	primary, replica, watching := startSentinel(t)
	primary.addUser("application")
	replica.addUser("application")
	watching.addUser("discovery")
	client := bySentinel(t, watching, func(o *redis.FailoverOptions) {
		o.Username, o.Password = "application", "secret"
		o.SentinelUsername, o.SentinelPassword = "discovery", "secret"
	})
	holdWaitRelease(t, client, "lock:orders:42", primary, primary, replica)
	watching.refusedNothing()
}

func TestCredentialsAreAskedForAnew(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.do("ACL SETUSER app on >first ~* +@all")
	password := "first"
	locks := s.locks(func(o *redis.Options) {
		o.CredentialsProvider = func() (string, string) { return "app", password }
	})
	grant := acquire(t, locks.Lock("k"))
	password = "second"
	s.do("ACL SETUSER app <first >second")
	s.do("CLIENT KILL USER app")
	eventually(t, "kept again", func() bool { return s.calls("lock.renew") > 0 })
	mustSay(t, grant.Check(background), nil)
}

func TestAUserRunsAScriptThatFences(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.addUser("application")
	client := s.client(func(o *redis.Options) { o.Username, o.Password = "application", "secret" })
	grant := acquire(t, testLocks(t, client, Options{}).Lock("lock:orders:42"))
	write := redis.NewScript(`
		redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
		return redis.call('SET', KEYS[2], ARGV[2])`)
	keys := []string{"lock:orders:42", "stock:apples"}
	mustSay(t, write.Run(background, client, keys, grant.Token(), 7).Err(), nil)
	s.refusedNothing()
}
