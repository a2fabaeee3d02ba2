package redislock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestQuorumServesWaitersInTheirOrder(t *testing.T) {
	t.Parallel()
	three := startSites(t, 3)
	grant := three.take(three.quorum(), "k")
	order := make(chan int, 5)
	for n := range 5 {
		quorum := three.quorum()
		go func() {
			_ = quorum.Do(background, "k", func(context.Context, *QuorumGrant) error {
				order <- n
				return nil
			})
		}()
		three[0].waiting("k", n+1)
	}
	is(t, grant.Release(background), nil)
	for n := range 5 {
		if got := <-order; got != n {
			t.Fatal(got, "instead of", n)
		}
	}
}

func TestQuorumTakesAMajorityThoughTheLineDoesNotMove(t *testing.T) {
	t.Parallel()
	three := startSites(t, 3)
	quorum := three.quorum()
	three[0].run("LOCK.ACQUIRE k somebody PX 60000")
	for range 2 {
		is(t, must[*QuorumGrant](t)(quorum.TryAcquire(background, "k")).Release(background), nil)
		grant := must[*QuorumGrant](t)(quorum.Acquire(background, "k", Wait(5*time.Second)))
		is(t, grant.Release(background), nil)
		three[0].waiting("k", 0)
	}
	three[1].run("LOCK.ACQUIRE k somebody PX 60000")
	_, err := quorum.Acquire(background, "k", Wait(200*time.Millisecond))
	is(t, err, ErrBusy)
	three[2].waiting("k", 0)
	three[2:].have("k", 0)
	three[1].run("LOCK.RELEASE k somebody")
	is(t, must[*QuorumGrant](t)(quorum.Acquire(background, "k")).Release(background), nil)
}

func TestQuorumWaitsAtTheNextServerIfTheFirstIsDown(t *testing.T) {
	t.Parallel()
	three := startSites(t, 3)
	grant := three.take(three.quorum(), "k")
	quorum, order := three.quorum(), make(chan int, 3)
	wait := func(n int) {
		_ = quorum.Do(background, "k", func(context.Context, *QuorumGrant) error {
			order <- n
			return nil
		})
	}
	go wait(1)
	three[0].waiting("k", 1)
	three[0].order("kill")
	three[1].waiting("k", 1)
	go wait(2)
	three[1].waiting("k", 2)
	is(t, grant.Release(background), nil)
	if first, second := <-order, <-order; first != 1 || second != 2 {
		t.Fatal(first, "before", second)
	}
	three[0].order("restart")
	three.again(quorum)
}

func TestQuorumIsThereAtOnceAfterAnOutage(t *testing.T) {
	t.Parallel()
	three := startSites(t, 3)
	quorum := three.quorum()
	is(t, three.take(quorum, "k").Release(background), nil)
	for _, one := range three[1:] {
		one.order("kill")
	}
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		_, err := quorum.TryAcquire(background, "k")
		if is(t, err, ErrUnavailable); !strings.Contains(err.Error(), three[1].Address) {
			t.Fatal(err)
		}
	}
	waiting := make(chan error, 1)
	go func() {
		waiting <- quorum.Do(background, "k", func(context.Context, *QuorumGrant) error { return nil })
	}()
	for _, one := range three[1:] {
		one.order("restart")
	}
	is(t, <-waiting, nil)
	is(t, must[*QuorumGrant](t)(quorum.TryAcquire(background, "k")).Release(background), nil)
}

func TestQuorumWaitThatIsGivenUpLeavesNothing(t *testing.T) {
	t.Parallel()
	three := startSites(t, 3)
	quorum := three.quorum()
	grant := three.take(three.quorum(), "k")
	ctx, cancel := context.WithCancel(background)
	waiting := make(chan error, 1)
	go func() {
		_, err := quorum.Acquire(ctx, "k")
		waiting <- err
	}()
	three[0].waiting("k", 1)
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) || errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	three[0].waiting("k", 0)
	soon, cancel := context.WithTimeout(background, time.Second)
	defer cancel()
	_, err := quorum.Acquire(soon, "k")
	is(t, err, context.DeadlineExceeded)
	is(t, err, ErrBusy)
	is(t, grant.Release(background), nil)
	three.have("k", 0)
}
