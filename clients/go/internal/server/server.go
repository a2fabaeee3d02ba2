// Package server sends commands to the servers that a client of go-redis is configured for, by clients of its own that
// are derived from the options: each call is limited in time, and nothing is repeated.
package server

import (
	"cmp"
	"context"
	"crypto/tls"
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

	options  redis.Options
	mu       sync.Mutex
	client   *redis.Client
	idle     *redis.Conn // of the last flight
	answered bool        // the client has got an answer
	isClosed bool
	flights  int           // calls and pipelines under way
	landed   time.Duration // when the last of them was answered
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
	mostFlights = 4 // of a crowd of calls: more of them share pipelines
	moment      = 50 * time.Millisecond
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
	o.MaxRetries, o.DialerRetries, o.MinIdleConns, o.PipelinePoolSize = -1, 1, 0, -1 // one pool for all
	o.ReadTimeout, o.WriteTimeout, o.ContextTimeoutEnabled = -1, -1, true
	o.Protocol, o.Limiter, o.AutoPipelineOptions = 2, nil, nil // no pushed messages to look for
	o.ClientSideCache, o.ClientSideCacheConfig, o.PushNotificationProcessor = nil, nil, nil
	if dial := o.Dialer; address == bySentinels {
		o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			longer, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer cancel() // a Sentinel that hangs is passed over when the user's limits are over
			return dial(longer, network, address)
		}
	}
	return &Server{Address: address, options: o}
}

func (s *Server) connect(poolSize int) *redis.Client {
	o := s.options
	if poolSize > 0 {
		o.PoolSize, o.MaxActiveConns, o.MaxIdleConns = poolSize, 0, 0
	}
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(&o)
}

