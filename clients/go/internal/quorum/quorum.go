// Package quorum takes a lock on several independent servers that decide together: held is what more than half of
// them have granted, with one token. The protocol, and why its tokens rise: docs/quorum.md.
package quorum

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-lock/redis-lock/clients/go/internal/dial"
	"github.com/redis-lock/redis-lock/clients/go/internal/kinds"
	"github.com/redis-lock/redis-lock/clients/go/internal/wire"
)

// Server is one of the servers.
type Server struct {
	Address string
	Dial    func(context.Context) (net.Conn, wire.Login, error)
}

// Settings of a quorum.
type Settings struct {
	// Reply is how long a reply may take, connecting included.
	Reply time.Duration
	// Life ends all connections.
	Life context.Context
	// Owner gives a name that was never used before.
	Owner func() string
	// Go runs what goes on when nobody waits for it any more.
	Go func(func())
	// Told hears that a server does not answer, and without an error that it does again; may be nil.
	Told func(address string, err error)
	// Idle closes connections that have not been used for so long, and stops looking for servers; 0: never.
	Idle time.Duration
}

// Terms say how a lock is taken.
type Terms struct {
	Lease time.Duration
	// Limit is how long a server may take to answer.
	Limit time.Duration
	// Drift is by how much less than its lease a grant is trusted.
	Drift time.Duration
	// Eager tells at once that a majority says no. Else a moment is waited for what the other servers say.
	Eager bool
}

// Grant is a lock that a majority has granted.
type Grant struct {
	Key, Owner string
	Token      int64
	Until      time.Time // it may be trusted so long
}

// Quorum is a number of servers.
type Quorum struct {
	Settings
	members []*member

	mu       sync.Mutex
	renewals map[string]*renewal // the last ones of an owner, while any of their calls is under way
}

// ServerOf is the one that a client of go-redis has, or the primary that its Sentinels tell; place tells such apart.
func ServerOf(client *redis.Client, place int) Server {
	options := client.Options()
	name := options.Addr
	if name == dial.BySentinels {
		name = fmt.Sprint(name, " ", place)
	}
	return Server{name, func(ctx context.Context) (net.Conn, wire.Login, error) {
		return dial.Server(ctx, options, options.Addr)
	}}
}

// New makes a quorum. Nothing is connected yet.
func New(servers []Server, settings Settings) *Quorum {
	q := &Quorum{Settings: settings, renewals: map[string]*renewal{}}
	for _, server := range servers {
		q.members = append(q.members, newMember(q, server))
	}
	return q
}

// Majority is how many servers are more than half of them.
func (q *Quorum) Majority() int { return len(q.members)/2 + 1 }

// Close ends all connections.
func (q *Quorum) Close() {
	for _, m := range q.members {
		m.close()
	}
}

// TermsOf are the usual terms of a lease. A server may take so long to answer that most of the lease is left
// when a majority has answered, unless the lease is so short that good servers would seem to be down.
func (q *Quorum) TermsOf(lease time.Duration) Terms {
	const shortest = 20 * time.Millisecond
	return Terms{Lease: lease, Limit: min(max(lease/10, shortest), q.Reply/2), Drift: Drift(lease)}
}

// Drift is how much faster than this clock those of the servers may run, in a lease.
func Drift(lease time.Duration) time.Duration { return lease/100 + 2*time.Millisecond }

// trusted is until when a lease may be trusted that began anew at this time or a little later, on a majority.
func (t Terms) trusted(start time.Time) (until time.Time, isNow bool) {
	until = start.Add(t.Lease - t.Drift)
	return until, time.Now().Before(until)
}

// Failure is why a majority did not do what it was asked for.
type Failure struct {
	// Kind is ErrBusy (others have the lock, or it came too late), ErrUnavailable (too few servers answer), ErrLost,
	// or what the servers refuse it with.
	Kind error
	// Servers has what each server said: nil where it did as asked, ErrBusy where others have the lock.
	Servers []error
	// First is the first server in whose line one may wait; -1 where there is none.
	First int

	addresses []string
	why       string
}

func (q *Quorum) failure(kind error, said map[int]error, why string) *Failure {
	f := &Failure{Kind: kind, Servers: make([]error, len(q.members)), First: -1, why: why}
	for place, m := range q.members {
		f.addresses = append(f.addresses, m.address)
		if err, isSaid := said[place]; isSaid {
			f.Servers[place] = err
		} else {
			f.Servers[place] = m.isDown()
		}
	}
	return f
}

func (f *Failure) Error() string {
	var parts []string
	if f.why != "" {
		parts = append(parts, f.why)
	}
	for place, err := range f.Servers {
		if err != nil {
			parts = append(parts, f.addresses[place]+": "+err.Error())
		}
	}
	return strings.Join(parts, "; ")
}

// Unwrap gives what it is, and what the servers said that is no part of the kind.
func (f *Failure) Unwrap() []error {
	parts := []error{f.Kind}
	for _, err := range f.Servers {
		if err != nil && err != kinds.ErrBusy && f.Kind != kinds.ErrBusy {
			parts = append(parts, err)
		}
	}
	return parts
}

// tooFew says which servers did not answer.
func (q *Quorum) tooFew(said map[int]error) *Failure {
	f := q.failure(kinds.ErrUnavailable, said, "")
	usable := 0
	for _, err := range f.Servers {
		if err == nil || err == kinds.ErrBusy {
			usable++
		}
	}
	f.why = fmt.Sprintf("%d of %d servers can be used, and it takes %d", usable, len(q.members), q.Majority())
	return f
}

// refused gives the kind that so many servers refuse with that there is no majority without them.
func (q *Quorum) refused(call kinds.Call, said map[int]error) error {
	count, first := 0, error(nil)
	for place := range q.members {
		if err := said[place]; err != nil && err != kinds.ErrBusy {
			if kind := kinds.Of(call, err); kind != kinds.ErrPassing && kind != kinds.ErrLost {
				count++
				if first == nil {
					first = kind
				}
			}
		}
	}
	if count <= len(q.members)-q.Majority() {
		return nil
	}
	return first
}

// grantOf reads what ACQUIRE and RENEW answer.
func grantOf(reply any) (token int64, err error) {
	if parts, _ := reply.([]any); len(parts) >= 4 {
		if token, isToken := parts[0].(int64); isToken {
			return token, nil
		}
	}
	return 0, fmt.Errorf("this is no grant: %v", reply)
}

// Milliseconds are rounded up.
func Milliseconds(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
