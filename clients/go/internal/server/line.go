package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// Line is a connection to a server, for one user at a time. It connects with the first command, and anew after a failure.
type Line struct {
	server *Server
	client *redis.Client // of the mutex of the server: its pool has this one connection; nil after a failure
	conn   *redis.Conn
	used   time.Duration // when it was answered
}

// Line makes a line.
func (s *Server) Line() *Line { return &Line{server: s} }

// Send sends commands in a pipeline that is answered in this time.
func (l *Line) Send(limit time.Duration, commands ...[]any) []state.Reply {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return l.send(ctx, commands)
}

func (l *Line) send(ctx context.Context, commands [][]any) []state.Reply {
	conn := l.connection()
	replies, made := make([]state.Reply, len(commands)), make([]*redis.Cmd, len(commands))
	var failure error
	if len(commands) == 1 {
		made[0] = conn.Do(ctx, commands[0]...)
	} else {
		pipe := conn.Pipeline()
		for i, command := range commands {
			made[i] = pipe.Do(ctx, command...)
		}
		_, failure = pipe.Exec(ctx)
	}
	l.used = time.Since(epoch)
	for i, command := range made {
		if command.Err() == nil && command.Val() == nil { // go-redis: refused while it logs in
			command.SetErr(failure)
		}
		replies[i] = replyOf(command)
		if fault := replies[i].Fault; fault != nil {
			l.used = -moment
			if fault.Word == "" || fault.Word == "READONLY" {
				l.Close()
			}
		}
	}
	return replies
}

// connection returns the connection. Unless it was answered a moment ago, go-redis looks first whether it is still open.
func (l *Line) connection() *redis.Conn {
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	switch {
	case l.client == nil:
		options := l.server.options
		options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
		if l.client = redis.NewClient(&options); l.server.isClosed {
			_ = l.client.Close()
		}
	case time.Since(epoch) < l.used+moment:
		return l.conn
	default:
		_ = l.conn.Close() // it goes back to the pool
	}
	l.conn = l.client.Conn()
	return l.conn
}

// Close closes the connection.
func (l *Line) Close() {
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	l.close()
}

func (l *Line) close() {
	if l.client != nil {
		_ = l.client.Close()
		l.client = nil
	}
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
