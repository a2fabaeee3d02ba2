"""The rules of waits, and of keys that move in a cluster. See state_rig.py."""

import pytest
from redis_lock_client import LockBusy, LockDeadlock, LockMisuse, LockNotAlone, LockRefused, LockUnavailable
from redis_lock_client.state import Fault
from redis_lock_client.state.grants import CHECK, EXTEND, RELEASE, Call
from state_rig import NO_REPLY, NOT_SENT, Rig, ended, grant_of, granted, lost


# Waits.

def test_waits_are_queued_again_in_their_order(s):
    waits = [s.in_line(key) for key in "cab"]
    s.at = 105.5
    late = s.in_line("late", wait=60)
    s.ended()
    s.opened(s.at, 8)
    for reply in (NO_REPLY, 0):
        assert [it.split()[1] for it in s.send_due(reply)] == ["late"]  # the time of the others is over
    assert late.session == 8 and all(wait.session == 7 for wait in waits)
    for wait in waits:
        with pytest.raises(LockUnavailable):
            s.at = 107.0
            s.step(wait)


def test_a_place_in_an_earlier_session_is_no_place(s):
    claim, ask = s.under_way()
    s.ended()
    s.opened(s.at, 8)
    ask.apply(100.0, 3)
    assert claim.phase == "asked" and isinstance(s.step(claim), Call)


def test_no_session(s):
    claim, ask = s.under_way()
    ask.apply(100.0, Fault.reply("NOSESSION x"))
    assert s.step(claim) > 0  # waits for the next one
    s.ended()
    assert s.step(claim) > 0
    s.opened(s.at, 8)
    assert claim in s.changed and s.step(claim).command[7:9] == ("SESSION", 8)


@pytest.mark.parametrize("reply, error", [
    (None, LockBusy), (Fault.reply("DEADLOCK x"), LockDeadlock), (Fault.reply("NOTALONE x"), LockNotAlone),
    (Fault.reply("OOM x"), LockRefused), (Fault.reply("WRONGTYPE x"), LockMisuse),
    (Fault.reply("ERR unknown command 'LOCK.ACQUIRE'"), LockRefused), (Fault.reply("ERR syntax"), LockMisuse),
])
def test_replies_that_end_a_wait(s, reply, error):
    claim, ask = s.under_way()
    ask.apply(100.0, reply)
    with pytest.raises(error, match="^k: "):
        s.step(claim)
    assert s.give_up(claim) is None and s.is_idle


@pytest.mark.parametrize("why, error", [
    ("timeout", LockBusy), ("cancelled", LockBusy), ("NOPERM x", LockRefused), ("MOVED 1 x:1", None)])
def test_ends_of_a_wait(s, why, error):
    claim = s.in_line()
    s.poll(ended("k", why), grants=0)
    if error is None:
        assert isinstance(s.step(claim), Call)
    else:
        with pytest.raises(error):
            s.step(claim)
        s.poll(ended("k", why), grants=0)  # over: nothing


def test_the_end_of_a_place_may_come_before_its_reply(s):
    claim, ask = s.under_way()
    s.at = 101.0
    s.poll(ended("k", "MOVED 1 x:1"), grants=0)
    ask.apply(100.0, 0)
    s.at = 102.0
    again = s.step(claim)
    assert isinstance(again, Call)
    again.apply(102.0, 0)
    assert isinstance(s.step(claim), float)


def test_a_wait_that_is_over(s):
    claim, ask = s.under_way()
    s.give_up(claim).apply(s.at, 0)
    assert s.send_due() == []
    ask.apply(100.0, 3)  # a place: the cancel came before
    assert s.send_due(Fault.reply("NOTHELD x")) == ["LOCK.RELEASE k o ALL"]
    ask.apply(100.0, grant_of(60))
    assert s.send_due() == ["LOCK.RELEASE k o ALL TOKEN 60"]


def test_a_late_grant_is_left_to_a_call_under_way(s):
    claim = s.taken()
    s.begin(claim, RELEASE)
    s.poll(granted("k", 50))
    assert not s.unfinished


def test_of_two_tokens_the_higher_one_counts_until_the_user_has_the_grant(s):
    claim, ask = s.under_way()
    ask.apply(100.0, grant_of(60))
    s.poll(granted("k", 50))
    s.poll(granted("k", 70))
    assert s.step(claim) is None and claim.token == 70
    s.poll(granted("k", 80))
    assert claim.token == 70
    assert s.send_due() == ["LOCK.RELEASE k o ALL TOKEN 80"]


def test_time_limits(s):
    now, short, long = s.claim("a", wait=0), s.claim("b", wait=0.2), s.claim("c", wait=60)
    for claim, limit, asking in ((now, 0.5, 1.0), (short, 0.5, 1.0), (long, 1.0, 60.0)):
        s.at = 100.0
        ask = s.step(claim)
        assert ask.limit == limit
        ask.apply(100.0, NOT_SENT)
        s.at = 99.9 + asking
        s.step(claim).apply(100.0, NOT_SENT)
        s.at = 100.0 + asking
        with pytest.raises(LockUnavailable, match="server"):
            s.step(claim)
    s.at = 101.0
    waiting = s.in_line("d", wait=2)
    s.at = 103.9
    assert 0 < s.step(waiting) <= 0.11
    s.at = 104.0  # the server should have ended it
    with pytest.raises(LockBusy):
        s.step(waiting)


