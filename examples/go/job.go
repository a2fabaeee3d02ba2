package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/redis-lock/redis-lock/clients/go"
)

var finishStep = redis.NewScript(`
redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], ARGV[2])
redis.call('RPUSH', KEYS[3], ARGV[2] .. ' ' .. ARGV[3])
if ARGV[4] == '1' then redis.call('SET', KEYS[4], ARGV[3]) end`)

// job runs once, however many processes are started for a run: who comes later finds it done, and
// who comes after a process that was killed goes on behind its last step.
func job(p *program) func() (result, error) {
	name := p.options.String("name", "", "")
	run := p.options.String("run", "", "")
	steps := p.options.Int("steps", 0, "")
	each := p.milliseconds("step-ms")
	lease := p.milliseconds("lease-ms")
	return func() (outcome result, err error) {
		locks := p.locksOf(redislock.Options{Lease: *lease})
		done := 0
		err = locks.Do(context.Background(), "lock:{job}", func(ctx context.Context, grant *redislock.Grant) (err error) {
			outcome, err = p.runJob(ctx, grant, "{job}:"+*run, *name, *steps, *each, &done)
			return err
		}, redislock.Wait(time.Minute))
		if errors.Is(err, redislock.ErrLost) && (outcome == nil || outcome["job"] == "lost") {
			return result{"job": "lost", "steps": done}, nil
		}
		if errors.Is(err, redislock.ErrLost) { // its last step was fenced: what it did counts
			err = nil
		}
		return outcome, err
	}
}

func (p *program) runJob(ctx context.Context, grant *redislock.Grant, run, name string, steps int,
	each time.Duration, done *int) (result, error) {
	keys := []string{"lock:{job}", run + ":step", run + ":log", run + ":done"}
	if over, err := p.redis.Exists(ctx, keys[3]).Result(); err != nil {
		return nil, orLost(ctx, err)
	} else if over == 1 {
		return result{"job": "skipped"}, nil
	}
	before, err := p.redis.Get(ctx, keys[1]).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, orLost(ctx, err)
	}
	for step := before + 1; step <= steps; step++ {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(each):
		}
		last := 0
		if step == steps {
			last = 1
		}
		who := fmt.Sprintf("%d %s", grant.Token(), name)
		err := finishStep.Run(ctx, p.redis, keys, grant.Token(), step, who, last).Err()
		switch {
		case says(err, "FENCED"):
			return nil, redislock.ErrLost
		case err != nil && !errors.Is(err, redis.Nil):
			return nil, orLost(ctx, err)
		}
		*done++
	}
	return result{"job": "completed", "steps": *done}, nil
}

// orLost gives the reason why a call was broken off.
func orLost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
