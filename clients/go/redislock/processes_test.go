package redislock

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// holderAt names the server when the test program is to be a process that holds a lock.
const holderAt = "REDISLOCK_TEST_HOLDER_AT"

func TestMain(m *testing.M) {
	if address := os.Getenv(holderAt); address != "" {
		hold(address)
	}
	logging.Disable() // of every broken connection
	os.Exit(m.Run())
}

// hold is the pattern of a service: the signal closes the locks.
func hold(address string) {
	locks := New(redis.UniversalOptions{Addrs: []string{address}}, "tests")
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	if _, err := locks.Lock(background, "k", Options{Lease: 1500 * time.Millisecond}); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("held")
	<-signals
	if err := locks.Close(); err != nil {
		os.Exit(1)
	}
	os.Exit(128 + int(syscall.SIGTERM))
}

func holder(t *testing.T, server *server) *exec.Cmd {
	t.Helper()
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), holderAt+"="+server.address)
	output := must[interface{ Read([]byte) (int, error) }](t)(process.StdoutPipe())
	mustSay(t, process.Start(), nil)
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	if line, _, err := bufio.NewReader(output).ReadLine(); string(line) != "held" {
		t.Fatal(string(line), err)
	}
	return process
}

func TestAnEndedProcessReleases(t *testing.T) {
	server := start(t)
	process := holder(t, server)
	eventually(t, "renewals", func() bool { return server.calls("lock.renew") > 4 })
	if server.do("EXISTS k") != int64(1) {
		t.Fatal("not held")
	}
	waiting := inBackground(server.locks(), background, "k", patient)
	eventually(t, "a waiter", func() bool { return len(server.waiters("k")) == 1 })
	mustSay(t, process.Process.Signal(syscall.SIGTERM), nil)
	begun := time.Now()
	mustSay(t, (<-waiting).err, nil)
	if took := time.Since(begun); took > 500*time.Millisecond { // a lease has 1000 ms left, or more
		t.Fatal("released after", took)
	}
	if _ = process.Wait(); process.ProcessState.ExitCode() != 143 {
		t.Fatal(process.ProcessState)
	}
	if server.calls("lock.release") != 1 {
		t.Fatal("not released but expired")
	}
}

func TestAfterAKilledProcessTheLeaseEndsAndTheNextGoesOn(t *testing.T) {
	server := start(t)
	process := holder(t, server)
	waiting := inBackground(server.locks(), background, "k", patient)
	eventually(t, "a waiter", func() bool { return len(server.waiters("k")) == 1 })
	eventually(t, "renewals", func() bool { return server.calls("lock.renew") > 4 })
	token := server.info("k", "token").(int64)
	mustSay(t, process.Process.Kill(), nil)
	begun := time.Now()
	got := <-waiting
	mustSay(t, got.err, nil)
	if took := time.Since(begun); took < 900*time.Millisecond || took > 3*time.Second {
		t.Fatal("the lease ended after", took)
	}
	if got.lock.Token() <= token || server.calls("lock.release") != 0 {
		t.Fatal("token", got.lock.Token(), "after", token)
	}
}
