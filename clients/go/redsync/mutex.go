package redsync

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/kinds"
	"github.com/redis-lock/redis-lock/clients/go/internal/quorum"
)

// Mutex is a lock with this process, or another, as its holder. One holder at a time; its methods may be called at
// the same time.
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

func (m *Mutex) terms() quorum.Terms {
	part := func(factor float64) time.Duration { return time.Duration(float64(m.expiry) * factor) }
	return quorum.Terms{
		Lease: m.expiry, Limit: max(part(m.timeoutFactor), time.Millisecond),
		Drift: part(m.driftFactor) + 2*time.Millisecond, Eager: m.failFast,
	}
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
		grant, failure := m.redsync.quorum.Attempt(ctx, m.name, value, m.terms())
		if failure == nil {
			m.take(grant)
			return nil
		}
		err = m.failed(ctx, failure, nil, ErrFailed)
	}
	if err == nil {
		return ErrFailed
	}
	return err
}

func (m *Mutex) take(grant quorum.Grant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.value, m.token, m.until = grant.Owner, grant.Token, grant.Until
}

func (m *Mutex) grant() quorum.Grant {
	m.mu.Lock()
	defer m.mu.Unlock()
	return quorum.Grant{Key: m.name, Owner: m.value, Token: m.token, Until: m.until}
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

// UnlockContext gives the lock back. It takes no longer than the context lasts, and 2 seconds; servers that do not
// answer are told when they are back.
func (m *Mutex) UnlockContext(ctx context.Context) (bool, error) {
	limited, cancel, err := m.begin(ctx)
	defer cancel()
	grant := m.grant()
	if err != nil {
		return false, err
	}
	if grant.Owner == "" {
		return false, ErrLockAlreadyExpired
	}
	if err := m.redsync.quorum.Release(limited, m.name, grant.Owner, reply); err != nil {
		return false, m.failed(limited, err, ErrLockAlreadyExpired, ErrLockAlreadyExpired)
	}
	return true, nil
}

// Extend begins the expiry anew, and says whether it did.
func (m *Mutex) Extend() (bool, error) { return m.ExtendContext(context.Background()) }

// ExtendContext begins the expiry anew, for no longer than the context lasts, and 2 seconds. A server that has lost
// the lock does not get it back: others may have had it there.
func (m *Mutex) ExtendContext(ctx context.Context) (bool, error) {
	limited, cancel, err := m.begin(ctx)
	defer cancel()
	grant := m.grant()
	if err != nil {
		return false, err
	}
	err = kinds.ErrLost
	if grant.Owner != "" {
		var renewed quorum.Grant
		if renewed, err = m.redsync.quorum.Renew(limited, grant, m.terms()); err == nil {
			m.take(renewed)
			return true, nil
		}
	}
	if m.takesAgain && errors.Is(err, kinds.ErrLost) {
		if grant.Owner != "" {
			// What a minority still has of the old grant would be in the way.
			freeing, stop := context.WithTimeout(limited, m.terms().Limit)
			_ = m.redsync.quorum.Release(freeing, m.name, grant.Owner, m.terms().Limit)
			stop()
		}
		if err = m.lock(limited, 1); err == nil {
			return true, nil
		}
		return false, err
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
	is, err := m.redsync.quorum.Stands(limited, m.name, m.Value(), m.terms().Limit)
	if err != nil {
		return false, m.failed(limited, err, nil, ErrLockAlreadyExpired)
	}
	return is, nil
}
