package redislock

// A quorum some of whose servers are down, hang, forget, or lose answers.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestQuorumIsAMajority(t *testing.T) {
	t.Parallel()
	five := startFive(t)
	for down := range 3 {
		if down > 0 {
			five[down-1].order("kill", words{})
		}
		grant := five[down:].hold(t, five.locks().Lock("k", patient))
		mustSay(t, grant.Check(background), nil)
		mustSay(t, grant.Release(background), nil)
		five.free(t, "k")
	}
	five[2].order("kill", words{})
	locks := five.locks()
	err := takes(t, 2*time.Second, try(locks.Lock("k")))
	mustSay(t, err, ErrUnavailable)
	if !strings.Contains(err.Error(), "2 of 5 servers") || !strings.Contains(err.Error(), five[2].address+": ") {
		t.Fatal(err)
	}
	five.free(t, "k")
	waiting := inBackground(background, locks.Lock("k", Wait(Forever)))
	five[1].order("restart", words{})
	got := <-waiting
	mustSay(t, got.err, nil)
	mustSay(t, got.grant.Release(background), nil)
}

// Not even one time-out is spent on servers that hang: the others are enough.
func TestQuorumIsNotKeptWaitingByServersThatHang(t *testing.T) {
	t.Parallel()
	five := startFive(t)
	locks := five.locks()
	mustSay(t, acquire(t, locks.Lock("k")).Release(background), nil)
	five[:2].hang(t)
	begun := time.Now()
	for range 10 {
		mustSay(t, acquire(t, locks.Lock("k", patient)).Release(background), nil)
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Fatal("took", took)
	}
}

func TestQuorumWithoutAMajorityIsBounded(t *testing.T) {
	t.Parallel()
	five := startFive(t)
	locks := five.locks()
	grant := acquire(t, locks.Lock("held", Lease(2*time.Second)))
	other := acquire(t, locks.Lock("other"))
	five[:3].hang(t)
	mustSay(t, takes(t, 1500*time.Millisecond, try(locks.Lock("k"))), ErrUnavailable)
	mustSay(t, takes(t, 3*time.Second, try(locks.Lock("k", Wait(1500*time.Millisecond)))), ErrUnavailable)
	mustSay(t, takes(t, 3*time.Second, func() error { return other.Release(background) }), ErrUnavailable)
	within(t, 4*time.Second, "the lease passes", func() bool { return !grant.Held() })
	mustSay(t, grant.Err(), ErrLost)
	ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
	defer cancel()
	_, err := locks.Lock("k", Wait(Forever)).Acquire(ctx)
	mustSay(t, err, context.DeadlineExceeded)
	begun := time.Now()
	_ = locks.Close(background)
	if took := time.Since(begun); took > 2500*time.Millisecond {
		t.Fatal("close took", took)
	}
}

// Servers that come back while a try is under way, and then hang, do not lengthen it.
func TestQuorumTriesNoLongerThanAReplyMayTake(t *testing.T) {
	t.Parallel()
	servers := startFive(t)
	back := time.Now().Add(2200 * time.Millisecond)
	var clients []*redis.Client
	for i, s := range servers {
		if i > 2 {
			clients = append(clients, s.client())
			continue
		}
		proxy := before(t, s)
		proxy.order("inject", words{"fault": "keep", "words": "LOCK.ACQUIRE", "times": 1000}) // all else is answered
		clients = append(clients, proxy.client(func(o *redis.Options) {
			o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
				if time.Now().Before(back) {
					return nil, errors.New("not yet")
				}
				return (&net.Dialer{}).DialContext(ctx, network, address)
			}
		}))
	}
	locks := NewQuorum(clients, Options{Reply: 3 * time.Second})
	err := takes(t, 3400*time.Millisecond, try(locks.Lock("k", Lease(20*time.Second))))
	mustSay(t, err, ErrUnavailable)
	ctx, cancel := context.WithTimeout(background, time.Millisecond)
	defer cancel()
	_ = locks.Close(ctx)
}

