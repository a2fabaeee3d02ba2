package redislock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	patience = 3 * time.Second       // how long to try to reach the server, where no lease says it,
	outage   = 60 * time.Second      // and for a wait at most
	pause    = 50 * time.Millisecond // before a call is sent again
	margin   = 5 * time.Second       // how much longer than a wait its read timeout is
)

// grant is one ownership of a lock, from the first Lock to the last Unlock.
type grant struct {
	locks      *Locks
	key, owner string
	token      int64
	ctx        context.Context
	end        context.CancelCauseFunc
	turn       sync.Mutex // one change of holds at a time
	holds      int

	mu             sync.Mutex
	until          time.Time
	over           error // why it has ended
	renewal, lapse *time.Timer
}

// acquire takes the lock for the first time, and waits for it.
func (g *grant) acquire(ctx context.Context, options Options) (answer []any, sent time.Time, err error) {
	begun := time.Now()
	left := func() time.Duration {
		if options.Wait < 0 {
			return outage
		}
		return options.Wait - time.Since(begun)
	}
	command := []any{"LOCK.ACQUIRE", g.key, g.owner, "PX", options.Lease.Milliseconds(), "HOLDS", 1}
	for {
		reach := time.Now().Add(max(patience, min(left(), outage)))
		answer, sent, err = g.locks.call(ctx, reach, g.key, command...)
		waits := err == nil && answer == nil && left() >= time.Millisecond
		if waits {
			block := left()
			if options.Wait < 0 {
				block = 0
			}
			answer, err = g.wait(ctx, command, block)
		}
		if err == nil && answer != nil && (waits || time.Since(sent) > options.Lease/3) {
			// When the lease began is not known, or it was long ago. So it begins anew.
			answer, sent, err = g.locks.call(ctx, time.Now().Add(patience), g.key,
				"LOCK.RENEW", g.key, g.owner, "TOKEN", answer[0])
		}
		switch {
		case (refused(err) || waits && !final(err)) && ctx.Err() == nil && left() > 0:
			// The lease had passed before the answer was here, or the connection of the wait broke.
		case !final(err):
			g.cancel() // the server may have done what it was asked
			return nil, sent, errors.Join(err, context.Cause(ctx))
		case err == nil && answer == nil:
			return nil, sent, ErrTaken
		default:
			return answer, sent, err
		}
	}
}

// wait stands in the queue, with a connection of its own.
func (g *grant) wait(ctx context.Context, command []any, wait time.Duration) ([]any, error) {
	node, err := g.locks.node(ctx, g.key)
	if err != nil {
		return nil, err
	}
	options := *node.Options()
	options.PoolSize, options.MinIdleConns, options.ReadTimeout = 1, 0, -1
	if wait > 0 {
		options.ReadTimeout = wait + margin
	}
	own := redis.NewClient(&options)
	defer own.Close()
	answer, failure := []any(nil), make(chan error, 1)
	go func() {
		command := slices.Concat(command, []any{"BLOCK", wait.Milliseconds()})
		var err error
		answer, err = array(own.Do(context.WithoutCancel(ctx), command...))
		failure <- err
	}()
	select {
	case err := <-failure:
		return answer, err
	case <-ctx.Done():
		g.cancel()
		select {
		case <-failure: // nil, or a grant that was cancelled too, or that came after all
		case <-time.After(time.Second):
			own.Close()
		}
		return nil, context.Cause(ctx) // and acquire cancels it again
	}
}

// cancel leaves neither a hold nor a wait of this owner.
func (g *grant) cancel() {
	until := time.Now().Add(time.Second)
	_, _, _ = g.locks.call(context.Background(), until, g.key, "LOCK.RELEASE", g.key, g.owner, "ALL")
}

func (g *grant) enter(ctx context.Context, lease time.Duration) error {
	g.turn.Lock()
	defer g.turn.Unlock()
	if err := g.expire(); err != nil {
		return err
	}
	answer, sent, err := g.locks.call(ctx, g.trusted(), g.key, "LOCK.ACQUIRE", g.key, g.owner,
		"PX", lease.Milliseconds(), "HOLDS", g.holds+1, "TOKEN", g.token)
	if err == nil {
		g.holds++
		g.trust(answer, sent)
	}
	return g.judge(err)
}

func (g *grant) unlock() error {
	g.turn.Lock()
	defer g.turn.Unlock()
	if err := g.expire(); err != nil {
		return err
	}
	g.holds--
	return g.giveBack(g.holds, ErrUnlocked)
}

