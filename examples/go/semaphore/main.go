// Ten exports, of which at most three run at the same time, in all processes together.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"slices"
	"sync"
	"time"

	redislock "github.com/redis-lock/redis-lock/clients/go"
	"github.com/redis/go-redis/v9"
)

func main() {
	ctx := context.Background()
	options, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1"))
	if err != nil {
		log.Fatal(err)
	}
	client := redis.NewClient(options)
	locks := redislock.New(client, redislock.Options{Service: "exports"})
	defer locks.Close(ctx)

	running := make([]int64, 10)
	var exports sync.WaitGroup
	for export := range running {
		exports.Go(func() {
			err := locks.Do(ctx, "lock:exports", func(ctx context.Context, _ *redislock.Grant) error {
				running[export] = client.Incr(ctx, "running").Val()
				time.Sleep(50 * time.Millisecond)
				return client.Decr(ctx, "running").Err()
			}, redislock.Permits(3))
			if err != nil {
				log.Fatal(err)
			}
		})
	}
	exports.Wait()
	fmt.Printf("%d exports, at most %d at a time\n", len(running), slices.Max(running))
}
