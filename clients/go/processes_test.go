package redislock

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// With these the test program is a process that holds so many locks.
const (
	holderAt = "REDISLOCK_TEST_HOLDER_AT"
	holderOf = "REDISLOCK_TEST_HOLDER_OF"
)

func TestMain(m *testing.M) {
	logging.Disable() // of every broken connection
	if address := os.Getenv(holderAt); address != "" {
		hold(address)
	}
	os.Exit(m.Run())
}

// hold is the pattern of a service: the signal closes the locks. "lost" is what it says of each loss.
func hold(address string) {
	many, _ := strconv.Atoi(os.Getenv(holderOf))
	locks := New(redis.NewClient(&redis.Options{Addr: address}), Options{
		Service: "tests", Close: 10 * time.Second,
		Hooks: Hooks{Lost: func(key string, err error) { fmt.Println("lost", key, err) }},
	})
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	var all sync.WaitGroup
	for part := range 20 {
		all.Go(func() {
			for n := part; n < many; n += 20 {
				if _, err := locks.Lock(fmt.Sprint("k", n), Lease(2*time.Second)).Acquire(context.Background()); err != nil {
					fmt.Println(err)
					os.Exit(1)
				}
			}
		})
	}
	all.Wait()
	fmt.Println("held")
	<-signals
	if err := locks.Close(context.Background()); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("closed")
	os.Exit(128 + int(syscall.SIGTERM))
}

func holder(t *testing.T, server *server, many int) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), holderAt+"="+server.address, holderOf+"="+strconv.Itoa(many))
	output := bufio.NewReader(must[interface{ Read([]byte) (int, error) }](t)(process.StdoutPipe()))
	mustSay(t, process.Start(), nil)
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	if line, _, err := output.ReadLine(); string(line) != "held" {
		t.Fatal(string(line), err)
	}
	return process, output
}

func TestATerminatedProcessReleases(t *testing.T) {
	t.Parallel()
	server := start(t)
	process, _ := holder(t, server, 1)
	time.Sleep(2500 * time.Millisecond)
	if server.do("EXISTS k0") != int64(1) {
		t.Fatal("not kept")
	}
	waiting := inBackground(background, server.locks().Lock("k0", patient))
	server.waiting("k0", 1)
	mustSay(t, process.Process.Signal(syscall.SIGTERM), nil)
	mustSay(t, (<-waiting).err, nil)
	if _ = process.Wait(); process.ProcessState.ExitCode() != 143 || server.calls("lock.release") != 1 {
		t.Fatal(process.ProcessState, server.calls("lock.release"))
	}
}

func TestAfterAKilledProcessTheLeaseEndsAndTheNextGoesOn(t *testing.T) {
	t.Parallel()
	server := start(t)
	process, _ := holder(t, server, 1)
	waiting := inBackground(background, server.locks().Lock("k0", patient))
	server.waiting("k0", 1)
	token := server.info("k0", "token").(int64)
	mustSay(t, process.Process.Kill(), nil)
	begun := time.Now()
	got := <-waiting
	mustSay(t, got.err, nil)
	if took := time.Since(begun); took < time.Second || took > 4*time.Second {
		t.Fatal("the lease ended after", took)
	}
	if got.grant.Token() <= token || server.calls("lock.release") != 0 {
		t.Fatal("token", got.grant.Token(), "after", token)
	}
}

// A process that stands still for longer than its lease keeps 10,000 locks.
func TestAProcessThatStandsStillLosesNothing(t *testing.T) {
	t.Parallel()
	server := start(t)
	many := long(2000, 10000)
	process, output := holder(t, server, many)
	mustSay(t, process.Process.Signal(syscall.SIGSTOP), nil)
	time.Sleep(3 * time.Second)
	mustSay(t, process.Process.Signal(syscall.SIGCONT), nil)
	time.Sleep(2500 * time.Millisecond)
	if held := server.do("DBSIZE"); held != int64(many) {
		t.Fatal("held:", held)
	}
	mustSay(t, process.Process.Signal(syscall.SIGTERM), nil)
	if line, _, err := output.ReadLine(); string(line) != "closed" {
		t.Fatal(string(line), err)
	}
}
