// Twenty buyers at once buy from a stock of ten: it is sold exactly to zero.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"sync/atomic"
	"time"

	redislock "github.com/redis-lock/redis-lock/clients/go"
	"github.com/redis/go-redis/v9"
)

func buy(ctx context.Context, client *redis.Client, locks *redislock.Locks, buyer int) (bought bool, err error) {
	err = locks.Do(ctx, "lock:stock", func(ctx context.Context, _ *redislock.Grant) error {
		left, err := client.Get(ctx, "stock").Int()
		if err != nil || left == 0 {
			return err
		}
		time.Sleep(10 * time.Millisecond) // without the lock, others would sell the same piece now
		if err := client.Set(ctx, "stock", left-1, 0).Err(); err != nil {
			return err
		}
		bought = true
		return client.RPush(ctx, "sold", buyer).Err()
	})
	return bought, err
}

func main() {
	ctx := context.Background()
	options, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1"))
	if err != nil {
		log.Fatal(err)
	}
	client := redis.NewClient(options)
	locks := redislock.New(client, redislock.Options{Service: "stock"})
	defer locks.Close(ctx)

	client.Set(ctx, "stock", 10, 0)
	var bought, late atomic.Int32
	var buyers sync.WaitGroup
	for buyer := range 20 {
		buyers.Go(func() {
			switch ok, err := buy(ctx, client, locks, buyer); {
			case err != nil:
				log.Fatal(err)
			case ok:
				bought.Add(1)
			default:
				late.Add(1)
			}
		})
	}
	buyers.Wait()
	fmt.Printf("%d bought, %d too late\n", bought.Load(), late.Load())
}
