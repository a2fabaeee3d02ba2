package state

// The rules of docs/client-protocol.md, by plain calls without a server. † marks what its model cannot do without. The
// clock starts at 100 s, the client's lease is 10 s, and session 7 is open.
import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	s  = time.Second
	ms = time.Millisecond
)

var (
	noReply = Reply{Fault: NoReply("server", errors.New("timeout"), true)}
	refused = NoReply("server", errors.New("refused"), false)
)

func says(text string) Reply { return Reply{Fault: ErrorReply("server", text)} }

func grants(token int64, holds, leaseMS int) Reply {
	return Reply{Value: []any{token, "o", int64(holds), int64(leaseMS)}}
}

// at is a reply to what was sent then.
func (r Reply) at(sent Time) Reply {
	r.Sent = sent
	return r
}

// again is a reply after a try without one, if there was one.
func (r Reply) again(wasOpen bool) Reply {
	r.WasOpen = wasOpen
	return r
}

// rig is a State with one server.
type rig struct {
	*State
	n *Node
	t *testing.T
}

func open(t *testing.T) rig {
	n := NewNode("server")
	r := rig{New(10*s, s, false), &n, t}
	r.At = 100 * s
	r.Opened(7)
	return r
}

func (r rig) Opened(session int64)            { r.State.Opened(r.n, session) }
func (r rig) sessionEnded()                   { r.n.Session = 0 }
func (r rig) Due() []Due                      { return r.State.Due(r.n) }
func (r rig) Failed(began Time, fault *Fault) { r.State.Failed(r.n, began, fault) }

func (r rig) Answered(c *Claim, session int64, sent Time, reply Reply) {
	reply.From = r.n
	r.State.Answered(c, session, reply.at(sent))
}

func (r rig) cancelLater(name Name) { r.finishLater(r.n, release{name, 0}) }

func (r rig) at(seconds float64) rig {
	r.At = time.Duration(seconds * float64(s))
	return r
}

// claim is a wait whose ACQUIRE has not been sent.
func (r rig) claim(key string, wait time.Duration, task *Task) *Claim {
	r.t.Helper()
	c := &Claim{Name: Name{key, "o"}, Lease: 10 * s, Node: r.n, Task: task, Wait: wait}
	r.fine(r.Ask(c))
	return c
}

// asked is a wait whose ACQUIRE is under way since 100 s.
func (r rig) asked(key string, task *Task) *Claim {
	r.t.Helper()
	c := r.claim(key, 5*s, task)
	r.step(c, "send")
	return c
}

func (r rig) inLine(key string) *Claim {
	c := r.asked(key, nil)
	r.Answered(c, 7, r.At, Reply{Value: int64(0)})
	return c
}

// held is a grant with the token 50 that the user has. It is sure for 10 s.
func (r rig) held(key string) *Claim {
	c := r.asked(key, nil)
	r.Answered(c, 7, r.At, grants(50, 1, 10000))
	r.step(c, "done")
	return c
}

func (r rig) step(c *Claim, want string) {
	r.t.Helper()
	done, send, _, err := r.NextStep(c)
	got := "wait"
	switch {
	case err != nil:
		got = err.Kind.Error() + ": " + err.Error()
	case done:
		got = "done"
	case send:
		got = "send"
	}
	if !strings.Contains(got, want) {
		r.t.Fatalf("next: %s instead of: %s", got, want)
	}
}

// begin sends a POLL; the result applies its reply.
func (r rig) begin() func(sureMS, grants int, events ...[]any) {
	sent := r.At + 1
	r.At += 2 // what is known before is earlier, what comes is later
	return func(sureMS, grants int, events ...[]any) {
		for i, event := range events {
			events[i] = append([]any{r.n.seen + int64(i) + 1}, event...)
		}
		var all []any
		for _, event := range events {
			all = append(all, event)
		}
		r.Polled(r.n, sent, []any{"sure-ms", int64(sureMS), "grants", int64(grants), "events", all})
	}
}

func (r rig) poll(sureMS, grants int, events ...[]any) { r.begin()(sureMS, grants, events...) }

func granted(key string, token int) []any {
	return []any{"granted", key, "o", int64(token), int64(1), int64(10000), int64(1)}
}
func lost(key string, token int) []any   { return []any{"lost", key, "o", int64(token), "deleted"} }
func ended(key string, why string) []any { return []any{"ended", key, "o", why} }

func (r rig) due() (commands []string) {
	for _, due := range r.Due() {
		commands = append(commands, strings.Trim(fmt.Sprint(due.Command), "[]"))
	}
	return commands
}

func (r rig) isDue(want ...string) {
	r.t.Helper()
	got := r.due()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		r.t.Fatalf("due: %q instead of: %q", got, want)
	}
}

// apply sends what is due, and gives it these replies.
func (r rig) apply(replies ...Reply) (commands []string) {
	for i, due := range r.Due() {
		commands = append(commands, strings.Trim(fmt.Sprint(due.Command), "[]"))
		replies[i].From = r.n
		due.Apply(replies[i].at(r.At))
	}
	return commands
}

func (r rig) sureTill(c *Claim, seconds float64) {
	r.t.Helper()
	if got := c.Sure.Round(ms).Seconds(); got != seconds {
		r.t.Fatalf("sure till %v instead of %v", got, seconds)
	}
}

func (r rig) is(failure *Fault, kind error) {
	r.t.Helper()
	if failure == nil || failure.Kind != kind {
		r.t.Fatalf("%v instead of: %v", failure, kind)
	}
}

func (r rig) fine(failure *Fault) {
	r.t.Helper()
	if failure != nil {
		r.t.Fatal(failure)
	}
}

func (r rig) has(c *Claim, phase Phase, reason string) {
	r.t.Helper()
	if c.Phase != phase || phase == Ended && (!c.IsLost() || c.Failure.Error() != reason) {
		r.t.Fatalf("phase %d %v instead of %d %q", c.Phase, c.Failure, phase, reason)
	}
}
