"""The rules of owners, and what is known of a grant. See state_rig.py."""

import pytest
from redis_lock_client import LockLost, LockMisuse, LockUnavailable
from redis_lock_client.state import Task
from redis_lock_client.state.grants import CHECK, EXTEND, RELEASE, Call
from state_rig import NO_REPLY, NOT_SENT, grant_of, granted, lost


# Owners and tasks.

def test_an_owner_is_not_used_while_a_call_in_its_name_is_unanswered(s):  # †
    task = Task("o")
    claim = s.taken(task=task)
    call = s.begin(claim, RELEASE)
    assert s.usable_owner(task) == ""
    task.owner = "o"
    s.answered(claim, RELEASE, s.at, 0, False)
    s.end_call(call)
    assert s.usable_owner(task) == "o"


@pytest.mark.parametrize("what", ["no reply", "loss", "gave up", "unfinished"])
def test_a_task_continues_with_a_fresh_owner(s, what):  # †
    task = Task("o")
    if what == "gave up":
        claim = s.in_line(task=task)
        s.give_up(claim).apply(s.at, 0)
    else:
        claim = s.taken(task=task)
        if what == "loss":
            s.poll(lost("k", 50))
        elif what == "no reply":
            assert isinstance(s.answered(claim, CHECK, s.at, NO_REPLY), LockUnavailable)
        else:
            call = s.begin(claim, RELEASE)
            s.answered(claim, RELEASE, s.at, NO_REPLY, False)
            s.end_call(call)
            task.owner = "o"
    assert s.usable_owner(task) == ""


def test_an_owner_waits_for_a_lock_once(s):
    s.in_line()
    with pytest.raises(LockMisuse):
        s.claim("k")


# Commands.

def test_commands(s):
    claim = s.claim("k", wait=5.0)
    command = claim.acquire_command(7, 102.0)
    assert command == ("LOCK.ACQUIRE", "k", "o", "PX", 10_000, "HOLDS", 1, "SESSION", 7, "QUEUE", 3000)
    assert s.claim("now", wait=0).acquire_command(7, 100.0)[-2:] == ("SESSION", 7)
    assert s.claim("ever", wait=None).acquire_command(7, 100.0)[-2:] == ("QUEUE", 0)
    assert claim.acquire_command(7, 102.0001)[-1] == 3000  # rounded up: no wait is too short
    assert claim.acquire_command(7, 105.0)[-1] == 1  # 0 means no limit
    fixed = s.claim("fixed", wait=0, fixed=True, lease=0.5)
    assert fixed.acquire_command(0, 100.0) == ("LOCK.ACQUIRE", "fixed", "o", "PX", 500, "HOLDS", 1)
    # A fixed lease that waits is in the session until it is granted: at least what the server renews.
    assert s.claim("waits", wait=5, fixed=True, lease=0.5).acquire_command(7, 100.0)[4] == 1000


def test_only_the_users_release_names_the_session(s):  # †
    claim = s.taken("held")
    s.begin(claim, RELEASE)
    assert claim.release_command() == ("LOCK.RELEASE", "held", "o", "HOLDS", 0, "SESSION", 7, "TOKEN", 50)
    waiting = s.in_line("waiting")
    cancel = s.give_up(waiting)
    assert cancel.command == ("LOCK.RELEASE", "waiting", "o", "ALL")
    cancel.apply(s.at, NO_REPLY)
    s.poll(granted("stray", 60))
    assert s.send_due() == ["LOCK.RELEASE waiting o ALL", "LOCK.RELEASE stray o ALL TOKEN 60"]


# What is known of a grant.

def test_sure_is_from_the_sending(s):
    claim, ask = s.under_way()
    s.at = 103.0
    ask.apply(100.5, grant_of(50))
    assert s.sure(claim) == 110.5
    reply = s.polling()
    s.at = 105.0
    reply(sure_ms=9000)
    assert s.sure(claim) == 112.0  # the POLL was sent at 103
    s.poll(sure_ms=-1)
    assert s.sure(claim) == 115.0
    s.poll(sure_ms=1000)
    assert s.sure(claim) == 115.0  # never earlier


def test_a_poll_counts_for_grants_of_its_session(s):  # †
    claim = s.taken()
    s.ended()
    s.opened(s.at, 8)
    s.at = 105.0
    s.poll(sure_ms=-1, grants=0)
    assert s.sure(claim) == 110.0
    assert s.send_due(grant_of(50)) == ["LOCK.RENEW k o SESSION 8 TOKEN 50"]
    assert s.sure(claim) == 115.0
    s.at = 106.0
    s.poll()
    assert s.sure(claim) == 116.0


def test_a_poll_counts_for_grants_known_when_it_was_sent(s):  # †
    reply = s.polling()
    s.at = 101.0
    claim = s.taken()
    s.at = 109.0
    reply(sure_ms=60_000)
    assert s.sure(claim) == 111.0
    s.poll(sure_ms=8000)
    assert s.sure(claim) == 117.0


def test_an_event_grants_with_the_sure_of_its_reply(s):
    claim = s.in_line()
    reply = s.polling()
    s.at = 102.0
    reply(granted("k", 60), sure_ms=9000, grants=1)
    assert (claim.phase, claim.token, s.sure(claim)) == ("held", 60, 109.0)
    assert s.step(claim) is None


