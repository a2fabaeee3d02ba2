// Package redislock acquires the locks of the Redis module redis-lock, with your go-redis client.
//
//	locks := redislock.New(client, redislock.Options{Service: "orders"})
//	defer locks.Close(context.Background())
//
//	err := locks.Do(ctx, "lock:orders:42", func(ctx context.Context, grant *redislock.Grant) error {
//		return pay(ctx, grant.Token()) // ctx ends when the lock is lost
//	})
//
// Or without a function: [Locks.Acquire] returns a [Grant], and [Grant.Release] ends it.
//
// The server renews a lock for as long as the process polls its session, over one connection for each process and
// server. No timer of this package renews anything, and a process that is suspended for some seconds keeps its locks.
// When the process dies, its locks are free a lease later (10 seconds, unless [Options] say otherwise). If a lock is
// lost anyway, the program is notified immediately: the context of the work ends, [Grant.Lost] is closed, and the
// functions of [Grant.OnLost] run.
//
// Waiting callers queue on the server, first come, first served. Their number is not limited by connections.
//
// Keys have at most 8,192 bytes, with their prefix. The server takes times in whole milliseconds, rounded up.
//
// Each call to the server is limited to a second. A limit of this package is never reported as one of the caller's: the
// error is [ErrUnavailable] or [ErrBusy], and context.DeadlineExceeded only if the caller's context has ended.
//
// No client can promise that the lock is still held when a write arrives. Pass the token to the system that you write
// to: see "Fencing" in the manual of redis-lock.
package redislock
