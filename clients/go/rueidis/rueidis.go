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
	"slices"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// Client gives what [redislock.New] takes: it leads where this client does, and connects as its option says. It opens
// no connection. An option that cannot be carried over is an error.
func Client(client rueidis.Client, option rueidis.ClientOption) (redis.UniversalClient, error) {
	if client == nil {
		return nil, errors.New("redislock: no client of rueidis")
	}
	mode := client.Mode()
	if why := refusal(mode, option); why != "" {
		return nil, errors.New("redislock: ClientOption." + why)
	}
	switch mode {
	case rueidis.ClientModeCluster:
		return cluster(option), nil
	case rueidis.ClientModeSentinel:
		return sentinel(option), nil
	case rueidis.ClientModeStandalone:
		return single(option), nil
	}
	return nil, fmt.Errorf("redislock: the client has an unknown mode: %s", mode)
}

// refusal says what of the option would lead elsewhere, or not be obeyed; nothing: "".
func refusal(mode rueidis.ClientMode, option rueidis.ClientOption) string {
	bySentinel := mode == rueidis.ClientModeSentinel
	servers, sentinels := option.Dialer, option.Sentinel.Dialer
	switch {
	case len(option.InitAddress) == 0:
		return "InitAddress is empty"
	case option.ReplicaOnly:
		return "ReplicaOnly: locks are acquired on primaries"
	case bySentinel != (option.Sentinel.MasterSet != ""):
		return "Sentinel.MasterSet: the client was made with another option"
	case mode == rueidis.ClientModeStandalone && option.Standalone.EnableRedirect:
		return "Standalone.EnableRedirect: locks follow no redirect"
	case mode == rueidis.ClientModeCluster && option.SelectDB != 0:
		return "SelectDB: in a cluster, locks are in database 0"
	case mode != rueidis.ClientModeStandalone && option.AuthCredentialsFn != nil:
		return "AuthCredentialsFn is for one server only, because its argument is the address: " +
			"make a client of go-redis with a CredentialsProvider"
	case bySentinel && option.Sentinel.TLSConfig != option.TLSConfig:
		return "Sentinel.TLSConfig differs from ClientOption.TLSConfig"
	case bySentinel && (sentinels.LocalAddr != servers.LocalAddr || sentinels.Resolver != servers.Resolver):
		return "Sentinel.Dialer has another LocalAddr or Resolver than ClientOption.Dialer"
	case bySentinel && (controls(servers) || controls(sentinels)): // functions cannot be compared
		return "Dialer and Sentinel.Dialer: Control and ControlContext are not for Sentinels, use DialCtxFn"
	}
	return ""
}

func controls(dial net.Dialer) bool { return dial.Control != nil || dial.ControlContext != nil }

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
		Addrs:    slices.Clone(option.InitAddress), // which rueidis shuffles in place
		Dialer:   dialer(option),
		Username: option.Username,
		Password: option.Password,
	})
}

// sentinel is the primary that Sentinels name. They are dialled in the same way, because go-redis has one dialer for both.
func sentinel(option rueidis.ClientOption) redis.UniversalClient {
	return redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:       option.Sentinel.MasterSet,
		SentinelAddrs:    option.InitAddress,
		SentinelUsername: option.Sentinel.Username,
		SentinelPassword: option.Sentinel.Password,
		Dialer:           dialer(option),
		Username:         option.Username,
		Password:         option.Password,
		DB:               option.SelectDB,
	})
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
