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

var noReply = Reply{Fault: &Fault{Sent: true, Err: errors.New("timeout")}}

func says(text string) Reply { return Reply{Fault: ErrorReply(text)} }

func grants(token int64, holds, leaseMS int) Reply {
	return Reply{Value: []any{token, "o", int64(holds), int64(leaseMS)}}
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
func (r rig) sessionEnded()                   { r.SessionEnded(r.n) }
func (r rig) Due() []Due                      { return r.State.Due(r.n) }
func (r rig) Failed(began Time, fault *Fault) { r.State.Failed(r.n, began, fault) }

func (r rig) Answered(c *Claim, session int64, sent Time, reply Reply) {
	r.State.Answered(c, r.n, session, sent, reply)
}

func (r rig) release(c *Claim) {
	r.t.Helper()
	_, failure := r.Release(c)
	r.fine(failure)
}

func (r rig) renew(c *Claim, lease time.Duration, leaves bool) {
	r.t.Helper()
	_, failure := r.Renew(c, lease, leaves)
	r.fine(failure)
}

func (r rig) cancelLater(name Name) { r.finishLater(r.n, release{name, 0}) }

func (r rig) at(seconds float64) rig {
	r.At = time.Duration(seconds * float64(s))
	return r
}

func (r rig) claim(key string, wait time.Duration) *Claim {
	c := NewClaim(Name{key, "o"}, nil, 10*s, wait, s, r.At)
	c.Node = r.n
	return &c
}

// asked is a wait whose ACQUIRE is under way since 100 s.
func (r rig) asked(key string, task *Task) *Claim {
	r.t.Helper()
	c := r.claim(key, 5*s)
	c.Task = task
	if err := r.Ask(c); err != nil {
		r.t.Fatal(err)
	}
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
		got = err.Error()
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
		r.Polled(r.n, sent, map[any]any{"sure-ms": int64(sureMS), "grants": int64(grants), "events": all})
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
		due.Apply(r.At, replies[i])
	}
	return commands
}

func (r rig) sureTill(c *Claim, seconds float64) {
	r.t.Helper()
	if got := r.Sure(c).Round(ms).Seconds(); got != seconds {
		r.t.Fatalf("sure till %v instead of %v", got, seconds)
	}
}

func (r rig) is(failure *Error, kind error) {
	r.t.Helper()
	if failure == nil || failure.Kind != kind {
		r.t.Fatalf("%v instead of: %v", failure, kind)
	}
}

func (r rig) fine(failure *Error) {
	r.t.Helper()
	if failure != nil {
		r.t.Fatal(failure)
	}
}

func (r rig) has(c *Claim, phase Phase, reason string) {
	r.t.Helper()
	if c.Phase != phase || c.Reason != reason {
		r.t.Fatalf("phase %d %q instead of %d %q", c.Phase, c.Reason, phase, reason)
	}
}

// † Neither during a call nor while a release is unfinished.
func TestAnOwnerIsNotUsedAgainWhileACallInItsNameIsUnanswered(t *testing.T) {
	r, task := open(t), &Task{Owner: "o"}
	if r.UsableOwner(task) != "o" {
		t.Fatal("not usable")
	}
	call := r.BeginCall(Name{"other", "o"})
	if r.UsableOwner(task) != "" {
		t.Fatal("used during a call")
	}
	r.EndCall(call)
	task.Owner = "o"
	r.cancelLater(Name{"other", "o"})
	if r.UsableOwner(task) != "" {
		t.Fatal("used during a release")
	}
}

