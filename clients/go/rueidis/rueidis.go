// Package rueidis lets programs on rueidis use the locks of the Redis module redis-lock.
//
//	client, err := redislockrueidis.Client(shop, option)
//	locks := redislock.New(client, redislock.Options{Service: "orders"})
//
// A client of rueidis does not tell how it connects, but its [rueidis.ClientOption] does. The locks have connections
// of their own in any case.
package rueidis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// Client gives what [redislock.New] takes: it leads where this client does, and connects as its option says. It opens
// no connection. An option that cannot be carried over is an error.
func Client(client rueidis.Client, option rueidis.ClientOption) (redis.UniversalClient, error) {
	switch {
	case client == nil:
		return nil, errors.New("redislock: no client of rueidis")
	case len(option.InitAddress) == 0:
		return nil, errors.New("redislock: ClientOption.InitAddress is empty")
	case option.ReplicaOnly:
		return nil, errors.New("redislock: locks are taken on primaries: ClientOption.ReplicaOnly")
	case client.Mode() != rueidis.ClientModeStandalone && option.AuthCredentialsFn != nil:
		return nil, errors.New("redislock: ClientOption.AuthCredentialsFn is for one server only: it is told the address")
	}
	switch client.Mode() {
	case rueidis.ClientModeCluster:
		return cluster(option), nil
	case rueidis.ClientModeSentinel:
		return sentinel(option)
	case rueidis.ClientModeStandalone:
		return single(option), nil
	}
	return nil, fmt.Errorf("redislock: a client of an unknown mode: %s", client.Mode())
}

// single is one server: the first address, as rueidis has it.
func single(option rueidis.ClientOption) redis.UniversalClient {
	address := option.InitAddress[0]
	options := &redis.Options{
		Addr:   address,
		Dialer: dialer(option),
		DB:     option.SelectDB,
	}
	if option.AuthCredentialsFn == nil {
		options.Username, options.Password = option.Username, option.Password
		return redis.NewClient(options)
	}
	options.CredentialsProviderContext = func(context.Context) (user, password string, err error) {
		found, err := option.AuthCredentialsFn(rueidis.AuthCredentialsContext{Address: at(address)})
		return found.Username, found.Password, err
	}
	return redis.NewClient(options)
}

func cluster(option rueidis.ClientOption) redis.UniversalClient {
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:    option.InitAddress,
		Dialer:   dialer(option),
		Username: option.Username,
		Password: option.Password,
	})
}

// sentinel is the primary that Sentinels name. They are dialled as it is.
func sentinel(option rueidis.ClientOption) (redis.UniversalClient, error) {
	if option.Sentinel.TLSConfig != option.TLSConfig {
		return nil, errors.New("redislock: ClientOption.Sentinel.TLSConfig is another one than ClientOption.TLSConfig")
	}
	return redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:       option.Sentinel.MasterSet,
		SentinelAddrs:    option.InitAddress,
		SentinelUsername: option.Sentinel.Username,
		SentinelPassword: option.Sentinel.Password,
		Dialer:           dialer(option),
		Username:         option.Username,
		Password:         option.Password,
		DB:               option.SelectDB,
	}), nil
}

// dialer dials as rueidis does.
func dialer(option rueidis.ClientOption) func(ctx context.Context, network, address string) (net.Conn, error) {
	dial := option.Dialer
	if dial.Timeout == 0 {
		dial.Timeout = rueidis.DefaultDialTimeout
	}
	if dial.KeepAlive == 0 {
		dial.KeepAlive = rueidis.DefaultTCPKeepAlive
	}
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		switch {
		case option.DialCtxFn != nil:
			return option.DialCtxFn(ctx, address, &dial, option.TLSConfig)
		case option.DialFn != nil:
			return option.DialFn(address, &dial, option.TLSConfig)
		case option.TLSConfig != nil:
			return (&tls.Dialer{NetDialer: &dial, Config: option.TLSConfig}).DialContext(ctx, "tcp", address)
		}
		return dial.DialContext(ctx, "tcp", address)
	}
}

// at is an address as it was given.
type at string

func (at) Network() string  { return "tcp" }
func (a at) String() string { return string(a) }
