package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// † Neither during a call nor while a release is unfinished.
func TestAnOwnerIsNotUsedAgainWhileACallInItsNameIsUnanswered(t *testing.T) {
	r, task := open(t), &Task{Owner: "o"}
	owner := func() string {
		r.t.Helper()
		c := &Claim{Name: Name{"k", "fresh"}, Node: r.n, Task: task}
		task.Owner = "o"
		r.fine(r.Ask(c))
		r.GiveUp(c)
		return c.Owner
	}
	if owner() != "o" {
		t.Fatal("not usable")
	}
	r.BeginCall(Name{"other", "o"})
	if owner() != "fresh" {
		t.Fatal("used during a call")
	}
	r.EndCall(Name{"other", "o"})
	r.cancelLater(Name{"other", "o"})
	if owner() != "fresh" {
		t.Fatal("used during a release")
	}
}

// † After a call without a reply, a reported loss, and giving up a wait. What it holds keeps its owner.
func TestATaskContinuesWithAFreshOwner(t *testing.T) {
	for ending, happens := range map[string]func(rig, *Claim){
		"no reply": func(r rig, c *Claim) { r.Answered(c, 7, r.At, noReply) },
		"given up": func(r rig, c *Claim) {
			r.Answered(c, 7, r.At, Reply{Value: int64(0)})
			r.GiveUp(c)
			r.CancelAnswered(c, Reply{Value: int64(0)})
		},
		"lost": func(r rig, c *Claim) {
			r.Answered(c, 7, r.At, grants(50, 1, 10000))
			r.poll(9000, 0, lost("k", 50))
		},
		"release": func(r rig, c *Claim) {
			r.Answered(c, 7, r.At, grants(50, 1, 10000))
			r.Release(c)
			r.fine(r.Released(c, Reply{Value: int64(0)}.again(true)))
		},
		"check": func(r rig, c *Claim) {
			r.Answered(c, 7, r.At, grants(50, 1, 10000))
			r.is(r.Confirmed(c, noReply.at(r.At)), ErrUnavailable)
		},
	} {
		r, task := open(t), &Task{Owner: "o", Held: map[string]*Claim{}}
		c := r.asked("k", task)
		happens(r, c)
		if task.Owner != "" || c.Owner != "o" {
			t.Fatal(ending, task.Owner)
		}
	}
}

// In a new session grants are moved first, then the waits ask again, then come unfinished releases.
func TestWaitsAreQueuedAgainInTheirOrder(t *testing.T) {
	r := open(t)
	waits := []*Claim{r.inLine("c"), r.inLine("a"), r.inLine("b")}
	for i, wait := range waits {
		wait.began += Time(i)
	}
	r.held("k")
	r.cancelLater(Name{"z", "o"})
	r.sessionEnded()
	r.Opened(8)
	got := r.at(101).apply(says("NOPERM x"), Reply{Value: int64(1)}, noReply, says("LOADING x"), noReply)
	for i, begins := range []string{"LOCK.RENEW k o TOKEN 50 SESSION 8", "LOCK.ACQUIRE c", "LOCK.ACQUIRE a", "LOCK.ACQUIRE b", "LOCK.RELEASE z"} {
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
	r.has(grant, Ended, "deleted")
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

// The end of a place may be reported before the reply that names it.
func TestAPlaceThatHasEndedBeforeItsReply(t *testing.T) {
	r := open(t)
	wait, sent := r.asked("k", nil), r.At
	r.poll(-1, 0, ended("k", "MOVED 1 x"))
	r.Answered(wait, 7, sent, Reply{Value: int64(0)})
	r.at(103).step(wait, "send")
	r.Answered(wait, 7, 103*s, Reply{Value: int64(0)})
	r.step(wait, "wait")
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
	r.at(101).Failed(101*s, ErrorReply("server", "MAXSESSIONS x"))
	r.step(asked, ErrRefused.Error())
}

func TestTimeLimits(t *testing.T) {
	r := open(t)
	for i, one := range []struct {
		wait             time.Duration
		queue            string
		limit, end, last time.Duration
	}{
		{0, "HOLDS 1 SESSION 7]", 500 * ms, 101 * s, 101 * s}, {300 * ms, "QUEUE 1]", 500 * ms, 101 * s, 101300 * ms},
		{30 * s, "QUEUE 29500]", s, 130 * s, 131 * s}, {-1, "QUEUE 0]", s, far - s, far},
	} {
		c := r.claim(fmt.Sprint("k", i), one.wait, nil)
		command := fmt.Sprint(c.AcquireCommand(7, 100500*ms+time.Microsecond)) // rounded up: no wait is too short
		if !strings.HasSuffix(command, one.queue) || c.Limit != one.limit || c.AskedEnd != one.end || c.Last != one.last {
			t.Fatal(one.wait, command, c.Limit, c.AskedEnd, c.Last)
		}
	}
}

// The cancel is an unfinished release until it is answered. A wait without a call needs none.
func TestGivingUpCancelsWhatTheServerMayKnow(t *testing.T) {
	r := open(t)
	unsent := r.claim("u", 5*s, nil)
	if r.GiveUp(unsent) || len(r.claims)+len(r.unfinished) > 0 {
		t.Fatal("cancelled")
	}
	unreached := r.asked("refused", nil)
	r.Answered(unreached, 7, r.At, Reply{Fault: refused})
	if r.GiveUp(unreached) {
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

// A wait is asked for where the key is now, also one that no session of the old node could ask for.
func TestAWaitThatMovedToAnotherNode(t *testing.T) {
	r, other := open(t), NewNode("other")
	r.State.Opened(&other, 9)
	unasked := r.claim("u", 5*s, nil)
	for _, c := range r.Claims(r.n) {
		r.Relocate(c, r.n)
	}
	if !slices.Contains(r.Changed, unasked) {
		t.Fatal("not woken")
	}
	r.GiveUp(unasked)
	wait := r.inLine("k")
	r.Relocate(wait, r.n)
	wait.Node = &other
	r.step(wait, "send")
	r.Answered(wait, 7, r.At, Reply{Value: int64(0)}) // late, of the old node
	r.step(wait, "send")
	r.State.Answered(wait, 9, Reply{Value: int64(0), From: &other, Sent: r.At})
	r.step(wait, "wait")
}
