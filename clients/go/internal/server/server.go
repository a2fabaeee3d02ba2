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

	turns chan struct{} // of the pipelines under way
	mu    sync.Mutex
	next  *batch // that waits for its turn
}

// bySentinels is the address of a client of go-redis whose dialer asks Sentinels.
const bySentinels = "FailoverClient"

// One returns the server of a client.
func One(client *redis.Client) *Server { return newServer(client, client.Options().Addr) }

// newServer derives a server from a client of the user.
func newServer(client *redis.Client, address string) *Server {
	o := *client.WithTimeout(time.Second).Options() // a copy, which go-redis makes under its lock
	o.Addr = address
	o.MaxRetries, o.DialerRetries, o.MinIdleConns, o.PipelinePoolSize = -1, 1, 0, -1 // one pool for all
	o.ReadTimeout, o.WriteTimeout, o.ContextTimeoutEnabled = -1, -1, true
	o.Protocol, o.Limiter, o.AutoPipelineOptions = 2, nil, nil // no pushed messages to look for
	o.ClientSideCache, o.ClientSideCacheConfig, o.PushNotificationProcessor = nil, nil, nil
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if dial := o.Dialer; address == bySentinels {
		o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			longer, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer cancel() // a Sentinel that hangs is passed over when the user's limits are over
			return dial(longer, network, address)
		}
	}
	server := Server{Address: address, Session: Pool{options: o}, calls: Pool{options: o}, turns: make(chan struct{}, 2)}
	server.Session.options.PoolSize, server.Session.options.MaxActiveConns = 1, 0
	return &server
}

// batch is calls that share a pipeline.
type batch struct {
	commands [][]any
	until    time.Time // when the last of them has to be answered
	replies  []state.Reply
	answered chan struct{}
}

// Call sends a command once. With asking, the server is one that ASK named. While two calls or pipelines are under way, the
// others share the next pipeline. The first of them waits for its turn and sends it, unless the loop takes it along.
func (s *Server) Call(limit time.Duration, asking bool, command []any) state.Reply {
	if asking {
		return s.calls.Send(limit, []any{"ASKING"}, command)[1]
	}
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
		return s.calls.Send(limit, command)[0]
	default:
	}
	until := time.Now().Add(limit)
	s.mu.Lock()
	if s.next == nil {
		s.next = &batch{until: until, answered: make(chan struct{})}
	}
	b, place := s.next, len(s.next.commands)
	if b.commands = append(b.commands, command); until.After(b.until) {
		b.until = until
	}
	s.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	if place == 0 {
		s.lead(b, timer)
	}
	select {
	case <-b.answered:
		return b.replies[place]
	case <-timer.C: // the others may have more time
		return late(true)
	}
}

func late(isSent bool) state.Reply {
	return state.Reply{Fault: &state.Fault{Sent: isSent, Err: errors.New("no answer in time")}}
}

// lead sends a batch, if it has its turn before the timer ends.
func (s *Server) lead(b *batch, timer *time.Timer) {
	select {
	case s.turns <- struct{}{}:
		go func() {
			if s.take(b) {
				b.answer(s.calls.Send(time.Until(b.until), b.commands...))
			}
			<-s.turns
		}()
	case <-b.answered:
	case <-timer.C:
		if s.take(b) {
			b.answer(slices.Repeat([]state.Reply{late(false)}, len(b.commands)))
		} else {
			timer.Reset(0) // the loop has it
		}
	}
}

// take reports whether the batch was still in the queue, which it leaves: no call joins it any more.
func (s *Server) take(b *batch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	isNext := s.next == b
	if isNext {
		s.next = nil
	}
	return isNext
}

func (b *batch) answer(replies []state.Reply) {
	b.replies = replies
	close(b.answered)
}

// Poll polls a session. If the last reply has woken callers, what they call at once goes along, and the POLL does not
// block.
func (s *Server) Poll(limit, block time.Duration, session int64, hasWoken bool) state.Reply {
	poll, b := []any{"LOCK.SESSION", "POLL", session}, (*batch)(nil)
	if hasWoken {
		turns := 0
		for range cap(s.turns) {
			select {
			case s.turns <- struct{}{}:
				turns++
			default:
			}
		}
		runtime.Gosched()
		s.mu.Lock()
		b, s.next = s.next, nil
		s.mu.Unlock()
		for range turns {
			<-s.turns
		}
	}
	if b == nil {
		return s.Session.Send(limit+block, append(poll, "BLOCK", block.Milliseconds()))[0]
	}
	replies := s.Session.Send(limit, append(b.commands, poll)...)
	b.answer(replies)
	return replies[len(b.commands)]
}

// Close closes the connections for calls.
func (s *Server) Close() { s.calls.Close() }
