package redislock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-lock/redis-lock/clients/go/internal/server"
	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// Locks are the locks of one program on one server or cluster. They can be used by any number of goroutines.
type Locks struct {
	options Options
	servers *server.Servers
	process string // begins each owner
	closing chan struct{}
	loops   sync.WaitGroup

	mu     sync.Mutex // of all that follows
	st     *state.State
	owners int64
	nodes  map[*server.Server]*node
}

var epoch = time.Now()

func now() state.Time { return time.Since(epoch) }

// New makes Locks on a *redis.Client (one server, or by Sentinels) or a *redis.ClusterClient. It opens no connection.
// Close the Locks before the client.
func New(client redis.UniversalClient, options Options) *Locks {
	o, servers := options.withDefaults(filepath.Base(os.Args[0])), server.Of(client)
	host, _ := os.Hostname()
	o.Service = printable(o.Service)
	return &Locks{options: o, servers: servers, closing: make(chan struct{}), nodes: map[*server.Server]*node{},
		st:      state.New(o.Lease, o.Reply, servers != nil && servers.IsCluster()),
		process: fmt.Sprintf("%s:%s:%d:%s-", o.Service, printable(host), os.Getpid(), rand.Text()[:13])}
}

func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, text)
	return text[:min(len(text), 80)]
}

// owner is fresh, so that a late call meets only its own grant. The mutex is held.
func (l *Locks) owner() string {
	l.owners++
	return l.process + strconv.FormatInt(l.owners, 36)
}

// usable fails if the Locks or the terms cannot be used.
func (l *Locks) usable(t terms) *Error {
	switch {
	case t.wrong != "":
		return state.Fail(ErrMisuse, t.wrong)
	case l.servers == nil:
		return state.Fail(ErrMisuse, "the client is neither a *redis.Client nor a *redis.ClusterClient")
	case l.options.Lease < leastLease || l.options.Silence < leastLease:
		return state.Fail(ErrMisuse, "Options.Lease and Options.Silence are at least 1 second")
	}
	return nil
}

// lock locks the mutex and tells the state the time.
func (l *Locks) lock() *state.State {
	l.mu.Lock()
	l.st.At = max(now(), l.st.At+1)
	return l.st
}

// unlock wakes the callers of what has changed, and unlocks.
func (l *Locks) unlock() {
	for _, claim := range l.st.Changed {
		claim.Caller.(*Grant).wake()
	}
	for _, claim := range l.st.Elsewhere {
		go claim.Caller.(*Grant).find()
	}
	for _, command := range l.st.Misplaced {
		go l.call(context.Background(), target{key: command[1].(string)}, func(*node) []any { return command })
	}
	l.st.Changed, l.st.Elsewhere, l.st.Misplaced = l.st.Changed[:0], nil, nil
	l.mu.Unlock()
}

// target is where the next command about a key goes: the node that has it, unless the last reply led elsewhere.
type target struct {
	key    string
	node   *node
	asking bool // ASK led there
}

// find finds the node of the key, if it is not known.
func (l *Locks) find(t *target, limit time.Duration) *state.Fault {
	if t.node != nil {
		return nil
	}
	at, fault := l.servers.Find(t.key, limit)
	if fault == nil {
		t.node = l.nodeOf(at)
	}
	return fault
}

// redirect takes the target from a reply.
func (l *Locks) redirect(t *target, fault *state.Fault) (isElsewhere bool) {
	from := t.node
	t.node, t.asking = nil, false
	if !fault.Redirects() || from == nil {
		return false
	}
	if at := l.servers.Redirected(from.server, fault); at != nil {
		t.node, t.asking = l.nodeOf(at), fault.Word == "ASK"
	}
	return t.node != nil
}

// answer is what became of a call: the last reply, when it was sent, and whether an earlier try had no reply.
type answer struct {
	node    *node
	sent    state.Time
	reply   state.Reply
	wasOpen bool
}

// call sends a command until it is answered, for two reply timeouts or until the context ends. The command is nil while
// there is no session for it.
func (l *Locks) call(ctx context.Context, to target, command func(*node) []any) (a answer) {
	end, pause, fixed := now()+2*l.options.Reply, pauses{}, to.node
	for {
		a.wasOpen = a.wasOpen || a.reply.Fault.NoReply()
		a.reply = state.Reply{Fault: l.find(&to, min(l.options.Reply, end-now()))}
		if a.node = to.node; a.node != nil {
			if words := command(a.node); words == nil {
				a.reply.Fault = &state.Fault{Err: errors.New("no session")}
			} else {
				a.sent = now()
				a.reply = a.node.server.Call(min(l.options.Reply, end-a.sent), to.asking, words)
			}
		}
		rest := pause.next()
		if !a.reply.Fault.Passing() || now()+rest >= end || ctx.Err() != nil {
			return a
		}
		if !l.redirect(&to, a.reply.Fault) {
			to.node = fixed
			time.Sleep(rest)
		}
	}
}

// Close ends all waits, releases all locks and closes the connections, but not the client. Call it when the work under
// the locks has stopped. It takes no longer than its context and 2 replies. What could not be released by then is free
// a lease later. A second Close does nothing.
func (l *Locks) Close(ctx context.Context) (failure error) {
	st := l.lock()
	if l.servers == nil || st.IsClosed() {
		l.mu.Unlock()
		return nil
	}
	grants, closed := st.Close(), map[int64]bool{}
	ctx, cancel := context.WithTimeout(ctx, 2*l.options.Reply)
	defer cancel()
	var calls sync.WaitGroup
	for _, n := range l.nodes {
		for _, session := range n.Sessions() {
			calls.Go(func() {
				a := l.call(ctx, target{node: n}, func(*node) []any { return []any{"LOCK.SESSION", "CLOSE", session} })
				l.mu.Lock()
				defer l.mu.Unlock()
				closed[session] = a.reply.Fault == nil
			})
		}
	}
	l.unlock()
	close(l.closing)
	calls.Wait()
	for _, claim := range grants {
		if closed[claim.Session] {
			continue
		}
		calls.Go(func() {
			a := l.call(ctx, target{key: claim.Key}, func(*node) []any { return claim.ReleaseCommand() })
			if fault := a.reply.Fault; fault != nil && !fault.Gone() {
				l.mu.Lock()
				defer l.mu.Unlock()
				failure = errors.Join(failure, failed("close", claim.Key, fault.Failure(claim.Node.Address)))
			}
		})
	}
	calls.Wait()
	l.mu.Lock()
	for _, n := range l.nodes {
		n.poller.Close()
	}
	l.mu.Unlock()
	l.loops.Wait()
	l.servers.Close()
	return failure
}
