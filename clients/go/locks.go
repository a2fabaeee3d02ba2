package redislock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-lock/redis-lock/clients/go/internal/server"
	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// Locks are the locks of one program on one server or cluster. They can be used by any number of goroutines.
type Locks struct {
	*program
	task *state.Task // whose locks they are; nil: each acquire is one of its own
}

// program is the state that Locks and their tasks share.
type program struct {
	options Options
	servers *server.Servers
	process string // begins each owner
	closing chan struct{}
	loops   sync.WaitGroup

	mu     sync.Mutex // of all that follows
	st     *state.State
	owners int64
	nodes  map[string]*node // by the address
}

var epoch = time.Now()

func now() state.Time { return time.Since(epoch) }

// New makes Locks on a *redis.Client (one server, or by Sentinels) or a *redis.ClusterClient. It opens no connection.
// Close the Locks before the client.
func New(client redis.UniversalClient, options Options) *Locks {
	o, servers := options.withDefaults(filepath.Base(os.Args[0])), server.Of(client)
	host, _ := os.Hostname()
	return &Locks{program: &program{options: o, servers: servers, closing: make(chan struct{}), nodes: map[string]*node{},
		st:      state.New(o.Lease, o.Reply, servers != nil && servers.IsCluster()),
		process: fmt.Sprintf("%.80s:%.80s:%d:%s-", o.Service, host, os.Getpid(), rand.Text()[:13])}}
}

// Task returns locks of one owner, for one piece of work: they can be entered again, and the server finds a deadlock
// among tasks. An acquire of a lock that the task holds adds a hold and returns the same grant, which then takes one more
// release. Pass it along with the work; never share it between two. Closing it closes all.
func (l *Locks) Task() *Locks { return &Locks{l.program, &state.Task{Held: map[string]*state.Claim{}}} }

// sleep pauses until the time is over, it is woken, or the context ends.
func sleep(ctx context.Context, woken <-chan struct{}, pause time.Duration) {
	timer := time.NewTimer(max(pause, 0))
	defer timer.Stop()
	select {
	case <-woken:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// lock locks the mutex and tells the state the time.
func (l *Locks) lock() *state.State {
	l.mu.Lock()
	l.st.At = max(now(), l.st.At+1)
	return l.st
}

// unlock wakes the callers whose state has changed, and unlocks the mutex.
func (l *Locks) unlock() {
	for _, claim := range l.st.Changed {
		claim.Caller.(*Grant).wake()
	}
	l.st.Changed = l.st.Changed[:0]
	l.mu.Unlock()
}

// target is where the next command about a key goes: the node that has the key, unless the last reply redirected it.
type target struct {
	key    string
	node   *node
	asking bool // ASK led there
}

// route returns the target of the next command. Without a key it returns the target unchanged.
func (l *Locks) route(to target, last *state.Fault, limit time.Duration) (target, *state.Fault) {
	if to.key == "" {
		return to, nil
	}
	if from := to.node; from != nil {
		if address := l.servers.Redirected(from.server, last); address != "" {
			at := l.node(address, func() *server.Server { return from.server.At(address) })
			return target{to.key, at, last.Word == "ASK"}, nil
		}
	}
	client, fault := l.servers.Find(to.key, limit)
	if fault != nil {
		return to, fault
	}
	at := l.node(client.Options().Addr, func() *server.Server { return server.New(client) })
	return target{key: to.key, node: at}, nil
}

// send sends a command once.
func (l *Locks) send(to target, limit time.Duration, command []any) state.Reply {
	sent := now()
	reply := to.node.server.Call(limit, to.asking, command)
	reply.From, reply.Sent = &to.node.Node, sent
	return reply
}

// call sends a command until it is answered, for this time or until the context ends.
func (l *Locks) call(ctx context.Context, to target, limit time.Duration, command []any) (reply state.Reply) {
	for pause, end, wasOpen := (pauses{}), now()+limit, false; ; {
		limit, last := min(l.options.Reply, end-now()), reply.Fault
		if to, reply.Fault = l.route(to, last, limit); reply.Fault == nil {
			reply = l.send(to, limit, command)
		}
		reply.WasOpen = wasOpen
		rest := pause.next()
		isOver := to.key == "" && reply.Fault != nil && reply.Fault.Word == "NOSESSION"
		if !reply.Fault.Passing() || isOver || now()+rest >= end || ctx.Err() != nil {
			return reply
		}
		wasOpen = wasOpen || reply.Fault.NoReply()
		sleep(ctx, nil, rest)
	}
}

// Close ends all waits, releases all locks and closes the connections, but not the client. Call it when the work under
// the locks has stopped. It takes no longer than its context and 2 replies. A lock that could not be released by then
// is free a lease later. A second Close does nothing.
func (l *Locks) Close(ctx context.Context) error {
	st := l.lock()
	if l.servers == nil || st.IsClosed() {
		l.mu.Unlock()
		return nil
	}
	type place struct {
		node    *node
		session int64
	}
	grants := map[place][]*state.Claim{}
	for _, n := range l.nodes {
		for _, session := range n.Sessions() {
			grants[place{n, session}] = nil
		}
	}
	for _, claim := range st.Close() {
		at := place{l.nodes[claim.Node.Address], claim.Session}
		grants[at] = append(grants[at], claim)
	}
	l.unlock()
	close(l.closing)
	end := now() + 2*l.options.Reply
	ctx, cancel := context.WithTimeout(ctx, 2*l.options.Reply)
	defer cancel()
	var failure error
	var calls sync.WaitGroup
	for at, claims := range grants {
		calls.Go(func() {
			closing := []any{"LOCK.SESSION", "CLOSE", at.session}
			if at.session != 0 && l.call(ctx, target{node: at.node}, end-now(), closing).Fault == nil {
				return
			}
			for _, claim := range claims {
				calls.Go(func() {
					fault := l.call(ctx, target{key: claim.Key}, end-now(), claim.ReleaseCommand()).Fault
					if fault != nil && !fault.Gone() {
						l.mu.Lock()
						defer l.mu.Unlock()
						failure = errors.Join(failure, failed("close", claim.Key, fault))
					}
				})
			}
		})
		// The end of its session ends a POLL. A connection that is closed before could leave an OPEN behind.
		defer context.AfterFunc(ctx, at.node.server.Session.Reset)()
	}
	calls.Wait()
	l.loops.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.nodes {
		n.server.Close()
	}
	return failure
}