def test_a_failed_try_is_repeated_at_once_and_then_after_a_pause(s):
    claim, ask = s.under_way(wait=60)
    ask.apply(s.at, NOT_SENT)
    s.step(claim).apply(s.at, NOT_SENT)
    assert 0 < s.step(claim) <= 0.05
    s.ended()
    s.opened(s.at, 8)
    assert isinstance(s.step(claim), Call)  # another session


def test_a_server_that_refuses_a_session_ends_waits(s):
    s.ended()
    claim = s.claim("k")
    s.failed(100.0, Fault.reply("NOPERM no right"))
    assert claim in s.changed
    with pytest.raises(LockRefused, match="NOPERM"):
        s.step(claim)


# Clusters.

def in_doubt(state, key="k", token=50, reason="deleted"):
    """A grant that the server has reported as lost: it may have moved to another node."""
    claim = state.taken(key, token=token)
    state.changed.clear()
    state.poll(lost(key, token, reason))
    return claim


def found(state, claim, reply, to=None):
    state.found(claim, to or state, claim.joined, state.at, reply)


def test_a_lost_grant_of_a_cluster_is_looked_for_before_the_loss_is_reported():
    s = Rig(is_cluster=True)
    there, gone, silent = [in_doubt(s, key, token) for key, token in (("there", 50), ("gone", 60), ("silent", 70))]
    assert s.send_due() == []
    for claim, reply in ((there, grant_of(50)), (gone, Fault.reply("NOTHELD x")), (silent, NO_REPLY)):
        assert claim.phase == "held" and s.remaining(claim) == 0
        s.poll(lost(claim.key, claim.token))  # once more
        s.failed(105.0, NO_REPLY)
        s.changed.clear()
        found(s, claim, reply)
        assert s.changed == [claim]
    assert gone.reason == silent.reason == "deleted" and s.remaining(there) == 10.0
    assert s.send_due(grant_of(50)) == ["LOCK.RENEW there o SESSION 7 TOKEN 50"]
    assert there.session == 7 and s.send_due() == []
    assert in_doubt(s, "old", token=80, reason="expired").reason == "expired"


@pytest.mark.parametrize("what, answer", [(CHECK, "OK"), (EXTEND, grant_of(50))])
@pytest.mark.parametrize("reply", [grant_of(50), Fault.reply("NOTHELD x")])
def test_a_call_under_way_when_a_grant_of_a_cluster_is_reported_lost(what, answer, reply):
    """The loss is only in doubt: a reply that shows the grant is right, that of the search as well as that of the call."""
    s = Rig(is_cluster=True)
    claim = s.taken()
    call = s.begin(claim, what)
    s.poll(lost("k", 50))
    s.poll(lost("k", 50))  # once more, while it is in doubt
    assert s.answered(claim, what, s.at, answer) is None and claim.phase == "held"
    found(s, claim, reply)
    s.end_call(call)
    assert claim.reason == ("deleted" if isinstance(reply, Fault) else "") and bool(s.remaining(claim)) != bool(claim.reason)


def test_a_loss_that_the_node_reports_after_the_grant_has_left_it():
    old, new = Rig(is_cluster=True), Rig(is_cluster=True, session=9)
    claim = old.taken()
    old.relocate(claim)
    found(old, claim, grant_of(50), new)
    call = old.begin_call(("other", "o"))
    old.poll(lost("k", 50))
    new.relocate(claim)
    found(new, claim, grant_of(50), old)
    old.end_call(old.begin(claim, EXTEND))
    assert old.answered(claim, EXTEND, old.at, grant_of(50)) is None and claim.phase == "held"
    old.end_call(call)


@pytest.mark.parametrize("word", ["MOVED", "ASK"])
def test_a_grant_that_moved_to_another_node(word):
    old, new = Rig(is_cluster=True), Rig(is_cluster=True, session=9)
    claim = old.taken()
    old.time(claim, 14.0)
    old.opened(old.at, 8)
    old.changed.clear()
    old.send_due(Fault.reply(f"{word} 1 x:1"))
    assert old.changed == [claim] and claim.doubt and old.remaining(claim) == 10.0
    found(old, claim, NO_REPLY, new)
    assert old.send_due(Fault.reply(f"{word} 1 x:1")) == ["LOCK.RENEW k o SESSION 8 TOKEN 50"]  # it is asked for again
    old.at = 101.0
    found(old, claim, grant_of(50), new)
    assert not old.grants and old.remaining(claim) == 10.0
    assert new.send_due(grant_of(50)) == ["LOCK.RENEW k o SESSION 9 TOKEN 50"]
    new.at = 105.0
    new.poll()
    assert new.remaining(claim) == 10.0 and new.send_due() == []
    new.at = 114.0
    assert new.ripe() == [claim] and "maximum" in claim.reason


def test_a_wait_that_moved_to_another_node():
    old, new = Rig(is_cluster=True), Rig(is_cluster=True, session=9)
    claim = old.in_line()
    old.relocate(claim)
    old.move(claim, new)
    assert not old.waits and new.step(claim).command[7:9] == ("SESSION", 9)
