package redislock

// One lock on several servers. The promises: docs/quorum.md.
import (
	"context"
	"fmt"
	"slices"
	"strings"
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
		tokens := s.tokens(key)
		return slices.Min(tokens) == token && slices.Max(tokens) == token
	})
}

// take acquires a lock that all the servers have.
func (s sites) take(quorum *Quorum, key string, options ...LockOption) *QuorumGrant {
	s[0].t.Helper()
	grant := must[*QuorumGrant](s[0].t)(quorum.Acquire(background, key, options...))
	s.have(grant.Key(), grant.Token())
	return grant
}

// again waits until all the servers take part again.
func (s sites) again(quorum *Quorum) {
	s[0].t.Helper()
	eventually(s[0].t, "all take part again", func() bool {
		grant := must[*QuorumGrant](s[0].t)(quorum.Acquire(background, "again"))
		tokens := s.tokens("again")
		is(s[0].t, grant.Release(background), nil)
		return slices.Min(tokens) == grant.Token() && slices.Max(tokens) == grant.Token()
	})
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

func TestQuorumGoesOnWithoutAMinority(t *testing.T) {
	t.Parallel()
	five := startSites(t, 5)
	quorum := five.quorum()
	grant := five.take(quorum, "k")
	five[0].run("DEL k")
	five[3].run("DEL k")
	eventually(t, "three are left", func() bool {
		grant.mu.Lock()
		defer grant.mu.Unlock()
		return len(grant.parts) == 3
	})
	if is(t, grant.Check(background), nil); !grant.Held() {
		t.Fatal("three of five are a majority")
	}
	is(t, grant.Release(background), nil)
	five.have("k", 0)
}

func TestQuorumIsLostWithItsMajority(t *testing.T) {
	t.Parallel()
	three := startSites(t, 3)
	observed := make(chan error, 9)
	quorum := three.quorum(func(o *Options) { o.Observer.Lost = func(_ string, err error) { observed <- err } })
	notified := make(chan error, 9)
	grant := three.take(quorum, "k")
	grant.OnLost(func(err error) { notified <- err })
	working, cancel := grant.Context(background)
	defer cancel()
	three[0].run("DEL k")
	three[2].run("DEL k")
	for _, reports := range []chan error{observed, notified} {
		select {
		case err := <-reports:
			if is(t, err, ErrLost); !strings.Contains(err.Error(), three[2].Address) {
				t.Fatal(err)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("its loss is not reported")
		}
	}
	<-grant.Lost()
	<-working.Done()
	is(t, context.Cause(working), ErrLost)
	is(t, grant.Err(), ErrLost)
	is(t, grant.Check(background), ErrLost)
	is(t, grant.Release(background), ErrLost)
	if grant.Held() || len(notified)+len(observed) > 0 {
		t.Fatal("held, or reported twice")
	}
	three.have("k", 0) // what was left is given back
	is(t, three.take(quorum, "k").Release(background), nil)
}

func TestQuorumIsLostWhenAMajorityIsSilent(t *testing.T) {
	t.Parallel()
	three := startSites(t, 3)
	quorum := three.quorum(func(o *Options) { o.Lease = 2 * time.Second })
	grant := three.take(quorum, "k")
	three[0].order("pause")
	time.Sleep(2500 * time.Millisecond) // longer than a lease
	if grant.Err() != nil || !grant.Held() {
		t.Fatal("two servers are a majority")
	}
	three[1].order("pause")
	begun := time.Now()
	eventually(t, "it is unsure", func() bool { return !grant.Held() })
	if took := time.Since(begun); took > 2100*time.Millisecond {
		t.Fatal("still held after", took)
	}
	<-grant.Lost()
	_, err := quorum.TryAcquire(background, "k")
	if is(t, err, ErrUnavailable); !strings.Contains(err.Error(), three[0].Address) {
		t.Fatal(err)
	}
	three[0].order("resume")
	three[1].order("resume")
	three.again(quorum)
	three.have("k", 0)
}

// putAhead has a server grant tokens that are an hour ahead.
func (s site) putAhead() {
	s.run("CONFIG SET lock.max-token-lead-ms 86400000")
	token := s.run("LOCK.ACQUIRE ahead ahead").([]any)[0].(int64)
	s.run("LOCK.RENEW ahead ahead TOKEN %d RAISE %d", token, token+time.Hour.Microseconds())
	s.run("LOCK.RELEASE ahead ahead")
	s.run("CONFIG SET lock.max-token-lead-ms 5000")
}

func TestQuorumLeavesOutAServerWhoseClockDiffers(t *testing.T) {
	t.Parallel()
	three := startSites(t, 3)
	quorum := three.quorum()
	three[1].putAhead()
	for range 3 {
		grant := must[*QuorumGrant](t)(quorum.Acquire(background, "k"))
		eventually(t, "the others have it", func() bool {
			tokens := three.tokens("k")
			return tokens[0] == grant.Token() && tokens[1] == 0 && tokens[2] == grant.Token()
		})
		if grant.Token() > time.Now().Add(time.Minute).UnixMicro() {
			t.Fatal("an hour ahead")
		}
		is(t, grant.Release(background), nil)
	}
}

func TestQuorumWaitsForAThirdServerIfTheClocksOfTwoDiffer(t *testing.T) {
	t.Parallel()
	three := startSites(t, 3)
	proxies := three.before()
	quorum := proxies.quorum()
	is(t, three.take(quorum, "k").Release(background), nil)
	three[0].putAhead()
	// The third answers after the second has refused the token of the first.
	proxies[2].inject(bed.Words{"delay": 400}, "ACQUIRE", 1)
	grant := must[*QuorumGrant](t)(quorum.Acquire(background, "k"))
	if tokens := three.tokens("k"); tokens[1] != grant.Token() || tokens[2] != grant.Token() {
		t.Fatal(grant.Token(), "of", tokens)
	}
	is(t, grant.Release(background), nil)
	three.have("k", 0)

	three[2].order("pause")
	_, err := quorum.Acquire(background, "k")
	if is(t, err, ErrRefused); !strings.Contains(err.Error(), three[1].Address) && !strings.Contains(err.Error(), "AHEAD") {
		t.Fatal(err)
	}
	three[2].order("resume")
	three.have("k", 0)
}

func TestQuorumRaiseWithoutAReplyIsRepeatedOrTakenBack(t *testing.T) {
	t.Parallel()
	three := startSites(t, 3)
	proxies := three.before()
	quorum := proxies.quorum()
	is(t, three.take(quorum, "k").Release(background), nil)
	for _, proxy := range proxies[:2] {
		proxy.inject("cut", "RAISE", 1)
	}
	is(t, must[*QuorumGrant](t)(quorum.Acquire(background, "k")).Release(background), nil)
	three.have("k", 0)
	for _, proxy := range proxies[:2] {
		proxy.inject("cut", "RAISE", 1000)
	}
	_, err := quorum.TryAcquire(background, "k")
	is(t, err, ErrUnavailable)
	three.have("k", 0) // whether they were raised or not
}

func TestQuorumReleaseThatFails(t *testing.T) {
	t.Parallel()
	three := startSites(t, 3)
	proxies := three.before()
	quorum := proxies.quorum()
	grant := three.take(quorum, "k")
	proxies[0].order("silence")
	begun := time.Now()
	is(t, grant.Release(background), nil)
	if took := time.Since(begun); took > 500*time.Millisecond {
		t.Fatal("a majority has answered, and it took", took)
	}
	proxies[0].order("speak")
	three.have("k", 0)

	grant = three.take(quorum, "k")
	for _, proxy := range proxies[:2] {
		proxy.inject("cut", "LOCK.RELEASE", 1000)
	}
	is(t, grant.Release(background), ErrUnavailable)
	three.have("k", 0) // the sessions have repeated it, or the servers have received it

	grant = three.take(three.quorum(), "refused")
	for _, one := range three[1:] {
		one.run("ACL SETUSER default -lock.release")
	}
	is(t, grant.Release(background), ErrRefused)
	for _, one := range three[1:] {
		one.run("ACL SETUSER default +lock.release")
	}
	three.have("refused", 0)
}

func TestQuorumOptions(t *testing.T) {
	t.Parallel()
	three := startSites(t, 3)
	quorum := three.quorum(func(o *Options) { o.Prefix = "lock:" })
	for _, option := range []LockOption{Shared(), Permits(3)} {
		_, err := quorum.Acquire(background, "k", option)
		is(t, err, ErrMisuse)
	}
	_, err := three[:2].quorum().Acquire(background, "k")
	is(t, err, ErrMisuse)
	fixed := must[*QuorumGrant](t)(quorum.Acquire(background, "fixed", Fixed(time.Second)))
	is(t, fixed.Extend(background, 3*time.Second), nil)
	if left := fixed.Remaining(); fixed.Key() != "lock:fixed" || left < 2*time.Second || left > 3*time.Second {
		t.Fatal(fixed.Key(), left)
	}
	most := three.take(quorum, "most", AtMost(500*time.Millisecond))
	<-most.Lost()
	three.have("lock:most", 0)
	<-fixed.Lost()
	is(t, fixed.Release(background), ErrLost)
	open := three.take(quorum, "open")
	is(t, quorum.Close(background), nil)
	three.have("lock:open", 0)
	is(t, open.Release(background), ErrClosed)
	_, err = quorum.Acquire(background, "k")
	is(t, err, ErrClosed)
}
