package redislock

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

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

// run starts the loop if it is not running. The mutex is held.
func (n *node) run() {
	if n.isClosed {
		return
	}
	select {
	case n.needed <- struct{}{}:
	default:
	}
	if !n.isRunning {
		n.isRunning = true
		n.poller = n.server.Poller()
		n.loops.Go(n.loop)
	}
}

// loop polls the session. It is the only user of the session's connection, and runs no code of the user.
func (n *node) loop() {
	pause, wasUnknown := pauses{}, false
	for {
		began := now()
		isUnknown, fault := n.round()
		n.lock()
		if fault != nil {
			n.st.Failed(began, fault)
			n.poller.Close()
			n.poller = n.server.Poller()
		}
		n.observe(fault)
		if n.isClosed || fault != nil && n.st.IsIdle() { // it is started again when it is needed
			n.observe(nil)
			n.isRunning = false
			n.poller.Close()
			n.unlock()
			return
		}
		isUnsure := n.st.IsUnsure()
		n.unlock()
		if fault != nil && n.servers.IsCluster() {
			n.relocate()
		}
		if fault == nil && !(isUnknown && wasUnknown) {
			pause, wasUnknown = pauses{}, isUnknown
			continue
		}
		wasUnknown = isUnknown
		rest := pause.next()
		if isUnsure { // it is about to be judged
			rest = min(rest, 100*time.Millisecond)
		}
		n.rest(rest)
	}
}

// observe reports that the connection has broken or is back. When nobody needs it any more, it counts as back.
func (n *node) observe(fault *state.Fault) {
	observed, isDown := n.options.Observer.Connection, fault != nil && !n.isClosed
	switch {
	case observed == nil || isDown == n.isDown:
	case isDown:
		go observed(n.server.Address, fault)
	default:
		go observed(n.server.Address, nil)
	}
	n.isDown = isDown
}

// rest pauses; but a call that needs a session is not kept waiting.
func (n *node) rest(pause time.Duration) {
	const least = 50 * time.Millisecond
	timer := time.NewTimer(min(pause, least))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-n.closing:
	}
	if pause <= least {
		return
	}
	timer.Reset(pause - least)
	select {
	case <-timer.C:
	case <-n.needed:
	case <-n.closing:
	}
}

// awaitSession returns the session, or 0 if there is none until then.
func (n *node) awaitSession(ctx context.Context, end state.Time) int64 {
	for {
		n.lock()
		session := n.st.Session
		if session == 0 || !n.isRunning {
			n.run()
		}
		n.unlock()
		if session != 0 || now() >= end || ctx.Err() != nil {
			return session
		}
		time.Sleep(time.Millisecond)
	}
}

// round opens a session if there is none, sends what is due, and polls once. isUnknown: the session has ended.
func (n *node) round() (isUnknown bool, fault *state.Fault) {
	reply := n.options.Reply
	n.lock()
	n.st.LeaveSession()
	session := n.st.Session
	n.unlock()
	if session == 0 {
		opened := n.poller.Send(reply, []any{"LOCK.SESSION", "OPEN", "TIMEOUT", n.options.Silence.Milliseconds(),
			"NAME", n.options.Service})[0]
		if session, _ = opened.Value.(int64); session == 0 {
			return false, cmp.Or(opened.Fault, &state.Fault{Err: errors.New("OPEN answered no session")})
		}
		n.lock().st.Opened(session)
		isClosed := n.isClosed
		if n.unlock(); isClosed {
			n.poller.Send(reply, []any{"LOCK.SESSION", "CLOSE", session})
			return false, nil
		}
	}
	n.lock()
	due := n.st.Due()
	n.unlock()
	for len(due) > 0 {
		part := due[:min(len(due), 500)] // so that each reply has its time
		due = due[len(part):]
		commands := make([][]any, len(part))
		for i, one := range part {
			commands[i] = one.Command
		}
		sent := now()
		var replies []state.Reply
		if fault == nil {
			replies = n.poller.Send(reply, commands...)
		}
		n.lock()
		for i, one := range part {
			if fault != nil { // the connection has broken
				one.Apply(sent, state.Reply{Fault: &state.Fault{Err: fault}})
			} else {
				one.Apply(sent, replies[i])
			}
		}
		n.unlock()
		for _, one := range replies {
			if one.Fault != nil && one.Fault.Word == "" {
				fault = one.Fault
			}
		}
	}
	if fault != nil {
		return false, fault
	}
	n.lock()
	poll, block := n.st.BeginPoll()
	sent := n.st.At
	n.unlock()
	polled := n.poller.Send(reply+block, []any{"LOCK.SESSION", "POLL", session, "BLOCK", block.Milliseconds()})[0]
	defer n.lock().unlock()
	switch {
	case polled.Fault == nil:
		n.st.Polled(poll, sent, polled.Value)
		return false, nil
	case polled.Fault.Word == "NOSESSION":
		n.st.Ended()
		return true, nil
	}
	return false, polled.Fault
}
