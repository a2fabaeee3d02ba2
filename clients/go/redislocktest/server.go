// Package redislocktest is a stand-in for unit tests: locks with the same API, in memory, without a server.
//
//	server := redislocktest.New()
//	locks := redislock.New(server.Client(), redislock.Options{})
//	server.Lose("lock:orders:42") // what does the program do now?
//
// Waiters get the lock first come, first served. Tokens rise, and fixed leases end by time. Deadlocks are not found, and
// commands other than those of locks are errors.
package redislocktest

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server has the locks of any number of clients.
type Server struct {
	mu       sync.Mutex
	token    int64              // the highest
	number   int64              // of the last session or event
	calls    []*call            // in their order; of each key the holders, then the waiters
	sessions map[int64][]string // their events that no POLL has answered
}

// call is a grant, or a wait, which has no token.
type call struct {
	key, owner                          string
	limit, token, holds, lease, session int64
	until                               time.Time // of the wait, or of the lease
}

const most = 1 << 40 // holders, or milliseconds

// New makes a server without locks.
func New() *Server { return &Server{sessions: map[int64][]string{}} }

// Client makes a client for redislock.New.
func (s *Server) Client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: "redislocktest", Protocol: 2, DisableIdentity: true,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go s.serve(far)
			return near, nil
		}})
}

// Lose ends all grants of a key, with its prefix, as an operator's DEL does: the holders are notified, and the first
// waiter gets the lock. It returns false if nobody holds the lock.
func (s *Server) Lose(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end("deleted", func(c *call) bool { return c.key == key && c.token > 0 }) > 0
}

// Count returns how many hold the lock of a key, and how many wait for it.
func (s *Server) Count(key string) (holders, waiters int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	for _, c := range s.calls {
		switch {
		case c.key == key && c.token > 0:
			holders++
		case c.key == key:
			waiters++
		}
	}
	return holders, waiters
}

// pass grants each lock to those at the front of its line who have room. The call that asks has its reply, and no event.
func (s *Server) pass(asking *call) {
	before, limit := map[string]int64{}, map[string]int64{} // of each key: so many calls, and the lowest limit
	for _, c := range s.calls {
		limit[c.key] = min(cmp.Or(limit[c.key], most), c.limit)
		if c.token == 0 && before[c.key] < limit[c.key] {
			s.token = max(s.token+1, time.Now().UnixMicro())
			c.token, c.holds, c.until = s.token, 1, after(c.lease)
			if c != asking {
				s.notify(c, "+granted", number(c.token), number(c.holds), number(c.lease))
			}
		}
		before[c.key]++
	}
}

// after is so many milliseconds from now.
func after(ms int64) time.Time { return time.Now().Add(time.Duration(ms) * time.Millisecond) }

// expire ends the waits, and the grants outside of sessions, whose time is over.
func (s *Server) expire() {
	s.end("expired", func(c *call) bool { return (c.token == 0 || c.session == 0) && time.Now().After(c.until) })
}

// end ends all calls that are over, and returns how many. The end of a grant is a loss if there is a reason.
func (s *Server) end(reason string, isOver func(*call) bool) int {
	before := s.calls
	s.calls = nil
	for _, c := range before {
		switch {
		case !isOver(c):
			s.calls = append(s.calls, c)
		case c.token == 0:
			s.notify(c, "+ended", "+timeout")
		case reason != "":
			s.notify(c, "+lost", number(c.token), "+"+reason)
		}
	}
	s.pass(nil)
	return len(before) - len(s.calls)
}

func (s *Server) notify(c *call, event ...string) {
	if events, isOpen := s.sessions[c.session]; isOpen {
		s.number++
		event = slices.Insert(event, 0, number(s.number))
		s.sessions[c.session] = append(events, array(slices.Insert(event, 2, "+"+c.key, "+"+c.owner)...))
	}
}

func number(n int64) string { return fmt.Sprint(":", n) }

