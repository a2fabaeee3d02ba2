package redislock

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/kinds"
	"github.com/redis-lock/redis-lock/clients/go/internal/wire"
)

const (
	firstPause = 50 * time.Millisecond // between tries, growing
	lastPause  = time.Second
	fastest    = 100 * time.Millisecond // PINGs
	idlePace   = 10 * time.Second       // PINGs, where nothing is kept
)

// keeper is the one connection to a server on which this process keeps its grants, through all that becomes of it.
type keeper struct {
	locks   *Locks
	address string
	waits   wire.Pool
	wake    chan struct{}
	planned atomic.Int64 // when its loop wakes by itself, since epoch

	mu      sync.Mutex
	link    *link // open, or the last one
	attempt *attempt
	fails   int
	last    error // why the last attempt failed
	down    bool  // told so
	grants  map[*ownership]struct{}
	leases  map[time.Duration]int
	unsure  map[*ownership]struct{} // their renewal was answered with an error that passes
	pauses  int                     // before they were asked again
	asked   time.Time
	ids     []int64 // of its connections, by the server
}

// link is one connection of a keeper.
type link struct {
	*wire.Conn
	opened time.Time
	proof  atomic.Int64 // the sending of the last PING that was answered
	pinged time.Time    // the last PING; of the keeper's loop
	asking atomic.Bool  // a PING without a PONG
	id     int64        // by the server; 0 where that is not known. The keeper's
}

// attempt is one try to connect.
type attempt struct {
	done chan struct{}
	link *link
	err  error
}

var epoch = time.Now() // of times in atomics, by the monotonic clock

func (l *link) provenAt() time.Time {
	if l == nil || l.proof.Load() == 0 {
		return time.Time{}
	}
	return epoch.Add(time.Duration(l.proof.Load()))
}

func (l *link) isOpen() bool {
	if l == nil {
		return false
	}
	select {
	case <-l.Closed():
		return false
	default:
		return true
	}
}

func newKeeper(locks *Locks, address string) *keeper {
	k := &keeper{locks: locks, address: address, wake: make(chan struct{}, 1),
		grants: map[*ownership]struct{}{}, unsure: map[*ownership]struct{}{}, leases: map[time.Duration]int{}}
	k.waits.Open = func(ctx context.Context) (*wire.Conn, error) { return k.open(ctx, "lock-wait") }
	go k.run()
	return k
}

func (k *keeper) open(ctx context.Context, name string) (*wire.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, k.locks.options.Reply)
	defer cancel()
	return wire.Open(ctx, func(ctx context.Context) (net.Conn, wire.Login, error) {
		conn, login, err := k.locks.servers.dial(ctx, k.address)
		login.Name = name
		return conn, login, err
	}, k.locks.options.Reply)
}

// connection gives the open connection, or waits for the next one.
func (k *keeper) connection(ctx context.Context) (*link, error) {
	k.mu.Lock()
	if k.link.isOpen() {
		defer k.mu.Unlock()
		return k.link, nil
	}
	attempt, last := k.try(), k.last
	k.mu.Unlock()
	select {
	case <-attempt.done:
		return attempt.link, attempt.err
	case <-ctx.Done():
		if last == nil {
			last = ctx.Err()
		}
		return nil, last
	}
}

// try begins an attempt, unless one is under way. The first one begins at once.
func (k *keeper) try() *attempt {
	if k.attempt == nil {
		k.attempt = &attempt{done: make(chan struct{})}
		wait := pause(k.fails)
		if k.link != nil && k.fails == 0 {
			wait = max(0, min(firstPause, time.Until(k.link.opened.Add(firstPause))))
		}
		go k.connect(k.attempt, wait)
	}
	return k.attempt
}

// pause after so many failures, with jitter.
func pause(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	longest := min(lastPause, firstPause<<min(failures-1, 10))
	return longest/2 + rand.N(longest/2)
}

func (k *keeper) connect(attempt *attempt, wait time.Duration) {
	defer close(attempt.done)
	ctx := k.locks.life
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
	conn, err := k.open(ctx, "lock-keeper")
	if err == nil && ctx.Err() != nil {
		conn.Close()
		err = ErrClosed
	}
	k.mu.Lock()
	k.attempt = nil
	attempt.err = err
	wasDown := k.down
	if err != nil {
		k.fails++
		k.last, k.down = err, true
		k.mu.Unlock()
		if !wasDown {
			k.locks.tell(k.address, err)
		}
		k.locks.servers.doubt()
		return
	}
	attempt.link = &link{Conn: conn, opened: time.Now()}
	attempt.link.pinged = attempt.link.opened
	k.introduce(attempt.link)
	k.link, k.fails, k.last, k.down = attempt.link, 0, nil, false
	grants := k.kept()
	k.mu.Unlock()
	if wasDown {
		k.locks.tell(k.address, nil)
	}
	for _, o := range grants {
		k.comeBack(o, attempt.link)
	}
	k.rouse()
}

