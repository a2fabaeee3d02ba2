// The example programs, as examples/README.md describes them.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/redis-lock/redis-lock/clients/go"
)

type result map[string]any

// program is what all programs share.
type program struct {
	locks    atomic.Pointer[redislock.Locks]
	redis    *redis.Client
	options  *flag.FlagSet
	printing sync.Mutex
}

var errArguments = errors.New("wrong arguments")

func main() {
	if len(os.Args) < 2 {
		fail(errArguments)
	}
	p := &program{options: flag.NewFlagSet(os.Args[1], flag.ContinueOnError)}
	p.options.SetOutput(io.Discard)
	port := p.options.Int("port", 0, "")
	run, known := map[string]func(*program) func() (result, error){
		"stock": stock, "seat": seat, "job": job, "fence": fence,
	}[os.Args[1]]
	if !known {
		fail(errArguments)
	}
	work := run(p)
	if err := p.options.Parse(os.Args[2:]); err != nil || p.options.NArg() > 0 || *port == 0 {
		fail(errArguments)
	}
	address := fmt.Sprintf("127.0.0.1:%d", *port)
	p.redis = redis.NewClient(&redis.Options{Addr: address})

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		<-signals
		p.printing.Lock() // for good
		if locks := p.locks.Load(); locks != nil {
			_ = locks.Close(context.Background())
		}
		os.Exit(128 + int(syscall.SIGTERM))
	}()
	outcome, err := work()
	if err != nil {
		p.printing.Lock()
		fail(err)
	}
	p.print(outcome)
}

// locksOf makes the locks of the program, which a signal closes.
func (p *program) locksOf(options redislock.Options) *redislock.Locks {
	options.Service = "examples"
	locks := redislock.New(p.redis, options)
	p.locks.Store(locks)
	return locks
}

func (p *program) print(outcome result) {
	p.printing.Lock()
	defer p.printing.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(outcome)
}

func (p *program) milliseconds(name string) *time.Duration {
	value := new(time.Duration)
	p.options.Func(name, "", func(text string) (err error) {
		*value, err = time.ParseDuration(text + "ms")
		return err
	})
	return value
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	if errors.Is(err, errArguments) {
		os.Exit(2)
	}
	os.Exit(1)
}

// says tells whether Redis has answered with one of these errors.
func says(err error, words ...string) bool {
	for _, word := range words {
		if err != nil && strings.HasPrefix(err.Error(), word+" ") {
			return true
		}
	}
	return false
}
