// Package wire is one connection to a server: calls are pipelined, and it is read all the time, so that its end
// is known at once.
package wire

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// What ends a connection, beside the errors of the network and of the server.
var (
	ErrSilent = errors.New("the server gave no reply in time")
	ErrClosed = errors.New("the connection was closed")
)

// Late is how late a timer must come for the process to have stood still. What has arrived meanwhile is read
// before the silence of the other side is judged.
const Late = time.Second

// grace is for what has arrived already, where the timer came in time.
const grace = 50 * time.Millisecond

// NoLimit is for a call that may wait for ever.
const NoLimit time.Duration = 0

// Call is a command that was sent, and its reply.
type Call struct {
	Sent  time.Time
	Reply any   // an int64, a string, a []any or nil
	Err   error // a ServerError, or why the connection ended before the reply
	limit time.Duration
	then  func(*Call)
	done  chan struct{}
}

// Answered says whether the server has replied.
func (c *Call) Answered() bool {
	var said ServerError
	return c.Err == nil || errors.As(c.Err, &said)
}

// Conn is an open connection.
type Conn struct {
	net    net.Conn
	closed chan struct{}

	mu       sync.Mutex
	out      []byte
	spare    []byte
	flushing bool
	pending  []*Call
	heard    time.Time // when the last reply came
	watch    *time.Timer
	due      time.Time // when the watch ends
	warned   bool      // it has ended, and only what has arrived already counts
	err      error
}

// New takes over an established connection.
func New(established net.Conn) *Conn {
	c := &Conn{net: established, closed: make(chan struct{})}
	go c.read()
	return c
}

// Closed is closed when the connection has ended.
func (c *Conn) Closed() <-chan struct{} { return c.closed }

// Err is why it has ended.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends it. Calls without a reply fail.
func (c *Conn) Close() { c.fail(ErrClosed) }

// Go sends a command. then gets the reply, and must not block; limit is how long the server may be silent.
func (c *Conn) Go(limit time.Duration, then func(*Call), command ...any) {
	c.send(&Call{limit: limit, then: then}, command)
}

// Do sends a command and waits for the reply. An error is that of the context, or the call's own.
func (c *Conn) Do(ctx context.Context, limit time.Duration, command ...any) (*Call, error) {
	call := c.Start(limit, command...)
	select {
	case <-call.done:
		return call, call.Err
	case <-ctx.Done():
		return call, ctx.Err()
	}
}

// Start sends a command; Done tells when the call is over.
func (c *Conn) Start(limit time.Duration, command ...any) *Call {
	call := &Call{limit: limit, done: make(chan struct{})}
	c.send(call, command)
	return call
}

// Done is closed when a started call has its reply, or never gets one.
func (c *Call) Done() <-chan struct{} { return c.done }

// IsOver says whether that is so.
func (c *Call) IsOver() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (c *Call) finish(reply any, err error) {
	c.Reply, c.Err = reply, err
	if c.then != nil {
		c.then(c)
	} else {
		close(c.done)
	}
}

func (c *Conn) send(call *Call, command []any) {
	c.mu.Lock()
	call.Sent = time.Now()
	if c.err != nil {
		err := c.err
		c.mu.Unlock()
		call.finish(nil, err)
		return
	}
	c.out = appendCommand(c.out, command)
	c.pending = append(c.pending, call)
	if len(c.pending) == 1 {
		c.watchOldest()
	}
	if !c.flushing {
		c.flushing = true
		go c.flush()
	}
	c.mu.Unlock()
}

// flush writes until nothing is left. A server that takes nothing is silent, which the watch sees to.
func (c *Conn) flush() {
	for {
		c.mu.Lock()
		if len(c.out) == 0 || c.err != nil {
			c.flushing = false
			c.mu.Unlock()
			return
		}
		out := c.out
		c.out, c.spare = c.spare[:0], nil
		c.mu.Unlock()
		_, err := c.net.Write(out)
		c.mu.Lock()
		if cap(out) < 1<<20 {
			c.spare = out
		}
		c.mu.Unlock()
		if err != nil {
			c.fail(err)
		}
	}
}

func (c *Conn) read() {
	from := bufio.NewReader(c.net)
	for {
		reply, err := readReply(from)
		if err != nil {
			c.fail(err)
			return
		}
		said, isError := reply.(ServerError)
		c.mu.Lock()
		c.heard, c.warned = time.Now(), false
		if len(c.pending) == 0 {
			c.mu.Unlock()
			if isError { // "max number of clients reached" comes unasked
				c.fail(said)
			} else {
				c.fail(errProtocol)
			}
			return
		}
		call := c.pending[0]
		c.pending[0] = nil
		c.pending = c.pending[1:]
		c.watchOldest()
		c.mu.Unlock()
		if isError {
			call.finish(nil, said)
		} else {
			call.finish(reply, nil)
		}
	}
}

// watchOldest sets the watch for the oldest call. It is left running where it would only have to end later.
func (c *Conn) watchOldest() {
	if len(c.pending) == 0 || c.pending[0].limit == NoLimit {
		return // should it end, it finds nothing to do
	}
	due := c.pending[0].Sent
	if c.heard.After(due) {
		due = c.heard
	}
	due = due.Add(c.pending[0].limit)
	if c.watch == nil {
		c.due = due
		c.watch = time.AfterFunc(time.Until(due), c.judge)
	} else if c.due.IsZero() || due.Before(c.due) {
		c.due = due
		c.watch.Reset(time.Until(due))
	}
}

// judge ends the connection when the oldest call has waited too long.
func (c *Conn) judge() {
	c.mu.Lock()
	late := time.Since(c.due)
	c.due = time.Time{}
	if c.err != nil || len(c.pending) == 0 || c.pending[0].limit == NoLimit {
		c.warned = false
		c.mu.Unlock()
		return
	}
	oldest := c.pending[0]
	quiet := oldest.Sent
	if c.heard.After(quiet) {
		quiet = c.heard
	}
	left := time.Until(quiet.Add(oldest.limit))
	switch {
	case late > Late:
		left, c.warned = oldest.limit, true
	case left > 0:
		c.warned = false
	case !c.warned:
		left, c.warned = grace, true
	default:
		c.mu.Unlock()
		c.fail(ErrSilent)
		return
	}
	c.due = time.Now().Add(left)
	c.watch.Reset(left)
	c.mu.Unlock()
}

func (c *Conn) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	pending := c.pending
	c.pending, c.out = nil, nil
	if c.watch != nil {
		c.watch.Stop()
	}
	c.mu.Unlock()
	_ = c.net.Close()
	close(c.closed)
	for _, call := range pending {
		call.finish(nil, err)
	}
}
