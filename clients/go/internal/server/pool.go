package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// Pool is a client of go-redis that is replaced after a failure: its other connections may be as dead as the one that
// failed, or lead to an old primary, and after some failures to connect it tries once a second only.
type Pool struct {
	options redis.Options
	mu      sync.Mutex
	client  *redis.Client // nil: the next command makes it
}

// Send sends commands in a pipeline that is answered in this time.
func (p *Pool) Send(limit time.Duration, commands ...[]any) []state.Reply {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	client, replies, made := p.open(), make([]state.Reply, len(commands)), make([]*redis.Cmd, len(commands))
	pipe := client.Pipeline()
	for i, command := range commands {
		made[i] = pipe.Do(ctx, command...)
	}
	_, failure := pipe.Exec(ctx)
	for i, command := range made {
		if command.Err() == nil && command.Val() == nil { // go-redis: refused while it logs in
			command.SetErr(failure)
		}
		replies[i] = p.replyOf(command)
		if fault := replies[i].Fault; fault != nil && (fault.Word == "" || fault.Word == "READONLY") && !errors.Is(fault, redis.ErrClosed) {
			p.replace(client, time.Second)
		}
	}
	return replies
}

func (p *Pool) open() *redis.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client == nil {
		options := p.options // go-redis changes them
		p.client = redis.NewClient(&options)
	}
	return p.client
}

// replace drops this client, or with nil any client, so that the next commands use new connections. Calls under way
// keep theirs for the time rest.
func (p *Pool) replace(client *redis.Client, rest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := p.client; last != nil && (client == nil || client == last) {
		p.client = nil
		time.AfterFunc(rest, func() { _ = last.Close() })
	}
}

// Reset closes the connections. The next command opens another one.
func (p *Pool) Reset() { p.replace(nil, 0) }

// Close closes the connections for good.
func (p *Pool) Close() { _ = p.open().Close() }

func (p *Pool) replyOf(command *redis.Cmd) state.Reply {
	value, err := command.Result()
	switch {
	case err == nil:
		return state.Reply{Value: value}
	case errors.Is(err, redis.Nil):
		return state.Reply{}
	}
	return state.Reply{Fault: faultOf(p.options.Addr, err)}
}

// faultOf returns the meaning of an error of go-redis, and names the server.
func faultOf(server string, err error) *state.Fault {
	var said redis.Error
	var dialing *net.OpError
	var certificate *tls.CertificateVerificationError
	isLate := errors.Is(err, context.DeadlineExceeded)
	switch {
	case errors.As(err, &said):
		return state.ErrorReply(server, said.Error())
	case errors.As(err, &certificate):
		return &state.Fault{Kind: state.ErrRefused, Err: fmt.Errorf("%s: %w", server, err)}
	case isLate: // never to be taken for the end of a context of the user
		err = errors.New("no connection in time")
	}
	isSent := !(errors.As(err, &dialing) && dialing.Op == "dial") && !errors.Is(err, redis.ErrPoolTimeout) &&
		!errors.Is(err, redis.ErrClosed) && !isLate
	return state.NoReply(server, err, isSent)
}
