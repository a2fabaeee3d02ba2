package redislock

import (
	"context"
	"sync"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/wire"
)

const (
	mostIdle    = 16
	longestIdle = time.Minute
)

// waitPool has the connections that wait, each for one call at a time, and some idle ones.
type waitPool struct {
	open func(context.Context) (*wire.Conn, error)

	mu     sync.Mutex
	idle   []idleConn // the last used is the last
	inUse  map[*wire.Conn]struct{}
	sweep  *time.Timer
	closed bool
}

type idleConn struct {
	*wire.Conn
	since time.Time
}

func (p *waitPool) take(ctx context.Context) (*wire.Conn, error) {
	for {
		conn, err := p.last(), error(nil)
		if conn == nil {
			if conn, err = p.open(ctx); err != nil {
				return nil, err
			}
		}
		select {
		case <-conn.Closed():
			continue
		default:
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.closed {
			conn.Close()
			return nil, ErrClosed
		}
		if p.inUse == nil {
			p.inUse = map[*wire.Conn]struct{}{}
		}
		p.inUse[conn] = struct{}{}
		return conn, nil
	}
}

func (p *waitPool) last() *wire.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	conn := p.idle[len(p.idle)-1].Conn
	p.idle = p.idle[:len(p.idle)-1]
	return conn
}

// put takes a connection back on which nothing is under way.
func (p *waitPool) put(conn *wire.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.inUse, conn)
	select {
	case <-conn.Closed():
		return
	default:
	}
	if p.closed {
		conn.Close()
		return
	}
	p.idle = append(p.idle, idleConn{conn, time.Now()})
	if len(p.idle) > mostIdle {
		p.idle[0].Close()
		p.idle = p.idle[1:]
	}
	if p.sweep == nil {
		p.sweep = time.AfterFunc(longestIdle, p.tidy)
	}
}

// tidy closes what was idle for long.
func (p *waitPool) tidy() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweep = nil
	for len(p.idle) > 0 && time.Since(p.idle[0].since) >= longestIdle {
		p.idle[0].Close()
		p.idle = p.idle[1:]
	}
	if len(p.idle) > 0 && !p.closed {
		p.sweep = time.AfterFunc(longestIdle-time.Since(p.idle[0].since), p.tidy)
	}
}

func (p *waitPool) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.inUse) > 0
}

// suspect ends all connections, and who waits on one asks again.
func (p *waitPool) suspect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.idle {
		conn.Close()
	}
	p.idle = nil
	for conn := range p.inUse {
		conn.Close()
	}
}

func (p *waitPool) close() {
	p.mu.Lock()
	p.closed = true
	if p.sweep != nil {
		p.sweep.Stop()
	}
	p.mu.Unlock()
	p.suspect()
}
