package redislock

import (
	"context"

	"github.com/redis-lock/redis-lock/clients/go/internal/server"
	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

// place finds the server to ask. In a cluster, a wait without a place goes to the node that has the key now.
func (g *Grant) place() (to *server.Server, asking bool, fault *state.Fault) {
	if to, asking = g.at, g.asking; to == nil {
		to, fault = g.locks.servers.Find(g.claim.Key, g.locks.options.Reply)
	}
	if to == nil || to == g.node.server {
		return to, asking, fault
	}
	n := g.locks.nodeOf(to)
	old := g.lock()
	defer old.unlock()
	if g.claim.Phase == state.Asked {
		old.st.Move(g.claim, n.st)
		g.node = n
	}
	return g.node.server, asking, nil
}

// resolve asks for a grant where its key is now: a node of the cluster has deleted or redirected it.
func (g *Grant) resolve() {
	end, pause := now()+2*g.locks.options.Reply, pauses{}
	var at *server.Server
	asking := false
	for {
		var reply state.Reply
		if at == nil {
			at, reply.Fault = g.locks.servers.Find(g.claim.Key, g.locks.options.Reply)
		}
		var sent state.Time
		var session int64
		n, call := g.locks.nodeOf(at), 0
		if at != nil {
			session = n.awaitSession(context.Background(), end)
			sent = n.lock().st.At
			call = n.st.BeginCall(g.claim.Name)
			n.unlock()
			reply = at.Call(min(g.locks.options.Reply, end-sent), asking, []any{"LOCK.RENEW", g.claim.Key, g.claim.Owner,
				"SESSION", session, "TOKEN", g.claim.Token})
		}
		rest := pause.next()
		isOver := !reply.Fault.Passing() || now()+rest >= end
		old := g.lock()
		if isOver && old.st.Resolve(g.claim, n.st, session, sent, reply) {
			g.node = n
		}
		n.st.EndCall(call)
		old.unlock()
		if isOver {
			return
		}
		if at, asking = g.locks.servers.Redirected(at, reply.Fault); at == nil {
			g.sleep(context.Background(), rest)
		}
	}
}

// relocate sends on what a node that does not answer may have lost to another node.
func (n *node) relocate() {
	n.lock()
	claims := n.st.Claims()
	n.unlock()
	n.servers.Refresh()
	for _, claim := range claims {
		if at, _ := n.servers.Find(claim.Key, n.options.Reply); at != nil && at != n.server {
			n.lock()
			n.st.Relocate(claim)
			n.unlock()
		}
	}
}
