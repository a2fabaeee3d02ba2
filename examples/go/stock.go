package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/redis-lock/redis-lock/clients/go"
)

var sell = redis.NewScript(`
redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], ARGV[2])
redis.call('RPUSH', KEYS[3], ARGV[3])`)

// stock sells to many buyers at a time, until nothing is left.
func stock(p *program) func() (result, error) {
	name := p.options.String("name", "", "")
	buyers := p.options.Int("buyers", 0, "")
	return func() (result, error) {
		locks := p.locksOf(redislock.Options{})
		var mu sync.Mutex
		var failure error
		counts := map[string]int{}
		var all sync.WaitGroup
		for n := range *buyers {
			all.Go(func() {
				for outcome := "stale_refused"; outcome == "stale_refused"; {
					var err error
					outcome, err = p.buy(locks, fmt.Sprintf("%s-%d", *name, n+1))
					mu.Lock()
					counts[outcome]++
					failure = errors.Join(failure, err)
					mu.Unlock()
				}
			})
		}
		all.Wait()
		return result{
			"sold": counts["sold"], "refused": counts["refused"], "stale_refused": counts["stale_refused"],
		}, failure
	}
}

func (p *program) buy(locks *redislock.Locks, buyer string) (outcome string, err error) {
	grant, err := locks.Acquire(context.Background(), "lock:{stock}", redislock.Wait(time.Minute))
	if err != nil {
		return "", err
	}
	defer func() {
		if gone := grant.Release(context.Background()); !errors.Is(gone, redislock.ErrLost) { // the fence has judged that
			err = errors.Join(err, gone)
		}
	}()
	left, err := p.redis.Get(context.Background(), "{stock}:left").Int()
	if err != nil || left == 0 {
		return "refused", err
	}
	time.Sleep(2 * time.Millisecond)
	keys := []string{"lock:{stock}", "{stock}:left", "{stock}:sold"}
	err = sell.Run(context.Background(), p.redis, keys, grant.Token(), left-1, buyer).Err()
	switch {
	case says(err, "FENCED"):
		return "stale_refused", nil
	case err != nil && !errors.Is(err, redis.Nil):
		return "", err
	default:
		return "sold", nil
	}
}
