package redsync

import (
	"context"
	"sync"
	"time"
)

// Mutex is a lock, with one holder at a time: this process or another. Its methods may be called at the same time.
type Mutex struct {
	redsync                    *Redsync
	name                       string
	expiry                     time.Duration
	tries                      int
	delay                      DelayFunc
	genValue                   func() (string, error)
	driftFactor, timeoutFactor float64
	failFast, takesAgain       bool

	mu    sync.Mutex
	asked []chan struct{} // closed for each server that has answered the call that acquired the lock, or let it time out
	value string
	token int64
	until time.Time
}

// Name is the key of the lock.
func (m *Mutex) Name() string { return m.name }

// Value is the owner of the lock, to the servers: empty before it is locked, and new with each Lock.
func (m *Mutex) Value() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.value
}

// Token is the fencing token: a later holder's is higher. 0 before it is locked; where the lock is known by
// [WithValue] alone, until it is extended.
func (m *Mutex) Token() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.token
}

// Until is until when the lock may be trusted.
func (m *Mutex) Until() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.until
}

// TryLock tries once.
func (m *Mutex) TryLock() error { return m.TryLockContext(context.Background()) }

// TryLockContext tries once, for no longer than the context lasts.
func (m *Mutex) TryLockContext(ctx context.Context) error { return m.lock(ctx, 1) }

// Lock takes the lock, by as many tries as [WithTries] says. It may be called again after an error.
func (m *Mutex) Lock() error { return m.LockContext(context.Background()) }

// LockContext takes the lock, for no longer than the context lasts.
func (m *Mutex) LockContext(ctx context.Context) error { return m.lock(ctx, m.tries) }

func (m *Mutex) lock(ctx context.Context, tries int) (err error) {
	if ctx == nil {
		ctx = context.Background()
	}
	if m.redsync.misuse != nil {
		return m.redsync.misuse
	}
	for try := range tries {
		if try > 0 {
			select {
			case <-time.After(m.delay(try)):
			case <-ctx.Done():
				return ErrFailed
			}
		}
		value, wrong := m.genValue()
		if wrong != nil {
			return wrong
		}
		failure := m.acquire(ctx, value)
		if failure == nil {
			return nil
		}
		err = m.failed(ctx, failure, nil, ErrFailed)
	}
	if err == nil {
		return ErrFailed
	}
	return err
}

// begin limits a call about a lock that may be held.
func (m *Mutex) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	limited, cancel := context.WithTimeout(ctx, 2*reply)
	return limited, cancel, m.redsync.misuse
}

// Unlock gives the lock back, and says whether a majority of the servers had it still.
func (m *Mutex) Unlock() (bool, error) { return m.UnlockContext(context.Background()) }

// UnlockContext gives the lock back. It takes no longer than the context lasts, and 2 seconds; the call is repeated at
// servers that do not answer.
func (m *Mutex) UnlockContext(ctx context.Context) (bool, error) {
	limited, cancel, err := m.begin(ctx)
	defer cancel()
	value := m.Value()
	switch {
	case err != nil:
		return false, err
	case value == "":
		return false, ErrLockAlreadyExpired
	}
	if err = m.release(limited, reply, value); err != nil {
		return false, m.failed(limited, err, ErrLockAlreadyExpired, ErrLockAlreadyExpired)
	}
	if ctx != nil && ctx.Err() != nil {
		return false, ctx.Err()
	}
	return true, nil
}

// Extend restarts the expiry, and says whether it did.
func (m *Mutex) Extend() (bool, error) { return m.ExtendContext(context.Background()) }

// ExtendContext restarts the expiry. It takes at most as long as the context lasts, and 2 seconds. A server that has
// lost the lock does not get it back: others may have had it there.
func (m *Mutex) ExtendContext(ctx context.Context) (bool, error) {
	limited, cancel, err := m.begin(ctx)
	defer cancel()
	value := m.Value()
	if err != nil {
		return false, err
	}
	isGone := value == ""
	if !isGone {
		if err = m.extend(limited, value); err == nil {
			return true, nil
		}
		isGone = m.isGone(err)
	}
	if m.takesAgain && isGone {
		if value != "" { // what a minority still has of the old grant would be in the way
			_ = m.release(limited, m.limit(), value)
		}
		if err = m.lock(limited, 1); err == nil {
			return true, nil
		}
		return false, err
	}
	if err == nil {
		return false, ErrExtendFailed
	}
	return false, m.failed(limited, err, nil, ErrExtendFailed)
}

// Valid asks the servers whether a majority has the lock for this mutex.
func (m *Mutex) Valid() (bool, error) { return m.ValidContext(context.Background()) }

// ValidContext asks the servers whether a majority has the lock for this mutex.
func (m *Mutex) ValidContext(ctx context.Context) (bool, error) {
	limited, cancel, err := m.begin(ctx)
	defer cancel()
	if err != nil {
		return false, err
	}
	if err := m.stands(limited, m.Value()); err != nil {
		return false, m.failed(limited, err, nil, ErrLockAlreadyExpired)
	}
	return true, nil
}
