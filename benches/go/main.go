// Contenders for locks on one server, through go-redis. Arguments: the server's port, and the way of
// locking (module, redsync).
//
// Each line "contenders keys seconds" is a contest: everything is connected, "ready" is printed, and
// the next line starts it. Its outcome is a line of JSON. So one process can run many, and whoever
// drives it can measure the server around each.
//
// With quorum or quorum-quick as the first argument it is a holder of locks on several servers instead.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) > 1 && (os.Args[1] == "quorum" || os.Args[1] == "quorum-quick") {
		hold(os.Args[1] == "quorum-quick", os.Args[2:])
		return
	}
	if len(os.Args) != 3 {
		log.Fatal("usage: contenders port module|redsync")
	}
	newHandle, known := ways[os.Args[2]]
	if !known {
		log.Fatalf("no such way: %s", os.Args[2])
	}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		var contenders, locks int
		var seconds float64
		if _, err := fmt.Sscan(input.Text(), &contenders, &locks, &seconds); err != nil {
			log.Fatal(err)
		}
		client := connect(os.Args[1], contenders)
		contest, err := prepare(client, newHandle, contenders, locks)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("ready")
		if !input.Scan() {
			return
		}
		outcome := contest.run(time.Duration(seconds * float64(time.Second)))
		if err := json.NewEncoder(os.Stdout).Encode(outcome); err != nil {
			log.Fatal(err)
		}
		client.Close()
	}
}

// A call that waits in the server has its connection to itself, for as long as it waits: one for
// each contender, and no limit to a read.
func connect(port string, contenders int) *redis.Client {
	client := redis.NewClient(&redis.Options{
		Addr:         "127.0.0.1:" + port,
		PoolSize:     contenders,
		MinIdleConns: contenders,
		ReadTimeout:  -1,
	})
	if err := client.Ping(context.Background()).Err(); err != nil {
		log.Fatal(err)
	}
	return client
}