func TestQuorumUsesAServerAgainThatIsBackAndTellsItOfReleases(t *testing.T) {
	t.Parallel()
	five := startFive(t)
	for _, setting := range []string{"appendonly yes", "appendfsync always"} {
		five[0].do("CONFIG SET " + setting)
	}
	eventually(t, "its log", func() bool {
		return strings.Contains(five[0].do("INFO persistence").(string), "aof_rewrite_in_progress:0")
	})
	five[0].do("CONFIG REWRITE")
	told := make(chan error, 100)
	locks := five.locksWith(Options{Hooks: Hooks{Keeper: func(_ string, err error) { told <- err }}})
	grant := five.hold(t, locks.Lock("k", Lease(time.Minute)))
	five[0].order("kill", words{})
	mustSay(t, grant.Release(background), nil)
	if (<-told) == nil {
		t.Fatal("back before it was down")
	}
	five[0].order("restart", words{})
	mustSay(t, <-told, nil)
	five.free(t, "k")
	if five[0].calls("lock.release") == 0 {
		t.Fatal("it had not kept the lock")
	}
	mustSay(t, five.hold(t, locks.Lock("k", patient)).Release(background), nil)
}

// The server reads the request when everybody has long gone, and grants what it asks for.
func TestQuorumReleasesAGrantThatComesLate(t *testing.T) {
	t.Parallel()
	five := startFive(t)
	locks := five.locks()
	mustSay(t, five.hold(t, locks.Lock("k")).Release(background), nil)
	five.free(t, "k")
	late := five[4]
	before := late.calls("lock.acquire")
	late.order("pause", words{})
	mustSay(t, acquire(t, locks.Lock("k")).Release(background), nil)
	late.order("resume", words{})
	eventually(t, "the late request", func() bool { return late.calls("lock.acquire") > before })
	five.free(t, "k")
}

func TestQuorumIsLostWithItsMajority(t *testing.T) {
	t.Parallel()
	five := startFive(t)
	locks := five.locks()
	grant := five.hold(t, locks.Lock("k"))
	told := make(chan error, 2)
	grant.OnLost(func(err error) { told <- err })
	for _, s := range five[:2] {
		s.do("DEL k")
	}
	mustSay(t, grant.Check(background), nil)
	if five.stand(grant) != 3 {
		t.Fatal("taken again", five.grants("k"))
	}
	five[2].do("DEL k")
	five[2].do("LOCK.ACQUIRE k other")
	mustSay(t, grant.Check(background), ErrLost)
	mustSay(t, <-told, ErrLost)
	mustSay(t, grant.Release(background), ErrLost)
	five[2].do("DEL k")

	grant = five.hold(t, locks.Lock("again", patient))
	for _, s := range five[:3] {
		s.do("DEL again")
	}
	mustSay(t, grant.Release(background), ErrLost)
	five.free(t, "again")
}

// They come back without data, as a majority.
func TestQuorumEndsWhenAMajorityForgets(t *testing.T) {
	t.Parallel()
	five := startFive(t)
	locks := five.locks()
	grant := five.hold(t, locks.Lock("k", Lease(3*time.Second)))
	for _, s := range five[:2] {
		s.order("kill", words{})
		s.order("restart", words{})
	}
	mustSay(t, grant.Check(background), nil)
	five[2].order("kill", words{})
	five[2].order("restart", words{})
	<-grant.Lost()
	mustSay(t, grant.Err(), ErrLost)
}

func TestQuorumCountsNoCallTwiceWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	servers := startFive(t)
	proxies := servers.behind(t)
	locks := proxies.locks()
	lose := func(word string) {
		for _, proxy := range proxies {
			proxy.inject("cut", word)
		}
	}
	for _, word := range []string{"LOCK.ACQUIRE", "LOCK.RENEW"} {
		lose(word)
		grant := acquire(t, locks.Lock("k", patient))
		if stand := servers.stand(grant); stand < 3 {
			t.Fatal(word, stand, servers.grants("k"))
		}
		for _, s := range servers {
			if holds := s.info("k", "holds"); holds != nil && holds != int64(1) {
				t.Fatal("holds", holds)
			}
		}
		mustSay(t, grant.Release(background), nil)
		servers.free(t, "k")
	}
	grant := acquire(t, locks.Lock("k", patient))
	lose("LOCK.RENEW")
	mustSay(t, grant.Extend(background, 20*time.Second), nil)
	lose("LOCK.RELEASE")
	mustSay(t, grant.Release(background), nil)
	servers.free(t, "k")
}

