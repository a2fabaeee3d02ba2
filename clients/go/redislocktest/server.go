// Package redislocktest is a stand-in for unit tests: locks with the same API, in memory, without a server.
//
//	server := redislocktest.New()
//	locks := redislock.New(server.Client(), redislock.Options{})
//	server.Lose("lock:orders:42") // what does the program do then?
//
// Waiters get the lock first come, first served, and tokens rise. Leases do not end by time: only Lose ends a grant.
// Shared locks, permits and other commands than those of locks do not exist here: they are errors.
package redislocktest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server has the locks of any number of clients.
type Server struct {
	mu       sync.Mutex
	news     *sync.Cond
	token    int64
	locks    map[string]*lock
	sessions map[int64]*session
}

type lock struct {
	holder *call
	line   []*call
}

// call is a grant or a wait.
type call struct {
	key, owner     string
	token, holds   int64
	lease, session int64
	until          time.Time // of the wait; zero: it has no end
}

// session has the events that no POLL has acknowledged.
type session struct {
	number int64
	events []any
	sent   int
}

// New makes a server without locks.
func New() *Server {
	s := &Server{locks: map[string]*lock{}, sessions: map[int64]*session{}}
	s.news = sync.NewCond(&s.mu)
	return s
}

// Client makes a client for redislock.New.
func (s *Server) Client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: "redislocktest", Protocol: 2, DisableIdentity: true,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go s.serve(far)
			return near, nil
		}})
}

// Lose ends the grant of a key as an operator's DEL would: its holder is notified, and the first waiter gets the lock.
// It returns false if the lock is free.
func (s *Server) Lose(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.locks[key]
	if l == nil || l.holder == nil {
		return false
	}
	s.event(l.holder.session, "lost", l.holder, l.holder.token, "deleted")
	s.pass(l)
	return true
}

// Owner is who holds the lock; empty: nobody. Waiting is how many wait for it.
func (s *Server) Owner(key string) (owner string, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.locks[key]
	if l == nil || l.holder == nil {
		return "", 0
	}
	return l.holder.owner, len(l.line)
}

func (s *Server) event(id int64, kind string, c *call, more ...any) {
	if to := s.sessions[id]; to != nil {
		to.number++
		to.events = append(to.events, append([]any{to.number, kind, c.key, c.owner}, more...))
		s.news.Broadcast()
	}
}

// grant makes a call the holder. pass makes the first in line the holder.
func (s *Server) grant(l *lock, c *call) []any {
	s.token = max(s.token+1, time.Now().UnixMicro())
	c.token, c.holds, l.holder = s.token, 1, c
	return []any{c.token, c.owner, c.holds, c.lease}
}

func (s *Server) pass(l *lock) {
	for l.holder = nil; len(l.line) > 0 && l.holder == nil; {
		c := l.line[0]
		if l.line = l.line[1:]; s.sessions[c.session] != nil {
			s.grant(l, c)
			s.event(c.session, "granted", c, c.token, c.holds, c.lease, int64(1))
		}
	}
}

// leave takes the waits for which it holds out of the line.
func (s *Server) leave(l *lock, why string, leaves func(*call) bool) (left int64) {
	var stay []*call
	for _, c := range l.line {
		if !leaves(c) {
			stay = append(stay, c)
			continue
		}
		left++
		s.event(c.session, "ended", c, why)
	}
	l.line = stay
	return left
}

func (s *Server) serve(conn net.Conn) {
	defer conn.Close()
	for in := bufio.NewReader(conn); ; {
		var parts []string
		count := 0
		if _, err := fmt.Fscanf(in, "*%d\r\n", &count); err != nil {
			return
		}
		for range count {
			size := 0
			if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
				return
			}
			text := make([]byte, size+2)
			if _, err := io.ReadFull(in, text); err != nil {
				return
			}
			parts = append(parts, string(text[:size]))
		}
		if _, err := io.WriteString(conn, encode(s.answer(parts))); err != nil {
			return
		}
	}
}

func encode(value any) string {
	switch value := value.(type) {
	case nil:
		return "$-1\r\n"
	case error:
		return "-" + value.Error() + "\r\n"
	case int64:
		return fmt.Sprintf(":%d\r\n", value)
	case []any:
		text := fmt.Sprintf("*%d\r\n", len(value))
		for _, one := range value {
			text += encode(one)
		}
		return text
	}
	return fmt.Sprintf("$%d\r\n%s\r\n", len(value.(string)), value)
}

// option is the number behind a word; -1: the word is missing.
func option(parts []string, word string) int64 {
	for i, part := range parts[:len(parts)-1] {
		if part == word {
			n, _ := strconv.ParseInt(parts[i+1], 10, 64)
			return n
		}
	}
	return -1
}

