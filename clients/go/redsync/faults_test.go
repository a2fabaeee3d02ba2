package redsync_test

// The errors of calls that are cancelled, and of servers that are down, hang, forget or refuse.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-lock/redis-lock/clients/go/internal/bed"
	"github.com/redis-lock/redis-lock/clients/go/redsync"
)

func TestContextsEndCalls(t *testing.T) {
	of(t, func(t *testing.T, servers []*bed.Server, rs *redsync.Redsync) {
		first := rs.NewMutex("k", redsync.WithExpiry(time.Minute))
		must(t, first.LockContext(background))
		ctx, cancel := context.WithTimeout(background, 200*time.Millisecond)
		defer cancel()
		begun := time.Now()
		waiting := rs.NewMutex("k", redsync.WithTries(1000), redsync.WithRetryDelay(time.Minute))
		if err := waiting.LockContext(ctx); !errors.Is(err, redsync.ErrFailed) || time.Since(begun) > 3*time.Second {
			t.Fatal(err, time.Since(begun))
		}
		over, stop := context.WithCancel(background)
		stop()
		if err := waiting.TryLockContext(over); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if is, err := first.ExtendContext(over); is || !errors.Is(err, context.Canceled) {
			t.Fatal(is, err)
		}
		if is, err := first.ValidContext(over); is || !errors.Is(err, context.Canceled) {
			t.Fatal(is, err)
		}
		is, err := first.UnlockContext(over) // but the servers release it
		if is || !errors.Is(err, context.Canceled) {
			t.Fatal(is, err)
		}
		free(t, servers, "k")
	})
}

func TestAMinorityMayHang(t *testing.T) {
	t.Parallel()
	servers := bed.Start(t, 5)
	for _, failFast := range []bool{false, true} {
		rs := connect(t, servers)
		mutex := rs.NewMutex("k", long, redsync.WithFailFast(failFast), redsync.WithShufflePools(true))
		must(t, mutex.Lock())
		yes(t)(mutex.Unlock())
		for _, s := range servers[:2] {
			s.Order("pause")
		}
		begun := time.Now()
		for range 5 {
			must(t, mutex.Lock())
			yes(t)(mutex.Extend())
			yes(t)(mutex.Valid())
			yes(t)(mutex.Unlock())
		}
		took := time.Since(begun)
		for _, s := range servers[:2] {
			s.Order("resume")
		}
		if took > 3*time.Second {
			t.Fatal("took", took)
		}
		free(t, servers, "k")
	}
}

// A lock that was given up leaves nothing on a stalled server, in whichever order the server then reads the calls.
func TestAServerThatWasStalledKeepsNothing(t *testing.T) {
	t.Parallel()
	servers := bed.Start(t, 1)
	rs := connect(t, servers)
	options := []redsync.Option{redsync.WithExpiry(time.Minute), redsync.WithTries(100)}
	for range 5 {
		mutex := rs.NewMutex("k", options...)
		must(t, mutex.Lock())
		yes(t)(mutex.Unlock())
		servers[0].Order("pause")
		err := rs.NewMutex("k", append(options, redsync.WithTimeoutFactor(0.005))...).TryLock()
		servers[0].Order("resume")
		if err == nil {
			t.Fatal("locked at a server that does not answer")
		}
	}
	free(t, servers, "k")
}

func TestAMajorityThatIsDownIsToldByServer(t *testing.T) {
	of(t, func(t *testing.T, servers []*bed.Server, rs *redsync.Redsync) {
		mutex := rs.NewMutex("k", long)
		must(t, mutex.Lock())
		gone := len(servers)/2 + 1
		for _, s := range servers[:gone] {
			s.Order("kill")
		}
		begun := time.Now()
		for what, err := range map[string]error{
			"lock":   rs.NewMutex("k", long).TryLock(),
			"unlock": second(mutex.Unlock()),
			"extend": second(mutex.Extend()),
			"valid":  second(mutex.Valid()),
		} {
			var redisError *redsync.RedisError
			if !errors.As(err, &redisError) || redisError.Node >= gone || redisError.Unwrap() == nil {
				t.Fatal(what, err)
			}
		}
		if took := time.Since(begun); took > 8*time.Second {
			t.Fatal("took", took)
		}
	})
}

func second(_ bool, err error) error { return err }

// Restarted without data, a majority has forgotten the lock.
func TestServersThatForgetDoNotGetTheLockBack(t *testing.T) {
	t.Parallel()
	servers := bed.Start(t, 5)
	mutex := connect(t, servers).NewMutex("k", redsync.WithExpiry(time.Minute))
	lockAll(t, servers, mutex)
	for _, s := range servers[:2] {
		s.Order("kill")
		s.Order("restart")
	}
	bed.Eventually(t, "extended by the rest", func() bool { is, err := mutex.Extend(); return is && err == nil })
	if owner := servers[0].Owner("k"); owner != "" {
		t.Fatal("taken again", owner)
	}
	servers[2].Order("kill")
	servers[2].Order("restart")
	var taken *redsync.ErrTaken
	bed.Eventually(t, "the loss is reported", func() bool { is, err := mutex.Extend(); return !is && errors.As(err, &taken) })
}

func TestErrorsWrapTheirCause(t *testing.T) {
	t.Parallel()
	cause := fmt.Errorf("wrapping: %w", redsync.ErrFailed)
	if err := error(&redsync.RedisError{Node: 1, Err: cause}); !errors.Is(err, redsync.ErrFailed) || err.Error() != "node #1: "+cause.Error() {
		t.Fatal(err)
	}
	for err, text := range map[error]string{
		&redsync.ErrTaken{Nodes: []int{0, 2}}: "lock already taken, locked nodes: [0 2]",
		&redsync.ErrNodeTaken{Node: 3}:        "node #3: lock already taken",
	} {
		if err.Error() != text {
			t.Fatal(err)
		}
	}
}

func TestWhatCannotBeHadIsToldByLock(t *testing.T) {
	t.Parallel()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer cluster.Close()
	for _, rs := range []*redsync.Redsync{redsync.New(), redsync.New(redsync.NewPool(cluster)), redsync.New(redsync.NewPool(nil))} {
		mutex := rs.NewMutex("k")
		if err := mutex.Lock(); err == nil || !strings.HasPrefix(err.Error(), "redsync: ") {
			t.Fatal(err)
		}
		if _, err := mutex.Unlock(); err == nil {
			t.Fatal("unlocked")
		}
	}
}

func TestAnotherTypeIsToldAsTheServersSayIt(t *testing.T) {
	of(t, func(t *testing.T, servers []*bed.Server, rs *redsync.Redsync) {
		for _, s := range servers {
			s.Run("SET k value")
		}
		err := rs.NewMutex("k", redsync.WithTries(1)).Lock()
		var redisError *redsync.RedisError
		if !errors.As(err, &redisError) || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Fatal(err)
		}
	})
}
