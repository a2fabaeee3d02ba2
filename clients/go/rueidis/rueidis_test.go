package rueidis_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
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
	grant, err := locks.Acquire(background, key)
	if err != nil {
		t.Fatal(err)
	}
	if got := owner(t, client, key); got != grant.Owner() {
		t.Fatalf("%s is held by %q, not by %q", key, got, grant.Owner())
	}
	waiting := make(chan error, 1)
	go func() {
		next, err := locks.Acquire(background, key, redislock.Wait(20*time.Second))
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

// at is the address of what the test bed has started.
func at(one bed.Reported) string { return fmt.Sprint("127.0.0.1:", one.Port) }

// only lets this user in, and nobody else who connects from here on.
func only(t *testing.T, address, user string) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: address})
	err := client.Do(background, "ACL", "SETUSER", user, "on", ">of-"+user, "~*", "&*", "+@all").Err()
	err = errors.Join(err, client.Do(background, "ACL", "SETUSER", "default", "off").Err(), client.Close())
	if err != nil {
		t.Fatal(err)
	}
}

func TestOneServerWithUserAndDatabase(t *testing.T) {
	t.Parallel()
	server := bed.Start(t, 1)[0]
	only(t, server.Address, "shop")
	option := rueidis.ClientOption{InitAddress: []string{server.Address}, SelectDB: 2}
	option.Username, option.Password = "shop", "of-shop"
	client, locks := open(t, option)
	takes(t, client, locks, "lock:orders:42")

	option.Username, option.Password = "", ""
	var asked atomic.Int64
	option.AuthCredentialsFn = func(at rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		asked.Add(1)
		if at.Address == nil {
			return rueidis.AuthCredentials{}, fmt.Errorf("no address")
		}
		return rueidis.AuthCredentials{Username: "shop", Password: "of-shop"}, nil
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

func TestThroughAUnixSocket(t *testing.T) {
	t.Parallel()
	folder, err := os.MkdirTemp("", "") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	path := filepath.Join(folder, "redis.sock")
	port := bed.Order(t, "server", bed.Words{"config": map[string]string{"unixsocket": path}}).Port
	t.Cleanup(func() { bed.Order(t, "end", bed.Words{"port": port}) })
	option, err := rueidis.ParseURL("unix://" + path + "?db=3")
	if err != nil {
		t.Fatal(err)
	}
	client, locks := open(t, option)
	takes(t, client, locks, "lock:orders:42")
}

// overTLS leads to a server, and has a certificate for example.com that these roots know.
func overTLS(t *testing.T, to string) (address string, roots *x509.CertPool) {
	t.Helper()
	known := httptest.NewTLSServer(nil)
	known.Close()
	roots = x509.NewCertPool()
	roots.AddCert(known.Certificate())
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: known.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer from.Close()
				server, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				go func() {
					defer server.Close()
					_, _ = io.Copy(server, from)
				}()
				_, _ = io.Copy(from, server)
			}()
		}
	}()
	return listener.Addr().String(), roots
}

func TestOverTLS(t *testing.T) {
	t.Parallel()
	server := bed.Start(t, 1)[0]
	address, roots := overTLS(t, server.Address)
	option := rueidis.ClientOption{InitAddress: []string{address}}
	option.TLSConfig = &tls.Config{RootCAs: roots, ServerName: "example.com"}
	client, locks := open(t, option)
	takes(t, client, locks, "lock:orders:42")

	for _, bad := range []*tls.Config{{ServerName: "example.com"}, {RootCAs: roots, ServerName: "redis.other"}} {
		option.TLSConfig = bad
		forLocks, err := adapter.Client(client, option)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = forLocks.Close() })
		untrusting := redislock.New(forLocks, redislock.Options{})
		t.Cleanup(func() { _ = untrusting.Close(background) })
		_, err = untrusting.TryAcquire(background, "lock:orders:43")
		if unverified := new(tls.CertificateVerificationError); !errors.As(err, &unverified) {
			t.Fatal(err)
		}
	}
}

func TestThroughSentinelWithUsersAndDatabase(t *testing.T) {
	t.Parallel()
	all := bed.Order(t, "sentinels", bed.Words{})
	t.Cleanup(func() { bed.Order(t, "end", bed.Words{"port": all.Servers[0].Port}) })
	only(t, at(all.Servers[0]), "shop")
	only(t, at(all.Sentinels[0]), "watcher")
	option := rueidis.ClientOption{InitAddress: []string{at(all.Sentinels[0])}, SelectDB: 2}
	option.Username, option.Password = "shop", "of-shop"
	option.Sentinel.MasterSet = "lock"
	option.Sentinel.Username, option.Sentinel.Password = "watcher", "of-watcher"
	client, locks := open(t, option)
	takes(t, client, locks, "lock:orders:42")
}