func (s *Server) answer(parts []string) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch command := strings.ToUpper(parts[0]); {
	case command == "LOCK.SESSION" && len(parts) > 1:
		return s.session(parts)
	case command == "HELLO" || !strings.HasPrefix(command, "LOCK.") || len(parts) < 3:
		return fmt.Errorf("ERR unknown command '%s': the stand-in has locks only", parts[0])
	case strings.Contains(strings.Join(parts[3:], " "), "SHARED") || option(parts, "LIMIT") > 1:
		return fmt.Errorf("ERR the stand-in has exclusive locks only")
	}
	l := s.locks[parts[1]]
	if l == nil {
		l = &lock{}
		s.locks[parts[1]] = l
	}
	if parts[0] == "LOCK.ACQUIRE" {
		return s.acquire(l, parts)
	}
	h, token, ours := l.holder, option(parts, "TOKEN"), parts[2]
	if parts[0] == "LOCK.FENCE" {
		if token, _ = strconv.ParseInt(parts[2], 10, 64); h != nil && h.token == token {
			return "OK"
		}
		return fmt.Errorf("FENCED it is not the token of %s", parts[1])
	}
	switch {
	case parts[0] == "LOCK.RELEASE" && token < 0 && (h == nil || h.owner != ours) &&
		s.leave(l, "cancelled", func(c *call) bool { return c.owner == ours }) > 0:
		return int64(0)
	case h == nil:
		return fmt.Errorf("NOTHELD %s is free", parts[1])
	case h.owner != ours:
		return fmt.Errorf("NOTOWNER %s has another owner", parts[1])
	case token >= 0 && token != h.token:
		return fmt.Errorf("FENCED %s has another token", parts[1])
	case parts[0] == "LOCK.RENEW":
		if session := option(parts, "SESSION"); session >= 0 && session != h.session {
			s.event(h.session, "taken", h, h.token, session)
			h.session = session
		}
		h.lease = max(option(parts, "PX"), h.lease)
		return []any{h.token, h.owner, h.holds, h.lease}
	}
	if h.holds = min(h.holds, max(0, option(parts, "HOLDS"))); h.holds == 0 {
		s.pass(l)
	}
	return h.holds
}

func (s *Server) acquire(l *lock, parts []string) any {
	c := &call{key: parts[1], owner: parts[2], lease: max(option(parts, "PX"), 1), session: max(option(parts, "SESSION"), 0)}
	queue, holds, h := option(parts, "QUEUE"), max(option(parts, "HOLDS"), 1), l.holder
	switch {
	case c.session > 0 && s.sessions[c.session] == nil:
		return fmt.Errorf("NOSESSION it has ended")
	case h == nil && holds == 1:
		return s.grant(l, c)
	case h != nil && h.owner == c.owner:
		h.holds = max(h.holds, min(holds, h.holds+1))
		return []any{h.token, h.owner, h.holds, h.lease}
	case holds > 1:
		return fmt.Errorf("NOTHELD earlier holds of %s are lost", c.key)
	case queue < 0:
		return nil
	case queue > 0:
		c.until = time.Now().Add(time.Duration(queue) * time.Millisecond)
		time.AfterFunc(time.Until(c.until), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.leave(l, "timeout", func(other *call) bool { return other == c })
		})
	}
	for i, other := range l.line {
		if other.owner == c.owner {
			return int64(i)
		}
	}
	l.line = append(l.line, c)
	return int64(len(l.line) - 1)
}

func (s *Server) session(parts []string) any {
	if parts[1] == "OPEN" {
		id := int64(len(s.sessions) + 1)
		s.sessions[id] = &session{}
		return id
	}
	id := option(parts, parts[1])
	mine := s.sessions[id]
	if mine == nil {
		return fmt.Errorf("NOSESSION it has ended")
	}
	if parts[1] == "CLOSE" {
		delete(s.sessions, id)
		for _, l := range s.locks {
			s.leave(l, "cancelled", func(c *call) bool { return c.session == id })
			if l.holder != nil && l.holder.session == id {
				s.pass(l)
			}
		}
		s.news.Broadcast()
		return int64(0)
	}
	mine.events = mine.events[mine.sent:]
	mine.sent = 0
	end := time.Now().Add(time.Duration(option(parts, "BLOCK")) * time.Millisecond)
	defer time.AfterFunc(time.Until(end), s.news.Broadcast).Stop()
	for len(mine.events) == 0 && time.Now().Before(end) && s.sessions[id] != nil {
		s.news.Wait()
	}
	if s.sessions[id] == nil {
		return fmt.Errorf("NOSESSION it has ended")
	}
	mine.sent = len(mine.events)
	return []any{"sure-ms", int64(-1), "grants", int64(0), "events", mine.events}
}