// † After a call without a reply, a reported loss, and giving up a wait. What it holds keeps its owner.
func TestATaskContinuesWithAFreshOwner(t *testing.T) {
	for ending, happens := range map[string]func(rig, *Claim){
		"no reply": func(r rig, c *Claim) { r.Answered(c, 7, r.At, noReply) },
		"given up": func(r rig, c *Claim) {
			r.GiveUp(c)
			r.CancelAnswered(c, Reply{Value: int64(0)})
		},
		"lost": func(r rig, c *Claim) {
			r.Answered(c, 7, r.At, grants(50, 1, 10000))
			r.poll(9000, 0, lost("k", 50))
		},
		"release": func(r rig, c *Claim) {
			r.Answered(c, 7, r.At, grants(50, 1, 10000))
			r.release(c)
			r.fine(r.Released(c, Answer{Reply: Reply{Value: int64(0)}, WasOpen: true}))
		},
		"check": func(r rig, c *Claim) {
			r.Answered(c, 7, r.At, grants(50, 1, 10000))
			r.is(r.Confirmed(c, Answer{Sent: r.At, Reply: noReply}), ErrUnavailable)
		},
	} {
		r, task := open(t), &Task{Owner: "o"}
		c := r.asked("k", task)
		happens(r, c)
		if task.Owner != "" || c.Owner != "o" {
			t.Fatal(ending, task.Owner)
		}
	}
}

// † A cancel, a stray, a late grant and a silent grant are released without the session.
func TestOnlyTheUsersReleaseNamesTheSession(t *testing.T) {
	r := open(t)
	grant := r.held("k")
	if got := fmt.Sprint(grant.ReleaseCommand()); got != "[LOCK.RELEASE k o HOLDS 1 TOKEN 50 SESSION 7]" {
		t.Fatal(got)
	}
	r.GiveUp(r.inLine("cancelled"))
	late := r.asked("late", nil)
	r.GiveUp(late)
	r.Answered(late, 7, r.At, grants(60, 1, 10000))
	r.poll(5000, 3, granted("stray", 61))
	r.at(111).silent(r.n, 111*s)
	r.has(grant, Lost, "silence")
	r.isDue("LOCK.RELEASE cancelled o ALL", "LOCK.RELEASE late o ALL", "LOCK.RELEASE late o ALL TOKEN 60",
		"LOCK.RELEASE stray o ALL TOKEN 61", "LOCK.RELEASE k o ALL TOKEN 50")
}

// † `sure` moves to the sending of the POLL plus sure-ms (-1: the lease), in this session only.
func TestAPollCountsForGrantsOfItsSession(t *testing.T) {
	r := open(t)
	grant := r.held("k")
	r.at(109).poll(5000, 1)
	r.sureTill(grant, 114)
	r.at(110).poll(1000, 1)
	r.sureTill(grant, 114)
	r.at(111).poll(-1, 1)
	r.sureTill(grant, 121)
	r.sessionEnded()
	r.Opened(8)
	r.at(115).poll(9000, 1)
	r.sureTill(grant, 121)
}

// † A grant that was learned later, or has another token now, may have been lost before.
func TestAPollCountsForGrantsThatWereKnownWhenItWasSent(t *testing.T) {
	r := open(t)
	reply := r.at(100).begin()
	grant := r.held("k")
	r.At = 109 * s
	reply(9500, 1)
	r.sureTill(grant, 110)
	r.inLine("l")
	r.poll(3000, 2, granted("l", 51))
	if other := r.claims[Name{"l", "o"}]; r.Sure(other).Round(ms) != 112*s {
		t.Fatal(r.Sure(other))
	}
}

// A POLL that reaches less far counts for grants that joined after one that reached further.
func TestLeasesThatDiffer(t *testing.T) {
	r := open(t)
	long := r.held("long")
	r.poll(9900, 1)
	short := r.asked("short", nil)
	r.Answered(short, 7, r.At, grants(51, 1, 2000))
	r.step(short, "done")
	r.at(101).poll(1900, 2)
	r.sureTill(short, 102.9)
	r.sureTill(long, 110)
	r.at(102.5).poll(1900, 2)
	r.has(short, Held, "")
	r.sureTill(short, 104.4)
}

