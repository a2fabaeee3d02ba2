package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/redis-lock/redis-lock/clients/go"
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
		keys := []string{"lock:{order}", "{order}:state"}
		ctx := context.Background()
		locks := p.locksOf(redislock.Options{Lease: *lease, Silence: *lease})
		grant, err := locks.Acquire(ctx, keys[0], redislock.Wait(time.Minute))
		if err != nil {
			return nil, err
		}
		ways := waysToSell(keys[0], grant.Token(), *name)
		free := make([]int64, len(ways))
		for n, way := range ways {
			if free[n], err = way.claim(database); err != nil && !errors.Is(err, errStale) {
				return nil, err
			}
		}
		p.print(result{"event": "held", "token": grant.Token()})
		time.Sleep(*work)

		outcome := result{"redis": "written"}
		err = setState.Run(ctx, p.redis, keys, grant.Token(), *name).Err()
		switch {
		case says(err, "FENCED"):
			outcome["redis"] = "refused"
		case err != nil && !errors.Is(err, redis.Nil):
			return nil, err
		}
		for n, way := range ways {
			if outcome[way.name], err = way.outcome(database, free[n]); err != nil {
				return nil, err
			}
		}
		if err := grant.Release(ctx); err != nil && !errors.Is(err, redislock.ErrLost) {
			return nil, err
		}
		return outcome, nil
	}
}

func (w way) outcome(database *sql.DB, free int64) (string, error) {
	switch free {
	case unclaimed:
		return "refused", nil
	case 0:
		return "sold", nil
	}
	err := w.sell(database)
	if errors.Is(err, errStale) {
		return "refused", nil
	}
	return "written", err
}
