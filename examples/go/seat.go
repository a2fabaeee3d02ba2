package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

var pay = redis.NewScript(`
redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], ARGV[2])`)

// seat is held by a user, for as long as the user has been promised: longer than any process. So it
// speaks to the server itself: nothing renews the lock, and no process releases it by ending.
func seat(p *program) func() (result, error) {
	do := p.options.String("do", "", "")
	user := p.options.String("user", "", "")
	token := p.options.Int64("token", 0, "")
	lease := p.milliseconds("lease-ms")
	wait := p.milliseconds("wait-ms")
	return func() (result, error) {
		owner := "seat:" + *user
		switch *do {
		case "hold":
			return p.holdSeat(owner, *lease, *wait)
		case "extend":
			return p.ofSeat("extended", p.lock("RENEW", owner, "PX", lease.Milliseconds(), "TOKEN", *token).Err())
		case "pay":
			keys := []string{"lock:{seat}", "{seat}:paid"}
			err := pay.Run(context.Background(), p.redis, keys, *token, *user).Err()
			outcome, err := p.ofSeat("paid", err)
			if outcome["seat"] == "paid" {
				_ = p.lock("RELEASE", owner, "ALL", "TOKEN", *token) // it is paid, whoever holds it now
			}
			return outcome, err
		default:
			return nil, errArguments
		}
	}
}

// holdSeat waits in line. A process that ends closes its connection, and with it leaves the queue.
func (p *program) holdSeat(owner string, lease, wait time.Duration) (result, error) {
	patient := p.redis.WithTimeout(wait + 5*time.Second)
	command := []any{"LOCK.ACQUIRE", "lock:{seat}", owner, "PX", lease.Milliseconds(), "HOLDS", 1}
	if wait > 0 { // BLOCK 0 is for ever
		command = append(command, "BLOCK", wait.Milliseconds())
	}
	grant, err := patient.Do(context.Background(), command...).Slice()
	if errors.Is(err, redis.Nil) {
		return result{"seat": "taken"}, nil
	} else if err != nil {
		return nil, err
	}
	paid, err := p.redis.Exists(context.Background(), "{seat}:paid").Result()
	if err != nil {
		return nil, err
	}
	if paid == 1 {
		return result{"seat": "sold"}, p.lock("RELEASE", owner, "ALL", "TOKEN", grant[0]).Err()
	}
	return result{"seat": "held", "token": grant[0]}, nil
}

func (p *program) lock(command, owner string, arguments ...any) *redis.Cmd {
	return p.redis.Do(context.Background(), append([]any{"LOCK." + command, "lock:{seat}", owner}, arguments...)...)
}

func (p *program) ofSeat(done string, err error) (result, error) {
	switch {
	case says(err, "NOTHELD", "NOTOWNER", "FENCED"):
		return result{"seat": "lapsed"}, nil
	case err != nil && !errors.Is(err, redis.Nil):
		return nil, err
	default:
		return result{"seat": done}, nil
	}
}
