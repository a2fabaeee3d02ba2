package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// A holder takes locks on several servers, told what to do line by line:
//
//	pairs key seconds   lock and unlock, over and over: JSON with times
//	lock key ms         "locked"
//	write key text      "taken": there is nothing that the register could refuse it by
//	unlock              "unlocked"
type holder struct {
	sync     *redsync.Redsync
	isQuick  bool
	register *redis.Client
	mutex    *redsync.Mutex
}

type times struct {
	Pairs  []float64 `json:"pairs_us"`
	Errors int       `json:"errors"`
}

// The ports are the register's server, then the locks'. As it ships, redsync waits for all answers, and
// go-redis repeats calls and connects again where a server does not answer; quick is without that.
func hold(isQuick bool, ports []string) {
	if len(ports) < 2 {
		log.Fatal("usage: contenders quorum|quorum-quick register-port lock-port ...")
	}
	pools := []redsyncredis.Pool{}
	for _, port := range ports[1:] {
		options := redis.Options{Addr: "127.0.0.1:" + port}
		if isQuick {
			options.MaxRetries = -1
			options.DialerRetries = 1
		}
		pools = append(pools, goredis.NewPool(redis.NewClient(&options)))
	}
	h := holder{
		sync:     redsync.New(pools...),
		isQuick:  isQuick,
		register: redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + ports[0]}),
	}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		answer, err := h.answer(strings.Fields(input.Text()))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(answer)
	}
}

func (h *holder) answer(words []string) (string, error) {
	switch {
	case len(words) == 3 && words[0] == "pairs":
		seconds, err := strconv.ParseFloat(words[2], 64)
		if err != nil {
			return "", err
		}
		text, err := json.Marshal(h.pairs(words[1], time.Duration(seconds*float64(time.Second))))
		return string(text), err
	case len(words) == 3 && words[0] == "lock":
		ms, err := strconv.Atoi(words[2])
		if err != nil {
			return "", err
		}
		h.mutex = h.newMutex(words[1], time.Duration(ms)*time.Millisecond)
		return "locked", h.mutex.Lock()
	case len(words) == 3 && words[0] == "write":
		return "taken", h.register.HSet(context.Background(), words[1], "text", words[2]).Err()
	case len(words) == 1 && words[0] == "unlock":
		h.mutex.Unlock() // one that was lost is no more to be released
		return "unlocked", nil
	}
	return "", fmt.Errorf("what is %q?", words)
}

func (h *holder) newMutex(key string, lease time.Duration) *redsync.Mutex {
	return h.sync.NewMutex(key, redsync.WithExpiry(lease), redsync.WithFailFast(h.isQuick))
}

func (h *holder) pairs(key string, length time.Duration) times {
	result := times{Pairs: []float64{}}
	mutex := h.newMutex(key, lease)
	for start := time.Now(); time.Since(start) < length; {
		began := time.Now()
		err := mutex.Lock()
		if err == nil {
			_, err = mutex.Unlock()
		}
		if err != nil {
			result.Errors++
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		result.Pairs = append(result.Pairs, float64(time.Since(began).Nanoseconds())/1000)
	}
	return result
}