// † The reply is no grant: the wait is asked again. A grant with another token counts.
func TestALossBeforeTheReplyThatNamesTheGrant(t *testing.T) {
	r := open(t)
	wait, call := r.asked("k", nil), r.BeginCall(Name{"k", "o"})
	r.poll(-1, 0, lost("k", 50))
	r.Answered(wait, 7, r.At, grants(50, 1, 10000))
	r.step(wait, "send")
	r.Answered(wait, 7, r.At, grants(51, 1, 10000))
	r.step(wait, "done")
	r.EndCall(call)
	r.isDue()
}

func TestALossIsForgottenWhenTheCallsOfItsTimeAreAnswered(t *testing.T) {
	r := open(t)
	first, second := r.BeginCall(Name{"a", "a"}), r.BeginCall(Name{"b", "b"})
	r.poll(-1, 0, lost("k", 50))
	third := r.BeginCall(Name{"c", "c"})
	r.EndCall(first)
	if len(r.losses) != 1 {
		t.Fatal("forgotten too early")
	}
	r.EndCall(second)
	r.EndCall(third)
	r.poll(-1, 0, lost("k", 51))
	if len(r.losses) != 0 {
		t.Fatal("not forgotten")
	}
}

// † GRANTS is due when every reply shows too many grants for a lease. Calls under way are no excuse.
func TestStraysAreReleased(t *testing.T) {
	r := open(t)
	r.held("k")
	r.inLine("waiting")
	r.BeginCall(Name{"called", "o"})
	r.poll(20000, 2)
	r.at(109).isDue()
	r.poll(20000, 1)
	r.poll(20000, 2)
	r.at(119).isDue()
	r.at(119.1)
	due := r.Due()
	if len(due) != 1 || due[0].Command[1] != "GRANTS" {
		t.Fatal(due)
	}
	r.BeginCall(Name{"later", "o"})
	var rows []any
	for _, key := range []string{"k", "waiting", "called", "later", "stray"} {
		rows = append(rows, []any{"key", key, "owner", "o", "token", int64(60)})
	}
	due[0].Apply(r.At, Reply{Value: rows})
	r.isDue("LOCK.RELEASE stray o ALL TOKEN 60")
	r.poll(9000, 2) // the unfinished release explains the second grant
	if r.n.excess >= 0 {
		t.Fatal("still too many")
	}
}

// † A program that slept keeps its locks if the next POLL confirms them; else silence ends them.
func TestSilenceIsJudgedByAPollThatBeganAfterSure(t *testing.T) {
	r := open(t)
	grant := r.held("k")
	reply := r.at(109.9).begin()
	r.at(130)
	reply(0, 1) // after a sleep of 20 s
	r.has(grant, Held, "")
	if block := r.Block(r.n); block != 100*ms || r.Sure(grant) > r.At {
		t.Fatal(block)
	}
	r.poll(5000, 1)
	r.sureTill(grant, 135)
	if block := r.Block(r.n); block != 10*s/3 {
		t.Fatal(block)
	}
	r.at(140).Failed(139*s, noReply.Fault)
	r.has(grant, Lost, "silence")
	r.isDue("LOCK.RELEASE k o ALL TOKEN 50")
}

func TestARefusedConnectionCountsAfterASecondOfTries(t *testing.T) {
	r, fault := open(t), &Fault{Err: errors.New("refused")}
	grant, other := r.held("k"), r.held("other")
	other.sure = 132 * s
	r.at(109).Failed(109*s, fault)
	r.at(130).Failed(130*s, fault) // the program slept
	r.at(130.1).Failed(130*s+100*ms, fault)
	r.has(grant, Held, "")
	r.at(131).Failed(130*s+900*ms, fault)
	r.has(grant, Lost, "silence")
	r.at(133.1).Failed(132*s+100*ms, fault) // one try that takes a second
	r.has(other, Lost, "silence")
}

