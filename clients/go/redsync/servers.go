package redsync

import (
	"context"
	"errors"
	"time"

	"github.com/redis-lock/redis-lock/clients/go/internal/server"
	"github.com/redis-lock/redis-lock/clients/go/internal/state"
)

const reply = time.Second // the longest that a server may take to unlock, connecting included

// servers are those of a Redsync. A majority of them decides.
type servers []*server.Server

func (s servers) majority() int { return len(s)/2 + 1 }

// failure says what each server answered, or did not.
type failure struct {
	servers []error // nil: it agrees
	isLate  bool    // a majority agreed too late
}

func (f *failure) Error() string { return "no majority of the servers" }

var (
	errTaken  = errors.New("taken")
	errSilent = errors.New("no answer in time")
)

// verdict is the answer of one server.
type verdict struct {
	place int
	token int64
	err   error
}

// ask sends each server its command unless ctx has ended, and gathers the answers until the limit. When a majority
// agrees, the others have 50 ms left or as long again; with isEager also when a majority disagrees. answered is closed
// for each server that has answered.
func (s servers) ask(ctx context.Context, limit time.Duration, isEager bool, command func(place int) []any,
	judge func(state.Reply) (token int64, err error)) (verdicts []verdict, answered []chan struct{}) {
	all := make(chan verdict, len(s))
	verdicts, answered = make([]verdict, len(s)), make([]chan struct{}, len(s))
	begun, agree, disagree := time.Now(), 0, 0
	for place, one := range s {
		verdicts[place], answered[place] = verdict{place: place, err: errSilent}, make(chan struct{})
		if ctx.Err() != nil {
			close(answered[place])
			continue
		}
		words := command(place)
		go func() {
			defer close(answered[place])
			v := verdict{place: place, err: errTaken}
			if words != nil {
				v.token, v.err = judge(one.Call(limit, false, words))
			}
			all <- v
		}()
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for agree+disagree < len(s) {
		select {
		case v := <-all:
			if verdicts[v.place] = v; v.err == nil {
				agree++
			} else {
				disagree++
			}
			if agree == s.majority() || isEager && disagree == s.majority() {
				timer.Reset(min(limit, max(50*time.Millisecond, time.Since(begun))))
			}
		case <-timer.C:
			return verdicts, answered
		case <-ctx.Done():
			return verdicts, answered
		}
	}
	return verdicts, answered
}

// judged is nil if a majority agrees.
func (s servers) judged(verdicts []verdict) error {
	f, agree := &failure{servers: make([]error, len(s))}, 0
	for _, v := range verdicts {
		if f.servers[v.place] = v.err; v.err == nil {
			agree++
		}
	}
	if agree >= s.majority() {
		return nil
	}
	return f
}

// granted judges the reply of ACQUIRE and RENEW.
func granted(reply state.Reply) (token int64, err error) {
	parts, _ := reply.Value.([]any)
	switch {
	case reply.Fault != nil:
		return 0, reply.Fault
	case len(parts) < 4:
		return 0, errTaken
	}
	token, _ = parts[0].(int64)
	return token, nil
}

func (m *Mutex) limit() time.Duration {
	return max(time.Duration(float64(m.expiry)*m.timeoutFactor), time.Millisecond)
}

// acquire takes the lock on a majority, with one token.
func (m *Mutex) acquire(ctx context.Context, value string) error {
	s, begun, token, until := m.redsync.servers, time.Now(), int64(0), time.Time{}
	verdicts, answered := s.ask(ctx, m.limit(), m.failFast, func(int) []any {
		return []any{"LOCK.ACQUIRE", m.name, value, "PX", state.Milliseconds(m.expiry), "HOLDS", 1}
	}, granted)
	err := s.judged(verdicts)
	if err == nil {
		token, until, err = m.agree(ctx, begun, value, verdicts)
	}
	if err != nil {
		for place := range s {
			go func() {
				<-answered[place] // a release must not overtake what it releases
				m.freeLater(place, value)
			}()
		}
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked, m.value, m.token, m.until = answered, value, token, until
	return nil
}

// agree gives all servers the highest of their tokens, so that tokens rise from holder to holder.
func (m *Mutex) agree(ctx context.Context, begun time.Time, value string, verdicts []verdict) (int64, time.Time, error) {
	s, token, isOne := m.redsync.servers, int64(0), true
	for _, v := range verdicts {
		token = max(token, v.token)
	}
	for _, v := range verdicts {
		isOne = isOne && v.token == token
	}
	if !isOne {
		raised, _ := s.ask(ctx, m.limit(), m.failFast, func(place int) []any {
			if verdicts[place].err != nil {
				return nil
			}
			return []any{"LOCK.RENEW", m.name, value, "TOKEN", verdicts[place].token, "RAISE", token}
		}, granted)
		if err := s.judged(raised); err != nil {
			return 0, time.Time{}, err
		}
	}
	return m.inTime(begun, token)
}

// inTime fails if the grants came too late to be of use.
func (m *Mutex) inTime(begun time.Time, token int64) (int64, time.Time, error) {
	drift := time.Duration(float64(m.expiry)*m.driftFactor) + 2*time.Millisecond
	until := begun.Add(m.expiry - drift)
	if time.Now().After(until) {
		return 0, time.Time{}, &failure{isLate: true}
	}
	return token, until, nil
}

// extend restarts the expiry, on a majority.
func (m *Mutex) extend(ctx context.Context, value string) error {
	s, begun, token := m.redsync.servers, time.Now(), int64(0)
	verdicts, _ := s.ask(ctx, m.limit(), m.failFast, func(int) []any {
		return []any{"LOCK.RENEW", m.name, value, "PX", state.Milliseconds(m.expiry)}
	}, granted)
	if err := s.judged(verdicts); err != nil {
		return err
	}
	for _, v := range verdicts {
		token = max(token, v.token)
	}
	token, until, err := m.inTime(begun, token)
	if err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.value, m.token, m.until = value, token, until
	}
	return err
}

func (m *Mutex) releaseCommand(value string) []any {
	return []any{"LOCK.RELEASE", m.name, value, "ALL"}
}

// release gives the lock back. The call is repeated at a server that does not answer, and at one that has not answered
// the acquire: a release must not overtake what it releases.
func (m *Mutex) release(ctx context.Context, limit time.Duration, value string) error {
	s := m.redsync.servers
	m.mu.Lock()
	asked := m.asked
	m.mu.Unlock()
	verdicts, answered := s.ask(context.WithoutCancel(ctx), limit, m.failFast, func(int) []any { return m.releaseCommand(value) },
		func(reply state.Reply) (int64, error) {
			if reply.Fault != nil {
				return 0, reply.Fault
			}
			return 0, nil
		})
	for _, v := range verdicts {
		var fault *state.Fault
		isLate := v.err == errSilent || errors.As(v.err, &fault) && fault.Passing()
		first := answered[v.place]
		if asked != nil { // else another process has asked for the lock
			first = asked[v.place]
			select {
			case <-first:
			default:
				isLate = true
			}
		}
		if isLate {
			go func() {
				<-first
				<-answered[v.place]
				m.freeLater(v.place, value)
			}()
		}
	}
	return s.judged(verdicts)
}

// freeLater repeats the release at one server until it is answered, or what it releases has expired. A server that was
// stalled may read the release before an acquire that had no reply, so one that finds nothing is sent twice.
func (m *Mutex) freeLater(place int, value string) {
	isAgain := false
	for end := time.Now().Add(m.expiry); ; {
		answer := m.redsync.servers[place].Call(reply, false, m.releaseCommand(value))
		switch isLast := isAgain || !answer.Fault.Gone(); {
		case !answer.Fault.Passing() && isLast, time.Now().After(end):
			return
		case !answer.Fault.Passing():
			isAgain = true
			continue
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-m.redsync.closed:
			return
		}
	}
}

// stands asks whether a majority has the lock for this value.
func (m *Mutex) stands(ctx context.Context, value string) error {
	s := m.redsync.servers
	verdicts, _ := s.ask(ctx, m.limit(), m.failFast, func(int) []any { return []any{"LOCK.INFO", m.name} },
		func(reply state.Reply) (int64, error) {
			if reply.Fault != nil {
				return 0, reply.Fault
			}
			if holder := state.Fields(reply.Value); holder["owner"] != value {
				return 0, errGone
			}
			return 0, nil
		})
	return s.judged(verdicts)
}
