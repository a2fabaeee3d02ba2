package quorum

import (
	"context"
	"sync"

	"github.com/redis-lock/redis-lock/clients/go/internal/kinds"
	"github.com/redis-lock/redis-lock/clients/go/internal/wire"
)

// order is what an attempt wants of the servers: first to ask for the lock.
type order struct {
	raise  int64 // lift the grant to this token; 0: not yet
	keep   bool  // the lock is held with it: what stands there, or can be lifted to it, stays
	giveUp bool
}

// orders are heard by all parts of an attempt.
type orders struct {
	mu      sync.Mutex
	now     order
	changed chan struct{}
}

func (o *orders) set(now order) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now = now
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *orders) get() (order, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.now, o.changed
}

// report is what a server has said.
type report struct {
	place int
	what  word
	token int64 // granted, raised to, or too far ahead
	err   error
}

type word int

const (
	granted word = iota
	busy
	raised
	ahead  // that token is too far ahead of the server's time
	gone   // the grant is gone again
	failed // it refused, or gave no answer
)

// part is what one server has to do with one attempt. It ends when the server holds the lock for good, or has been
// told to free it; it goes on when the attempt is given up.
type part struct {
	*attempt
	place    int
	member   *member
	on       *wire.Conn
	mayCount bool // the grant may be lifted: a renewal may count it, and it is not released behind that
}

func (p *part) play(ctx context.Context) {
	if p.take(ctx) {
		return
	}
	isOver := func() bool { return p.mayCount && p.calls.isOver.Load() }
	p.member.releaseUntil(p.terms.Limit, p.on, isOver, p.key, p.owner)
}

// take says whether all is well at this server: it keeps the lock for the holder, or has nothing to release.
func (p *part) take(ctx context.Context) bool {
	a := p.call(ctx, "LOCK.ACQUIRE", p.key, p.owner, "PX", Milliseconds(p.terms.Lease), "HOLDS", 1)
	if a.err == nil && a.reply == nil {
		p.report(report{what: busy})
		return true
	}
	token := int64(0)
	if a.err == nil {
		token, a.err = grantOf(a.reply)
	}
	if a.err != nil {
		p.report(report{what: failed, err: a.err})
		return false
	}
	p.report(report{what: granted, token: token})
	return p.follow(ctx, token)
}

// call is sent no more when the lock is renewed or released.
func (p *part) call(ctx context.Context, words ...any) answer {
	return p.member.callUntil(ctx, p.terms.Limit, &p.on, p.calls.isOver.Load, words)
}

// follow does as told, until the lock is held or given up. Once lifted, a grant is lifted no more: when the attempt
// goes on with another token, it goes on without this server.
func (p *part) follow(ctx context.Context, token int64) bool {
	lifted := int64(0)
	for asked := int64(0); ; {
		now, changed := p.orders.get()
		if now.giveUp {
			return false
		}
		if now.raise >= token && lifted == 0 && now.raise != asked {
			asked = now.raise
			p.mayCount = p.mayCount || asked == token || !p.calls.isOver.Load() // else it will not be lifted
			said := p.raise(ctx, token, asked)
			if said.what == raised {
				lifted = asked
			}
			p.report(said)
			if said.what != raised && said.what != ahead {
				return false
			}
			continue
		}
		if now.keep {
			return lifted == now.raise
		}
		<-changed
	}
}

func (p *part) raise(ctx context.Context, token, to int64) report {
	a := p.call(ctx, "LOCK.RENEW", p.key, p.owner,
		"PX", Milliseconds(p.terms.Lease), "TOKEN", token, "RAISE", to)
	switch {
	case a.err == nil:
		return report{what: raised, token: to}
	case kinds.Begins(a.err, "AHEAD"):
		return report{what: ahead, token: to, err: a.err}
	case kinds.Of(kinds.Renewing, a.err) == kinds.ErrLost:
		return report{what: gone, err: a.err}
	}
	return report{what: failed, err: a.err}
}

// report is heard unless the lock is held, or given up: both are told by orders.
func (p *part) report(said report) {
	said.place = p.place
	select {
	case p.reports <- said:
	case <-p.settled:
	}
}
