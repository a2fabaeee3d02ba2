package redislock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// Quorum has locks that a majority of several servers keep together: a single server that fails, hangs or is cut off
// neither prevents an acquire nor loses a lock. See "One lock over several servers" in the manual of redis-lock. It can
// be used by any number of goroutines.
//
// Each server renews its part of a lock for as long as the process polls its session there. When a server loses its
// part, the others keep the lock. With fewer than a majority it is lost.
type Quorum struct {
	options  Options
	members  []*member
	majority int
}

// member is one of the servers.
type member struct {
	*Locks
	name string
}

// isDown reports whether the connection of a session there has broken.
func (m *member) isDown() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.nodes {
		if n.isDown {
			return true
		}
	}
	return false
}

// NewQuorum makes a Quorum on the clients of at least three independent servers: none is a replica of another. All
// processes name them in the same order. It opens no connection. Close the Quorum before the clients. Of the Observer's
// functions, Connection concerns one server, the others a lock.
func NewQuorum(clients []redis.UniversalClient, options Options) *Quorum {
	q := &Quorum{options: options.withDefaults(""), majority: len(clients)/2 + 1}
	options.Observer = Observer{Connection: options.Observer.Connection}
	for i, client := range clients {
		name := fmt.Sprint("server ", i+1)
		if one, ok := client.(*redis.Client); ok && one != nil {
			name += " (" + one.Options().Addr + ")"
		}
		q.members = append(q.members, &member{Locks: New(client, options), name: name})
	}
	return q
}

// Close ends all waits, releases all locks and closes the connections, but not the clients. See [Locks.Close].
func (q *Quorum) Close(ctx context.Context) error {
	failures := make(chan error, len(q.members))
	for _, m := range q.members {
		go func() { failures <- m.Close(ctx) }()
	}
	var failure error
	for range q.members {
		failure = errors.Join(failure, <-failures)
	}
	return failure
}

// Acquire acquires the lock of a key. It waits until the context ends, or as long as [Wait] says: in the line of the
// first server that answers. Locks of a Quorum are exclusive: [Shared] and [Permits] are [ErrMisuse].
func (q *Quorum) Acquire(ctx context.Context, key string, options ...LockOption) (*QuorumGrant, error) {
	return q.acquire(ctx, key, q.terms(options))
}

// TryAcquire acquires the lock if it is free now. Otherwise the error is [ErrBusy], even if others are acquiring it at
// the same time and none of them gets it.
func (q *Quorum) TryAcquire(ctx context.Context, key string, options ...LockOption) (*QuorumGrant, error) {
	return q.acquire(ctx, key, q.terms(append(slices.Clip(options), Wait(0))))
}

func (q *Quorum) terms(options []LockOption) terms {
	t := terms{Lease: q.options.Lease, Wait: -1}
	for _, option := range options {
		option(&t)
	}
	switch {
	case len(q.members) < 3:
		t.Failure = state.Fail(ErrMisuse, "a Quorum needs at least 3 servers")
	case t.Mode != nil:
		t.Failure = state.Fail(ErrMisuse, "the locks of a Quorum are exclusive")
	}
	return t
}

// Do acquires the lock, works, and releases it, as [Locks.Do] does.
func (q *Quorum) Do(ctx context.Context, key string, work func(ctx context.Context, grant *QuorumGrant) error,
	options ...LockOption) error {
	grant, err := q.Acquire(ctx, key, options...)
	return doWork(ctx, work, grant, err)
}

// QuorumGrant is a lock that a majority of the servers has granted, until its release or its loss.
type QuorumGrant struct {
	loss
	quorum *Quorum
	key    string
	token  int64
	taken  time.Time

	mu      sync.Mutex
	parts   map[*Grant]*member // that are not lost
	losses  []string
	failure error // why it is no longer held
}

