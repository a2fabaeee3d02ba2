package redislock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

	mu       sync.Mutex // of all that follows, and of the states
	isClosed bool
	nodes    map[*server.Server]*node
}

// node is a server with what is known of it.
type node struct {
	*Locks
	server    *server.Server
	st        *state.State
	isRunning bool          // its loop
	isDown    bool          // its connection, to the observer
	needed    chan struct{} // ends a pause of the loop
	poller    server.Poller
}

var epoch = time.Now()

func now() state.Time { return time.Since(epoch) }

// New makes Locks on a *redis.Client (one server, or by Sentinels) or a *redis.ClusterClient. It opens no connection.
// Close the Locks before the client.
func New(client redis.UniversalClient, options Options) *Locks {
	o := options.withDefaults(filepath.Base(os.Args[0]))
	host, _ := os.Hostname()
	o.Service = printable(o.Service, 80)
	return &Locks{options: o, servers: server.Of(client), closing: make(chan struct{}), nodes: map[*server.Server]*node{},
		process: fmt.Sprintf("%s:%s:%d:", o.Service, printable(host, 80), os.Getpid())}
}

func printable(text string, length int) string {
	text = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, text)
	return text[:min(len(text), length)]
}

// owner is fresh, so that a late call meets only its own grant.
func (l *Locks) owner() string {
	var random [12]byte
	_, _ = rand.Read(random[:])
	return l.process + hex.EncodeToString(random[:])
}

// usable fails if the Locks or the terms cannot be used.
func (l *Locks) usable(op, key string, t terms) error {
	switch {
	case t.wrong != "":
		return misuse(op, key, t.wrong)
	case l.servers == nil:
		return misuse(op, key, "the client is neither a *redis.Client nor a *redis.ClusterClient")
	case l.options.Lease < leastLease || l.options.Silence < leastLease:
		return misuse(op, key, "Options.Lease and Options.Silence are at least 1 second")
	}
	return nil
}

// lock locks the mutex and tells the state of the node the time.
func (n *node) lock() *node {
	n.mu.Lock()
	n.st.At = now()
	return n
}

// unlock wakes the callers of what has changed, and unlocks.
func (n *node) unlock() {
	for _, claim := range n.st.Changed {
		claim.Caller.(*Grant).wake()
	}
	for _, claim := range n.st.Elsewhere {
		go claim.Caller.(*Grant).resolve()
	}
	for _, command := range n.st.Misplaced {
		go n.repeat(context.Background(), command[1].(string), command)
	}
	n.st.Changed, n.st.Elsewhere, n.st.Misplaced = n.st.Changed[:0], nil, nil
	n.mu.Unlock()
}

// nodeOf returns the node of a server.
func (l *Locks) nodeOf(server *server.Server) *node {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.nodes[server]
	if n == nil {
		n = &node{Locks: l, server: server, needed: make(chan struct{}, 1),
			st: state.New(server.Address, l.options.Lease, l.options.Reply, l.servers.IsCluster())}
		l.nodes[server] = n
	}
	return n
}

// repeat sends a command about a key until it is answered, for two reply timeouts or until the context ends. It
// returns when it was sent last, the last reply, and whether an earlier try had none.
func (l *Locks) repeat(ctx context.Context, key string, command []any) (sent state.Time, reply state.Reply, wasOpen bool) {
	end, pause := now()+2*l.options.Reply, pauses{}
	var at *server.Server
	asking := false
	for {
		wasOpen = wasOpen || reply.Fault.NoReply()
		if at == nil {
			at, reply.Fault = l.servers.Find(key, min(l.options.Reply, end-now()))
		}
		if sent = now(); at != nil {
			reply = at.Call(min(l.options.Reply, end-sent), asking, command)
		}
		if !reply.Fault.Passing() || reply.Fault.Word == "NOSESSION" {
			return sent, reply, wasOpen
		}
		rest := pause.next()
		if now()+rest >= end || ctx.Err() != nil {
			return sent, reply, wasOpen
		}
		if at, asking = l.servers.Redirected(at, reply.Fault); at == nil {
			time.Sleep(rest)
		}
	}
}

// Close ends all waits, releases all locks and closes the connections, but not the client. Call it when the work under
// the locks has stopped. It takes no longer than its context and 2 replies. What could not be released by then is free
// a lease later. A second Close does nothing.
func (l *Locks) Close(ctx context.Context) error {
	l.mu.Lock()
	if l.isClosed || l.servers == nil {
		l.mu.Unlock()
		return nil
	}
	l.isClosed = true
	nodes := make([]*node, 0, len(l.nodes))
	for _, n := range l.nodes {
		nodes = append(nodes, n)
	}
	l.mu.Unlock()
	close(l.closing)
	failures := make(chan error, len(nodes))
	for _, n := range nodes {
		go func() { failures <- n.close(ctx) }()
	}
	var failure error
	for range nodes {
		failure = errors.Join(failure, <-failures)
	}
	l.loops.Wait()
	l.servers.Close()
	return failure
}

// close releases what the session of a node holds, or else each grant, and ends the loop.
func (n *node) close(ctx context.Context) (failure error) {
	end := now() + 2*n.options.Reply
	n.lock()
	sessions, grants := n.st.Close()
	n.unlock()
	closed := map[int64]bool{}
	for _, session := range sessions {
		for pause := (pauses{}); ; {
			reply := n.server.Call(min(n.options.Reply, end-now()), false, []any{"LOCK.SESSION", "CLOSE", session})
			closed[session] = reply.Fault == nil
			rest := pause.next()
			if !reply.Fault.Passing() || reply.Fault.Word == "NOSESSION" || now()+rest >= end || ctx.Err() != nil {
				break
			}
			time.Sleep(rest)
		}
	}
	var releases sync.WaitGroup
	var mu sync.Mutex
	gate := make(chan struct{}, 16)
	for _, claim := range grants {
		if closed[claim.Session] {
			continue
		}
		gate <- struct{}{}
		releases.Go(func() {
			defer func() { <-gate }()
			_, reply, _ := n.repeat(ctx, claim.Key, claim.ReleaseCommand())
			if reply.Fault != nil && !reply.Fault.Gone() {
				mu.Lock()
				defer mu.Unlock()
				failure = failed("close", claim.Key, &state.Failure{Kind: ErrUnavailable, Cause: reply.Fault})
			}
		})
	}
	releases.Wait()
	n.mu.Lock()
	poller, isRunning := n.poller, n.isRunning
	n.mu.Unlock()
	if isRunning {
		poller.Close()
	}
	return failure
}
