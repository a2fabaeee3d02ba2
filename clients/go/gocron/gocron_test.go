package gocron_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/redis/go-redis/v9"

	redislock "github.com/redis-lock/redis-lock/clients/go"
	adapter "github.com/redis-lock/redis-lock/clients/go/gocron"
	"github.com/redis-lock/redis-lock/clients/go/internal/bed"
)

var background = context.Background()

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// process is what another process would have: locks of its own.
func process(t *testing.T, server *bed.Server) *redislock.Locks {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Address})
	locks := redislock.New(client, redislock.Options{Service: "tests", Lease: time.Second})
	t.Cleanup(func() {
		_ = locks.Close(background)
		_ = client.Close()
	})
	return locks
}

func scheduler(t *testing.T, option gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(option, gocron.WithStopTimeout(5*time.Second))
	must(t, err)
	t.Cleanup(func() { _ = s.Shutdown() })
	return s
}

func every(t *testing.T, s gocron.Scheduler, interval time.Duration, start time.Time, work func()) {
	t.Helper()
	_, err := s.NewJob(gocron.DurationJob(interval), gocron.NewTask(work), gocron.WithName("job"),
		gocron.WithStartAt(gocron.WithStartDateTime(start)))
	must(t, err)
	s.Start()
}

// Each run happens on one of the schedulers that begin it at the same time.
func TestEachRunIsHadByOneScheduler(t *testing.T) {
	t.Parallel()
	server := bed.Start(t, 1)[0]
	const interval = 2 * time.Second
	start := time.Now().Add(time.Second)
	var mu sync.Mutex
	runs := map[int64]int{}
	for range 3 {
		locker := adapter.NewLocker(process(t, server))
		every(t, scheduler(t, gocron.WithDistributedLocker(locker)), interval, start, func() {
			mu.Lock()
			defer mu.Unlock()
			runs[int64(time.Since(start).Round(interval)/interval)]++
		})
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(runs)
	}
	bed.Eventually(t, "three runs", func() bool { return count() >= 3 })
	mu.Lock()
	defer mu.Unlock()
	for run, times := range runs {
		if times != 1 {
			t.Fatal("run", run, "was had", times, "times")
		}
	}
}

// A run that takes longer than the lease and the interval is alone for as long as it takes.
func TestALongRunKeepsItsLock(t *testing.T) {
	t.Parallel()
	server := bed.Start(t, 1)[0]
	var inside, most, runs atomic.Int64
	for range 2 {
		locker := adapter.NewLocker(process(t, server), adapter.WithPrefix("shop:"),
			adapter.WithAtLeast(0))
		s := scheduler(t, gocron.WithDistributedLocker(locker))
		every(t, s, 300*time.Millisecond, time.Now().Add(200*time.Millisecond), func() {
			if now := inside.Add(1); now > most.Load() {
				most.Store(now)
			}
			time.Sleep(1500 * time.Millisecond)
			inside.Add(-1)
			runs.Add(1)
		})
	}
	bed.Eventually(t, "a run", func() bool { return strings.HasPrefix(server.Owner("shop:job"), "tests:") })
	bed.Eventually(t, "two runs", func() bool { return runs.Load() >= 2 })
	if most.Load() != 1 {
		t.Fatal(most.Load(), "at a time")
	}
}

func TestTheLockIsHeldForSoLongAtLeast(t *testing.T) {
	t.Parallel()
	server := bed.Start(t, 1)[0]
	locks := process(t, server)
	other := adapter.NewLocker(process(t, server))
	for _, fixed := range []bool{false, true} {
		var options []redislock.LockOption
		if fixed {
			options = append(options, redislock.Fixed(time.Minute))
		}
		locker := adapter.NewLocker(locks, adapter.WithLock(options...), adapter.WithAtLeast(1500*time.Millisecond))
		begun := time.Now()
		lock, err := locker.Lock(background, "job")
		must(t, err)
		over, cancel := context.WithCancel(background) // gocron's is over when it shuts down
		cancel()
		must(t, lock.Unlock(over))
		if _, err := other.Lock(background, "job"); !errors.Is(err, redislock.ErrBusy) {
			t.Fatal(err)
		}
		owner := server.Owner("gocron:job")
		lock, err = locker.Lock(background, "job") // its own next run
		must(t, err)
		must(t, lock.Unlock(background))
		if now := server.Owner("gocron:job"); owner == "" || now != owner {
			t.Fatal(owner, now)
		}
		if fixed {
			bed.Eventually(t, "it ends", func() bool { return server.Owner("gocron:job") == "" })
		} else {
			must(t, locker.Close(background))
		}
		if owner := server.Owner("gocron:job"); owner != "" {
			t.Fatal(owner)
		}
		if held := time.Since(begun); held < 1400*time.Millisecond || held > 5*time.Second {
			t.Fatal("held for", held)
		}
		if lock.Unlock(background) == nil {
			t.Fatal("unlocked twice")
		}
	}
	stats := server.Run("INFO lock").(string)
	if !strings.Contains(stats, "lock_expirations:0\r\n") {
		t.Fatal("an end on purpose counts as an expiration", stats)
	}
}

