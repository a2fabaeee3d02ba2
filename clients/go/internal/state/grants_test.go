package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

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
	if other := r.claims[Name{"l", "o"}]; other.Sure.Round(ms) != 112*s {
		t.Fatal(other.Sure)
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
	wait := r.asked("k", nil)
	r.BeginCall(wait.Name)
	r.poll(-1, 0, lost("k", 50))
	r.Answered(wait, 7, r.At, grants(50, 1, 10000))
	r.step(wait, "send")
	r.Answered(wait, 7, r.At, grants(51, 1, 10000))
	r.step(wait, "done")
	r.EndCall(wait.Name)
	r.isDue()
}

func TestALossIsForgottenWhenTheCallsOfItsTimeAreAnswered(t *testing.T) {
	r := open(t)
	of := release{Name{"k", "o"}, 50}
	r.BeginCall(of.Name)
	r.BeginCall(of.Name)
	r.poll(-1, 0, lost("k", 50))
	r.EndCall(of.Name)
	if r.losses[of] == "" {
		t.Fatal("forgotten too early")
	}
	r.EndCall(of.Name)
	r.poll(-1, 0, lost("k", 50))
	if r.losses[of] != "" {
		t.Fatal("not forgotten")
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
	if block := r.Block(r.n); block != 100*ms || grant.Sure > r.At {
		t.Fatal(block)
	}
	r.poll(5000, 1)
	r.sureTill(grant, 135)
	if block := r.Block(r.n); block != 10*s/3 {
		t.Fatal(block)
	}
	r.at(140).Failed(139*s, noReply.Fault)
	r.has(grant, Ended, "silence")
	r.isDue("LOCK.RELEASE k o ALL TOKEN 50")
}

func TestARefusedConnectionCountsAfterASecondOfTries(t *testing.T) {
	r, fault := open(t), refused
	grant, other := r.held("k"), r.held("other")
	other.Sure = 132 * s
	r.at(109).Failed(109*s, fault)
	r.at(130).Failed(130*s, fault) // the program slept
	r.at(130.1).Failed(130*s+100*ms, fault)
	r.has(grant, Held, "")
	r.at(131).Failed(130*s+900*ms, fault)
	r.has(grant, Ended, "silence")
	r.at(133.1).Failed(132*s+100*ms, fault) // one try that takes a second
	r.has(other, Ended, "silence")
}

// The first POLL after a failure is answered soon: until then the server counts as down.
func TestAServerThatIsBackAnswersSoon(t *testing.T) {
	r := open(t)
	r.Failed(r.At, refused)
	r.sessionEnded()
	r.Opened(8)
	if block := r.Block(r.n); block != 100*ms {
		t.Fatal(block)
	}
	r.poll(-1, 0)
	if block := r.Block(r.n); block != 10*s/3 {
		t.Fatal(block)
	}
}

// `sure` is lowered before the RENEW, and no POLL sent before its reply counts.
func TestAShorterLease(t *testing.T) {
	r := open(t)
	grant := r.held("k")
	r.at(101).Renew(grant, 2*s, false)
	r.sureTill(grant, 103)
	r.at(102).poll(9000, 1)
	r.sureTill(grant, 103)
	reply := r.at(102.4).begin()
	r.at(102.5)
	r.fine(r.Confirmed(grant, grants(50, 1, 2000).at(101*s)))
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
	r.fine(r.Confirmed(grant, grants(50, 2, 20000).at(102*s)))
	r.sureTill(grant, 122)
	r.fine(r.Confirmed(grant, grants(50, 2, 1000).at(103*s)))
	r.sureTill(grant, 122)
}

func TestALossIsReportedOnce(t *testing.T) {
	r := open(t)
	grant := r.held("k")
	r.poll(5000, 1, lost("k", 49))
	r.has(grant, Held, "")
	r.poll(5000, 0, lost("k", 50))
	r.Changed = nil
	r.is(r.Confirmed(grant, says("NOTHELD x").at(r.At)), ErrLost)
	r.has(grant, Ended, "deleted")
	if len(r.Changed) > 0 {
		t.Fatal("reported twice")
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
		reply.From = r.n
		due.Apply(reply.at(r.At))
	}
	r.poll(-1, 0, []any{"taken", "taken", "o", int64(50), int64(9)})
	r.has(all["gone"], Ended, "gone (NOTHELD)")
	r.has(all["taken"], Ended, "taken")
	r.has(all["kept"], Held, "")
	r.isDue("LOCK.RENEW kept o TOKEN 50 SESSION 8")
}

// A grant with a fixed lease leaves the session in which it waited; its own `taken` is no loss. It expires.
func TestAFixedLease(t *testing.T) {
	r := open(t)
	c := r.claim("k", 5*s, nil)
	c.Lease, c.Fixed = 500*ms, true
	r.step(c, "send")
	if got := fmt.Sprint(c.AcquireCommand(7, r.At)); !strings.Contains(got, "PX 1000 HOLDS 1 SESSION 7 QUEUE") {
		t.Fatal(got)
	}
	r.Answered(c, 7, r.At, grants(50, 1, 1000))
	r.step(c, "done")
	r.Renew(c, 500*ms, true)
	r.poll(-1, 0, []any{"taken", "k", "o", int64(50), int64(0)})
	r.fine(r.Left(c, grants(50, 1, 500).at(100*s+200*ms)))
	r.poll(9000, 0, granted("k", 50))
	r.sureTill(c, 100.7)
	r.sessionEnded()
	r.Opened(8)
	r.at(100.5).isDue()
	if isOver, rest := r.End(c); isOver || rest != 200*ms {
		t.Fatal(isOver, rest)
	}
	r.at(100.7).End(c)
	r.has(c, Ended, "expired")
}

// A RENEW that takes a grant out of its session and gets no answer: no POLL counts, and silence ends the grant.
func TestALeaveWithoutAnAnswer(t *testing.T) {
	r := open(t)
	c := r.held("k")
	r.Renew(c, 3*s, true)
	r.is(r.Left(c, noReply.at(r.At)), ErrUnavailable)
	r.poll(9000, 0, []any{"taken", "k", "o", int64(50), int64(0)})
	r.sureTill(c, 103)
	r.at(104).poll(9000, 0)
	r.has(c, Ended, "silence")
}

// detached is a grant with the token 50 that the user has detached.
func (r rig) detached(key string) {
	r.t.Helper()
	c := r.held(key)
	r.Renew(c, 3*s, true)
	r.fine(r.Left(c, grants(50, 1, 3000).at(r.At)))
	r.LetGo(c)
}

func taken(key string) []any { return []any{"taken", key, "o", int64(50), int64(0)} }

// The events of a grant that has left its session are this client's own doing: nothing is released.
func TestEventsOfAGrantThatWasDetached(t *testing.T) {
	r := open(t)
	r.detached("k")
	r.poll(-1, 0, granted("k", 50))
	r.isDue()
	r.poll(-1, 0, taken("k"))
	if len(r.n.leaves) > 0 {
		t.Fatal(r.n.leaves)
	}
}

// It may be adopted, and detached again, before its `taken` arrives. One more `taken` is a loss.
func TestAGrantThatIsAdoptedBeforeItsEvents(t *testing.T) {
	r := open(t)
	r.detached("k")
	r.detached("k")
	c := r.held("k")
	r.poll(-1, 1, granted("k", 50), taken("k"))
	r.poll(-1, 1, taken("k"))
	r.has(c, Held, "")
	r.poll(-1, 0, taken("k"))
	r.has(c, Ended, "taken")
}

// A leave that was refused or outlived its session has no `taken`. Nor has one of a grant outside of sessions.
func TestNothingIsKeptOfAGrantThatHasLeft(t *testing.T) {
	r := open(t)
	c := r.held("k")
	r.Renew(c, 3*s, true)
	r.is(r.Left(c, says("NOPERM x").at(r.At)), ErrRefused)
	if len(r.n.leaves) > 0 {
		t.Fatal(r.n.leaves)
	}
	for range 2 {
		r.Renew(c, 3*s, true)
		r.fine(r.Left(c, grants(50, 1, 3000).at(r.At)))
	}
	if len(r.n.leaves) != 1 {
		t.Fatal(r.n.leaves)
	}
	r.Opened(8)
	if len(r.n.leaves) > 0 {
		t.Fatal(r.n.leaves)
	}
}

// A grant whose maximum time is over is lost, and the release names the session.
func TestAMaximumTime(t *testing.T) {
	r := open(t)
	c := r.held("k")
	c.Longest = s
	if isOver, rest := r.End(c); isOver || rest != s {
		t.Fatal(isOver, rest)
	}
	if isOver, _ := r.at(101).End(c); !isOver {
		t.Fatal("not over")
	}
	if got := fmt.Sprint(c.ReleaseCommand()); got != "[LOCK.RELEASE k o HOLDS 0 TOKEN 50 SESSION 7]" {
		t.Fatal(got)
	}
	r.has(c, Ended, "its maximum time is over")
	r.is(r.Released(c, noReply), ErrUnavailable)
	r.isDue("LOCK.RELEASE k o HOLDS 0 TOKEN 50 SESSION 7")
}

// What another process has detached is adopted by a RENEW. A loss is reported as such.
func TestAnAdoption(t *testing.T) {
	r := open(t)
	c := r.claim("k", 0, nil)
	c.Adopted = 50
	r.step(c, "send")
	if got := fmt.Sprint(c.AcquireCommand(7, r.At)); got != "[LOCK.RENEW k o PX 10000 SESSION 7 TOKEN 50]" {
		t.Fatal(got)
	}
	r.Answered(c, 7, r.At, says("NOTHELD x"))
	r.step(c, ErrLost.Error())
}

// A grant that was not found is looked for again while its node does not answer.
func TestAGrantThatWasNotFoundInTheCluster(t *testing.T) {
	r := open(t)
	r.isCluster = true
	c := r.held("k")
	for range 2 {
		r.Relocate(c, r.n)
		if c.Doubt != "moved" {
			t.Fatal("not looked for")
		}
		r.fine(r.Moved(c, 0, noReply))
		r.has(c, Held, "")
	}
}

// In a cluster, a deleted grant may be at another node: it is unsure until that node has answered.
func TestAGrantThatMovedToAnotherNode(t *testing.T) {
	for reply, reason := range map[*Reply]string{
		{Value: []any{int64(50), "o", int64(1), int64(10000)}}: "", {Fault: ErrorReply("other", "NOTHELD x")}: "deleted",
	} {
		r, other := open(t), NewNode("other")
		r.isCluster = true
		r.State.Opened(&other, 9)
		c := r.held("k")
		r.poll(-1, 0, lost("k", 50))
		if c.Phase != Held || c.Sure > r.At || c.Doubt != "deleted" || !slices.Contains(r.Changed, c) {
			t.Fatal(c)
		}
		r.isDue()
		reply.From = &other
		r.fine(r.Moved(c, 0, reply.at(101*s)))
		if c.IsLost() != (reason != "") || reason == "" && (c.Node != &other || c.Sure != 111*s || !other.grants[c]) {
			t.Fatal(c)
		}
	}
}

// Nor is it lost when a call in its name is under way: only the search decides.
func TestAGrantThatMovesDuringACall(t *testing.T) {
	stands, gone := grants(50, 1, 10000), says("NOTHELD x")
	for name, one := range map[string]struct {
		call, search Reply
		reason       string
	}{
		"a check":                  {call: Reply{Value: "OK"}, search: stands},
		"a renewal":                {call: stands, search: stands},
		"a call without an answer": {call: noReply, search: gone, reason: "deleted"},
	} {
		r, other := open(t), NewNode("other")
		r.isCluster = true
		r.State.Opened(&other, 9)
		c := r.held("k")
		for range 2 { // the check or renewal, and the search
			r.BeginCall(c.Name)
		}
		r.poll(-1, 0, lost("k", 50))
		r.State.Polled(&other, r.At, []any{"events", []any{append([]any{int64(1)}, lost("k", 50)...)}}) // in doubt already
		r.at(101).Confirmed(c, one.call.at(101*s))
		if c.Phase != Held {
			t.Fatal(name, c.Failure)
		}
		one.search.From = &other
		r.fine(r.at(102).Moved(c, 0, one.search.at(102*s)))
		if c.IsLost() != (one.reason != "") || c.IsLost() && c.Failure.Error() != one.reason {
			t.Fatal(name, c.Failure)
		}
	}
}
