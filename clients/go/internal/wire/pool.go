package wire

import (
	"context"
	"sync"
	"time"
)

// MostIdle is how many idle connections a Pool keeps.
const MostIdle = 16

const longestIdle = time.Minute

// Pool has the connections that wait, each for one call at a time, and some idle ones.
type Pool struct {
	// Open makes a connection.
	Open func(context.Context) (*Conn, error)

	mu     sync.Mutex
	idle   []idleConn // the last used is the last
	inUse  map[*Conn]struct{}
	sweep  *time.Timer
	closed bool
}

type idleConn struct {
	*Conn
	since time.Time
}

// Take gives an idle connection, or opens one.
func (p *Pool) Take(ctx context.Context) (*Conn, error) {
	for {
		conn, err := p.last(), error(nil)
		if conn == nil {
			if conn, err = p.Open(ctx); err != nil {
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
			p.inUse = map[*Conn]struct{}{}
		}
		p.inUse[conn] = struct{}{}
		return conn, nil
	}
}

func (p *Pool) last() *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	conn := p.idle[len(p.idle)-1].Conn
	p.idle = p.idle[:len(p.idle)-1]
	return conn
}

// Put takes a connection back on which nothing is under way.
func (p *Pool) Put(conn *Conn) {
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
	if len(p.idle) > MostIdle {
		p.idle[0].Close()
		p.idle = p.idle[1:]
	}
	if p.sweep == nil {
		p.sweep = time.AfterFunc(longestIdle, p.tidy)
	}
}

// tidy closes what was idle for long.
func (p *Pool) tidy() {
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

// Forget closes what is idle.
func (p *Pool) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget()
}

func (p *Pool) forget() {
	for _, conn := range p.idle {
		conn.Close()
	}
	p.idle = nil
}

// Busy says whether any connection is in use.
func (p *Pool) Busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.inUse) > 0
}

// Suspect ends all connections, and who waits on one asks again.
func (p *Pool) Suspect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget()
	for conn := range p.inUse {
		conn.Close()
	}
}

// Close ends all connections; nobody gets another.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	if p.sweep != nil {
		p.sweep.Stop()
	}
	p.mu.Unlock()
	p.Suspect()
}
