package redsync_test

import (
	"fmt"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/redislocktest"
	"github.com/redis-lock/redis-lock/clients/go/redsync"
)

// The example runs without servers. A program gives NewPool the clients that it has.
func Example() {
	var pools []redsync.Pool
	for range 3 {
		pools = append(pools, redsync.NewPool(redislocktest.New().Client()))
	}
	rs := redsync.New(pools...)
	defer rs.Close()

	mutex := rs.NewMutex("lock:report", redsync.WithExpiry(30*time.Second), redsync.WithTries(3))
	if err := mutex.Lock(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(mutex.Token() > 0, time.Until(mutex.Until()) > 20*time.Second)
	fmt.Println(mutex.Extend())
	fmt.Println(mutex.Unlock())
	// Output:
	// true true
	// true <nil>
	// true <nil>
}
