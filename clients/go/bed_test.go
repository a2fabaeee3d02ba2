package redislock

// Servers of the test bed, and what these tests order.

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redis-lock/redis-lock/clients/go/internal/bed"
)

type (
	words    = bed.Words
	reported = bed.Reported
)

// launch starts what ends with the test.
func launch(t *testing.T, what string, how words) []*server {
	t.Helper()
	said := bed.Order(t, what, how)
	all := append(append(said.Nodes, said.Servers...), said.Sentinels...)
	if said.Port != 0 {
		all = []reported{said}
	}
	servers := make([]*server, len(all))
	for i, one := range all {
		address := fmt.Sprint("127.0.0.1:", one.Port)
		client := redis.NewClient(&redis.Options{Addr: address, Protocol: 2, DialerRetries: 1})
		servers[i] = &server{client, t, address, one.Port}
	}
	t.Cleanup(func() {
		servers[0].order("end", words{})
		for _, server := range servers {
			_ = server.Close()
		}
	})
	return servers
}

// server has the module, or is a proxy before one that has.
type server struct {
	*redis.Client
	t       *testing.T
	address string
	port    int
}

// order gives an order that concerns this server.
func (s *server) order(do string, how words) reported {
	s.t.Helper()
	how["port"] = s.port
	return bed.Order(s.t, do, how)
}

func start(t *testing.T) *server { t.Helper(); return launch(t, "server", words{})[0] }

// startCluster gives three nodes, with a third of the slots each.
func startCluster(t *testing.T) []*server { t.Helper(); return launch(t, "cluster", words{}) }

// startSentinel gives a primary, its replica, and a Sentinel that watches over them.
func startSentinel(t *testing.T) (primary, replica, watching *server) {
	t.Helper()
	all := launch(t, "sentinels", words{})
	return all[0], all[1], all[2]
}

// before is a proxy before a server.
func before(t *testing.T, s *server) *server {
	t.Helper()
	return launch(t, "proxy", words{"port": s.port})[0]
}

// inject does this with the answer to the next command that has this word in it.
func (s *server) inject(fault any, word string) {
	s.t.Helper()
	s.order("inject", words{"fault": fault, "words": word})
}
