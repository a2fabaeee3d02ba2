package redislock

// What is sent to a server of a quorum while its connection is being opened.

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A release that waits for the same connection as the request, and its grant would join those that are released.
func TestQuorumReleaseComesBehindItsRequest(t *testing.T) {
	t.Parallel()
	servers := startFive(t)
	for _, s := range servers {
		s.do("CONFIG SET lock.max-token-lead-ms 86400000")
	}
	gate := make(chan struct{})
	var clients []*redis.Client
	for i, s := range servers {
		clients = append(clients, s.client(func(o *redis.Options) {
			o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
				if i == 4 {
					<-gate
				}
				return (&net.Dialer{}).DialContext(ctx, network, address)
			}
		}))
	}
	now := servers[0].do("LOCK.ACQUIRE k me").([]any)[0].(int64)
	servers[0].do(fmt.Sprint("LOCK.RENEW k me TOKEN ", now, " RAISE ", now+3_600_000_000))
	servers[0].do("LOCK.RELEASE k me")
	locks := NewQuorum(clients, Options{})
	defer func() { _ = locks.Close(background) }()
	grant := acquire(t, locks.Lock("k"))
	mustSay(t, grant.Release(background), nil)
	time.Sleep(50 * time.Millisecond) // its release waits for the connection, too
	close(gate)
	late := servers[4]
	eventually(t, "asked", func() bool { return late.calls("lock.acquire") > 0 && late.calls("lock.release") > 0 })
	within(t, 3*time.Second, "free", func() bool { return late.do("EXISTS k") == int64(0) })
}

// Else servers have the lease before, and the client counts by the longer one.
func TestQuorumRenewalsComeInOrder(t *testing.T) {
	t.Parallel()
	servers := startFive(t)
	var gated atomic.Bool
	gate := make(chan struct{})
	var clients []*redis.Client
	var proxies []*server
	for i, s := range servers {
		if i < 3 {
			clients = append(clients, s.client())
			continue
		}
		proxy := before(t, s)
		proxies = append(proxies, proxy)
		clients = append(clients, proxy.client(func(o *redis.Options) {
			o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
				if gated.Load() {
					<-gate
				}
				return (&net.Dialer{}).DialContext(ctx, network, address)
			}
		}))
	}
	locks := NewQuorum(clients, Options{})
	defer func() { _ = locks.Close(background) }()
	grant := servers.hold(t, locks.Lock("k", Lease(30*time.Second)))
	gated.Store(true)
	for _, proxy := range proxies {
		proxy.inject("reset-request", "LOCK.RENEW")
	}
	mustSay(t, grant.Extend(background, 2*time.Second), nil)
	servers[:2].hang(t)
	extended := meanwhile(func() error { return grant.Extend(background, 30*time.Second) })
	time.Sleep(100 * time.Millisecond) // it waits for the connections, too
	close(gate)
	mustSay(t, <-extended, nil)
	for range 10 {
		for _, s := range servers[3:] {
			if left := s.do("PTTL k").(int64); left < 10_000 {
				t.Error("left", left, "of", grant.Remaining())
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// The answers of a minority come too late for the attempt, which would release what they have.
func TestQuorumReleasesNothingBehindARenewal(t *testing.T) {
	t.Parallel()
	servers := startFive(t)
	proxies := servers.behind(t)
	lock := proxies.locks().Lock("k", Lease(time.Minute))
	mustSay(t, servers.hold(t, lock).Release(background), nil)
	servers.free(t, "k")
	for _, proxy := range proxies[:2] {
		proxy.inject(words{"delay": 700}, "RAISE")
	}
	grant := acquire(t, lock)
	eventually(t, "all have it", func() bool { return servers.stand(grant) == len(servers) })
	mustSay(t, grant.Extend(background, 30*time.Second), nil)
	time.Sleep(900 * time.Millisecond) // the time for an answer is over, and the servers are back
	if stand := servers.stand(grant); stand != len(servers) {
		t.Fatal("only", stand, "have it")
	}
	for _, s := range servers {
		if lease := s.info("k", "lease-ms"); lease != int64(30_000) {
			t.Error("lease", lease)
		}
	}
	mustSay(t, grant.Release(background), nil)
	servers.free(t, "k")
}
