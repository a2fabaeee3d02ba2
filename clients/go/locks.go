package redislock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/redis-lock/redis-lock/clients/go/internal/quorum"
)

// Locks are the locks of a process on one server, one Sentinel group, one cluster, or a quorum. Make one for each client,
// and share it.
type Locks struct {
	client  redis.UniversalClient
	servers servers
	quorum  *quorum.Quorum // in place of servers
	options Options
	process string // service:host:pid
	life    context.Context
	end     context.CancelFunc // ends the connections
	calls   context.Context
	refuse  context.CancelFunc // ends all calls
	misuse  error              // of New
	owners  *Task              // of all that have a name, or whose grants were adopted: it counts their holds

	mu      sync.Mutex
	closed  bool
	keepers map[string]*keeper
	held    map[*ownership]struct{}
	waiting map[string]int      // calls that wait for a key
	down    map[string]struct{} // servers that were told as such
	works   int                 // calls, and releases in the background
	idle    chan struct{}       // closed when closed and there are none
	idled   sync.Once           // a release in the background may begin after that
}

// New makes Locks on a client of go-redis: a *redis.Client, for one server or by Sentinels, or a
// *redis.ClusterClient. Its configuration is used, with connections of their own, from the first lock on. The
// client stays yours to close, after the Locks.
func New(client redis.UniversalClient, options Options) *Locks {
	l := newLocks(options)
	l.client, l.servers = client, serversOf(client, l.options)
	cluster, isCluster := client.(*redis.ClusterClient)
	switch {
	case l.servers == nil:
		l.misuse = misuse(fmt.Sprintf("a *redis.Client or a *redis.ClusterClient is wanted, and not a %T", client))
	case isCluster && cluster.Options().ClusterSlots != nil && cluster.Options().OnConnect != nil:
		// So NewFailoverClusterClient selects its database. The locks would be in another.
		l.misuse = misuse("a cluster by Sentinels with a DB, or OnConnect, is not for locks: take NewFailoverClient")
	}
	return l
}

func newLocks(options Options) *Locks {
	host, _ := os.Hostname()
	options = options.withDefaults(filepath.Base(os.Args[0]))
	l := &Locks{
		options: options,
		process: printable(fmt.Sprintf("%s:%s:%d", options.Service, host, os.Getpid())),
		keepers: map[string]*keeper{}, held: map[*ownership]struct{}{}, waiting: map[string]int{},
		down: map[string]struct{}{},
		idle: make(chan struct{}),
	}
	l.owners = l.Task()
	l.life, l.end = context.WithCancel(context.Background())
	l.calls, l.refuse = context.WithCancel(context.Background())
	return l
}

func misuse(what string) error { return &Error{Op: "use", Kind: ErrMisuse, Cause: errors.New(what)} }

// Lock is the exclusive lock of a key. It calls nothing yet.
func (l *Locks) Lock(key string, options ...LockOption) *Lock {
	return newLock(l, nil, key, exclusive, options)
}

// Shared is a lock of a key that others may share: of readers, where the writers take [Locks.Lock].
func (l *Locks) Shared(key string, options ...LockOption) *Lock {
	return newLock(l, nil, key, shared, options)
}

// Permit is one of n places: a semaphore, where all callers say the same n.
func (l *Locks) Permit(key string, n int, options ...LockOption) *Lock {
	return newLock(l, nil, key, permit(n), options)
}

// owner is fresh: it never meets an answer to an earlier call.
func (l *Locks) owner() string {
	const unique = 1 + 36
	return l.process[:min(len(l.process), 256-unique)] + ":" + uuid.NewString()
}

func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, text)
}

// keeperOf is the keeper of the server that has the key.
func (l *Locks) keeperOf(ctx context.Context, key string) (*keeper, error) {
	address, err := l.servers.find(ctx, key)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.keepers[address]
	if k == nil {
		k = newKeeper(l, address)
		l.keepers[address] = k
	}
	return k, nil
}

// begin counts a call, which Close then waits for.
func (l *Locks) begin() error {
	if l.misuse != nil {
		return l.misuse
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	l.works++
	return nil
}

func (l *Locks) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.works--; l.works == 0 && l.closed {
		l.idled.Do(func() { close(l.idle) })
	}
}

// background goes on with a release for which nobody waits any more. A call that has begun starts it, so that
// Close waits for it.
func (l *Locks) background(work func(context.Context)) {
	l.mu.Lock()
	l.works++
	l.mu.Unlock()
	go func() {
		defer l.finish()
		ctx, cancel := context.WithTimeout(l.life, l.options.Release)
		defer cancel()
		work(ctx)
	}()
}

func (l *Locks) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Close releases what is held, calls off all waits, and closes the connections; not the client. It takes no longer
// than its context, and [Options].Close. What could not be released by then comes free a lease later. A second
// Close does nothing.
func (l *Locks) Close(ctx context.Context) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.works++
	grants := make([]*ownership, 0, len(l.held))
	for o := range l.held {
		grants = append(grants, o)
	}
	l.mu.Unlock()
	l.refuse()
	defer l.tellNoMore()
	defer l.end()
	limited, cancel := context.WithTimeout(ctx, l.options.Close)
	defer cancel()

	failures := make(chan error, len(grants))
	gate := make(chan struct{}, 256)
	go func() {
		for _, o := range grants {
			gate <- struct{}{}
			go func() {
				failures <- o.closeDown(limited)
				<-gate
			}()
		}
	}()
	var failure error
	for range grants {
		select {
		case err := <-failures:
			if err != nil && !errors.Is(err, ErrLost) {
				failure = err
			}
		case <-limited.Done():
			l.finish()
			return l.notClosed(ctx, failure)
		}
	}
	l.finish()
	select {
	case <-l.idle:
	case <-limited.Done():
		return l.notClosed(ctx, failure)
	}
	if failure != nil {
		return newError("close", "", ErrUnavailable, failure)
	}
	return nil
}

func (l *Locks) notClosed(ctx context.Context, failure error) error {
	if ctx.Err() != nil {
		return cancelled(ctx, "close", "")
	}
	if failure == nil {
		failure = errors.New("some were not released in time")
	}
	return newError("close", "", ErrUnavailable, failure)
}

// tell reports the end (or the return, without an error) of a connection that keeps grants.
func (l *Locks) tell(address string, err error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	if err != nil {
		l.down[address] = struct{}{}
	} else {
		delete(l.down, address)
	}
	l.mu.Unlock()
	if err != nil {
		l.options.Logger.Warn("redislock: a connection that keeps locks is lost", "server", address, "error", err)
	} else {
		l.options.Logger.Info("redislock: a connection that keeps locks is back", "server", address)
	}
	if told := l.options.Hooks.Keeper; told != nil {
		told(address, err)
	}
}

// tellNoMore ends what was told of servers that are down, for whoever counts them. The Locks are closed.
func (l *Locks) tellNoMore() {
	if told := l.options.Hooks.Keeper; told != nil {
		for address := range l.down {
			told(address, nil)
		}
	}
}
