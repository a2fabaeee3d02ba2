package main

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

const lease = 30 * time.Second

// A handle is one contender's view of a lock.
type handle interface {
	acquire() error
	release() error
}

// Ways of locking.
var ways = map[string]func(client *redis.Client, key string) handle{
	"module":  newModule,
	"redsync": newRedsync,
}

// LOCK.ACQUIRE and LOCK.RELEASE.
type module struct {
	client     *redis.Client
	key, owner string
}

func newModule(client *redis.Client, key string) handle {
	return &module{client, key, uuid.NewString()}
}

func (m *module) acquire() error {
	ctx := context.Background()
	return m.client.Do(ctx, "LOCK.ACQUIRE", m.key, m.owner, "PX", lease.Milliseconds(), "BLOCK", 0).Err()
}

func (m *module) release() error {
	return m.client.Do(context.Background(), "LOCK.RELEASE", m.key, m.owner).Err()
}

// Redsync's mutex as it ships, on one server: who finds it taken asks again after 50 to 250 ms. Only
// that it gives up after 32 times is lifted, because the others never do.
type mutex struct {
	mutex *redsync.Mutex
}

func newRedsync(client *redis.Client, key string) handle {
	sync := redsync.New(goredis.NewPool(client))
	return &mutex{sync.NewMutex(key, redsync.WithExpiry(lease), redsync.WithTries(math.MaxInt32))}
}

func (m *mutex) acquire() error {
	return m.mutex.Lock()
}

func (m *mutex) release() error {
	released, err := m.mutex.Unlock()
	if err == nil && !released {
		return errors.New("the lock was lost")
	}
	return err
}