// `sure` is lowered before the RENEW, and no POLL sent before its reply counts.
func TestAShorterLease(t *testing.T) {
	r := open(t)
	grant := r.held("k")
	r.at(101).renew(grant, 2*s, false)
	r.sureTill(grant, 103)
	r.at(102).poll(9000, 1)
	r.sureTill(grant, 103)
	reply := r.at(102.4).begin()
	r.at(102.5)
	r.fine(r.Confirmed(grant, Answer{Sent: 101 * s, Reply: grants(50, 1, 2000)}))
	reply(9000, 1)
	r.sureTill(grant, 103)
	r.at(102.6).poll(1500, 1)
	r.sureTill(grant, 104.1)
}

func TestSureFollowsTheLeaseInTheReply(t *testing.T) {
	r := open(t)
	grant := r.asked("k", nil)
	r.Answered(grant, 7, 100*s, grants(50, 1, 3000))
	r.sureTill(grant, 103)
	r.fine(r.Confirmed(grant, Answer{Sent: 102 * s, Reply: grants(50, 2, 20000)}))
	r.sureTill(grant, 122)
	r.fine(r.Confirmed(grant, Answer{Sent: 103 * s, Reply: grants(50, 2, 1000)}))
	r.sureTill(grant, 122)
}

// In a new session grants are moved first, then the waits ask again, then come unfinished releases.
func TestWaitsAreQueuedAgainInTheirOrder(t *testing.T) {
	r := open(t)
	waits := []*Claim{r.inLine("c"), r.inLine("a"), r.inLine("b")}
	r.held("k")
	r.cancelLater(Name{"z", "o"})
	r.sessionEnded()
	r.Opened(8)
	got := r.at(101).apply(says("NOPERM x"), Reply{Value: int64(1)}, noReply, says("LOADING x"), noReply)
	for i, begins := range []string{"LOCK.RENEW k o SESSION 8 TOKEN 50", "LOCK.ACQUIRE c", "LOCK.ACQUIRE a", "LOCK.ACQUIRE b", "LOCK.RELEASE z"} {
		if !strings.HasPrefix(got[i], begins) {
			t.Fatal(got)
		}
	}
	if waits[0].Session != 8 || waits[1].Session != 7 || len(r.calls) != 0 {
		t.Fatal(waits[0], waits[1], r.calls)
	}
	if got = r.due(); len(got) != 4 || !strings.HasPrefix(got[1], "LOCK.ACQUIRE a") {
		t.Fatal(got)
	}
}

func TestAPlaceCountsInTheCurrentSessionOnly(t *testing.T) {
	r := open(t)
	wait := r.asked("k", nil)
	r.Answered(wait, 6, r.At, Reply{Value: int64(3)})
	r.step(wait, "send")
	r.Answered(wait, 7, r.At, says("NOSESSION x"))
	r.step(wait, "wait")
	r.sessionEnded()
	r.Opened(8)
	r.step(wait, "send")
}

// A grant that is unsure is handed to the user after the next POLL.
func TestAGrantWithSureZeroIsPolledOnceMore(t *testing.T) {
	r := open(t)
	wait := r.inLine("k")
	r.at(101).poll(0, 1, granted("k", 50))
	r.step(wait, "wait")
	r.at(102).poll(5000, 1)
	r.step(wait, "done")
}

// An event whose number was seen is skipped; in a new session numbers start at 1.
func TestEventsAreAppliedOnce(t *testing.T) {
	r := open(t)
	grant := r.held("k")
	event := append([]any{int64(3)}, lost("k", 50)...)
	r.n.seen = 3
	r.Polled(r.n, r.At, []any{"sure-ms", int64(0), "grants", int64(1), "events", []any{event}})
	r.has(grant, Held, "")
	r.sessionEnded()
	r.Opened(8)
	event[0] = int64(1)
	r.Polled(r.n, r.At, []any{"sure-ms", int64(0), "grants", int64(1), "events", []any{event}})
	r.has(grant, Lost, "deleted")
}

