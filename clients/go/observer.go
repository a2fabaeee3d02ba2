package redislock

import (
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// Observer has functions that are called as things happen, and must not block. Functions that are nil are not called.
// Keys have their prefix.
type Observer struct {
	// Acquired follows each acquire, with the time it took; err is nil if the lock was granted.
	Acquired func(key string, took time.Duration, err error)
	// Released follows each release, with the time that the lock was held.
	Released func(key string, held time.Duration, err error)
	// Lost follows each loss.
	Lost func(key string, err error)
	// Connection follows each end and each return of a session's connection; err is nil when it is back.
	Connection func(server string, err error)
}

// observe calls the observer of an acquire or a release, if there is one.
func observe(observer func(string, time.Duration, error), key string, begun time.Time, err error) {
	if observer != nil {
		observer(key, time.Since(begun), err)
	}
}

// observe reports that the connection has broken or is back. The mutex is held.
func (n *node) observe(isDown bool, fault *state.Fault) {
	if observed := n.locks.options.Observer.Connection; observed != nil && isDown != n.isDown {
		var err error
		if isDown {
			err = fault
		}
		go observed(n.Address, err)
	}
	n.isDown = isDown
}
