// Package server sends commands to the servers that a client of go-redis is configured for, by clients of its own that
// are derived from the options: each call is limited in time, and nothing is repeated.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"runtime"
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
	answered bool // the client has got an answer
	isClosed bool
	flights  int       // calls and pipelines under way
	landed   time.Time // when the last of them was answered
	queue    batch     // calls that share the next pipeline
	collects bool      // the loop is about to poll
	contexts map[time.Duration]shared
}

// shared is a context of many calls, and its end.
type shared struct {
	ctx context.Context
	end time.Time
}

// batch is the calls of a pipeline.
type batch []*queued

// queued is a call that another one, or itself, sends in a pipeline.
type queued struct {
	command []any
	reply   state.Reply
	turn    chan batch // its reply is here; or the calls that it sends
}

const (
	mostFlights = 4 // of a crowd of calls: more of them share pipelines
	mostInBatch = 100
	leastShared = 400 * time.Millisecond
)

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
	return &Server{Address: address, options: o, contexts: map[time.Duration]shared{}}
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
// about to poll, it shares a pipeline with others; but it never waits for a server that hangs.
func (s *Server) Call(limit time.Duration, asking bool, command []any) (reply state.Reply) {
	if limit <= 0 {
		return state.Reply{Fault: &state.Fault{Err: errors.New("no time was left")}}
	}
	s.mu.Lock()
	isCrowd := s.collects || s.flights >= mostFlights && time.Since(s.landed) < 50*time.Millisecond
	if asking || !isCrowd || limit < leastShared {
		s.fly(limit, func(ctx context.Context, client *redis.Client) *state.Fault {
			if asking {
				reply = sendAll(ctx, client, []any{"ASKING"}, command)[1]
			} else {
				reply = replyOf(client.Do(ctx, command...))
			}
			return reply.Fault
		})
		return reply
	}
	one := queued{command: command, turn: make(chan batch, 1)}
	s.queue = append(s.queue, &one)
	s.mu.Unlock()
	if mine := <-one.turn; mine != nil {
		s.mu.Lock()
		s.fly(limit, func(ctx context.Context, client *redis.Client) *state.Fault {
			mine.answer(sendAll(ctx, client, mine.commands()...))
			return one.reply.Fault
		})
	}
	return one.reply
}

// fly sends over the client of the moment, and then has the calls that queue sent by the first of them, unless the loop
// sends them. It is called with the mutex, and unlocks it.
func (s *Server) fly(limit time.Duration, send func(context.Context, *redis.Client) *state.Fault) {
	if s.client == nil {
		s.client, s.answered = s.connect(0), false
	}
	client, ctx := s.client, s.within(limit)
	if s.isClosed {
		_ = client.Close()
	}
	s.flights++
	s.mu.Unlock()
	fault := send(ctx, client)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heed(client, fault)
	s.landed = time.Now()
	if s.flights--; len(s.queue) > 0 && !s.collects {
		first := s.queue[:min(len(s.queue), mostInBatch)]
		s.queue = s.queue[len(first):]
		first[0].turn <- first
	}
}

// within returns a context that ends in this time, rounded down to 50 ms, or up to a twentieth later: many calls share
// one, since each one takes a timer.
func (s *Server) within(limit time.Duration) context.Context {
	const step = 50 * time.Millisecond
	if limit > step {
		limit = limit.Truncate(step)
	}
	shared := s.contexts[limit]
	if time.Until(shared.end) < limit {
		shared.end = time.Now().Add(limit + limit/20)
		ctx, cancel := context.WithDeadline(context.Background(), shared.end)
		context.AfterFunc(ctx, cancel)
		if shared.ctx = ctx; limit%step == 0 {
			s.contexts[limit] = shared
		}
	}
	return shared.ctx
}

// heed replaces a client whose connections may be dead or lead to an old primary, and one that waits between dials.
func (s *Server) heed(client *redis.Client, fault *state.Fault) {
	switch {
	case s.client != client:
	case fault == nil:
		s.answered = true
	case fault.Word == "READONLY" || fault.Word == "" && (s.answered || !fault.Sent):
		s.client = nil
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
		one.reply = replies[i]
		one.turn <- nil
	}
}

// Close closes the connections to the server.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed = true; s.client != nil {
		_ = s.client.Close()
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

func sendAll(ctx context.Context, client *redis.Client, commands ...[]any) []state.Reply {
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