func (k *keeper) kept() []*ownership {
	grants := make([]*ownership, 0, len(k.grants))
	for o := range k.grants {
		grants = append(grants, o)
	}
	return grants
}

// renew asks on this connection whether a grant stands, and has it kept here.
func (k *keeper) renew(o *ownership, on *link) {
	o.mu.Lock()
	defer o.mu.Unlock() // what ends the keeping is sent behind this, or this is not sent
	if o.over != nil || o.keep == 0 || o.ending {
		return
	}
	before := o.asked
	o.asked = on
	on.Go(k.locks.options.Reply, func(call *wire.Call) {
		if call.Err != nil && call.Answered() {
			go o.notAsked(on, before) // the mutex may be held here, where the connection has ended
		}
		k.renewed(o, on, call)
	}, "LOCK.RENEW", o.key, o.owner, "TOKEN", o.token, "KEEP", milliseconds(o.keep))
}

func (k *keeper) renewed(o *ownership, on *link, call *wire.Call) {
	if call.Err != nil && !call.Answered() {
		return // the next connection asks again
	}
	k.mu.Lock()
	_, isHere := k.grants[o]
	delete(k.unsure, o)
	k.mu.Unlock()
	switch {
	case !isHere:
	case call.Err == nil:
		o.confirm(call, on)
	case kindOf(renewing, call.Err) == ErrLost:
		go o.lose(call.Err)
	case begins(call.Err, "MOVED"):
		k.locks.servers.moved(o.key, k.address, movedTo(call.Err))
		go k.rehome(o)
	default:
		if ofReplica(call.Err) {
			on.Close()
		}
		k.doubt(o, call.Err)
	}
}

// doubt has it asked again, after an error that passes; nil: none that the server told.
func (k *keeper) doubt(o *ownership, err error) {
	k.mu.Lock()
	if _, isHere := k.grants[o]; isHere {
		k.unsure[o] = struct{}{}
	}
	k.last = cmp.Or(err, k.last)
	k.mu.Unlock()
	k.rouse()
}

// add keeps a grant that was made or renewed on this connection; nil: on none of this keeper's. Where it is another
// connection that keeps it, in the owner's name, that was asked for after the grant.
func (k *keeper) add(o *ownership, on *link) {
	k.mu.Lock()
	if _, known := k.grants[o]; !known {
		k.grants[o] = struct{}{}
		k.leases[o.pace]++
	}
	now := k.link
	k.mu.Unlock()
	if o.keeping() == 0 { // it has ended meanwhile
		k.drop(o)
		return
	}
	if now != on && now.isOpen() {
		k.comeBack(o, now)
	}
	k.rouse()
}

// repace has a grant, whose lease is another now, heard of often enough.
func (k *keeper) repace(o *ownership, pace time.Duration) {
	k.mu.Lock()
	_, isHere := k.grants[o]
	isOther := isHere && o.pace != pace
	if isOther {
		k.leases[pace]++
		k.forgetPace(o.pace)
		o.pace = pace
	}
	k.mu.Unlock()
	if isOther {
		k.rouse()
	}
}

func (k *keeper) drop(o *ownership) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.grants[o]; !known {
		return
	}
	delete(k.grants, o)
	delete(k.unsure, o)
	k.forgetPace(o.pace)
}

// forgetPace is of one grant. The mutex is the caller's.
func (k *keeper) forgetPace(pace time.Duration) {
	if k.leases[pace]--; k.leases[pace] == 0 {
		delete(k.leases, pace)
	}
}

// leave has the server keep no more what this client holds no more: all other grants go to a new connection.
func (k *keeper) leave() {
	k.mu.Lock()
	now := k.link
	k.mu.Unlock()
	if now.isOpen() {
		now.Close()
	}
}

// rehome takes a grant to the server that has its key now.
func (k *keeper) rehome(o *ownership) {
	ctx, cancel := context.WithTimeout(k.locks.life, k.locks.options.Reply)
	defer cancel()
	home, err := k.locks.keeperOf(ctx, o.key)
	if err != nil || home == k {
		k.doubt(o, nil)
		return
	}
	k.drop(o)
	if o.moveTo(home) {
		home.add(o, nil)
	}
}

func (k *keeper) rouse() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func movedTo(err error) string {
	text, _ := kinds.Text(err)
	fields := fieldsOf(text)
	if len(fields) < 3 {
		return ""
	}
	return fields[2]
}

var errNoAnswer = errors.New("no answer for a whole lease")
