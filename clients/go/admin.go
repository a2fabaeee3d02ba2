package redislock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Holder is one of those who hold a lock.
type Holder struct {
	Owner string
	Token int64
	Holds int
	// Limit is how many holders it bears, itself included; 0: any number.
	Limit int
	Lease time.Duration
	// Left is the rest of the lease; -1 millisecond where it was made to last.
	Left time.Duration
	Held time.Duration
	// KeptBy is the client id of the connection that keeps it; 0 where none does.
	KeptBy int64
}

// Holders tells who holds the lock, by the user's own client; lowest token first.
func (l *Locks) Holders(ctx context.Context, key string) (holders []Holder, err error) {
	reply, err := l.look(ctx, "holders", key, "LOCK.HOLDERS", key)
	if err != nil {
		return nil, err
	}
	parts, _ := reply.([]any)
	for _, part := range parts {
		fields, err := fieldsByName(part)
		if err != nil {
			return nil, newError("holders", key, ErrMisuse, err)
		}
		number := func(name string) int64 { n, _ := fields[name].(int64); return n }
		ms := func(name string) time.Duration { return time.Duration(number(name)) * time.Millisecond }
		owner, _ := fields["owner"].(string)
		holders = append(holders, Holder{
			Owner: owner, Token: number("token"), Holds: int(number("holds")), Limit: int(number("limit")),
			Lease: ms("lease-ms"), Left: ms("ttl-ms"), Held: ms("held-ms"), KeptBy: number("kept-by"),
		})
	}
	return holders, nil
}

// fieldsByName reads a map: one of RESP3, or the flat array of RESP2.
func fieldsByName(part any) (map[string]any, error) {
	fields := map[string]any{}
	switch part := part.(type) {
	case map[any]any:
		for name, value := range part {
			fields[fmt.Sprint(name)] = value
		}
	case []any:
		for i := 0; i+1 < len(part); i += 2 {
			fields[fmt.Sprint(part[i])] = part[i+1]
		}
	default:
		return nil, fmt.Errorf("this is no map: %v", part)
	}
	return fields, nil
}

// ForceUnlock frees a lock whoever holds it, and says whether anybody did. All its holders are told the loss, and
// who is first in line gets it.
func (l *Locks) ForceUnlock(ctx context.Context, key string) (wasHeld bool, err error) {
	reply, err := l.look(ctx, "force unlock", key, "DEL", key)
	return reply == int64(1), err
}

// sentOnce is not repeated by the client: a second DEL may be of whoever has the lock by then.
type sentOnce struct{ *redis.Cmd }

func (sentOnce) NoRetry() bool { return true }

// look sends a command by the user's own client. That may have other ideas of time: its call is left alone then.
func (l *Locks) look(ctx context.Context, op, key string, command ...any) (any, error) {
	if err := l.begin(); err != nil {
		return nil, named(err, op, key)
	}
	defer l.finish()
	if l.quorum != nil {
		return nil, named(misuse("on several servers, look at each of them"), op, key)
	}
	limited, cancel := context.WithTimeout(ctx, l.options.Reply)
	defer cancel()
	type result struct {
		reply any
		err   error
	}
	answered := make(chan result, 1)
	go func() {
		call := redis.NewCmd(limited, command...)
		_ = l.client.Process(limited, sentOnce{call})
		reply, err := call.Result()
		if errors.Is(err, redis.Nil) {
			err = nil
		}
		answered <- result{reply, err}
	}()
	select {
	case got := <-answered:
		if got.err != nil {
			return nil, l.failed(ctx, acquiring, op, key, got.err)
		}
		return got.reply, nil
	case <-limited.Done():
		return nil, l.failed(ctx, acquiring, op, key, errors.New("no answer in time"))
	}
}