func TestALossIsReportedOnce(t *testing.T) {
	r := open(t)
	grant := r.held("k")
	r.poll(5000, 1, lost("k", 49))
	r.has(grant, Held, "")
	r.poll(5000, 0, lost("k", 50))
	r.Changed = nil
	r.is(r.Confirmed(grant, Answer{Sent: r.At, Reply: says("NOTHELD x")}), ErrLost)
	r.has(grant, Lost, "deleted")
	if len(r.Changed) > 0 {
		t.Fatal("reported twice")
	}
}

// A place is cancelled unless the lock is held; a late grant is released unless a call in its name is under way.
func TestAWaitThatIsOver(t *testing.T) {
	r := open(t)
	wait := r.inLine("k")
	r.GiveUp(wait)
	r.CancelAnswered(wait, says("NOTHELD x"))
	r.isDue()
	r.Answered(wait, 7, r.At, Reply{Value: int64(0)})
	r.isDue("LOCK.RELEASE k o ALL")
	grant := r.held("held")
	r.Answered(grant, 7, r.At, Reply{Value: int64(0)})
	r.BeginCall(Name{"called", "o"})
	r.poll(5000, 1, granted("called", 60), granted("held", 50), granted("gone", 61), lost("gone", 61))
	r.isDue("LOCK.RELEASE k o ALL")
	r.has(grant, Held, "")
}

// The higher token counts until the user has the grant; after that it is released.
func TestTheHigherOfTwoTokens(t *testing.T) {
	r := open(t)
	wait := r.inLine("k")
	r.at(101).poll(9000, 1, granted("k", 50))
	r.Answered(wait, 7, r.At, grants(51, 1, 10000))
	r.step(wait, "done")
	r.poll(9000, 2, granted("k", 50), granted("k", 52))
	if wait.Token != 51 {
		t.Fatal(wait.Token)
	}
	r.isDue("LOCK.RELEASE k o ALL TOKEN 52")
}

func TestAWaitThatEnded(t *testing.T) {
	for why, kind := range map[string]error{"timeout": ErrBusy, "cancelled": ErrBusy, "MOVED 1 x": nil,
		"NOPERM x": ErrRefused, "WRONGTYPE x": ErrMisuse, "DEADLOCK x": ErrDeadlock, "NOTALONE x": ErrNotAlone} {
		r := open(t)
		wait := r.inLine("k")
		r.poll(-1, 0, ended("k", why))
		if kind == nil {
			r.step(wait, "send")
			continue
		}
		_, _, _, err := r.NextStep(wait)
		r.is(err, kind)
	}
}

// Out of time: busy in line in the current session, a reply after the wait; unavailable elsewhere.
func TestBusyOrUnavailable(t *testing.T) {
	r := open(t)
	wait, asked := r.inLine("k"), r.asked("asked", nil)
	r.at(105.5).step(wait, "wait")
	r.at(106).step(wait, ErrBusy.Error())
	r.Answered(asked, 7, r.At, says("LOADING x"))
	r.step(asked, "server: LOADING x")
	r.sessionEnded()
	r.Opened(8)
	r.step(wait, ErrUnavailable.Error())
	r.sessionEnded()
	r.at(101).Failed(101*s, ErrorReply("MAXSESSIONS x"))
	r.step(asked, ErrRefused.Error())
}

func TestTimeLimits(t *testing.T) {
	r := open(t)
	for _, one := range []struct {
		wait             time.Duration
		queue            string
		limit, end, last time.Duration
	}{
		{0, "HOLDS 1 SESSION 7]", 500 * ms, 101 * s, 101 * s}, {300 * ms, "QUEUE 1]", 500 * ms, 101 * s, 101300 * ms},
		{30 * s, "QUEUE 29500]", s, 130 * s, 131 * s}, {-1, "QUEUE 0]", s, far - s, far},
	} {
		c := r.claim("k", one.wait)
		command := fmt.Sprint(c.AcquireCommand(7, 100500*ms))
		if !strings.HasSuffix(command, one.queue) || c.Limit != one.limit || c.AskedEnd != one.end || c.Last != one.last {
			t.Fatal(one.wait, command, c.Limit, c.AskedEnd, c.Last)
		}
	}
}