// putAhead makes the server grant tokens that lie an hour ahead of time; it gives one of now.
func (s *server) putAhead() (now int64) {
	s.do("CONFIG SET lock.max-token-lead-ms 86400000")
	now = s.do("LOCK.ACQUIRE x me").([]any)[0].(int64)
	s.do(fmt.Sprint("LOCK.RENEW x me TOKEN ", now, " RAISE ", now+3_600_000_000))
	s.do("LOCK.RELEASE x me")
	s.do("CONFIG SET lock.max-token-lead-ms 5000")
	return now
}

func TestQuorumLeavesOutServersFarAhead(t *testing.T) {
	t.Parallel()
	five := startFive(t)
	token := five[0].putAhead()
	locks := five.locks()
	grant := acquire(t, locks.Lock("k"))
	if grant.Token() > token+1_800_000_000 {
		t.Fatal("an hour ahead")
	}
	five[:1].free(t, "k")
	mustSay(t, grant.Check(background), nil)
	mustSay(t, grant.Release(background), nil)
	five[1].putAhead()
	five[4].order("kill", words{})
	err := try(locks.Lock("k", Wait(Forever)))()
	mustSay(t, err, ErrRefused)
	if !strings.Contains(err.Error(), five[2].address) {
		t.Fatal(err)
	}
	five.free(t, "k")
}

// Two of the first three servers do not go with the third one's token; with those that answer later they are a majority.
func TestQuorumHearsAllServersBeforeItSaysAhead(t *testing.T) {
	t.Parallel()
	five := startFive(t)
	token := five[0].putAhead()
	for _, slow := range five[3:] {
		slow.do("CLIENT PAUSE 300 ALL")
	}
	grant := acquire(t, five.locks().Lock("k"))
	if grant.Token() > token+1_800_000_000 {
		t.Fatal("an hour ahead")
	}
	five[:1].free(t, "k")
	mustSay(t, grant.Release(background), nil)
	five.free(t, "k")
}

// Two renewals at a time would leave some servers with the one lease, and some with the other.
func TestQuorumRenewsByOneCallAfterAnother(t *testing.T) {
	t.Parallel()
	five := startFive(t)
	locks := five.locks()
	var all sync.WaitGroup
	for n := range 20 {
		grant := acquire(t, locks.Lock(fmt.Sprint("k", n), Lease(30*time.Second), patient))
		all.Go(func() {
			for range 5 {
				var both sync.WaitGroup
				both.Go(func() { mustSay(t, grant.Extend(background, 10*time.Second), nil) })
				both.Go(func() { mustSay(t, grant.Extend(background, 30*time.Second), nil) })
				both.Wait()
				known, long := grant.Remaining(), 0
				for _, server := range five {
					if server.PTTL(background, grant.Key()).Val() > known-time.Second {
						long++
					}
				}
				if long < 3 {
					t.Error(long, "servers have it for as long as is known:", known)
				}
			}
		})
	}
	all.Wait()
}

// A server that hangs is none that can be used.
func TestQuorumIsBusyOnlyWhereAMajorityHasAnswered(t *testing.T) {
	t.Parallel()
	five := startFive(t)
	locks := five.locks()
	mustSay(t, five.hold(t, locks.Lock("k")).Release(background), nil)
	five.free(t, "k")
	five[:2].order("kill")
	mustSay(t, acquire(t, locks.Lock("k", patient)).Release(background), nil)
	five[3].do("LOCK.ACQUIRE k other EX 60")
	five[2:3].hang(t)
	err := takes(t, 1500*time.Millisecond, try(locks.Lock("k")))
	mustSay(t, err, ErrUnavailable)
}
