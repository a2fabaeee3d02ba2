package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// † A cancel, a stray, a late grant and a silent grant are released without the session.
func TestOnlyTheUsersReleaseNamesTheSession(t *testing.T) {
	r := open(t)
	grant := r.held("k")
	if got := fmt.Sprint(grant.ReleaseCommand()); got != "[LOCK.RELEASE k o HOLDS 1 TOKEN 50 SESSION 7]" {
		t.Fatal(got)
	}
	r.GiveUp(r.inLine("cancelled"))
	late := r.asked("late", nil)
	r.Answered(late, 7, r.At, noReply)
	r.GiveUp(late)
	r.Answered(late, 7, r.At, grants(60, 1, 10000))
	r.poll(5000, 3, granted("stray", 61))
	r.at(111).silent(r.n, 111*s, 0)
	r.has(grant, Ended, "silence")
	r.isDue("LOCK.RELEASE cancelled o ALL", "LOCK.RELEASE late o ALL", "LOCK.RELEASE late o ALL TOKEN 60",
		"LOCK.RELEASE stray o ALL TOKEN 61", "LOCK.RELEASE k o ALL TOKEN 50")
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
	due[0].Apply(Reply{Value: rows})
	r.isDue("LOCK.RELEASE stray o ALL TOKEN 60")
	r.poll(9000, 2) // the unfinished release explains the second grant
	if r.n.excess >= 0 {
		t.Fatal("still too many")
	}
}

// NOTHELD is a loss. After a try without a reply it means done, unless the loss was reported.
func TestAReleaseThatFindsNoGrant(t *testing.T) {
	for _, one := range []struct {
		wasOpen, event bool
		reason         string
	}{{false, false, "gone (NOTHELD)"}, {true, false, ""}, {true, true, "deleted"}} {
		r := open(t)
		grant := r.held("k")
		r.BeginCall(grant.Name)
		r.Release(grant)
		if one.event {
			r.poll(-1, 0, lost("k", 50))
		}
		failure := r.Released(grant, says("NOTHELD x").again(one.wasOpen))
		if (failure != nil) != (one.reason != "") || failure != nil && failure.Error() != one.reason {
			t.Fatal(one, failure)
		}
		r.EndCall(grant.Name)
	}
	r := open(t)
	grant := r.held("k")
	grant.Holds = 2
	r.Release(grant)
	r.is(r.Released(grant, says("NOTHELD x").again(true)), ErrLost)
}

// An inner hold is left to the next release, because a re-entry may come between.
func TestTheReleaseOfTheLastHoldIsRepeated(t *testing.T) {
	r := open(t)
	grant := r.held("k")
	grant.Holds = 2
	r.Release(grant)
	r.is(r.Released(grant, noReply.again(true)), ErrUnavailable)
	r.isDue()
	r.Release(grant)
	r.is(r.Released(grant, noReply.again(true)), ErrUnavailable)
	r.isDue("LOCK.RELEASE k o HOLDS 0 TOKEN 50 SESSION 7")
	r.is(grant.RequireHeld(), ErrMisuse)
}

// Grants move to a new session. The old one is closed 2 s later, when no known grant is in it.
func TestAfterARefusedReleaseTheSessionIsLeft(t *testing.T) {
	r := open(t)
	refused, other := r.held("k"), r.held("other")
	r.Release(refused)
	r.is(r.Released(refused, says("NOPERM x")), ErrRefused)
	r.at(101).LeaveSession(r.n)
	if r.n.Session != 0 {
		t.Fatal("not left")
	}
	r.Opened(8)
	r.at(104)
	if got := r.apply(grants(50, 1, 10000)); got[0] != "LOCK.RENEW other o TOKEN 50 SESSION 8" || len(got) != 1 {
		t.Fatal(got)
	}
	r.sureTill(other, 114)
	r.at(103).isDue()
	if block := r.Block(r.n); block != 100*ms {
		t.Fatal(block)
	}
	r.at(103.1).apply(noReply)
	r.isDue("LOCK.SESSION CLOSE 7")
	r.apply(Reply{Value: int64(0)})
	r.isDue()
}

func TestTheSessionIsLeftForALastHoldOnly(t *testing.T) {
	r := open(t)
	grant := r.held("k")
	grant.Holds = 2
	r.Release(grant)
	r.is(r.Released(grant, says("NOPERM x")), ErrRefused)
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

func TestCloseEndsWaitsAndGrants(t *testing.T) {
	r := open(t)
	wait, grant := r.inLine("k"), r.held("held")
	r.Changed = nil
	all := r.Close()
	if sessions := r.n.Sessions(); !slices.Equal(sessions, []int64{7, 0}) || !slices.Equal(all, []*Claim{grant}) || len(r.Changed) != 2 {
		t.Fatal(all, r.Changed)
	}
	_, _, _, failure := r.NextStep(wait)
	r.is(failure, ErrClosed)
	r.is(grant.RequireHeld(), ErrClosed)
	r.is(r.Ask(wait), ErrClosed)
	if got := fmt.Sprint(grant.ReleaseCommand()); !strings.Contains(got, "HOLDS 0") {
		t.Fatal(got)
	}
}
