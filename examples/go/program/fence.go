package main

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "github.com/mattn/go-sqlite3"    // the driver "sqlite3"
	"github.com/redis/go-redis/v9"

	"redis-lock/examples/go/redislock"
)

var setState = redis.NewScript(`
redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], ARGV[2])`)

// fence writes without a look at its lock: what is written to has to see that it comes too late.
func fence(p *program) func() (result, error) {
	name := p.options.String("name", "", "")
	url := p.options.String("sql", "", "")
	lease := p.milliseconds("lease-ms")
	work := p.milliseconds("work-ms")
	return func() (result, error) {
		database, err := open(*url)
		if err != nil {
			return nil, err
		}
		defer database.Close()
		options := redislock.Options{Lease: *lease, Wait: time.Minute}
		lock, err := p.locks.Lock(context.Background(), "lock:{order}", options)
		if err != nil {
			return nil, err
		}
		p.print(result{"event": "held", "token": lock.Token()})
		time.Sleep(*work)

		outcome := result{"redis": "written", "sql": "written"}
		keys := []string{"lock:{order}", "{order}:state"}
		err = setState.Run(context.Background(), p.redis, keys, lock.Token(), *name).Err()
		switch {
		case says(err, "FENCED"):
			outcome["redis"] = "refused"
		case err != nil && !errors.Is(err, redis.Nil):
			return nil, err
		}
		changed, err := database.Exec(
			"UPDATE orders SET state = $1, fence = $2 WHERE id = 42 AND fence <= $2", *name, lock.Token())
		if err != nil {
			return nil, err
		}
		if rows, err := changed.RowsAffected(); err != nil {
			return nil, err
		} else if rows == 0 {
			outcome["sql"] = "refused"
		}
		if err := lock.Unlock(); err != nil && !errors.Is(err, redislock.ErrLost) {
			return nil, err
		}
		return outcome, nil
	}
}

func open(url string) (*sql.DB, error) {
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		return sql.Open("sqlite3", "file:"+path+"?_busy_timeout=10000")
	}
	if strings.HasPrefix(url, "postgres://") {
		return sql.Open("pgx", url)
	}
	return nil, errArguments
}
