"""The rules of releases, and of leases that end. See state_rig.py."""

import pytest
from redis_lock_client import LockLost, LockMisuse, LockRefused, LockUnavailable
from redis_lock_client.state import Fault
from redis_lock_client.state.grants import CHECK, DETACH, ENTER, EXTEND, LEAVE, RELEASE
from state_rig import GONE, NO_REPLY, grant_of, granted, lost


# Releases.

@pytest.mark.parametrize("reply", GONE)
def test_a_release_that_finds_no_grant(s, reply):
    fault = Fault.reply(reply)
    for was_open, reported in ((False, False), (True, False), (True, True)):
        claim = s.taken()
        call = s.begin(claim, RELEASE)
        if reported:
            s.poll(lost("k", 50), grants=0)
        error = s.answered(claim, RELEASE, s.at, fault, was_open)
        s.end_call(call)
        assert (error is None) == (was_open and not reported)
        assert (claim.phase == "lost") == (error is not None)


def test_an_unanswered_release_of_the_last_hold_is_repeated_by_the_loop(s):
    claim = s.taken()
    s.answered(claim, ENTER, 100.0, grant_of(50))
    call = s.begin(claim, RELEASE)
    assert claim.phase == "held" and claim.release_command()[3:5] == ("HOLDS", 1)
    assert isinstance(s.answered(claim, RELEASE, s.at, NO_REPLY, False), LockUnavailable)
    s.end_call(call)
    assert s.send_due() == []  # a re-entry may have come in between
    s.begin(claim, RELEASE)
    s.answered(claim, RELEASE, s.at, NO_REPLY, False)
    with pytest.raises(LockMisuse):
        s.begin(claim, RELEASE)
    assert s.send_due(NO_REPLY) == ["LOCK.RELEASE k o HOLDS 0 SESSION 7 TOKEN 50"]
    assert s.send_due(Fault.reply("NOTHELD x")) and not s.send_due()


def test_after_a_refused_release_the_session_is_left(s):
    other, claim = s.taken("other", token=40), s.taken()
    call = s.begin(claim, RELEASE)
    assert isinstance(s.answered(claim, RELEASE, s.at, Fault.reply("NOPERM x"), False), LockRefused)
    s.end_call(call)
    s.open_command = ("OPEN",)
    assert s.plan()[0].command == ("OPEN",) and s.session == 0
    s.opened(s.at, 8)
    assert s.send_due(grant_of(40)) == ["LOCK.RENEW other o SESSION 8 TOKEN 40"]
    assert other.session == 8
    s.at = 102.5
    assert s.send_due(1) == ["LOCK.SESSION CLOSE 7"]
    assert s.send_due() == []


@pytest.mark.parametrize("reply, phase", [
    (grant_of(50), "held"), (NO_REPLY, "held"), (Fault.reply("NOPERM x"), "held"),
    *[(Fault.reply(it), "lost") for it in GONE]])
def test_moving_a_grant(s, reply, phase):
    claim = s.taken()
    s.ended()
    s.opened(s.at, 8)
    s.send_due(reply)
    assert claim.phase == phase
    again = s.send_due()
    assert bool(again) == (phase == "held" and claim.session == 7)


def test_close_ends_waits_and_grants(s):
    claim, waiting = s.taken(), s.in_line("waiting")
    fixed = s.claim("fixed", wait=0, fixed=True)
    s.step(fixed).apply(100.0, grant_of(70))
    sessions, grants = s.close()
    assert sessions == [7] and grants == [claim, fixed]
    assert [it.release_command()[3:5] for it in grants] == [("HOLDS", 0)] * 2
    for call in (lambda: s.step(waiting), lambda: s.claim("new"), lambda: s.begin(claim, CHECK)):
        with pytest.raises(LockMisuse, match="closed"):
            call()


# Leases that end.

