package redislock

import (
	"context"
	"errors"
)

// loss reports the loss of a grant with a context, which then ends with the error as its cause.
type loss struct {
	ctx context.Context
	end context.CancelCauseFunc
}

func newLoss(key string, observer func(string, error)) loss {
	var l loss
	l.ctx, l.end = context.WithCancelCause(context.Background())
	if observer != nil {
		l.OnLost(func(err error) { observer(key, err) })
	}
	return l
}

// Lost is closed when the grant is lost, not when it is released.
func (l *loss) Lost() <-chan struct{} { return l.ctx.Done() }

// OnLost calls notify, in a goroutine of its own, when the grant is lost, not when it is released; at once if it is
// lost already.
func (l *loss) OnLost(notify func(error)) {
	context.AfterFunc(l.ctx, func() { notify(context.Cause(l.ctx)) })
}

// Context ends when the parent ends and when the grant is lost, with [ErrLost] as its cause. Call cancel when the work
// is done.
func (l *loss) Context(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(parent)
	stop := context.AfterFunc(l.ctx, func() { end(context.Cause(l.ctx)) })
	return ctx, func() {
		stop()
		end(nil)
	}
}

// held is a grant of one server or of several.
type held interface {
	Context(parent context.Context) (context.Context, context.CancelFunc)
	Err() error
	Release(ctx context.Context) error
}

// doWork runs the work under the lock, if it was acquired, and releases the lock unless the work has done that.
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
