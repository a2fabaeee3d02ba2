// Contenders for locks on one server. Arguments: the server's port, the way of locking (client, commands,
// redsync), how many contenders for how many locks, and how many milliseconds each holds a lock, and then rests.
//
// It says "ready" when it is connected. Each line of input is the seconds of a turn, answered by a line of JSON.
// So whoever drives several such programs can let them take short turns, and can measure the server around each.
//
// With quorum or quorum-quick as the first argument it is a holder of locks on several servers instead.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// The times of the contenders in a turn.
type turn struct {
	// The clock's nanoseconds when it began.
	Began   int64   `json:"began"`
	Seconds float64 `json:"seconds"`
	Errors  int     `json:"errors"`
	// Of each contender: when it asked, had the grant, and sent the release, over and over, in nanoseconds.
	Times [][]time.Duration `json:"times"`
}

func main() {
	log.SetFlags(0)
	if len(os.Args) > 1 && (os.Args[1] == "quorum" || os.Args[1] == "quorum-quick") {
		hold(os.Args[1] == "quorum-quick", os.Args[2:])
		return
	}
	if len(os.Args) != 6 || ways[os.Args[2]] == nil {
		log.Fatal("usage: contenders port client|commands|redsync contenders locks held-ms")
	}
	port, name := os.Args[1], os.Args[2]
	contenders, locks, held := number(os.Args[3]), number(os.Args[4]), number(os.Args[5])
	of, handles := ways[name](port, contenders), []handle{}
	for number := range contenders {
		handles = append(handles, of(fmt.Sprintf("contest:%s:%d", name, number%locks)))
	}
	fmt.Println("ready")
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		seconds, err := strconv.ParseFloat(input.Text(), 64)
		if err != nil {
			log.Fatal(err)
		}
		outcome := compete(handles, time.Duration(seconds*1e9), time.Duration(held)*time.Millisecond)
		if err := json.NewEncoder(os.Stdout).Encode(outcome); err != nil {
			log.Fatal(err)
		}
	}
}

func number(word string) int {
	number, err := strconv.Atoi(word)
	if err != nil {
		log.Fatal(err)
	}
	return number
}

// The contenders take a lock, hold it, give it back and rest, over and over, until their turn is over.
func compete(handles []handle, length, held time.Duration) turn {
	began, over := time.Now(), atomic.Bool{}
	result := turn{Began: began.UnixNano(), Times: make([][]time.Duration, len(handles))}
	errors := atomic.Int64{}
	var all sync.WaitGroup
	for number, handle := range handles {
		all.Go(func() {
			times := []time.Duration{}
			for !over.Load() {
				asked := time.Since(began)
				err := handle(func() {
					granted := time.Since(began)
					time.Sleep(held)
					times = append(times, asked, granted, time.Since(began))
				})
				if err != nil {
					errors.Add(1)
					fmt.Fprintln(os.Stderr, err)
				}
				time.Sleep(held)
			}
			result.Times[number] = times
		})
	}
	time.Sleep(length)
	over.Store(true)
	result.Seconds = time.Since(began).Seconds()
	all.Wait()
	result.Errors = int(errors.Load())
	return result
}
