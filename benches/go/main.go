// Contenders for locks, as benches/src/contenders/mod.rs describes them. The ways of locking are in ways.go.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The times of the contenders in a turn.
type turn struct {
	// The clock's nanoseconds when it began.
	Began   int64   `json:"began"`
	Seconds float64 `json:"seconds"`
	Errors  int64   `json:"errors"`
	// Of each contender, grant by grant: when it asked, had the grant, and sent the release, in nanoseconds.
	Times [][]time.Duration `json:"times"`
}

var input = bufio.NewScanner(os.Stdin)

func main() {
	log.SetFlags(0)
	arguments := os.Args[1:]
	if len(arguments) < 7 || ways[arguments[1]] == nil {
		log.Fatal("usage: contenders ports way key contenders locks held-ms lease-ms [register-port]")
	}
	task := task{
		ports:      strings.Split(arguments[0], ","),
		contenders: number(arguments[3]),
		lease:      time.Duration(number(arguments[6])) * time.Millisecond,
		register:   arguments[7:],
	}
	locks, held := number(arguments[4]), time.Duration(number(arguments[5]))*time.Millisecond
	of, handles := ways[arguments[1]](task), []handle{}
	for number := range task.contenders {
		handles = append(handles, of(fmt.Sprintf("%s:%d", arguments[2], number%locks)))
	}
	fmt.Println("ready")
	for input.Scan() {
		seconds, err := strconv.ParseFloat(input.Text(), 64)
		if err != nil {
			log.Fatal(err)
		}
		outcome := compete(handles, time.Duration(seconds*1e9), held)
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

// A turn: until its end each contender repeatedly takes a lock, holds it, gives it back and rests.
func compete(handles []handle, length, held time.Duration) turn {
	began, over := time.Now(), atomic.Bool{}
	result := turn{Began: began.UnixNano(), Times: make([][]time.Duration, len(handles))}
	var all sync.WaitGroup
	for number, handle := range handles {
		all.Go(func() {
			times := []time.Duration{}
			for isOver := false; !isOver; isOver = over.Load() {
				asked := time.Since(began)
				err := handle(func() {
					granted := time.Since(began)
					time.Sleep(held)
					times = append(times, asked, granted, time.Since(began))
				})
				if err != nil {
					atomic.AddInt64(&result.Errors, 1)
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
	return result
}