// giveBack releases all holds but these. With the last one the work has to end first.
func (g *grant) giveBack(holds int, why error) error {
	if holds == 0 {
		g.finish(why)
	}
	_, _, err := g.locks.call(context.Background(), g.trusted(), g.key, "LOCK.RELEASE", g.key, g.owner,
		"HOLDS", holds, "TOKEN", g.token)
	if holds == 0 && refused(err) && errors.Is(err, errRepeated) {
		return nil // it was done the first time
	}
	return g.judge(err)
}

// trust counts the lease from when the call that set it was sent.
func (g *grant) trust(answer []any, sent time.Time) {
	lease := time.Duration(answer[3].(int64)) * time.Millisecond
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.over != nil || sent.Add(lease).Before(g.until):
	case g.renewal == nil:
		g.until = sent.Add(lease)
		g.renewal = time.AfterFunc(time.Until(sent.Add(lease/3)), g.renew)
		g.lapse = time.AfterFunc(time.Until(g.until), func() { _ = g.expire() })
		g.locks.mu.Lock()
		g.locks.grants[g] = struct{}{}
		g.locks.mu.Unlock()
	default:
		g.until = sent.Add(lease)
		g.renewal.Reset(time.Until(sent.Add(lease / 3)))
		g.lapse.Reset(time.Until(g.until))
	}
}

func (g *grant) trusted() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.until
}

// renew is run by the timers of Go, which serve all locks and need no goroutine for each.
func (g *grant) renew() {
	answer, sent, err := g.locks.call(g.locks.ctx, g.trusted(), g.key, "LOCK.RENEW", g.key, g.owner, "TOKEN", g.token)
	if err == nil {
		g.trust(answer, sent)
	}
	_ = g.judge(err)
}

// expire says why the grant has ended, and ends it when its time is up.
func (g *grant) expire() error {
	if !time.Now().Before(g.trusted()) {
		g.finish(fmt.Errorf("%w: no answer for a whole lease", ErrLost))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.over
}

// judge ends the grant when the server says that it has ended.
func (g *grant) judge(err error) error {
	if refused(err) {
		err = fmt.Errorf("%w: %w", ErrLost, err)
		g.finish(err)
	}
	return err
}

func (g *grant) finish(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over != nil {
		return
	}
	g.over = why
	g.renewal.Stop()
	g.lapse.Stop()
	g.end(why)
	g.locks.mu.Lock()
	delete(g.locks.grants, g)
	g.locks.mu.Unlock()
}

var errRepeated = errors.New("sent more than once")

// call sends a command until the server has answered it, and tells when the answered one was sent.
func (l *Locks) call(ctx context.Context, until time.Time, key string, command ...any) (answer []any, sent time.Time, err error) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for repeated := false; ; repeated = true {
		var node *redis.Client
		sent = time.Now()
		if node, err = l.node(ctx, key); err == nil {
			answer, err = array(node.Do(ctx, command...))
		}
		if err != nil && repeated {
			err = fmt.Errorf("%w (%w)", err, errRepeated)
		}
		if final(err) {
			return answer, sent, err
		}
		if cluster, ok := l.client.(*redis.ClusterClient); ok {
			cluster.ReloadState(ctx) // the lock may have moved to another node
		}
		select {
		case <-ctx.Done():
			return nil, sent, err
		case <-time.After(pause):
		}
	}
}

// node is the primary that serves the key.
func (l *Locks) node(ctx context.Context, key string) (*redis.Client, error) {
	if cluster, ok := l.client.(*redis.ClusterClient); ok {
		return cluster.MasterForKey(ctx, key)
	}
	return l.client.(*redis.Client), nil
}

// array is the answer of all lock commands: nil, one number, or a grant.
func array(cmd *redis.Cmd) ([]any, error) {
	switch answer, err := cmd.Result(); answer := answer.(type) {
	case []any:
		return answer, err
	case int64:
		return []any{answer}, err
	default:
		if errors.Is(err, redis.Nil) {
			err = nil
		}
		return nil, err
	}
}

func firstWord(err error) string {
	var answer redis.Error
	if !errors.As(err, &answer) {
		return ""
	}
	word, _, _ := strings.Cut(answer.Error(), " ")
	return word
}

func refused(err error) bool {
	return slices.Contains([]string{"NOTHELD", "NOTOWNER", "FENCED"}, firstWord(err))
}

// final is false where nobody knows whether the command was done, or the server may do it later.
func final(err error) bool {
	if err == nil {
		return true
	}
	passing := []string{"", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "UNBLOCKED", "LOADING",
		"MASTERDOWN", "NOREPLICAS", "MISCONF"}
	return !slices.Contains(passing, firstWord(err))
}
