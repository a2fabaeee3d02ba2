package server

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// Servers are the one server of a client, or the nodes of its cluster.
type Servers struct {
	one     *redis.Client
	cluster *redis.ClusterClient
}

// Of returns the servers of a client, or nil if it is neither a *redis.Client nor a *redis.ClusterClient.
func Of(client redis.UniversalClient) *Servers {
	if one, ok := client.(*redis.Client); ok && one != nil {
		return &Servers{one: one}
	}
	if cluster, ok := client.(*redis.ClusterClient); ok && cluster != nil {
		return &Servers{cluster: cluster}
	}
	return nil
}

// IsCluster reports whether a lock may move from one server to another.
func (s *Servers) IsCluster() bool { return s.cluster != nil }

// Find returns the client for the server that has the key.
func (s *Servers) Find(key string, limit time.Duration) (*redis.Client, *state.Fault) {
	if s.one != nil {
		return s.one, nil
	}
	var client *redis.Client
	var err error
	found := make(chan struct{})
	go func() { // the user's limits may be longer than ours
		defer close(found)
		client, err = s.cluster.MasterForKey(context.Background(), key)
	}()
	select {
	case <-found:
	case <-time.After(limit):
		return nil, state.NoReply("cluster", errors.New("no node said in time which node serves the key"), false)
	}
	if err != nil {
		return nil, faultOf("cluster", err)
	}
	return client, nil
}

// Redirected returns the address of the node that a reply redirects to; empty if it does not redirect.
func (s *Servers) Redirected(from *Server, fault *state.Fault) string {
	if s.cluster == nil || !fault.Redirects() {
		return ""
	}
	s.Refresh()
	parts := strings.Fields(fault.Error())
	address := parts[len(parts)-1]
	if host, port, err := net.SplitHostPort(address); err == nil && host == "" { // the host that answered
		host, _, _ = net.SplitHostPort(from.Address)
		address = net.JoinHostPort(host, port)
	}
	return address
}

// Refresh reads the map of the cluster again, in the background.
func (s *Servers) Refresh() { s.cluster.ReloadState(context.Background()) }