// A job that runs more often than its lock is held at least is not held up by it, and no other scheduler gets between.
func TestAFrequentJobDropsNoRun(t *testing.T) {
	t.Parallel()
	server := bed.Start(t, 1)[0]
	start, runs := time.Now().Add(500*time.Millisecond), [2]atomic.Int64{}
	for i := range runs {
		locker := adapter.NewLocker(process(t, server), adapter.WithAtLeast(2*time.Second))
		every(t, scheduler(t, gocron.WithDistributedLocker(locker)), 200*time.Millisecond, start, func() { runs[i].Add(1) })
	}
	bed.Eventually(t, "five runs", func() bool { return runs[0].Load()+runs[1].Load() >= 5 })
	if took := time.Since(start); took > 1900*time.Millisecond || runs[0].Load()*runs[1].Load() != 0 {
		t.Fatal(took, runs[0].Load(), runs[1].Load())
	}
}

func TestALossIsTold(t *testing.T) {
	t.Parallel()
	server := bed.Start(t, 1)[0]
	told := make(chan error, 2)
	locker := adapter.NewLocker(process(t, server), adapter.WithFailed(func(key string, err error) {
		told <- fmt.Errorf("%s: %w", key, err)
	}))
	lock, err := locker.Lock(background, "job")
	must(t, err)
	server.Run("DEL gocron:job")
	if err := <-told; !errors.Is(err, redislock.ErrLost) || !strings.HasPrefix(err.Error(), "job: ") {
		t.Fatal(err)
	}
	if err := lock.Unlock(background); !errors.Is(err, redislock.ErrLost) {
		t.Fatal(err)
	}
	if len(told) > 0 {
		t.Fatal("told twice", <-told)
	}
}

// One scheduler runs the jobs. When it closes, or loses the lock, another does.
func TestOneSchedulerLeads(t *testing.T) {
	t.Parallel()
	server := bed.Start(t, 1)[0]
	electors, runs := make([]*adapter.Elector, 2), make([]atomic.Int64, 2)
	for i := range electors {
		electors[i] = adapter.NewElector(background, process(t, server), "leader")
		t.Cleanup(func() { _ = electors[i].Close(background) })
		every(t, scheduler(t, gocron.WithDistributedElector(electors[i])), 100*time.Millisecond, time.Now().Add(100*time.Millisecond),
			func() { runs[i].Add(1) })
	}
	leads := func(i int) bool { return electors[i].IsLeader(background) == nil }
	bed.Eventually(t, "a leader", func() bool { return leads(0) || leads(1) })
	first := 0
	if leads(1) {
		first = 1
	}
	bed.Eventually(t, "its runs", func() bool { return runs[first].Load() > 2 })
	if runs[1-first].Load() > 0 || leads(1-first) || !errors.Is(electors[1-first].IsLeader(background), adapter.ErrNotLeader) {
		t.Fatal("two lead")
	}
	server.Run("DEL leader")
	bed.Eventually(t, "the other leads", func() bool { return leads(1-first) && !leads(first) })
	must(t, electors[1-first].Close(background))
	if leads(1 - first) {
		t.Fatal("leads after its end")
	}
	bed.Eventually(t, "the first one leads again", func() bool { return leads(first) })
}

func TestAnElectionThatCannotBeHeldSaysWhy(t *testing.T) {
	t.Parallel()
	server := bed.Start(t, 1)[0]
	server.Run("SET leader text")
	elector := adapter.NewElector(background, process(t, server), "leader")
	bed.Eventually(t, "the error is reported", func() bool { return errors.Is(elector.IsLeader(background), redislock.ErrMisuse) })
	server.Run("DEL leader")
	bed.Eventually(t, "it leads later", func() bool { return elector.IsLeader(background) == nil })
	must(t, elector.Close(background))
}

func TestTheReadmeRunsInAnEmptyProject(t *testing.T) {
	t.Parallel()
	server := bed.Start(t, 1)[0]
	said := bed.RunReadme(t, "README.md", server.Address, bed.Client+"/gocron", bed.Client)
	if said != "the report is written once\n" {
		t.Fatal(said)
	}
}
