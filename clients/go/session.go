package redislock

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/server"
	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// pauses are the times between tries: none at first, then from 50 ms growing to 1 s, with jitter.
type pauses struct{ tries int }

func (p *pauses) next() time.Duration {
	if p.tries++; p.tries == 1 {
		return 0
	}
	longest := min(50*time.Millisecond<<min(p.tries-2, 10), time.Second)
	return longest/2 + rand.N(longest/2)
}

// node is a server, and the loop of its session. Everything except the server is guarded by the mutex of the Locks.
type node struct {
	state.Node
	locks  *Locks
	server *server.Server
	isDown bool          // to the observer
	needed chan struct{} // ends a pause of the loop
}

// node returns the node of an address. Its loop begins with it.
func (l *Locks) node(address string, connect func() *server.Server) *node {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.nodes[address]
	if n == nil {
		n = &node{Node: state.NewNode(address), locks: l, server: connect(), needed: make(chan struct{}, 1)}
		l.nodes[address] = n
		if !l.st.IsClosed() {
			l.loops.Go(n.loop)
		}
	}
	return n
}

// wakeUp ends a pause of the loop.
func (n *node) wakeUp() {
	select {
	case n.needed <- struct{}{}:
	default:
	}
}

// loop polls the session. It is the only user of the session's connection, and runs no code of the user.
func (n *node) loop() {
	l, pause, wasUnknown := n.locks, pauses{}, false
	for {
		began := now()
		fault := n.round()
		isUnknown := fault != nil && fault.Word == "NOSESSION"
		isBroken := fault != nil && !isUnknown
		st := l.lock()
		if isUnknown {
			n.Session = 0
		} else if isBroken {
			st.Failed(&n.Node, began, fault)
			n.server.Session.Reset()
		}
		if st.IsClosed() {
			n.server.Session.Reset()
			n.observe(false, nil)
			l.unlock()
			return
		}
		n.observe(isBroken, fault)
		l.unlock()
		if fault == nil || isUnknown && !wasUnknown {
			pause, wasUnknown = pauses{}, isUnknown
			continue
		}
		if isBroken && l.servers.IsCluster() {
			n.relocate()
		}
		n.rest(pause.next())
	}
}

// rest pauses, but ends the pause for a call that needs a session.
func (n *node) rest(pause time.Duration) {
	least := time.After(min(pause, 50*time.Millisecond))
	select {
	case <-time.After(pause):
	case <-n.needed:
		<-least
	case <-n.locks.closing:
	}
}

// round opens a session if there is none, sends the commands that are due, and polls once.
func (n *node) round() *state.Fault {
	l, limit := n.locks, n.locks.options.Reply
	st := l.lock()
	st.LeaveSession(&n.Node)
	if n.Session == 0 {
		l.unlock()
		opened := n.server.Session.Send(limit, []any{"LOCK.SESSION", "OPEN", "TIMEOUT", l.options.Silence.Milliseconds(),
			"NAME", l.options.Service})[0]
		session, _ := opened.Value.(int64)
		if session == 0 {
			return cmp.Or(opened.Fault, state.NoReply(n.Address, errors.New("OPEN returned no session id"), false))
		}
		st = l.lock()
		if st.Opened(&n.Node, session); st.IsClosed() {
			l.unlock()
			n.server.Session.Send(limit, []any{"LOCK.SESSION", "CLOSE", session})
			return nil
		}
	}
	session, broken := n.Session, (*state.Fault)(nil)
	if due := st.Due(&n.Node); len(due) > 0 {
		commands := make([][]any, len(due))
		for i, one := range due {
			commands[i] = one.Command
		}
		sent := st.At
		l.unlock()
		replies := n.server.Session.Send(limit*time.Duration(1+len(due)/500), commands...) // so that each reply has its time
		st = l.lock()
		for i, reply := range replies {
			reply.From, reply.Sent = &n.Node, sent
			due[i].Apply(reply)
			if reply.Fault != nil && reply.Fault.Word == "" {
				broken = reply.Fault
			}
			if words := commands[i]; reply.Fault.Redirects() && words[0] == "LOCK.RELEASE" {
				go l.call(context.Background(), target{key: words[1].(string)}, 2*limit, words)
			}
		}
	}
	sent, block := st.At, st.Block(&n.Node)
	l.unlock()
	if broken != nil {
		return broken
	}
	polled := n.server.Poll(limit, block, session)
	if st = l.lock(); polled.Fault == nil && n.Session == session {
		st.Polled(&n.Node, sent, polled.Value)
	}
	l.unlock()
	return polled.Fault
}

// relocate redirects the claims of a cluster node that does not answer, if another node may have their keys now.
func (n *node) relocate() {
	l := n.locks
	claims := l.lock().Claims(&n.Node)
	l.unlock()
	l.servers.Refresh()
	for _, claim := range claims {
		if at, _ := l.servers.Find(claim.Key, l.options.Reply); at != nil && at.Options().Addr != n.Address {
			l.lock().Relocate(claim, &n.Node)
			l.unlock()
		}
	}
}