func TestInAClusterWithUser(t *testing.T) {
	t.Parallel()
	nodes := bed.Order(t, "cluster", bed.Words{}).Nodes
	t.Cleanup(func() { bed.Order(t, "end", bed.Words{"port": nodes[0].Port}) })
	for _, node := range nodes {
		only(t, at(node), "shop")
	}
	option := rueidis.ClientOption{InitAddress: []string{at(nodes[1])}, Username: "shop", Password: "of-shop"}
	client, locks := open(t, option)
	for n := range 12 {
		takes(t, client, locks, fmt.Sprint("lock:orders:", n))
	}
}

// of is a client of rueidis of which its mode is known.
type of struct {
	rueidis.Client
	mode rueidis.ClientMode
}

func (o of) Mode() rueidis.ClientMode { return o.mode }

func TestWhatCannotBeCarriedOverIsRefused(t *testing.T) {
	t.Parallel()
	const single, sentinel, cluster = rueidis.ClientModeStandalone, rueidis.ClientModeSentinel, rueidis.ClientModeCluster
	credentials := func(rueidis.AuthCredentialsContext) (found rueidis.AuthCredentials, err error) { return found, nil }
	control := func(string, string, syscall.RawConn) error { return nil }
	for _, refused := range []struct {
		mode   rueidis.ClientMode
		word   string // in the error; none: it is not refused
		change func(*rueidis.ClientOption)
	}{
		{single, "", func(*rueidis.ClientOption) {}},
		{sentinel, "", func(*rueidis.ClientOption) {}},
		{cluster, "", func(*rueidis.ClientOption) {}},
		{"other", "unknown mode", func(*rueidis.ClientOption) {}},
		{single, "InitAddress", func(o *rueidis.ClientOption) { o.InitAddress = nil }},
		{sentinel, "ReplicaOnly", func(o *rueidis.ClientOption) { o.ReplicaOnly = true }},
		{cluster, "ReplicaOnly", func(o *rueidis.ClientOption) { o.ReplicaOnly = true }},
		{single, "MasterSet", func(o *rueidis.ClientOption) { o.Sentinel.MasterSet = "lock" }},
		{sentinel, "MasterSet", func(o *rueidis.ClientOption) { o.Sentinel.MasterSet = "" }},
		{single, "EnableRedirect", func(o *rueidis.ClientOption) { o.Standalone.EnableRedirect = true }},
		{sentinel, "", func(o *rueidis.ClientOption) { o.SelectDB = 1 }},
		{cluster, "SelectDB", func(o *rueidis.ClientOption) { o.SelectDB = 1 }},
		{sentinel, "AuthCredentialsFn", func(o *rueidis.ClientOption) { o.AuthCredentialsFn = credentials }},
		{cluster, "AuthCredentialsFn", func(o *rueidis.ClientOption) { o.AuthCredentialsFn = credentials }},
		{sentinel, "TLSConfig", func(o *rueidis.ClientOption) { o.TLSConfig = &tls.Config{} }},
		{sentinel, "TLSConfig", func(o *rueidis.ClientOption) { o.Sentinel.TLSConfig = &tls.Config{} }},
		{sentinel, "", func(o *rueidis.ClientOption) {
			o.TLSConfig = &tls.Config{}
			o.Sentinel.TLSConfig = o.TLSConfig
		}},
		{sentinel, "", func(o *rueidis.ClientOption) { o.Dialer.Timeout = time.Second }},
		{sentinel, "LocalAddr", func(o *rueidis.ClientOption) { o.Dialer.LocalAddr = &net.TCPAddr{} }},
		{sentinel, "Resolver", func(o *rueidis.ClientOption) { o.Sentinel.Dialer.Resolver = &net.Resolver{} }},
		{sentinel, "Control", func(o *rueidis.ClientOption) { o.Dialer.Control = control }},
		{single, "", func(o *rueidis.ClientOption) { o.Dialer.Control = control }},
	} {
		option := rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}}
		if refused.mode == sentinel {
			option.Sentinel.MasterSet = "lock"
		}
		refused.change(&option)
		made, err := adapter.Client(of{mode: refused.mode}, option)
		switch {
		case refused.word == "" && err == nil:
			_ = made.Close()
		case refused.word == "" || made != nil || err == nil || !strings.Contains(err.Error(), refused.word):
			t.Error(refused.mode, refused.word, made, err)
		}
	}
	if made, err := adapter.Client(nil, rueidis.ClientOption{}); made != nil || err == nil {
		t.Error(made, err)
	}
}

// rueidis shuffles the addresses of an option where they are, each time that a client is made of it.
func TestTheAddressesAreItsOwn(t *testing.T) {
	t.Parallel()
	option := rueidis.ClientOption{InitAddress: []string{"one:6379", "two:6379"}}
	made, err := adapter.Client(of{mode: rueidis.ClientModeCluster}, option)
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	option.InitAddress[0] = "three:6379"
	if got := made.(*redis.ClusterClient).Options().Addrs; got[0] != "one:6379" {
		t.Fatal(got)
	}
}

func TestTheReadmeRunsInAnEmptyProject(t *testing.T) {
	t.Parallel()
	server := bed.Start(t, 1)[0]
	if said := bed.RunReadme(t, "README.md", server.Address, bed.Client+"/rueidis", bed.Client); said != "held\n" {
		t.Fatal(said)
	}
}
