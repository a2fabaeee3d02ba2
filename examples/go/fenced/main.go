// A holder is suspended for longer than its lease. Its write comes too late, and PostgreSQL refuses it.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	redislock "github.com/redis-lock/redis-lock/clients/go"
	"github.com/redis/go-redis/v9"
)

const late = "too late, a newer holder has claimed the seat"

// claim puts the token into the row, and then reads. A holder with a lower token cannot write from now on.
func claim(ctx context.Context, database *pgx.Conn, token int64) string {
	claimed, err := database.Exec(ctx, "UPDATE seats SET fence = $1 WHERE id = 1 AND fence <= $1", token)
	if err != nil {
		log.Fatal(err)
	}
	if claimed.RowsAffected() == 0 {
		return late
	}
	var buyer *string
	if err := database.QueryRow(ctx, "SELECT buyer FROM seats WHERE id = 1").Scan(&buyer); err != nil {
		log.Fatal(err)
	}
	if buyer != nil {
		return "taken"
	}
	return "free"
}

// sell writes, unless somebody else has claimed the seat since.
func sell(ctx context.Context, database *pgx.Conn, buyer string, token int64) string {
	sold, err := database.Exec(ctx, "UPDATE seats SET buyer = $1 WHERE id = 1 AND fence = $2", buyer, token)
	if err != nil {
		log.Fatal(err)
	}
	if sold.RowsAffected() == 0 {
		return late
	}
	return "sold"
}

func main() {
	ctx := context.Background()
	options, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1"))
	if err != nil {
		log.Fatal(err)
	}
	database, err := pgx.Connect(ctx, cmp.Or(os.Getenv("DATABASE_URL"), "postgres://127.0.0.1"))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := database.Exec(ctx, "CREATE TABLE seats (id int, buyer text, fence bigint); INSERT INTO seats VALUES (1, NULL, 0)"); err != nil {
		log.Fatal(err)
	}
	locks := redislock.New(redis.NewClient(options), redislock.Options{Service: "seats"})
	defer locks.Close(ctx)

	slow, err := locks.Acquire(ctx, "lock:seat:1", redislock.Fixed(time.Second))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("slow:", claim(ctx, database, slow.Token()))
	// Here slow is suspended: its lease ends, and the next one gets the lock.
	quick, err := locks.Acquire(ctx, "lock:seat:1")
	if err != nil {
		log.Fatal(err)
	}
	defer quick.Release(ctx)
	fmt.Println("quick:", claim(ctx, database, quick.Token()))
	fmt.Println("quick:", sell(ctx, database, "quick", quick.Token()))
	fmt.Println("slow:", sell(ctx, database, "slow", slow.Token()))
}
