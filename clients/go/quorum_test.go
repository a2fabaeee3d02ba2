package redislock

// One lock on several servers. The promises: docs/quorum.md.

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

	"github.com/redis-lock/redis-lock/clients/go/internal/bed"
)

// sites are the servers of a quorum.
type sites []site

func startSites(t *testing.T, n int) (all sites) {
	t.Helper()
	for _, server := range bed.Start(t, n) {
		all = append(all, site{server, t})
	}
	return all
}

// before is a proxy before each.
func (s sites) before() (proxies sites) {
	for _, one := range s {
		proxies = append(proxies, one.before())
	}
	return proxies
}

func (s sites) quorum(change ...func(*Options)) *Quorum {
	options := Options{Service: "tests"}
	for _, change := range change {
		change(&options)
	}
	var clients []redis.UniversalClient
	for _, one := range s {
		clients = append(clients, one.client())
	}
	quorum := NewQuorum(clients, options)
	s[0].t.Cleanup(func() { _ = quorum.Close(background) })
	return quorum
}

// tokens are those of a lock on the servers; 0: it is free there.
func (s sites) tokens(key string) (tokens []int64) {
	s[0].t.Helper()
	for _, one := range s {
		token, _ := one.info(key, "token").(int64)
		tokens = append(tokens, token)
	}
	return tokens
}

// have waits until all the servers have this token.
func (s sites) have(key string, token int64) {
	s[0].t.Helper()
	eventually(s[0].t, fmt.Sprint("all have ", key, " with ", token), func() bool {
		for _, one := range s.tokens(key) {
			if one != token {
				return false
			}
		}
		return true
	})
}

// take acquires a lock that all the servers have.
func (s sites) take(quorum *Quorum, key string, options ...LockOption) *QuorumGrant {
	s[0].t.Helper()
	grant := must[*QuorumGrant](s[0].t)(quorum.Acquire(background, key, options...))
	s.have(key, grant.Token())
	return grant
}

func TestQuorumHasOneTokenThatRises(t *testing.T) {
	t.Parallel()
	three := startSites(t, 3)
	quorums := []*Quorum{three.quorum(), three.quorum()}
	last := int64(0)
	for turn := range 20 {
		grant := three.take(quorums[turn%2], "k")
		if grant.Token() <= last || grant.Key() != "k" || !grant.Held() || grant.Remaining() > 10*time.Second {
			t.Fatal(grant.Token(), "after", last, grant.Remaining())
		}
		_, err := quorums[1-turn%2].TryAcquire(background, "k")
		is(t, err, ErrBusy)
		is(t, grant.Check(background), nil)
		is(t, grant.Release(background), nil)
		is(t, grant.Release(background), ErrMisuse)
		is(t, grant.Err(), ErrMisuse)
		three.have("k", 0)
		last = grant.Token()
	}
}

var _ = errors.Is
var _ = strings.Fields
var _ sync.Mutex
var _ atomic.Int64
var _ context.Context