// The cancel is an unfinished release until it is answered. A wait without a call needs none.
func TestGivingUpCancelsWhatTheServerMayKnow(t *testing.T) {
	r := open(t)
	unsent := r.claim("u", 5*s)
	r.fine(r.Ask(unsent))
	if r.GiveUp(unsent) || len(r.claims)+len(r.unfinished) > 0 {
		t.Fatal("cancelled")
	}
	refused := r.asked("refused", nil)
	r.Answered(refused, 7, r.At, Reply{Fault: &Fault{Err: errors.New("refused")}})
	if r.GiveUp(refused) {
		t.Fatal("what was not sent is cancelled")
	}
	wait := r.asked("k", nil)
	r.Answered(wait, 7, r.At, noReply)
	if !r.GiveUp(wait) {
		t.Fatal("not cancelled")
	}
	r.CancelAnswered(wait, says("LOADING x"))
	r.isDue("LOCK.RELEASE k o ALL")
	r.CancelAnswered(wait, says("NOTHELD x"))
	r.isDue()
}

// NOTHELD is a loss. After a try without a reply it means done, unless the loss was reported.
func TestAReleaseThatFindsNoGrant(t *testing.T) {
	for _, one := range []struct {
		wasOpen, event bool
		reason         string
	}{{false, false, "gone (NOTHELD)"}, {true, false, ""}, {true, true, "deleted"}} {
		r := open(t)
		grant, call := r.held("k"), r.BeginCall(Name{"k", "o"})
		r.release(grant)
		if one.event {
			r.poll(-1, 0, lost("k", 50))
		}
		failure := r.Released(grant, Answer{Reply: says("NOTHELD x"), WasOpen: one.wasOpen})
		if (failure != nil) != (one.reason != "") || grant.Reason != one.reason {
			t.Fatal(one, failure, grant.Reason)
		}
		r.EndCall(call)
	}
	r := open(t)
	grant := r.held("k")
	grant.Holds = 2
	r.release(grant)
	r.is(r.Released(grant, Answer{Reply: says("NOTHELD x"), WasOpen: true}), ErrLost)
}

// An inner hold is left to the next release, because a re-entry may come between.
func TestTheReleaseOfTheLastHoldIsRepeated(t *testing.T) {
	r := open(t)
	grant := r.held("k")
	grant.Holds = 2
	r.release(grant)
	r.is(r.Released(grant, Answer{Reply: noReply, WasOpen: true}), ErrUnavailable)
	r.isDue()
	r.release(grant)
	r.is(r.Released(grant, Answer{Reply: noReply, WasOpen: true}), ErrUnavailable)
	r.isDue("LOCK.RELEASE k o HOLDS 0 TOKEN 50 SESSION 7")
	_, failure := r.Release(grant)
	r.is(failure, ErrMisuse)
}

// Grants move to a new session. The old one is closed 2 s later, when no known grant is in it.
func TestAfterARefusedReleaseTheSessionIsLeft(t *testing.T) {
	r := open(t)
	refused, other := r.held("k"), r.held("other")
	r.release(refused)
	r.is(r.Released(refused, Answer{Reply: says("NOPERM x"), WasOpen: false}), ErrRefused)
	r.at(101).LeaveSession(r.n)
	if r.n.Session != 0 {
		t.Fatal("not left")
	}
	r.Opened(8)
	r.at(104)
	if got := r.apply(grants(50, 1, 10000)); got[0] != "LOCK.RENEW other o SESSION 8 TOKEN 50" || len(got) != 1 {
		t.Fatal(got)
	}
	r.sureTill(other, 114)
	r.at(103).isDue()
	r.at(103.1).apply(noReply)
	r.isDue("LOCK.SESSION CLOSE 7")
	r.apply(Reply{Value: int64(0)})
	r.isDue()
}