def test_a_grant_with_sure_0_is_polled_once_more(s):
    claim = s.in_line()
    s.poll(granted("k", 60), sure_ms=0)
    assert s.step(claim) > 0
    assert s.begin_poll().limit == 1.1
    s.poll(sure_ms=5000)
    assert claim in s.changed
    assert s.step(claim) is None


def test_a_loss_before_the_reply_that_names_the_grant(s):  # †
    claim, ask = s.under_way()
    s.poll(lost("k", 50), grants=0)
    ask.apply(100.0, grant_of(50))
    assert claim.phase == "asked"
    assert isinstance(s.step(claim), Call)


def test_a_loss_is_forgotten_when_the_calls_of_its_time_are_answered(s):
    call = s.begin_call(("other", "o"))
    s.poll(lost("k", 50), grants=0)
    later = s.begin_call(("third", "o"))
    s.end_call(call)
    assert not s.losses
    s.end_call(later)
    s.poll(lost("k", 51), grants=0)
    assert not s.losses  # no call was under way


def test_a_shorter_lease_counts_at_once_and_no_poll_until_its_reply(s):
    claim = s.taken()
    call = s.begin(claim, EXTEND, 2.0)
    assert s.sure(claim) == 102.0
    s.poll(sure_ms=9000)
    assert s.sure(claim) == 102.0
    assert isinstance(s.answered(claim, EXTEND, 100.0, NO_REPLY), LockUnavailable)
    s.end_call(call)
    s.poll(sure_ms=9000)
    assert s.sure(claim) == 102.0  # unanswered, it ends by silence
    s.answered(claim, EXTEND, 100.5, grant_of(50, 2000))
    assert s.sure(claim) == 102.5
    s.poll(sure_ms=9000)
    assert s.sure(claim) == 109.0


def test_a_move_does_not_outlast_a_lease_that_is_being_shortened(s):
    claim = s.taken()
    s.ended()
    s.opened(s.at, 8)
    call = s.begin(claim, EXTEND, 2.0)
    s.send_due(grant_of(50))
    assert claim.session == 8 and s.sure(claim) == 102.0
    s.answered(claim, EXTEND, 100.0, grant_of(50, 2000))
    s.end_call(call)
    assert s.sure(claim) == 102.0


def test_silence_is_judged_by_a_poll_that_began_after_sure(s):  # †
    claim = s.taken()
    reply = s.polling()
    s.at = 130.0  # the program slept
    assert s.remaining(claim) == 0
    reply(sure_ms=5000)
    assert claim.phase == "held" and s.remaining(claim) == 0 and s.is_unsure()
    s.poll(sure_ms=5000)
    assert s.remaining(claim) == 5.0
    s.at = 140.0
    s.failed(139.0, NO_REPLY)
    assert (claim.phase, claim.reason) == ("lost", "silence")
    assert s.send_due() == ["LOCK.RELEASE k o ALL TOKEN 50"]


def test_a_connection_refused_at_once_counts_after_a_second_of_tries(s):
    claim = s.taken()
    s.at = 110.5
    s.failed(110.5, NOT_SENT)
    s.at = 111.2
    s.failed(111.2, NOT_SENT)
    assert claim.phase == "held"
    s.at = 111.6
    s.failed(111.6, NOT_SENT)
    assert claim.phase == "lost"


def test_a_loss_is_reported_once(s):
    claim = s.taken()
    s.changed.clear()
    s.poll(lost("k", 50))
    s.poll(lost("k", 50))
    assert s.changed == [claim]
    for call in (lambda: s.begin(claim, RELEASE), lambda: s.begin(claim, CHECK)):
        with pytest.raises(LockLost, match="deleted"):
            call()
    other = s.taken("other", token=60)
    s.poll(["taken", "other", "o", 60, 9])
    assert other.reason == "taken" and not s.unfinished


def test_events_are_applied_once(s):
    claim = s.taken()
    for events in ([[1, *lost("k", 40)]], [[1, *lost("k", 50)], [2, *lost("x", 1)]]):
        s.polled(1, s.at, ["sure-ms", 9000, "grants", 1, "events", events])
    assert claim.phase == "held" and s.seen == 2


def test_strays_are_released(s):  # †
    s.taken("known", token=50)
    s.begin_call(("called", "o"))
    s.poll(grants=3)
    s.at = 109.0
    s.poll(grants=3)
    assert s.send_due() == []
    s.at = 110.5  # a whole lease later
    s.poll(grants=3)
    rows = [["key", key, "owner", "o", "token", 50] for key in ("known", "called", "stray")]
    assert s.send_due(rows) == ["LOCK.SESSION GRANTS 7"]
    assert s.send_due() == ["LOCK.RELEASE stray o ALL TOKEN 50"]


def test_no_stray_is_looked_for_when_one_reply_counts_right(s):
    s.poll(grants=1)
    s.at = 105.0
    s.poll(grants=0)
    s.at = 111.0
    s.poll(grants=1)
    assert s.send_due() == []
