// Command quorumtrial acquires the locks of `make quorum` with this client. Orders and answers are JSON lines.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/redis-lock/redis-lock/clients/go"
)

// order is what is asked about one lock: acquire, left or release; or close. Times are in milliseconds.
type order struct {
	ID    int64
	Do    string
	Key   string
	Wait  int64
	Fixed int64 // the lease, if nobody renews it
}

// answer is the reply to an order. Left is in microseconds.
type answer struct {
	ID    int64  `json:"id"`
	Token int64  `json:"token"`
	Left  int64  `json:"left"`
	Kind  string `json:"kind"`  // of the error: busy, lost, ...
	Error string `json:"error"` // its text
}

// The arguments are the lease in milliseconds and the addresses of the servers.
func main() {
	lease, _ := time.ParseDuration(os.Args[1] + "ms")
	var clients []redis.UniversalClient
	for _, address := range os.Args[2:] {
		clients = append(clients, redis.NewClient(&redis.Options{Addr: address}))
	}
	quorum := redislock.NewQuorum(clients, redislock.Options{
		Service: "contender", Lease: lease, Silence: time.Second, Reply: 200 * time.Millisecond})
	var mu sync.Mutex
	grants, output := map[int64]*redislock.QuorumGrant{}, json.NewEncoder(os.Stdout)
	answering := func(order order) {
		mu.Lock()
		grant := grants[order.ID]
		mu.Unlock()
		said := answer{ID: order.ID}
		var err error
		switch order.Do {
		case "acquire":
			options := []redislock.LockOption{redislock.Wait(time.Duration(order.Wait) * time.Millisecond)}
			if order.Fixed > 0 {
				options = append(options, redislock.Fixed(time.Duration(order.Fixed)*time.Millisecond))
			}
			if grant, err = quorum.Acquire(context.Background(), order.Key, options...); err == nil {
				said.Token = grant.Token()
			}
		case "left":
			said.Left = grant.Remaining().Microseconds()
		case "release":
			err = grant.Release(context.Background())
			grant = nil
		case "close":
			err = quorum.Close(context.Background())
		}
		if err != nil {
			said.Error = err.Error()
			switch {
			case errors.Is(err, redislock.ErrBusy):
				said.Kind = "busy"
			case errors.Is(err, redislock.ErrLost):
				said.Kind = "lost"
			case errors.Is(err, redislock.ErrUnavailable):
				said.Kind = "unavailable"
			default:
				said.Kind = "other"
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if grants[order.ID] = grant; grant == nil {
			delete(grants, order.ID)
		}
		_ = output.Encode(said)
	}
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		var order order
		if json.Unmarshal(input.Bytes(), &order) == nil {
			go answering(order)
		}
	}
}
