package redislock

// What the tests stand on: real servers, and a proxy that loses answers.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

var background = context.Background()

// server is a redis-server with the module, which ends with the test.
type server struct {
	*redis.Client
	t       *testing.T
	address string
	process *os.Process
}

func start(t *testing.T, settings ...string) *server {
	t.Helper()
	module := os.Getenv("REDIS_LOCK_MODULE")
	if module == "" {
		module = "../../../target/release/libredis_lock.so"
	}
	module, err := filepath.Abs(module)
	if err != nil {
		t.Fatal(err)
	}
	return launch(t, append([]string{"--loadmodule", module, "--save", "", "--appendonly", "no"}, settings...)...)
}

func launch(t *testing.T, arguments ...string) *server {
	t.Helper()
	program := os.Getenv("REDIS_SERVER")
	if program == "" {
		program = "redis-server"
	}
	for range 5 { // another program may take the port first
		port := freePort(t)
		var output bytes.Buffer
		command := exec.Command(program, append(arguments, "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir())...)
		command.Stdout, command.Stderr = &output, &output
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		s := &server{t: t, address: "127.0.0.1:" + port, process: command.Process}
		s.Client = redis.NewClient(&redis.Options{Addr: s.address, Protocol: 2, DialerRetries: 1})
		ended := make(chan struct{})
		go func() { _ = command.Wait(); close(ended) }()
		t.Cleanup(func() { _ = command.Process.Kill(); <-ended; _ = s.Close() })
		for {
			if s.Ping(background).Err() == nil {
				return s
			}
			select {
			case <-ended:
				t.Log(output.String())
			case <-time.After(20 * time.Millisecond):
				continue
			}
			break
		}
	}
	t.Fatal("the server does not start")
	return nil
}

func freePort(t *testing.T) string {
	t.Helper()
	for {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		port := listener.Addr().(*net.TCPAddr).Port
		if port < 50000 { // the cluster bus takes port + 10000
			return fmt.Sprint(port)
		}
	}
}

// locks connects to the server, or to a proxy before it.
func (s *server) locks(change ...func(*redis.UniversalOptions)) *Locks {
	options := redis.UniversalOptions{Addrs: []string{s.address}}
	for _, change := range change {
		change(&options)
	}
	return newLocks(s.t, options)
}

func newLocks(t *testing.T, options redis.UniversalOptions) *Locks {
	locks := New(options, "tests")
	t.Cleanup(func() { _ = locks.Close() })
	return locks
}

// do runs a command that has to succeed.
func (s *server) do(command string) any {
	s.t.Helper()
	var arguments []any
	for _, word := range strings.Fields(command) {
		arguments = append(arguments, word)
	}
	answer, err := s.Do(background, arguments...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		s.t.Fatalf("%s: %v", command, err)
	}
	return answer
}

// info is a field of LOCK.INFO; nil where the lock is free.
func (s *server) info(key, field string) any {
	s.t.Helper()
	answer, _ := s.do("LOCK.INFO " + key).([]any)
	for i := 0; i < len(answer); i += 2 {
		if answer[i] == field {
			return answer[i+1]
		}
	}
	return nil
}

// waiters are the fields of LOCK.WAITERS, a map for each.
func (s *server) waiters(key string) (waiters []map[string]any) {
	s.t.Helper()
	for _, waiter := range s.do("LOCK.WAITERS " + key).([]any) {
		fields, named := waiter.([]any), map[string]any{}
		for i := 0; i < len(fields); i += 2 {
			named[fields[i].(string)] = fields[i+1]
		}
		waiters = append(waiters, named)
	}
	return waiters
}

// calls is how often a command has run.
func (s *server) calls(command string) (calls int) {
	s.t.Helper()
	for line := range strings.Lines(s.do("INFO commandstats").(string)) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
			_, _ = fmt.Sscanf(rest, "%d", &calls)
		}
	}
	return calls
}

func (s *server) signal(signal syscall.Signal) {
	s.t.Helper()
	if err := s.process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	within(t, 10*time.Second, what, holds)
}

func within(t *testing.T, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func mustSay(t *testing.T, err, what error) {
	t.Helper()
	if !errors.Is(err, what) {
		t.Fatalf("%v, and not: %v", err, what)
	}
}

// proxy stands before a server. It can keep answers for a while, or lose one: it cuts the
// connection when the server has answered a command, before the client hears of it.
type proxy struct {
	address string
	delay   atomic.Int64
	cuts    atomic.Int64
	mu      sync.Mutex
	lose    string
}

func before(t *testing.T, s *server) *proxy {
	t.Helper()
	listener := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() { _ = listener.Close() })
	p := &proxy{address: listener.Addr().String()}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(client, s.address)
		}
	}()
	return p
}

// loseAnswerOf loses the next answer of a command that has these words in it.
func (p *proxy) loseAnswerOf(words string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = words
}

func (p *proxy) serve(client net.Conn, address string) {
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	var losing atomic.Bool
	go func() {
		request := make([]byte, 1<<16)
		for {
			n, err := client.Read(request)
			if err != nil {
				_ = server.Close()
				return
			}
			words := strings.Join(strings.Fields(string(request[:n])), " ")
			p.mu.Lock()
			if p.lose != "" && strings.Contains(words, p.lose) {
				p.lose = ""
				losing.Store(true)
			}
			p.mu.Unlock()
			_, _ = server.Write(request[:n])
		}
	}()
	answer := make([]byte, 1<<16)
	for {
		n, err := server.Read(answer)
		if err != nil {
			return
		}
		if losing.Load() {
			p.cuts.Add(1)
			return
		}
		time.Sleep(time.Duration(p.delay.Load()))
		if _, err := io.Copy(client, bytes.NewReader(answer[:n])); err != nil {
			return
		}
	}
}
