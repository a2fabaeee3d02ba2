package redislocktest_test

import (
	"context"
	"errors"
	"fmt"

	redislock "github.com/redis-lock/redis-lock/clients/go"
	"github.com/redis-lock/redis-lock/clients/go/redislocktest"
)

func Example() {
	server := redislocktest.New()
	locks := redislock.New(server.Client(), redislock.Options{})
	err := locks.Do(context.Background(), "lock:orders:42", func(ctx context.Context, grant *redislock.Grant) error {
		fmt.Println(server.Count("lock:orders:42"))
		server.Lose("lock:orders:42")
		<-ctx.Done() // what does the program do now?
		return nil
	})
	fmt.Println(errors.Is(err, redislock.ErrLost))
	// Output:
	// 1 0
	// true
}