// Call sends a command once. With asking, the server is one that ASK named. In a crowd of calls, or when the loop is
// about to poll, it shares a pipeline with others, which the end of the context does not wait for.
func (s *Server) Call(ctx context.Context, limit time.Duration, asking bool, command []any) (reply state.Reply) {
	if limit <= 0 {
		return noReply(false, "no time was left")
	}
	s.mu.Lock()
	isCrowd := s.collects || s.flights >= mostFlights && !s.hangs()
	if asking || !isCrowd {
		f := s.takeOff(limit)
		if asking {
			reply = sendAll(f.ctx, f.conn, []any{"ASKING"}, command)[1]
		} else {
			reply = replyOf(f.conn.Do(f.ctx, command...))
		}
		f.land(reply.Fault)
		return reply
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

// flight is a call or a pipeline under way.
type flight struct {
	server *Server
	client *redis.Client
	conn   *redis.Conn
	ctx    context.Context
}

// hangs reports whether no call has been answered for a moment. The mutex is held.
func (s *Server) hangs() bool { return time.Since(epoch) > s.landed+moment }

// takeOff begins a flight over the client of the moment. A connection that was used a moment ago is used again without
// a look at its state. takeOff is called with the mutex, and unlocks it.
func (s *Server) takeOff(limit time.Duration) flight {
	defer s.mu.Unlock()
	if s.client == nil {
		s.client, s.answered = s.connect(0), false
	}
	if s.isClosed {
		_ = s.client.Close()
	}
	f := flight{s, s.client, s.idle, s.limited(limit)}
	if s.idle = nil; f.conn != nil && s.hangs() {
		_ = f.conn.Close()
		f.conn = nil
	}
	if f.conn == nil {
		f.conn = s.client.Conn()
	}
	s.flights++
	return f
}

// land ends a flight. Calls that have queued meanwhile fly next, unless the loop takes them along.
func (f flight) land(fault *state.Fault) {
	s := f.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heed(f.client, fault)
	if s.client == f.client && s.idle == nil && fault == nil {
		s.idle = f.conn
	} else {
		_ = f.conn.Close()
	}
	s.landed = time.Since(epoch)
	s.flights--
	if next := s.queue; len(next) > 0 && !s.collects {
		s.queue = nil
		go s.fly(next)
	}
}

// fly sends a batch.
func (s *Server) fly(b batch) {
	longest := slices.MaxFunc(b, func(a, b *queued) int { return cmp.Compare(a.limit, b.limit) })
	s.mu.Lock()
	f := s.takeOff(longest.limit)
	replies := sendAll(f.ctx, f.conn, b.commands()...)
	b.answer(replies)
	f.land(replies[0].Fault)
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

// heed replaces a client whose connections may be dead or lead to an old primary, and one that waits between dials.
func (s *Server) heed(client *redis.Client, fault *state.Fault) {
	switch {
	case s.client != client:
	case fault == nil:
		s.answered = true
	case fault.Word == "READONLY" || fault.Word == "" && (s.answered || !fault.Sent):
		s.client, s.idle = nil, nil
		time.AfterFunc(2*time.Second, func() { _ = client.Close() }) // other calls may be under way
	}
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
	if s.isClosed = true; s.client != nil {
		_ = s.client.Close() // its connections too
	}
}

// Poller is the connection of a session: only the loop uses it.
type Poller struct {
	server *Server
	client *redis.Client
}

// Poller makes one. It connects with the first command.
func (s *Server) Poller() Poller { return Poller{s, s.connect(1)} }

// Send sends commands in a pipeline that is answered in this time.
func (p Poller) Send(limit time.Duration, commands ...[]any) []state.Reply {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return sendAll(ctx, p.client, commands...)
}

// Poll polls a session. If the last reply has woken callers, what they call at once goes along, and the POLL does not
// block.
func (p Poller) Poll(limit, block time.Duration, session int64, hasWoken bool) state.Reply {
	poll, along := []any{"LOCK.SESSION", "POLL", session}, batch(nil)
	if hasWoken {
		p.server.collect(true)
		runtime.Gosched()
		along = p.server.collect(false)
	}
	if len(along) == 0 {
		return p.Send(limit+block, append(poll, "BLOCK", block.Milliseconds()))[0]
	}
	replies := p.Send(limit, append(along.commands(), poll)...)
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

// Close closes the connection.
func (p Poller) Close() { _ = p.client.Close() }

// sender is a client or a connection of one.
type sender interface{ Pipeline() redis.Pipeliner }

func sendAll(ctx context.Context, client sender, commands ...[]any) []state.Reply {
	pipe, made, replies := client.Pipeline(), make([]*redis.Cmd, len(commands)), make([]state.Reply, len(commands))
	for i, command := range commands {
		made[i] = pipe.Do(ctx, command...)
	}
	_, failure := pipe.Exec(ctx)
	for i, command := range made {
		if command.Err() == nil && command.Val() == nil { // go-redis: refused while it logs in
			command.SetErr(failure)
		}
		replies[i] = replyOf(command)
	}
	return replies
}

func replyOf(command *redis.Cmd) state.Reply {
	value, err := command.Result()
	switch {
	case err == nil:
		return state.Reply{Value: value}
	case errors.Is(err, redis.Nil):
		return state.Reply{}
	}
	return state.Reply{Fault: faultOf(err)}
}

func faultOf(err error) *state.Fault {
	var said redis.Error
	var dialing *net.OpError
	var certificate *tls.CertificateVerificationError
	isLate := errors.Is(err, context.DeadlineExceeded)
	switch {
	case errors.As(err, &said):
		return state.ErrorReply(said.Error())
	case errors.As(err, &certificate):
		fault := state.ErrorReply("CERTIFICATE " + err.Error())
		fault.Err = err
		return fault
	case isLate: // never to be taken for the end of a context of the user
		err = errors.New("no connection in time")
	}
	isSent := !(errors.As(err, &dialing) && dialing.Op == "dial") && !errors.Is(err, redis.ErrPoolTimeout) &&
		!errors.Is(err, redis.ErrClosed) && !isLate
	return &state.Fault{Sent: isSent, Err: err}
}
