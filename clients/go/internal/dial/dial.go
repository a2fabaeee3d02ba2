// Package dial connects as a client of go-redis does, by its configuration.
package dial

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"

	"github.com/redis-lock/redis-lock/clients/go/internal/wire"
)

// BySentinels is what go-redis has for an address where Sentinels tell it.
const BySentinels = "FailoverClient"

// AskingSentinels is how long its dialer may go on though nobody waits any more. Where the context has ended, it stays with
// a Sentinel that hangs; else it turns to the others when its own limits are over.
const AskingSentinels = time.Minute

// Server connects to one server, or to the primary that Sentinels tell: then the dialer asks them.
func Server(ctx context.Context, o *redis.Options, address string) (net.Conn, wire.Login, error) {
	if address == BySentinels {
		longer, cancel := context.WithTimeout(context.WithoutCancel(ctx), AskingSentinels)
		defer cancel()
		ctx = longer
	}
	login, err := LogIn(ctx, o.Username, o.Password, o.CredentialsProvider, o.CredentialsProviderContext,
		o.StreamingCredentialsProvider)
	if err != nil {
		return nil, login, err
	}
	login.Database = o.DB
	conn, err := o.Dialer(ctx, o.Network, address)
	return conn, login, err
}

// LogIn asks for credentials anew for each connection, in the order of go-redis.
func LogIn(ctx context.Context, user, password string, provider func() (string, string),
	withContext func(context.Context) (string, string, error), streaming auth.StreamingCredentialsProvider,
) (login wire.Login, err error) {
	switch {
	case streaming != nil:
		now, unsubscribe, err := streaming.Subscribe(&deaf{})
		if err != nil {
			return login, err
		}
		_ = unsubscribe()
		login.User, login.Password = now.BasicAuth()
	case withContext != nil:
		login.User, login.Password, err = withContext(ctx)
	case provider != nil:
		login.User, login.Password = provider()
	default:
		login.User, login.Password = user, password
	}
	return login, err
}

// deaf wants no events of credentials: when they have run out, the server closes the connection, and the next one
// gets the new ones.
type deaf struct{ _ byte }

func (*deaf) OnNext(auth.Credentials) {}
func (*deaf) OnError(error)           {}
