package server

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// Servers are the one server of a client, or the nodes of its cluster.
type Servers struct {
	cluster *redis.ClusterClient
	only    *Server

	mu       sync.Mutex
	nodes    map[string]*Server
	template *redis.Client
}

// Of returns the servers of a client, or nil if it is neither a *redis.Client nor a *redis.ClusterClient.
func Of(client redis.UniversalClient) *Servers {
	if one, ok := client.(*redis.Client); ok && one != nil {
		return &Servers{only: One(one)}
	}
	if cluster, ok := client.(*redis.ClusterClient); ok && cluster != nil {
		return &Servers{cluster: cluster, nodes: map[string]*Server{}}
	}
	return nil
}

// IsCluster reports whether a lock may move from one server to another.
func (s *Servers) IsCluster() bool { return s.cluster != nil }

// Find returns the server that has the key.
func (s *Servers) Find(key string, limit time.Duration) (*Server, *state.Fault) {
	if s.only != nil {
		return s.only, nil
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
		return nil, &state.Fault{Err: errors.New("no node of the cluster said in time which node serves the key")}
	}
	if err != nil {
		return nil, faultOf(err)
	}
	s.mu.Lock()
	s.template = client
	s.mu.Unlock()
	return s.at(client.Options().Addr), nil
}

func (s *Servers) at(address string) *Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes[address] == nil {
		s.nodes[address] = newServer(s.template, address)
	}
	return s.nodes[address]
}

// Redirected returns where a reply leads; nil: nowhere else.
func (s *Servers) Redirected(from *Server, fault *state.Fault) *Server {
	if from == nil || s.cluster == nil || !fault.Redirects() {
		return nil
	}
	s.Refresh()
	parts := strings.Fields(fault.Error())
	if len(parts) < 3 {
		return nil
	}
	address := parts[2]
	if host, port, err := net.SplitHostPort(address); err == nil && host == "" { // the host that answered
		host, _, _ = net.SplitHostPort(from.Address)
		address = net.JoinHostPort(host, port)
	}
	return s.at(address)
}

// Refresh has the map of the cluster read again, in the background.
func (s *Servers) Refresh() { s.cluster.ReloadState(context.Background()) }

// Close closes what was derived, not the user's client.
func (s *Servers) Close() {
	if s.only != nil {
		s.only.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, node := range s.nodes {
		node.Close()
	}
}
