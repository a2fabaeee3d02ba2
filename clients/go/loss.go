package redislock

import (
	"context"
	"errors"
	"sync"
)

// loss is how a grant reports that it is lost.
type loss struct {
	mu     sync.Mutex
	lost   chan struct{}
	err    error
	onLost []func(error)
}

// Lost is closed when the grant is lost, not when it is released.
func (l *loss) Lost() <-chan struct{} { return l.lost }

// OnLost calls notify, in a goroutine of its own, when the grant is lost, not when it is released; at once if it is
// lost already.
func (l *loss) OnLost(notify func(error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.onLost = append(l.onLost, notify); l.err != nil {
		go notify(l.err)
	}
}

// Context ends when the parent ends and when the grant is lost, with [ErrLost] as its cause. Call cancel when the work
// is done.
func (l *loss) Context(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(parent)
	l.OnLost(end)
	return ctx, func() { end(nil) }
}

// report reports the loss, once.
func (l *loss) report(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = err
	close(l.lost)
	for _, notify := range l.onLost {
		go notify(err)
	}
}

// held is a grant of one server or of several.
type held interface {
	Context(parent context.Context) (context.Context, context.CancelFunc)
	Err() error
	Release(ctx context.Context) error
}

// doWork works under the lock, if it was acquired, and releases it unless the work has.
func doWork[G held](ctx context.Context, work func(ctx context.Context, grant G) error, grant G, err error) (failure error) {
	if err != nil {
		return err
	}
	working, cancel := grant.Context(ctx)
	defer func() {
		cancel()
		if errors.Is(grant.Err(), ErrMisuse) {
			return // the work has released or detached it
		}
		if err := grant.Release(context.WithoutCancel(ctx)); err != nil {
			failure = errors.Join(failure, err)
		}
	}()
	return work(working, grant)
}