func array(parts ...string) string {
	return strings.Join(append([]string{fmt.Sprint("*", len(parts))}, parts...), "\r\n")
}

func (s *Server) serve(conn net.Conn) {
	defer conn.Close()
	for in := bufio.NewScanner(conn); in.Scan(); {
		count, _ := strconv.Atoi(in.Text()[1:])
		words := make([]string, count, count+2)
		for i := 0; i < count && in.Scan() && in.Scan(); i++ { // the length, then the word
			words[i] = in.Text()
		}
		_, _ = conn.Write([]byte(s.answer(append(words, "", "")) + "\r\n"))
	}
}

func (s *Server) answer(words []string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	options := map[string]int64{} // the words with the numbers behind them, or 0
	for i, word := range words[1:] {
		options[words[i]], _ = strconv.ParseInt(word, 10, 64)
	}
	c := &call{key: words[1], owner: words[2]} // FENCE names the token there
	for _, one := range s.calls {
		if one.key == c.key && (one.owner == c.owner || fmt.Sprint(one.token) == c.owner) {
			c = one
		}
	}
	token, hasToken := options["TOKEN"]
	switch _, isOpen := s.sessions[options["SESSION"]]; {
	case words[0] == "LOCK.SESSION":
		return s.session(options[words[1]], words[1], after(options["BLOCK"]))
	case options["SESSION"] > 0 && !isOpen:
		return "-NOSESSION it has ended"
	case hasToken && token != c.token, c.limit == 0 && words[0] != "LOCK.ACQUIRE", c.token == 0 && words[0] == "LOCK.RENEW":
		return "-NOTHELD the stand-in has no such grant"
	case words[0] == "LOCK.FENCE":
		return "+OK"
	case words[0] == "LOCK.ACQUIRE":
		return s.acquire(c, options)
	case words[0] == "LOCK.RELEASE":
		if c.holds = min(c.holds, options["HOLDS"]); c.holds == 0 {
			s.end("", func(one *call) bool { return one == c })
		}
		return number(c.holds)
	}
	if session, isNamed := options["SESSION"]; isNamed && session != c.session { // LOCK.RENEW
		s.notify(c, "+taken", number(c.token), number(session))
		c.session = session
	}
	c.token, c.lease = cmp.Or(options["RAISE"], c.token), cmp.Or(options["PX"], c.lease)
	s.token = max(s.token, c.token)
	c.until = after(c.lease)
	return s.acquire(c, options)
}

func (s *Server) acquire(c *call, options map[string]int64) string {
	if c.limit == 0 { // a new one
		c.limit, c.lease, c.session = cmp.Or(options["LIMIT"], 1), options["PX"], options["SESSION"]
		if _, isShared := options["SHARED"]; isShared {
			c.limit = most
		}
		c.until = after(cmp.Or(options["QUEUE"], most))
		s.calls = append(s.calls, c)
		s.pass(c)
	}
	_, isQueued := options["QUEUE"]
	switch {
	case c.token > 0:
		c.holds = max(c.holds, min(c.holds+1, options["HOLDS"]))
		return array(number(c.token), "+"+c.owner, number(c.holds), number(c.lease))
	case !isQueued:
		s.end("", func(one *call) bool { return one == c })
		return "$-1"
	}
	return ":0" // in line; the client does not look at the place
}

func (s *Server) session(id int64, command string, end time.Time) string {
	switch command {
	case "OPEN":
		s.number++
		s.sessions[s.number] = nil
		return number(s.number)
	case "CLOSE":
		delete(s.sessions, id)
		s.end("", func(c *call) bool { return c.session == id })
		return ":0"
	}
	for len(s.sessions[id]) == 0 && time.Now().Before(end) {
		s.mu.Unlock()
		time.Sleep(time.Millisecond)
		s.mu.Lock()
		s.expire()
	}
	events := s.sessions[id]
	if len(events) > 0 {
		s.sessions[id] = nil
	}
	return array("+sure-ms", ":-1", "+grants", ":0", "+events", array(events...))
}
