package quorum

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/kinds"
	"github.com/redis-lock/redis-lock/clients/go/internal/wire"
)

// mostOwed is how many releases are kept for a server that is down. Those that it is not told of end with their
// leases.
const mostOwed = 10_000

// member is one of the servers: whether it answers, and what it has yet to be told. Where it does not answer, it
// is left alone but for a goroutine that looks for it.
type member struct {
	Server
	quorum  *Quorum
	address string
	waits   wire.Pool

	mu      sync.Mutex
	conn    *wire.Conn
	opening *opening
	down    error
	owed    []owed
	used    time.Time
	idle    *time.Timer
	closed  bool
}

// owed is a release that is sent when the server is back. One of an owner that is never used again is right at any
// time.
type owed struct{ key, owner string }

type opening struct {
	done chan struct{}
	conn *wire.Conn
	err  error
	line []*request // they are sent on it in this order
}

// request is what waits for a connection.
type request struct {
	limit  time.Duration
	words  []any
	call   *wire.Call
	isLeft bool
}

// errOvertaken is of a call that is not to come behind a later one.
var errOvertaken = errors.New("overtaken by a later call")

// answer is what a call came to.
type answer struct {
	reply    any
	err      error
	repeated bool // it was sent before, and that was not answered
}

var errClosed = errors.New("closed")

func newMember(q *Quorum, server Server) *member {
	m := &member{Server: server, quorum: q, address: server.Address}
	m.waits.Open = func(ctx context.Context) (*wire.Conn, error) { return m.open(ctx, "lock-wait") }
	return m
}

func (m *member) open(ctx context.Context, name string) (*wire.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, m.quorum.Reply)
	defer cancel()
	return wire.Open(ctx, func(ctx context.Context) (conn net.Conn, login wire.Login, err error) {
		conn, login, err = m.Dial(ctx)
		login.Name = name
		return conn, login, err
	}, m.quorum.Reply)
}

// isDown is why it is left alone, if it is.
func (m *member) isDown() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.down
}

// start sends a command on the open connection, or on the next. Commands are sent in the order in which that is called,
// for a release has to come behind the request for its lock, and a lease behind the one before.
func (m *member) start(ctx context.Context, r *request, isOver func() bool) (*wire.Conn, error) {
	m.mu.Lock()
	switch {
	case m.closed:
		m.mu.Unlock()
		return nil, errClosed
	case isOver != nil && isOver():
		m.mu.Unlock()
		return nil, errOvertaken
	}
	m.use()
	if isOpen(m.conn) {
		defer m.mu.Unlock()
		r.call = m.conn.Start(r.limit, r.words...)
		return m.conn, nil
	}
	if m.opening == nil {
		m.opening = &opening{done: make(chan struct{})}
		go m.connect(m.opening)
	}
	opening := m.opening
	opening.line = append(opening.line, r)
	m.mu.Unlock()
	select {
	case <-opening.done:
		return opening.conn, opening.err
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.call != nil { // in that moment
		return opening.conn, nil
	}
	r.isLeft = true
	return nil, ctx.Err()
}

func (m *member) connect(o *opening) {
	defer close(o.done)
	o.conn, o.err = m.open(m.quorum.Life, "lock-quorum")
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opening = nil
	if o.err == nil && m.closed {
		o.conn.Close()
		o.conn, o.err = nil, errClosed
	}
	m.conn = o.conn
	for _, r := range o.line {
		if m.conn != nil && !r.isLeft {
			r.call = m.conn.Start(r.limit, r.words...)
		}
	}
}

// use notes that it is used; what is idle for long is closed.
func (m *member) use() {
	m.used = time.Now()
	if m.quorum.Idle > 0 && m.idle == nil {
		m.idle = time.AfterFunc(m.quorum.Idle, m.tidy)
	}
}

func (m *member) tidy() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.idle = nil
	if left := m.quorum.Idle - time.Since(m.used); left > 0 && !m.closed {
		m.idle = time.AfterFunc(left, m.tidy)
	} else if isOpen(m.conn) {
		m.conn.Close()
	}
}

func isOpen(conn *wire.Conn) bool {
	if conn == nil {
		return false
	}
	select {
	case <-conn.Closed():
		return false
	default:
		return true
	}
}

// call sends a command, and once more at once when the connection fails: it may have been an old one, or the
// answer may be lost. on is the connection that it was sent on last.
func (m *member) call(ctx context.Context, limit time.Duration, on **wire.Conn, words ...any) answer {
	return m.callUntil(ctx, limit, on, nil, words)
}

