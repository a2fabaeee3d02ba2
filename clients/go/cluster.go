package redislock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-lock/redis-lock/clients/go/internal/dial"
	"github.com/redis-lock/redis-lock/clients/go/internal/wire"
)

const slots = 16384

// cluster has a map of its own: that of go-redis waits for nodes that hang.
type cluster struct {
	options *redis.ClusterOptions
	dialer  func(context.Context, string, string) (net.Conn, error)
	reply   time.Duration

	mu    sync.Mutex
	at    *[slots]string // nil until the map has been read
	nodes []string
	look  *looking // at the map, now
	last  time.Time
}

type looking struct {
	done chan struct{}
	err  error
}

func newCluster(options *redis.ClusterOptions, reply time.Duration) *cluster {
	dialer := options.Dialer
	if dialer == nil {
		dialer = redis.NewDialer(&redis.Options{DialTimeout: reply, TLSConfig: options.TLSConfig})
	}
	return &cluster{options: options, dialer: dialer, reply: reply}
}

func (c *cluster) dial(ctx context.Context, address string) (net.Conn, wire.Login, error) {
	o := c.options
	login, err := dial.LogIn(ctx, o.Username, o.Password, o.CredentialsProvider, o.CredentialsProviderContext,
		o.StreamingCredentialsProvider)
	if err != nil {
		return nil, login, err
	}
	conn, err := c.dialer(ctx, "tcp", address)
	return conn, login, err
}

func (c *cluster) find(ctx context.Context, key string) (string, error) {
	slot := slotOf(key)
	c.mu.Lock()
	for c.at == nil || c.at[slot] == "" {
		looking := c.lookAgain()
		c.mu.Unlock()
		select {
		case <-looking.done:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		c.mu.Lock()
		switch {
		case looking.err != nil:
			c.mu.Unlock()
			return "", looking.err
		case c.at[slot] == "":
			c.mu.Unlock()
			return "", wire.ServerError("CLUSTERDOWN no node serves the slot")
		}
	}
	defer c.mu.Unlock()
	return c.at[slot], nil
}

func (c *cluster) peek(key string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == nil {
		return "", false
	}
	address := c.at[slotOf(key)]
	return address, address != ""
}

func (c *cluster) moved(key, from, to string) {
	host, port, err := net.SplitHostPort(to)
	if err != nil {
		return
	}
	to = address(host, port, from)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at != nil && c.at[slotOf(key)] != to {
		c.at[slotOf(key)] = to
		c.lookAgain()
	}
}

func (c *cluster) doubt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lookAgain()
}

// lookAgain reads the map anew, a few times a second at most.
func (c *cluster) lookAgain() *looking {
	if c.look != nil {
		return c.look
	}
	look := &looking{done: make(chan struct{})}
	c.look = look
	pause := max(0, time.Until(c.last.Add(200*time.Millisecond)))
	asked := sample(c.nodes, 5)
	asked = append(asked, sample(c.options.Addrs, 5)...)
	go func() {
		time.Sleep(pause)
		at, nodes, err := c.ask(asked)
		c.mu.Lock()
		defer c.mu.Unlock()
		if err == nil {
			c.at, c.nodes = at, nodes
		}
		c.look, c.last, look.err = nil, time.Now(), err
		close(look.done)
	}()
	return look
}

func sample(all []string, n int) (some []string) {
	for _, i := range rand.Perm(len(all))[:min(n, len(all))] {
		some = append(some, all[i])
	}
	return some
}

// ask takes the first answer of these nodes: one that hangs holds up nothing.
func (c *cluster) ask(nodes []string) (*[slots]string, []string, error) {
	limit := c.reply
	if c.options.ClusterSlots != nil { // it may be Sentinels that are asked
		limit = dial.AskingSentinels
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if c.options.ClusterSlots != nil {
		told, err := c.options.ClusterSlots(ctx)
		if err != nil {
			return nil, nil, err
		}
		return readMap(told)
	}
	type answer struct {
		told []redis.ClusterSlot
		err  error
	}
	answers := make(chan answer, len(nodes))
	for _, node := range nodes {
		go func() {
			told, err := c.askOne(ctx, node)
			answers <- answer{told, err}
		}()
	}
	failure := errors.New("the cluster has no address")
	for range nodes {
		got := <-answers
		if got.err == nil {
			return readMap(got.told)
		}
		if failure = got.err; kindOf(acquiring, failure) == ErrRefused {
			break
		}
	}
	return nil, nil, failure
}

func (c *cluster) askOne(ctx context.Context, node string) ([]redis.ClusterSlot, error) {
	conn, err := wire.Open(ctx, func(ctx context.Context) (net.Conn, wire.Login, error) {
		conn, login, err := c.dial(ctx, node)
		login.Name = "lock-map"
		return conn, login, err
	}, c.reply)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	call, err := conn.Do(ctx, c.reply, "CLUSTER", "SLOTS")
	if err != nil {
		return nil, err
	}
	return readSlots(call.Reply, node)
}

func readSlots(reply any, asked string) (told []redis.ClusterSlot, err error) {
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("CLUSTER SLOTS is answered with %v", reply)
		}
	}()
	for _, part := range reply.([]any) {
		part := part.([]any)
		primary := part[2].([]any)
		host, _ := primary[0].(string)
		port := strconv.FormatInt(primary[1].(int64), 10)
		told = append(told, redis.ClusterSlot{Start: int(part[0].(int64)), End: int(part[1].(int64)),
			Nodes: []redis.ClusterNode{{Addr: address(host, port, asked)}}})
	}
	return told, nil
}

func readMap(told []redis.ClusterSlot) (*[slots]string, []string, error) {
	at, nodes, seen := new([slots]string), []string(nil), map[string]bool{}
	for _, some := range told {
		if len(some.Nodes) == 0 {
			continue
		}
		node := some.Nodes[0].Addr
		for slot := max(0, some.Start); slot <= min(some.End, slots-1); slot++ {
			at[slot] = node
		}
		if !seen[node] {
			seen[node] = true
			nodes = append(nodes, node)
		}
	}
	return at, nodes, nil
}

// address of a node, told by another. Without a host it is the teller's; and what a node tells of a loopback
// (one in a container) holds for one that itself was reached there.
func address(host, port, teller string) string {
	tellers, _, err := net.SplitHostPort(teller)
	if err == nil && (host == "" || host == "?" || isLoopback(host) && !isLoopback(tellers)) {
		host = tellers
	}
	return net.JoinHostPort(host, port)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// slotOf is CRC16 (XMODEM) of the key, or of its {hash tag}.
func slotOf(key string) int {
	if _, rest, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(rest, "}"); closed && tag != "" {
			key = tag
		}
	}
	crc := uint16(0)
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slots
}