// partLost continues without a part, as long as a majority is left.
func (g *QuorumGrant) partLost(grant *Grant, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.losses = append(g.losses, fmt.Sprintf("%s: %v", g.parts[grant].name, err))
	if delete(g.parts, grant); g.failure != nil || len(g.parts) >= g.quorum.majority {
		return
	}
	g.failure = failed("hold", g.key, state.Fail(ErrLost, strings.Join(g.losses, "; ")))
	g.loss.end(g.failure)
	for rest := range g.parts {
		go rest.giveUp()
	}
}

// Key is the key of the lock.
func (g *QuorumGrant) Key() string { return g.key }

// Token is the fencing token, the same on all servers of the majority: later grants of the lock have higher ones.
func (g *QuorumGrant) Token() int64 { return g.token }

// Held reports whether nobody else has the lock, by the clock alone. It is also false while a majority of the servers
// is silent.
func (g *QuorumGrant) Held() bool { return g.Remaining() > 0 }

// Remaining is how long Held stays true without another reply from a server.
func (g *QuorumGrant) Remaining() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failure != nil {
		return 0
	}
	var left []time.Duration
	for grant := range g.parts {
		left = append(left, grant.Remaining())
	}
	slices.Sort(left)
	return left[len(left)-g.quorum.majority]
}

// Err is nil until the grant is lost ([ErrLost], with what each server reported) or released ([ErrMisuse]).
func (g *QuorumGrant) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failure
}

// Check asks the servers whether the grant still exists. The error is [ErrLost] if a majority no longer has it, and
// [ErrUnavailable] if too few answer.
func (g *QuorumGrant) Check(ctx context.Context) error {
	return g.ask(ctx, "check", func(grant *Grant) error { return grant.Check(ctx) })
}

// Extend gives the grant another lease, from now on, as [Grant.Extend] does.
func (g *QuorumGrant) Extend(ctx context.Context, lease time.Duration) error {
	return g.ask(ctx, "extend", func(grant *Grant) error { return grant.Extend(ctx, lease) })
}

// Release gives the lock back on all servers. It returns when a majority has answered; the sessions repeat what the
// others have not answered. The error is [ErrLost] if the lock was lost before, and [ErrUnavailable] if too few servers
// have answered in time.
func (g *QuorumGrant) Release(ctx context.Context) (err error) {
	defer func() { observe(g.quorum.options.Observer.Released, g.key, g.taken, err) }()
	return g.ask(ctx, "release", func(grant *Grant) error { return grant.Release(ctx) })
}

// ask makes the calls about all parts at the same time. It returns when a majority has agreed, or all have answered.
func (g *QuorumGrant) ask(ctx context.Context, op string, call func(*Grant) error) error {
	g.mu.Lock()
	parts, failure := maps.Clone(g.parts), g.failure
	if failure == nil && op == "release" {
		g.failure = misuse("hold", g.key, "it was released already")
	}
	g.mu.Unlock()
	if failure != nil {
		return failure
	}
	replies := make(chan error, len(parts))
	for grant := range parts {
		go func() { replies <- call(grant) }()
	}
	agreed, left, answer := 0, len(parts), &Error{Op: op, Key: g.key, Kind: ErrUnavailable, Cause: errors.New("no majority of the servers")}
	for range parts {
		err := <-replies
		if err == nil {
			agreed++
		} else if kind := kindOf(err); kind == ErrLost {
			left--
		} else if kind != nil {
			answer.Kind = kind
		}
		if agreed >= g.quorum.majority {
			return nil
		}
		if err != nil {
			answer.Cause = fmt.Errorf("%w; %v", answer.Cause, err)
		}
	}
	if left < g.quorum.majority {
		answer.Kind = ErrLost
	} else if ctx.Err() != nil {
		return failed(op, g.key, ended(ctx, ErrUnavailable))
	}
	return answer
}

// kindOf returns the kind of an error of this package. It is nil if the caller's context has ended the call.
func kindOf(err error) error {
	if known := (*Error)(nil); errors.As(err, &known) {
		return known.Kind
	}
	return nil
}