// callUntil is a call that is sent no more when it is over; nil: it never is.
func (m *member) callUntil(ctx context.Context, limit time.Duration, on **wire.Conn, isOver func() bool, words []any) (a answer) {
	if a.err = m.isDown(); a.err != nil {
		return a
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	a.reply, a.err = m.once(limited, limit, on, isOver, words)
	if isBroken(a.err) && limited.Err() == nil {
		a.repeated = *on != nil
		a.reply, a.err = m.once(limited, limit, on, isOver, words)
	}
	if a.err == errOvertaken {
		return a
	}
	if isBroken(a.err) && ctx.Err() != nil {
		a.err = ctx.Err() // that says nothing of the server
		return a
	}
	if isBroken(a.err) && limited.Err() != nil {
		a.err = wire.ErrSilent
	}
	m.learn(a.err, *on)
	return a
}

func (m *member) once(ctx context.Context, limit time.Duration, on **wire.Conn, isOver func() bool, words []any) (any, error) {
	r := &request{limit: limit, words: words}
	conn, err := m.start(ctx, r, isOver)
	if err != nil {
		return nil, err
	}
	*on = conn
	select {
	case <-r.call.Done():
		return r.call.Reply, r.call.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// isBroken says whether it is an error, and none that the server told.
func isBroken(err error) bool {
	_, isReply := kinds.Text(err)
	return err != nil && !isReply
}

// isPassing says so of errors that tell nothing of a lock.
func isPassing(err error) bool {
	return err != nil && kinds.Of(kinds.Acquiring, err) == kinds.ErrPassing
}

// learn takes note of a failure.
func (m *member) learn(err error, on *wire.Conn) {
	if !isPassing(err) {
		return
	}
	if on != nil {
		on.Close()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leaveAlone(err)
}

// release sees to it that the owner holds nothing: at once, or when the server is back. On the connection on which
// it has asked for the lock that is also true of what the server has not yet read.
func (m *member) release(limit time.Duration, on *wire.Conn, key, owner string) answer {
	return m.releaseUntil(limit, on, nil, key, owner)
}

// releaseUntil is a release that is not sent, nor owed, when it is over; nil: it never is.
func (m *member) releaseUntil(limit time.Duration, on *wire.Conn, isOver func() bool, key, owner string) (a answer) {
	ctx, words := m.quorum.Life, []any{"LOCK.RELEASE", key, owner, "ALL"}
	if on == nil {
		a = m.call(ctx, limit, &on, words...)
	} else {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		m.mu.Lock()
		if isOver != nil && isOver() {
			m.mu.Unlock()
			return answer{err: errOvertaken}
		}
		call := on.Start(limit, words...) // no renewal comes in between
		m.mu.Unlock()
		select {
		case <-call.Done():
			a.reply, a.err = call.Reply, call.Err
		case <-limited.Done():
			a.err = limited.Err()
		}
		if isBroken(a.err) {
			on.Close()
		}
	}
	if isPassing(a.err) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if isOver != nil && isOver() {
			return a
		}
		if len(m.owed) == mostOwed {
			m.owed = m.owed[1:]
		}
		m.owed = append(m.owed, owed{key, owner})
		m.leaveAlone(a.err)
	}
	return a
}

func (m *member) leaveAlone(err error) {
	if m.down != nil || m.closed {
		return
	}
	m.down = err
	if told := m.quorum.Told; told != nil {
		go told(m.address, err)
	}
	go m.lookFor()
}

// lookFor connects to the server until it answers, or nobody needs it any more.
func (m *member) lookFor() {
	const first, longest = 10 * time.Millisecond, time.Second
	for pause := first; !m.isBack(); pause = min(2*pause, longest) {
		select {
		case <-time.After(pause):
		case <-m.quorum.Life.Done():
			return
		}
	}
}

// isBack says whether it answers and has been told what it had missed.
func (m *member) isBack() bool {
	var on *wire.Conn
	for {
		m.mu.Lock()
		isLeft := m.closed || m.quorum.Idle > 0 && time.Since(m.used) > m.quorum.Idle
		used := m.used
		if isLeft {
			m.down, m.owed = nil, nil
		}
		m.mu.Unlock()
		if isLeft {
			return true
		}
		ctx, cancel := context.WithTimeout(m.quorum.Life, m.quorum.Reply)
		_, err := m.once(ctx, m.quorum.Reply, &on, nil, []any{"PING"})
		cancel()
		m.mu.Lock()
		m.used = used // nobody but this asks
		if err != nil {
			m.mu.Unlock()
			return false
		}
		missed := m.owed
		m.owed = nil
		if len(missed) == 0 {
			m.down = nil
		}
		m.mu.Unlock()
		if len(missed) == 0 {
			if told := m.quorum.Told; told != nil {
				told(m.address, nil)
			}
			return true
		}
		if still := m.tell(on, missed); len(still) > 0 {
			m.mu.Lock()
			m.owed = append(still, m.owed...)
			m.mu.Unlock()
			return false
		}
	}
}

// tell sends these releases, and gives those that were not answered.
func (m *member) tell(on *wire.Conn, missed []owed) (still []owed) {
	calls := make([]*wire.Call, len(missed))
	for i, it := range missed {
		calls[i] = on.Start(m.quorum.Reply, "LOCK.RELEASE", it.key, it.owner, "ALL")
	}
	for i, call := range calls {
		<-call.Done() // the connection fails when there is no answer in time
		if isPassing(call.Err) {
			still = append(still, missed[i])
		}
	}
	return still
}

func (m *member) close() {
	m.mu.Lock()
	m.closed, m.owed = true, nil
	conn := m.conn
	if m.idle != nil {
		m.idle.Stop()
	}
	m.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
	m.waits.Close()
}