func TestTheSessionIsLeftForALastHoldOnly(t *testing.T) {
	r := open(t)
	grant := r.held("k")
	grant.Holds = 2
	r.release(grant)
	r.is(r.Released(grant, Answer{Reply: says("NOPERM x"), WasOpen: false}), ErrRefused)
	for _, one := range []struct {
		token int64
		says  string
	}{{0, "NOPERM x"}, {50, "NOTHELD x"}} {
		r.finishLater(r.n, release{Name{"k", "o"}, one.token})
		r.apply(says(one.says))
		if r.n.leaving || len(r.unfinished) > 0 {
			t.Fatal("left")
		}
	}
	r.finishLater(r.n, release{Name{"k", "o"}, 50})
	r.apply(says("NOPERM x"))
	if !r.n.leaving {
		t.Fatal("not left")
	}
}

// NOTHELD to a RENEW is a loss, any other error is not. A grant that was taken is left alone.
func TestMovingAGrant(t *testing.T) {
	r := open(t)
	all := map[string]*Claim{"gone": r.held("gone"), "kept": r.held("kept"), "taken": r.held("taken")}
	r.sessionEnded()
	r.Opened(8)
	for _, due := range r.at(101).Due() {
		reply := map[any]Reply{"gone": says("NOTHELD x"), "kept": says("NOPERM x"), "taken": noReply}[due.Command[1]]
		due.Apply(r.At, reply)
	}
	r.poll(-1, 0, []any{"taken", "taken", "o", int64(50), int64(9)})
	r.has(all["gone"], Lost, "gone (NOTHELD)")
	r.has(all["taken"], Lost, "taken")
	r.has(all["kept"], Held, "")
	r.isDue("LOCK.RENEW kept o SESSION 8 TOKEN 50")
}

func TestCloseEndsWaitsAndGrants(t *testing.T) {
	r := open(t)
	wait, grant := r.inLine("k"), r.held("held")
	r.Changed = nil
	all := r.Close()
	if sessions := r.n.Sessions(); !slices.Equal(sessions, []int64{7}) || !slices.Equal(all, []*Claim{grant}) || len(r.Changed) != 2 {
		t.Fatal(all, r.Changed)
	}
	_, _, _, failure := r.NextStep(wait)
	r.is(failure, ErrClosed)
	_, failure = r.Release(grant)
	r.is(failure, ErrClosed)
	r.is(r.Ask(wait), ErrClosed)
	if got := fmt.Sprint(grant.ReleaseCommand()); !strings.Contains(got, "HOLDS 0") {
		t.Fatal(got)
	}
}

// A grant with a fixed lease leaves the session in which it waited; its own `taken` is no loss. It expires.
func TestAFixedLease(t *testing.T) {
	r := open(t)
	c := r.claim("k", 5*s)
	c.Lease, c.Fixed = 500*ms, true
	r.fine(r.Ask(c))
	r.step(c, "send")
	if got := fmt.Sprint(c.AcquireCommand(7, r.At)); !strings.Contains(got, "PX 1000 HOLDS 1 SESSION 7 QUEUE") {
		t.Fatal(got)
	}
	r.Answered(c, 7, r.At, grants(50, 1, 1000))
	r.step(c, "done")
	r.renew(c, 500*ms, true)
	r.poll(-1, 0, []any{"taken", "k", "o", int64(50), int64(0)})
	r.fine(r.Confirmed(c, Answer{Sent: 100*s + 200*ms, Reply: grants(50, 1, 500)}))
	r.poll(9000, 0, granted("k", 50))
	r.sureTill(c, 100.7)
	r.sessionEnded()
	r.Opened(8)
	r.at(100.5).isDue()
	if command, rest := r.End(c, far); command != nil || rest != 200*ms {
		t.Fatal(command, rest)
	}
	r.at(100.7).End(c, far)
	r.has(c, Lost, "expired")
}

