// Several processes run, and one leads. When it is stopped, another one does at once; when it dies, a lease later.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	redislock "github.com/redis-lock/redis-lock/clients/go"
	"github.com/redis/go-redis/v9"
)

func work(ctx context.Context, grant *redislock.Grant) error {
	fmt.Println("leading, with token", grant.Token())
	<-ctx.Done() // when the lock is lost: stop, somebody else leads
	return ctx.Err()
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	options, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1"))
	if err != nil {
		log.Fatal(err)
	}
	locks := redislock.New(redis.NewClient(options), redislock.Options{Service: "worker", Lease: 3 * time.Second})
	defer locks.Close(context.Background())
	log.Print(locks.Lead(ctx, "lock:leader", work))
}
