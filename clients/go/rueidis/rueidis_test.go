package rueidis_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	redislock "github.com/redis-lock/redis-lock/clients/go"
	"github.com/redis-lock/redis-lock/clients/go/internal/bed"
	adapter "github.com/redis-lock/redis-lock/clients/go/rueidis"
)

var background = context.Background()

// open makes a client of rueidis, and the locks that go where it goes.
func open(t *testing.T, option rueidis.ClientOption) (rueidis.Client, *redislock.Locks) {
	t.Helper()
	option.DisableCache = true
	client, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	forLocks, err := adapter.Client(client, option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = forLocks.Close() })
	locks := redislock.New(forLocks, redislock.Options{})
	t.Cleanup(func() { _ = locks.Close(background) })
	return client, locks
}

// owner is who holds a lock, as the client of rueidis sees it.
func owner(t *testing.T, client rueidis.Client, key string) string {
	t.Helper()
	info, err := client.Do(background, client.B().Arbitrary("LOCK.INFO").Keys(key).Build()).AsStrMap()
	if rueidis.IsRedisNil(err) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return info["owner"]
}

// takes takes and awaits a lock, and looks for it with the client of rueidis.
func takes(t *testing.T, client rueidis.Client, locks *redislock.Locks, key string) {
	t.Helper()
	grant, err := locks.Lock(key).Acquire(background)
	if err != nil {
		t.Fatal(err)
	}
	if got := owner(t, client, key); got != grant.Owner() {
		t.Fatalf("%s is held by %q, not by %q", key, got, grant.Owner())
	}
	waiting := make(chan error, 1)
	go func() {
		next, err := locks.Lock(key, redislock.Wait(20*time.Second)).Acquire(background)
		if err == nil {
			err = next.Release(background)
		}
		waiting <- err
	}()
	waiters := client.B().Arbitrary("LOCK.WAITERS").Keys(key).Build().Pin()
	bed.Eventually(t, "a waiter", func() bool {
		all, err := client.Do(background, waiters).ToArray()
		return err == nil && len(all) == 1
	})
	if err := grant.Release(background); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	if got := owner(t, client, key); got != "" {
		t.Fatalf("%s is still held by %q", key, got)
	}
}

func TestOneServerWithUserAndDatabase(t *testing.T) {
	t.Parallel()
	server := bed.Start(t, 1)[0]
	server.Run("ACL SETUSER shop on >secret ~* &* +@all")
	option := rueidis.ClientOption{InitAddress: []string{server.Address}, Username: "shop", Password: "secret", SelectDB: 2}
	client, locks := open(t, option)
	takes(t, client, locks, "lock:orders:42")

	option.Username, option.Password = "", ""
	var asked atomic.Int64
	option.AuthCredentialsFn = func(at rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		asked.Add(1)
		if at.Address == nil {
			return rueidis.AuthCredentials{}, fmt.Errorf("no address")
		}
		return rueidis.AuthCredentials{Username: "shop", Password: "secret"}, nil
	}
	client, locks = open(t, option)
	before := asked.Load()
	takes(t, client, locks, "lock:orders:42")
	if asked.Load() == before {
		t.Fatal("credentials are not asked for anew")
	}
}

func TestDialsAsTheOptionSays(t *testing.T) {
	t.Parallel()
	server := bed.Start(t, 1)[0]
	var dialled atomic.Int64
	option := rueidis.ClientOption{InitAddress: []string{"redis.example:6379"}, ForceSingleClient: true}
	option.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
		if address != "redis.example:6379" {
			return nil, fmt.Errorf("an address that nobody gave: %s", address)
		}
		dialled.Add(1)
		return dialer.DialContext(ctx, "tcp", server.Address)
	}
	client, locks := open(t, option)
	before := dialled.Load()
	takes(t, client, locks, "lock:orders:42")
	if dialled.Load() == before {
		t.Fatal("the locks dial by other means")
	}
}

func TestThroughSentinel(t *testing.T) {
	t.Parallel()
	all := bed.Order(t, "sentinels", bed.Words{})
	t.Cleanup(func() { bed.Order(t, "end", bed.Words{"port": all.Servers[0].Port}) })
	option := rueidis.ClientOption{InitAddress: []string{fmt.Sprint("127.0.0.1:", all.Sentinels[0].Port)}}
	option.Sentinel.MasterSet = "lock"
	client, locks := open(t, option)
	takes(t, client, locks, "lock:orders:42")
}

func TestInACluster(t *testing.T) {
	t.Parallel()
	nodes := bed.Order(t, "cluster", bed.Words{}).Nodes
	t.Cleanup(func() { bed.Order(t, "end", bed.Words{"port": nodes[0].Port}) })
	client, locks := open(t, rueidis.ClientOption{InitAddress: []string{fmt.Sprint("127.0.0.1:", nodes[1].Port)}})
	for n := range 12 {
		takes(t, client, locks, fmt.Sprint("lock:orders:", n))
	}
}

func TestWhatCannotBeCarriedOverIsRefused(t *testing.T) {
	t.Parallel()
	server := bed.Start(t, 1)[0]
	option := rueidis.ClientOption{InitAddress: []string{server.Address}, DisableCache: true}
	client, _ := open(t, option)
	for word, change := range map[string]func(*rueidis.ClientOption){
		"InitAddress": func(o *rueidis.ClientOption) { o.InitAddress = nil },
		"ReplicaOnly": func(o *rueidis.ClientOption) { o.ReplicaOnly = true },
	} {
		changed := option
		change(&changed)
		if made, err := adapter.Client(client, changed); made != nil || err == nil || !strings.Contains(err.Error(), word) {
			t.Fatal(word, made, err)
		}
	}
	if made, err := adapter.Client(nil, option); made != nil || err == nil {
		t.Fatal(made, err)
	}
}

func TestTheReadmeRunsInAnEmptyProject(t *testing.T) {
	t.Parallel()
	server := bed.Start(t, 1)[0]
	if said := bed.RunReadme(t, "README.md", server.Address, bed.Client+"/rueidis", bed.Client); said != "held\n" {
		t.Fatal(said)
	}
}
