package redislock

import (
	"context"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/redis-lock/redis-lock/clients/go/internal/dial"
	"github.com/redis-lock/redis-lock/clients/go/internal/wire"
)

// servers tell which server a key is at, and how to connect to it. Addresses are their names.
type servers interface {
	// find gives the server of the key.
	find(ctx context.Context, key string) (address string, err error)
	// peek gives what is known of that without asking anybody.
	peek(key string) (address string, known bool)
	// dial connects, and says how to log in.
	dial(ctx context.Context, address string) (net.Conn, wire.Login, error)
	// moved is told when the server of an address says that another has the key.
	moved(key, from, to string)
	// doubt is told when a server cannot be reached.
	doubt()
}

// serversOf reads the client's configuration. Nothing of the client is copied whole, or changed: go-redis writes
// to its own options while it connects.
func serversOf(client redis.UniversalClient, limits Options) servers {
	switch client := client.(type) {
	case *redis.Client:
		if client != nil {
			return single{client.Options()}
		}
	case *redis.ClusterClient:
		if client != nil {
			return newCluster(client.Options(), limits.Reply)
		}
	}
	return nil
}

// single is one server, or the primary that Sentinels tell: then the dialer asks them.
type single struct{ options *redis.Options }

func (s single) find(context.Context, string) (string, error) { return s.options.Addr, nil }
func (s single) peek(string) (string, bool)                   { return s.options.Addr, true }
func (s single) moved(_, _, _ string)                         {}
func (s single) doubt()                                       {}

func (s single) dial(ctx context.Context, address string) (net.Conn, wire.Login, error) {
	return dial.Server(ctx, s.options, address)
}
