// Package server sends commands to the servers that a client of go-redis is configured for, by clients of its own that
// are derived from the options: each call is limited in time, and nothing is repeated.
package server

import (
	"cmp"
	"context"
	"errors"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// Server is one server.
type Server struct {
	Address string

	options  redis.Options // of a client with one connection
	most     int           // calls and pipelines under way: the user's pool size
	mu       sync.Mutex
	idle     []*Line
	isClosed bool
	flights  int           // calls and pipelines under way
	landed   time.Duration // when the last of them was answered, or the first one sent
	queue    batch         // calls that share the next pipeline
	collects bool          // the loop is about to poll
	within   context.Context
	until    time.Duration // the end of within
}

type (
	// batch is the calls of a pipeline.
	batch []*queued
	// queued is a call that is sent in a pipeline with others.
	queued struct {
		command []any
		limit   time.Duration
		reply   chan state.Reply
	}
)

const (
	crowd  = 2                     // calls under way: more of them share pipelines
	moment = 50 * time.Millisecond // in which a server answers
)

var epoch = time.Now()

// bySentinels is the address of a client of go-redis whose dialer asks Sentinels.
const bySentinels = "FailoverClient"

// One returns the server of a client.
func One(client *redis.Client) *Server { return newServer(client, client.Options().Addr) }

// newServer derives a server from a client of the user.
func newServer(client *redis.Client, address string) *Server {
	o := *client.WithTimeout(time.Second).Options() // a copy, which go-redis makes under its lock
	o.Addr = address
	most := o.PoolSize
	o.MaxRetries, o.DialerRetries, o.MinIdleConns, o.PipelinePoolSize = -1, 1, 0, -1 // one pool for all
	o.ReadTimeout, o.WriteTimeout, o.ContextTimeoutEnabled = -1, -1, true
	o.Protocol, o.Limiter, o.AutoPipelineOptions = 2, nil, nil // no pushed messages to look for
	o.PoolSize, o.MaxActiveConns, o.MaxIdleConns = 1, 0, 0
	o.ClientSideCache, o.ClientSideCacheConfig, o.PushNotificationProcessor = nil, nil, nil
	if dial := o.Dialer; address == bySentinels {
		o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			longer, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer cancel() // a Sentinel that hangs is passed over when the user's limits are over
			return dial(longer, network, address)
		}
	}
	return &Server{Address: address, options: o, most: most}
}

// Call sends a command once. With asking, the server is one that ASK named. In a crowd of calls, or when the loop is
// about to poll, it shares a pipeline with others, which the end of the context does not wait for.
func (s *Server) Call(ctx context.Context, limit time.Duration, asking bool, command []any) state.Reply {
	if limit <= 0 {
		return noReply(false, "no time was left")
	}
	s.mu.Lock()
	hangs := time.Since(epoch) > s.landed+moment
	switch isCrowd := s.flights >= crowd && !hangs || s.flights >= s.most; {
	case asking:
		return s.fly(limit, []any{"ASKING"}, command)[1]
	case !isCrowd && !s.collects:
		return s.fly(limit, command)[0]
	}
	one := queued{command, limit, make(chan state.Reply, 1)}
	s.queue = append(s.queue, &one)
	s.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case reply := <-one.reply:
		return reply
	case <-timer.C:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := len(s.queue)
	s.queue = slices.DeleteFunc(s.queue, func(other *queued) bool { return other == &one })
	return noReply(len(s.queue) == waiting, "no answer in time")
}

func noReply(isSent bool, why string) state.Reply {
	return state.Reply{Fault: &state.Fault{Sent: isSent, Err: errors.New(why)}}
}

// fly sends commands over an idle line. Calls that have queued meanwhile fly next, unless the loop takes them along. It
// is called with the mutex, and unlocks it.
func (s *Server) fly(limit time.Duration, commands ...[]any) []state.Reply {
	if len(s.idle) == 0 {
		s.idle = append(s.idle, s.Line())
	}
	last := len(s.idle) - 1
	line, ctx := s.idle[last], s.limited(limit)
	s.idle = s.idle[:last]
	if s.flights++; s.flights == 1 {
		s.landed = time.Since(epoch)
	}
	s.mu.Unlock()
	replies := line.send(ctx, commands)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle = append(s.idle, line); line.client == nil { // the others may be as dead, or lead to an old primary
		s.closeIdle()
	}
	s.landed = time.Since(epoch)
	s.flights--
	if next := s.queue; len(next) > 0 && !s.collects {
		s.queue = nil
		go func() {
			longest := slices.MaxFunc(next, func(a, b *queued) int { return cmp.Compare(a.limit, b.limit) })
			s.mu.Lock()
			next.answer(s.fly(longest.limit, next.commands()...))
		}()
	}
	return replies
}

// limited returns a context that ends in this time, or up to a step later: calls share it, since each one takes a timer.
func (s *Server) limited(limit time.Duration) context.Context {
	const step = 32 * time.Millisecond
	if until := (time.Since(epoch) + limit + step).Truncate(step); until != s.until {
		ctx, cancel := context.WithDeadline(context.Background(), epoch.Add(until))
		context.AfterFunc(ctx, cancel)
		s.within, s.until = ctx, until
	}
	return s.within
}

func (b batch) commands() [][]any {
	commands := make([][]any, len(b), len(b)+1)
	for i, one := range b {
		commands[i] = one.command
	}
	return commands
}

// answer wakes the callers.
func (b batch) answer(replies []state.Reply) {
	for i, one := range b {
		one.reply <- replies[i]
	}
}

// Close closes the connections to the server.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isClosed = true
	s.closeIdle()
}

func (s *Server) closeIdle() {
	for _, line := range s.idle {
		line.close()
	}
	s.idle = nil
}

// Poll polls a session. If the last reply has woken callers, what they call at once goes along, and the POLL does not
// block.
func (l *Line) Poll(limit, block time.Duration, session int64, hasWoken bool) state.Reply {
	poll, along := []any{"LOCK.SESSION", "POLL", session}, batch(nil)
	if hasWoken {
		l.server.collect(true)
		runtime.Gosched()
		along = l.server.collect(false)
	}
	if len(along) == 0 {
		return l.Send(limit+block, append(poll, "BLOCK", block.Milliseconds()))[0]
	}
	replies := l.Send(limit, append(along.commands(), poll)...)
	along.answer(replies)
	return replies[len(along)]
}

func (s *Server) collect(collects bool) (collected batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.collects = collects; !collects {
		collected, s.queue = s.queue, nil
	}
	return collected
}