// A RENEW that takes a grant out of its session and gets no answer: no POLL counts, and silence ends the grant.
func TestALeaveWithoutAnAnswer(t *testing.T) {
	r := open(t)
	c := r.held("k")
	r.renew(c, 3*s, true)
	r.is(r.Confirmed(c, Answer{Sent: r.At, Reply: noReply}), ErrUnavailable)
	r.poll(9000, 0, []any{"taken", "k", "o", int64(50), int64(0)})
	r.sureTill(c, 103)
	r.at(104).poll(9000, 0)
	r.has(c, Lost, "silence")
}

// A grant whose maximum time is over is lost, and the release names the session.
func TestAMaximumTime(t *testing.T) {
	r := open(t)
	c := r.held("k")
	if command, rest := r.End(c, 101*s); command != nil || rest != s {
		t.Fatal(command, rest)
	}
	command, _ := r.at(101).End(c, 101*s)
	if got := fmt.Sprint(command); got != "[LOCK.RELEASE k o HOLDS 0 TOKEN 50 SESSION 7]" {
		t.Fatal(got)
	}
	r.has(c, Lost, "its maximum time is over")
	r.isDue("LOCK.RELEASE k o HOLDS 0 TOKEN 50 SESSION 7")
	r.Ended(c, Reply{Value: int64(0)})
	r.isDue()
}

// What another process has detached is adopted by a RENEW. A loss is reported as such.
func TestAnAdoption(t *testing.T) {
	r := open(t)
	c := r.claim("k", 0)
	c.Adopted = 50
	r.fine(r.Ask(c))
	r.step(c, "send")
	if got := fmt.Sprint(c.AcquireCommand(7, r.At)); got != "[LOCK.RENEW k o PX 10000 SESSION 7 TOKEN 50]" {
		t.Fatal(got)
	}
	r.Answered(c, 7, r.At, says("NOTHELD x"))
	r.step(c, ErrLost.Error())
}

// In a cluster, a deleted grant may be at another node: it is unsure until that node has answered.
func TestAGrantThatMovedToAnotherNode(t *testing.T) {
	for reply, reason := range map[*Reply]string{
		{Value: []any{int64(50), "o", int64(1), int64(10000)}}: "", {Fault: ErrorReply("NOTHELD x")}: "deleted",
	} {
		r, other := open(t), NewNode("other")
		r.isCluster = true
		r.State.Opened(&other, 9)
		c := r.held("k")
		r.poll(-1, 0, lost("k", 50))
		if c.Phase != Held || r.Sure(c) > r.At || !slices.Contains(r.Elsewhere, c) {
			t.Fatal(c)
		}
		r.isDue()
		r.Found(c, &other, 9, Answer{Sent: 101 * s, Reply: *reply})
		if c.Reason != reason || reason == "" && (c.Node != &other || r.Sure(c) != 111*s || !other.grants[c]) {
			t.Fatal(c)
		}
	}
}

// A wait without a place is asked for where the key is now.
func TestAWaitThatMovedToAnotherNode(t *testing.T) {
	r, other := open(t), NewNode("other")
	r.State.Opened(&other, 9)
	wait := r.inLine("k")
	r.Relocate(wait)
	wait.Node = &other
	r.step(wait, "send")
	r.Answered(wait, 7, r.At, Reply{Value: int64(0)}) // late, of the old node
	r.step(wait, "send")
	r.State.Answered(wait, &other, 9, r.At, Reply{Value: int64(0)})
	r.step(wait, "wait")
}
