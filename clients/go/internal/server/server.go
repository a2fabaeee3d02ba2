// Package server sends commands to the servers that a client of go-redis is configured for, by clients of its own that
// are derived from the options: each call is limited in time, and nothing is repeated.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
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
	queue    []*queued // calls that share the next pipeline
}

// queued is a call that another one, or itself, sends in a pipeline.
type queued struct {
	command []any
	reply   state.Reply
	turn    chan []*queued // its reply is here; or the calls that it sends
}

const mostFlights = 4 // of a crowd of calls: more of them share pipelines

// bySentinels is the address of a client of go-redis whose dialer asks Sentinels.
const bySentinels = "FailoverClient"

// One returns the server of a client.
func One(client *redis.Client) *Server { return newServer(client, client.Options().Addr) }

// newServer derives a server from a client of the user.
func newServer(client *redis.Client, address string) *Server {
	o := *client.WithTimeout(time.Second).Options() // a copy, which go-redis makes under its lock
	o.Addr = address
	o.MaxRetries, o.DialerRetries, o.MinIdleConns = -1, 1, 0
	o.ReadTimeout, o.WriteTimeout, o.ContextTimeoutEnabled = -1, -1, true
	o.Limiter, o.AutoPipelineOptions = nil, nil
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

// Call sends a command once. With asking, the server is one that ASK named.
func (s *Server) Call(limit time.Duration, asking bool, command []any) (reply state.Reply) {
	if limit <= 0 {
		return state.Reply{Fault: &state.Fault{Err: errors.New("no time was left")}}
	}
	if asking {
		return s.send(limit, [][]any{{"ASKING"}, command})[1]
	}
	one := queued{command: command}
	s.mu.Lock()
	if s.flights >= mostFlights && time.Since(s.landed) < 50*time.Millisecond { // nothing waits for a server that hangs
		one.turn = make(chan []*queued, 1)
		s.queue = append(s.queue, &one)
		s.mu.Unlock()
		batch := <-one.turn
		if batch == nil {
			return one.reply
		}
		commands := make([][]any, len(batch))
		for i, other := range batch {
			commands[i] = other.command
		}
		replies := s.send(limit, commands)
		s.land()
		for i, other := range batch[1:] {
			other.reply = replies[i+1]
			other.turn <- nil
		}
		return replies[0]
	}
	s.flights++
	s.mu.Unlock()
	defer s.land()
	return s.send(limit, [][]any{command})[0]
}

// land has the calls that queue sent by the first of them.
func (s *Server) land() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.landed = time.Now()
	if len(s.queue) == 0 {
		s.flights--
		return
	}
	batch := s.queue[:min(len(s.queue), 100)]
	s.queue = s.queue[len(batch):]
	batch[0].turn <- batch
}

func (s *Server) send(limit time.Duration, commands [][]any) []state.Reply {
	s.mu.Lock()
	if s.client == nil {
		s.client, s.answered = s.connect(0), false
	}
	client, isClosed := s.client, s.isClosed
	s.mu.Unlock()
	if isClosed {
		_ = client.Close()
	}
	replies := send(client, limit, commands)
	for _, reply := range replies {
		s.heed(client, reply.Fault)
	}
	return replies
}

// heed replaces a client whose connections may be dead or lead to an old primary, and one that waits between dials.
func (s *Server) heed(client *redis.Client, fault *state.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.client != client:
	case fault == nil:
		s.answered = true
	case fault.Word == "READONLY" || fault.Word == "" && (s.answered || !fault.Sent):
		s.client = nil
		time.AfterFunc(2*time.Second, func() { _ = client.Close() }) // other calls may be under way
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

// Poller is the connection of a session: no other call uses it.
type Poller struct{ client *redis.Client }

// Poller makes one. It connects with the first command.
func (s *Server) Poller() Poller { return Poller{s.connect(1)} }

// Send sends commands in a pipeline that is answered in this time.
func (p Poller) Send(limit time.Duration, commands ...[]any) []state.Reply {
	return send(p.client, limit, commands)
}

// Close closes the connection.
func (p Poller) Close() { _ = p.client.Close() }

func send(client *redis.Client, limit time.Duration, commands [][]any) []state.Reply {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if len(commands) == 1 {
		return []state.Reply{replyOf(client.Do(ctx, commands[0]...))}
	}
	pipe := client.Pipeline()
	made := make([]*redis.Cmd, len(commands))
	for i, command := range commands {
		made[i] = pipe.Do(ctx, command...)
	}
	_, failure := pipe.Exec(ctx)
	replies := make([]state.Reply, len(commands))
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
	var said redis.Error
	var dialing *net.OpError
	var certificate *tls.CertificateVerificationError
	isLate := errors.Is(err, context.DeadlineExceeded)
	switch {
	case err == nil:
		return state.Reply{Value: value}
	case errors.Is(err, redis.Nil):
		return state.Reply{}
	case errors.As(err, &said):
		return state.Reply{Fault: state.ErrorReply(said.Error())}
	case errors.As(err, &certificate):
		return state.Reply{Fault: &state.Fault{Word: "CERTIFICATE", Err: err}}
	case isLate: // never to be taken for the end of a context of the user
		err = errors.New("no connection in time")
	}
	isSent := !(errors.As(err, &dialing) && dialing.Op == "dial") && !errors.Is(err, redis.ErrPoolTimeout) &&
		!errors.Is(err, redis.ErrClosed) && !isLate
	return state.Reply{Fault: &state.Fault{Sent: isSent, Err: err}}
}
