// Package server sends commands to the servers that a client of go-redis is configured for, by clients of its own that
// are derived from the options: each call is limited in time, and nothing is repeated.
package server

import (
	"context"
	"errors"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// Server is one server.
type Server struct {
	Address string
	Session Pool // the connection of the session
	calls   Pool // as large as the user's

	mu     sync.Mutex
	flying int     // calls and pipelines under way
	queue  []*call // that wait until fewer are
}

// most is the highest number of calls and pipelines under way.
const most = 2

// bySentinels is the address of a client of go-redis whose dialer asks Sentinels.
const bySentinels = "FailoverClient"

// New derives the server of a client of the user.
func New(client *redis.Client) *Server {
	o := *client.WithTimeout(time.Second).Options()                                  // a copy, which go-redis makes under its lock
	o.MaxRetries, o.DialerRetries, o.MinIdleConns, o.PipelinePoolSize = -1, 1, 0, -1 // one pool for all
	o.ReadTimeout, o.WriteTimeout, o.ContextTimeoutEnabled = -1, -1, true
	o.Protocol, o.Limiter, o.AutoPipelineOptions = 2, nil, nil // no pushed messages to look for
	o.ClientSideCache, o.ClientSideCacheConfig, o.PushNotificationProcessor = nil, nil, nil
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if dial := o.Dialer; o.Addr == bySentinels {
		o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			longer, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer cancel() // a Sentinel that hangs is passed over when the user's limits are over
			return dial(longer, network, address)
		}
	}
	return newServer(o)
}

func newServer(options redis.Options) *Server {
	session := options
	session.PoolSize, session.MaxActiveConns = 1, 0
	return &Server{Address: options.Addr, Session: Pool{options: session}, calls: Pool{options: options}}
}

// At returns another server with the same options.
func (s *Server) At(address string) *Server {
	options := s.calls.options
	options.Addr = address
	return newServer(options)
}

// call is a call that waits until it is sent, and then until it is answered.
type call struct {
	command []any
	limit   time.Duration
	reply   chan state.Reply
}

func newCall(limit time.Duration, command []any) *call {
	return &call{command, limit, make(chan state.Reply, 1)}
}

// Call sends a command once. With asking, the server is one that ASK named. While two calls or pipelines are under way,
// the others share the next pipeline.
func (s *Server) Call(limit time.Duration, asking bool, command []any) state.Reply {
	if asking {
		return s.calls.Send(limit, []any{"ASKING"}, command)[1]
	}
	s.mu.Lock()
	if s.flying < most {
		s.flying++
		s.mu.Unlock()
		defer s.sendNext()
		return s.calls.Send(limit, command)[0]
	}
	c := newCall(limit, command)
	s.queue = append(s.queue, c)
	s.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case reply := <-c.reply:
		return reply
	case <-timer.C: // the others of its pipeline may have more time
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	place := slices.Index(s.queue, c)
	if place >= 0 {
		s.queue = slices.Delete(s.queue, place, place+1)
	}
	return state.Reply{Fault: state.NoReply(s.Address, errors.New("no answer in time"), place < 0)}
}

// sendNext sends the calls that have queued, in place of those that have been answered.
func (s *Server) sendNext() {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.queue
	if len(calls) == 0 {
		s.flying--
		return
	}
	s.queue = nil
	go func() {
		s.calls.sendAll(calls)
		s.sendNext()
	}()
}

// sendAll sends calls in one pipeline.
func (p *Pool) sendAll(calls []*call) {
	limit, commands := time.Duration(0), make([][]any, len(calls))
	for i, c := range calls {
		limit, commands[i] = max(limit, c.limit), c.command
	}
	for i, reply := range p.Send(limit, commands...) {
		calls[i].reply <- reply
	}
}

// Poll polls a session. The last reply may have woken callers: the calls that they make at once go along, and the POLL
// does not block then.
func (s *Server) Poll(limit, block time.Duration, session int64) state.Reply {
	poll := newCall(limit, []any{"LOCK.SESSION", "POLL", session})
	s.mu.Lock()
	s.flying += most
	s.mu.Unlock()
	runtime.Gosched()
	s.mu.Lock()
	calls := s.queue
	s.queue = nil
	s.flying -= most
	s.mu.Unlock()
	if len(calls) == 0 {
		poll = newCall(limit+block, append(poll.command, "BLOCK", block.Milliseconds()))
	}
	s.Session.sendAll(append(calls, poll))
	return <-poll.reply
}

// Close closes the connections for calls.
func (s *Server) Close() { s.calls.Close() }
