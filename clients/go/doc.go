// Package redislock takes the locks of the Redis module redis-lock, on a go-redis client that you have.
//
//	locks := redislock.New(client, redislock.Options{Service: "orders"})
//	defer locks.Close(context.Background())
//
//	err := locks.Lock("lock:orders:42", redislock.Wait(10*time.Second)).
//		Do(ctx, func(ctx context.Context, grant *redislock.Grant) error {
//			return pay(ctx, grant.Token()) // ctx ends when the lock is lost
//		})
//
// Or with a handle of one's own: [Lock.Acquire] gives a [Grant], and [Grant.Release] ends it.
//
// The server renews a lock for as long as the process lives and is heard from, by one connection for each process
// and server. So no timer of this package renews anything, and a process that stands still for some seconds keeps
// its locks. When it dies, they are free a lease later (10 seconds, unless [Lease] says otherwise). A lock that is
// lost all the same is told at once: the context of the work ends, [Grant.Lost] is closed, [Grant.OnLost] runs.
//
// Every call obeys its context, and a time limit of its own beside it, whatever the server does. A limit of this
// package never looks like one of the caller's: it is [ErrUnavailable] or [ErrBusy], never
// context.DeadlineExceeded.
//
// No client can promise that the lock is still held when a write arrives. What is written to has to look at the
// token: see "Fencing" in the manual of redis-lock.
package redislock
