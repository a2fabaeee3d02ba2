// Package bed starts real servers with the module, and proxies, for the tests of this folder: by `testbed serve`
// (crates/testing/testbed/src/bin/testbed/serve.rs).
package bed

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Words are a command to the test bed.
type Words map[string]any

// Reported is the answer of the test bed to a command.
type Reported struct {
	Error, Name               string
	Port, Lost, Pending       int
	Nodes, Servers, Sentinels []Reported
}

// testbed runs for as long as the tests do.
var testbed = sync.OnceValue(func() func(Words) (Reported, error) {
	command := exec.Command("cargo", "run", "--quiet", "--package", "testbed", "--", "serve")
	if built := os.Getenv("TESTBED"); built != "" {
		command = exec.Command(built, "serve")
	}
	command.Dir, command.Stderr = filepath.Join(here(), "../../../.."), os.Stderr
	input, _ := command.StdinPipe()
	output, _ := command.StdoutPipe()
	if err := command.Start(); err != nil {
		panic(err)
	}
	orders, answers := json.NewEncoder(input), json.NewDecoder(output)
	var turn sync.Mutex
	return func(order Words) (said Reported, err error) {
		turn.Lock()
		defer turn.Unlock()
		err = errors.Join(orders.Encode(order), answers.Decode(&said))
		return said, err
	}
})

func here() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

// Order sends a command that has to succeed.
func Order(t *testing.T, do string, order Words) Reported {
	t.Helper()
	order["do"] = do
	said, err := testbed()(order)
	if err == nil && said.Error != "" {
		err = errors.New(said.Error)
	}
	if err != nil {
		t.Fatal(order, err)
	}
	return said
}

// Server is a server with the module, until the test ends.
type Server struct {
	*redis.Client
	Address string
	Port    int
	t       *testing.T
}

// Start starts this many independent servers.
func Start(t *testing.T, n int) (servers []*Server) {
	t.Helper()
	for range n {
		port := Order(t, "server", Words{}).Port
		address := fmt.Sprint("127.0.0.1:", port)
		client := redis.NewClient(&redis.Options{Addr: address, Protocol: 2, DialerRetries: 1})
		servers = append(servers, &Server{client, address, port, t})
		t.Cleanup(func() {
			Order(t, "end", Words{"port": port})
			_ = client.Close()
		})
	}
	return servers
}

// Order sends a command about this server.
func (s *Server) Order(do string) {
	s.t.Helper()
	Order(s.t, do, Words{"port": s.Port})
}

// Run runs a command that has to succeed.
func (s *Server) Run(command string) any {
	s.t.Helper()
	var words []any
	for word := range strings.FieldsSeq(command) {
		words = append(words, word)
	}
	answer, err := s.Do(s.t.Context(), words...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		s.t.Fatalf("%s: %v", command, err)
	}
	return answer
}

// Owner is the holder of a lock in the view of the server; "" if the lock is free.
func (s *Server) Owner(key string) string {
	s.t.Helper()
	answer, _ := s.Run("LOCK.INFO " + key).([]any)
	if len(answer) < 2 {
		return ""
	}
	return answer[1].(string)
}

// Eventually waits until the condition holds.
func Eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}