def test_a_fixed_lease_that_waited_leaves_the_session(s):
    claim = s.in_line(fixed=True, lease=3.0)
    s.poll(granted("k", 60))
    assert s.step(claim) is None and not claim.handed_over
    s.end_call(s.begin(claim, LEAVE))
    s.poll(["taken", "k", "o", 60, 0])  # by this client
    assert s.answered(claim, LEAVE, 101.0, grant_of(60, 3000), False) is None
    s.poll(sure_ms=60_000, grants=0)
    assert claim.session == 0 and s.sure(claim) == 104.0
    s.time(claim, None)
    assert s.next_end == 104.0
    s.at = 104.0
    assert s.ripe() == [] and claim.reason == "expired"


def test_extending_a_fixed_lease_moves_its_end(s):
    claim = s.claim("k", wait=0, fixed=True, lease=3.0)
    s.step(claim).apply(100.0, grant_of(50, 3000))
    assert s.step(claim) is None
    s.time(claim, None)
    call = s.begin(claim, EXTEND, 9.0)
    s.answered(claim, EXTEND, 102.0, grant_of(50, 9000))
    s.end_call(call)
    s.at = 105.0
    assert s.ripe() == [] and s.next_end == 111.0 and claim.phase == "held"


def test_a_maximum_time(s):
    claim = s.taken()
    for timed, longest in ((claim, 4.0), (s.taken("other", token=60), 5.0)):
        s.time(timed, longest)
        assert s.next_end == 104.0
    s.at = 104.0
    release = "LOCK.RELEASE", "k", "o", "HOLDS", 0, "SESSION", 7, "TOKEN", 50
    assert s.ripe() == [claim] and claim.release_command() == release
    assert claim.phase == "lost" and s.send_due(0) == [" ".join(map(str, release))] and not s.unfinished


def test_detaching_is_no_loss(s):
    claim = s.taken()
    s.end_call(s.begin(claim, DETACH))
    assert s.answered(claim, DETACH, s.at, grant_of(50), False) is None and claim.phase == "released" and s.is_idle


def test_events_of_a_grant_that_was_detached(s):
    """The events of a grant that has left its session are this client's own doing: nothing is released."""
    s.detached_grant()
    s.poll(granted("k", 50))
    assert s.send_due() == []
    s.poll(["taken", "k", "o", 50, 0])
    assert s.leaves == []


def test_a_grant_that_is_adopted_before_its_events(s):
    """It may be detached again, too. One more `taken` is a loss."""
    s.detached_grant()
    s.detached_grant()
    claim = s.taken()
    s.poll(granted("k", 50), ["taken", "k", "o", 50, 0])
    s.poll(["taken", "k", "o", 50, 0])
    assert claim.phase == "held"
    s.poll(["taken", "k", "o", 50, 0])
    assert claim.phase == "lost" and claim.reason == "taken"


def test_nothing_is_kept_of_a_grant_that_has_left(s):
    """A leave that was refused or outlived its session has no `taken`. Nor has one of a grant outside of sessions."""
    s.detached_grant(Fault.reply("NOPERM x"))
    assert s.leaves == []
    claim = s.taken(fixed=True)
    s.end_call(s.begin(claim, LEAVE))
    assert s.answered(claim, LEAVE, s.at, grant_of(50), False) is None
    s.end_call(s.begin(claim, DETACH))
    assert len(s.leaves) == 1
    s.ended()
    assert s.leaves == []


@pytest.mark.parametrize("reply, error", [
    (grant_of(50), None), (Fault.reply("NOTHELD x"), LockLost), (NO_REPLY, LockUnavailable)])
def test_adopting(s, reply, error):
    claim, ask = s.under_way(wait=0, adopts=50)
    assert ask.command == ("LOCK.RENEW", "k", "o", "PX", 10_000, "SESSION", 7, "TOKEN", 50)
    ask.apply(100.0, reply)
    s.at = 101.0
    if error is None:
        assert s.step(claim) is None and s.remaining(claim) == 9.0 and claim.handed_over
    else:
        with pytest.raises(error):
            s.step(claim)
        assert s.give_up(claim) is None and s.is_idle  # the grant is another's
