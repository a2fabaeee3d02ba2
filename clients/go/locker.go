package redislock

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Locker is a lock for code that asks for a [sync.Locker], and so has no context and takes no error. Where there is a
// choice, [Lock.Do] and [Lock.Acquire] tell more.
//
// One Locker has one holder at a time in this process, as a sync.Mutex, and one among all processes that take the
// lock.
type Locker struct {
	lock   *Lock
	told   func(error)
	inside chan struct{} // full while somebody is inside
	grant  *Grant        // of who is
}

var _ sync.Locker = (*Locker)(nil)

// defaultPatience is how long a Locker waits, unless Wait says it.
const defaultPatience = time.Minute

// Locker makes a sync.Locker of an exclusive lock.
//
// Lock waits as [Wait] says, and for a minute without it. When it cannot have the lock until then, it panics, with an
// *[Error]: a Lock that came back without the lock would let its caller do what it must not, and one that waits for
// ever for a server that is gone would stop the program without a word. Who can do something better than that
// has to use [Lock.Acquire], or TryLock.
//
// told hears, in Unlock, that the lock had been lost ([ErrLost]), so that others may have been inside too, or that
// the server could not be told of the release ([ErrUnavailable]): others wait for a lease then. With a nil told,
// Unlock panics where the lock had been lost, and says nothing of the rest.
func (l *Lock) Locker(told func(error)) *Locker {
	own := *l
	if own.terms.wait == 0 {
		own.terms.wait = defaultPatience
	}
	if own.err == nil && own.mode != exclusive {
		own.err = misuse("a Locker is of an exclusive lock")
	}
	return &Locker{lock: &own, told: told, inside: make(chan struct{}, 1)}
}

// Lock takes the lock, or panics with an *[Error].
func (l *Locker) Lock() {
	if err := l.take(l.lock.terms.wait); err != nil {
		panic(err)
	}
}

// TryLock takes the lock if it is free now, and says whether it did. What else was in the way is told as in Unlock.
func (l *Locker) TryLock() bool {
	err := l.take(0)
	if err != nil && !errors.Is(err, ErrBusy) && l.told != nil {
		l.told(err)
	}
	return err == nil
}

func (l *Locker) take(wait time.Duration) error {
	until := time.Now().Add(min(wait, longestTime))
	select {
	case l.inside <- struct{}{}:
	default:
		select {
		case l.inside <- struct{}{}:
		case <-time.After(time.Until(until)):
			return &Error{Op: "acquire", Key: l.lock.key, Kind: ErrBusy}
		}
	}
	now := *l.lock
	if now.terms.wait = wait; wait > 0 && wait < longestTime {
		now.terms.wait = max(time.Until(until), time.Millisecond)
	}
	grant, err := now.Acquire(context.Background())
	if err != nil {
		<-l.inside
		return err
	}
	l.grant = grant
	return nil
}

// Grant is that of the holder, who alone may ask: for its token, and to see whether the lock is still held.
func (l *Locker) Grant() *Grant { return l.grant }

// Unlock gives the lock back, and waits no longer for that than [Options].Release. Without a Lock before it, it
// panics.
func (l *Locker) Unlock() {
	grant := l.grant
	if len(l.inside) == 0 || grant == nil {
		panic(&Error{Op: "release", Key: l.lock.key, Kind: ErrMisuse, Cause: errors.New("it is not locked")})
	}
	l.grant = nil
	err := grant.Release(context.Background())
	<-l.inside
	switch {
	case err == nil:
	case l.told != nil:
		l.told(err)
	case errors.Is(err, ErrLost):
		panic(err)
	}
}
