"""The rules of docs/client-protocol.md, by plain calls without a server. † marks what its model cannot do without.

The clock starts at 100 s, the client's lease is 10 s, a reply takes at most 1 s, and session 7 is open.
"""

import pytest
from redis_lock_client import (LockBusy, LockDeadlock, LockLost, LockMisuse, LockNotAlone, LockRefused,
                               LockUnavailable)
from redis_lock_client.state import Claim, Fault, State, Task, Terms
from redis_lock_client.state.grants import CHECK, DETACH, ENTER, EXTEND, LEAVE, RELEASE, Ask

NO_REPLY = Fault("timeout")
NOT_SENT = Fault("refused", sent=False)
GONE = ["NOTHELD x", "NOTOWNER x", "FENCED x", "WRONGTYPE x"]


def grant_of(token, lease_ms=10_000, holds=1):
    return [token, "o", holds, lease_ms]


class Rig(State):
    def __init__(self, is_cluster=False, session=7):
        super().__init__("server", 10.0, 1.0, is_cluster)
        self.at = 100.0
        self.opened(self.at, session)

    def claim(self, key, wait=5.0, owner="o", task=None, **words):
        terms = Terms((), words.pop("lease", 10.0), words.pop("fixed", False), wait)
        claim = Claim((key, owner), terms, self.at, task=task, **words)
        self.ask(claim)
        return claim

    def under_way(self, key="k", **words):
        """A wait whose ACQUIRE is under way."""
        claim = self.claim(key, **words)
        step = self.step(claim)
        assert isinstance(step, Ask)
        return claim, step

    def in_line(self, key="k", **words):
        claim, ask = self.under_way(key, **words)
        self.answer(claim, ask, self.at, 0)
        return claim

    def taken(self, key="k", token=50, **words):
        """A grant that the user has, sure for 10 s."""
        claim, ask = self.under_way(key, **words)
        self.answer(claim, ask, self.at, grant_of(token))
        assert self.step(claim) is None
        return claim

    def detached_grant(self, reply=None):
        """A grant with the token 50 that the user has detached."""
        claim = self.taken()
        self.end_call(self.begin(claim, DETACH))
        self.answered(claim, DETACH, self.at, reply or grant_of(50), False)

    def polling(self):
        """Sends a POLL. The result applies its reply."""
        sent, [(_, apply)] = self.at, self.begin_poll().commands

        def reply(*events, sure_ms=10_000, grants=None):
            numbered = [[self.seen + 1 + number, *event] for number, event in enumerate(events)]
            grants = len(self.grants) if grants is None else grants
            apply(sent, ["sure-ms", sure_ms, "grants", grants, "events", numbered])

        return reply

    def poll(self, *events, **words):
        self.polling()(*events, **words)

    def send_due(self, *replies):
        """Sends what is due; gives each command its reply, the last one to the rest."""
        due = self.due()
        for number, (_, apply) in enumerate(due):
            if replies:
                apply(self.at, replies[min(number, len(replies) - 1)])
        return [" ".join(map(str, command)) for command, _ in due]



def lost(key, token, reason="deleted"):
    return ["lost", key, "o", token, reason]


def granted(key, token):
    return ["granted", key, "o", token, 1, 10_000, 1]


def ended(key, why):
    return ["ended", key, "o", why]


@pytest.fixture
def s():
    return Rig()


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
        s.cancel_answered(claim, s.give_up(claim), 0)
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
    assert waiting.cancel_command() == ("LOCK.RELEASE", "waiting", "o", "ALL")
    s.cancel_answered(waiting, s.give_up(waiting), NO_REPLY)
    s.poll(granted("stray", 60))
    assert s.send_due() == ["LOCK.RELEASE waiting o ALL", "LOCK.RELEASE stray o ALL TOKEN 60"]


# What is known of a grant.

def test_sure_is_from_the_sending(s):
    claim, ask = s.under_way()
    s.at = 103.0
    s.answer(claim, ask, 100.5, grant_of(50))
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
    s.answer(claim, ask, 100.0, grant_of(50))
    assert claim.phase == "asked"
    assert isinstance(s.step(claim), Ask)


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


# Waits.

def test_waits_are_queued_again_in_their_order(s):
    waits = [s.in_line(key) for key in "cab"]
    s.at = 105.5
    late = s.in_line("late", wait=60)
    s.ended()
    s.opened(s.at, 8)
    assert [it.split()[1] for it in s.send_due(0)] == ["late"]  # the time of the others is over
    assert late.session == 8 and all(wait.session == 7 for wait in waits)
    for wait in waits:
        with pytest.raises(LockUnavailable):
            s.at = 107.0
            s.step(wait)


def test_a_place_in_an_earlier_session_is_no_place(s):
    claim, ask = s.under_way()
    s.ended()
    s.opened(s.at, 8)
    s.answer(claim, ask, 100.0, 3)
    assert claim.phase == "asked" and isinstance(s.step(claim), Ask)


def test_no_session(s):
    claim, ask = s.under_way()
    s.answer(claim, ask, 100.0, Fault.reply("NOSESSION x"))
    assert s.step(claim) > 0  # waits for the next one
    s.ended()
    assert s.step(claim) > 0
    s.opened(s.at, 8)
    assert claim in s.changed and s.step(claim).session == 8


@pytest.mark.parametrize("reply, error", [
    (None, LockBusy), (Fault.reply("DEADLOCK x"), LockDeadlock), (Fault.reply("NOTALONE x"), LockNotAlone),
    (Fault.reply("OOM x"), LockRefused), (Fault.reply("WRONGTYPE x"), LockMisuse),
    (Fault.reply("ERR unknown command 'LOCK.ACQUIRE'"), LockRefused), (Fault.reply("ERR syntax"), LockMisuse),
])
def test_replies_that_end_a_wait(s, reply, error):
    claim, ask = s.under_way()
    s.answer(claim, ask, 100.0, reply)
    with pytest.raises(error, match="^k: "):
        s.step(claim)
    assert s.give_up(claim) is None and s.is_idle


@pytest.mark.parametrize("why, error", [
    ("timeout", LockBusy), ("cancelled", LockBusy), ("NOPERM x", LockRefused), ("MOVED 1 x:1", None)])
def test_ends_of_a_wait(s, why, error):
    claim = s.in_line()
    s.poll(ended("k", why), grants=0)
    if error is None:
        assert isinstance(s.step(claim), Ask)
    else:
        with pytest.raises(error):
            s.step(claim)
        s.poll(ended("k", why), grants=0)  # over: nothing


def test_the_end_of_a_place_may_come_before_its_reply(s):
    claim, ask = s.under_way()
    s.at = 101.0
    s.poll(ended("k", "MOVED 1 x:1"), grants=0)
    s.answer(claim, ask, 100.0, 0)
    s.at = 102.0
    again = s.step(claim)
    assert isinstance(again, Ask)
    s.answer(claim, again, 102.0, 0)
    assert isinstance(s.step(claim), float)


def test_a_wait_that_is_over(s):
    claim, ask = s.under_way()
    s.cancel_answered(claim, s.give_up(claim), 0)
    assert s.send_due() == []
    s.answer(claim, ask, 100.0, 3)  # a place: the cancel came before
    assert s.send_due(Fault.reply("NOTHELD x")) == ["LOCK.RELEASE k o ALL"]
    s.answer(claim, ask, 100.0, grant_of(60))
    assert s.send_due() == ["LOCK.RELEASE k o ALL TOKEN 60"]


def test_a_late_grant_is_left_to_a_call_under_way(s):
    claim = s.taken()
    s.begin(claim, RELEASE)
    s.poll(granted("k", 50))
    assert not s.unfinished


def test_of_two_tokens_the_higher_one_counts_until_the_user_has_the_grant(s):
    claim, ask = s.under_way()
    s.answer(claim, ask, 100.0, grant_of(60))
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
        s.answer(claim, ask, 100.0, NOT_SENT)
        s.at = 99.9 + asking
        s.answer(claim, s.step(claim), 100.0, NOT_SENT)
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


def test_a_server_that_refuses_a_session_ends_waits(s):
    s.ended()
    claim = s.claim("k")
    s.failed(100.0, Fault.reply("NOPERM no right"))
    assert claim in s.changed
    with pytest.raises(LockRefused, match="NOPERM"):
        s.step(claim)


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
    assert s.plan().commands[0][0] == ("OPEN",) and s.session == 0
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
    s.answer(fixed, s.step(fixed), 100.0, grant_of(70))
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
    s.poll(["taken", "k", "o", 60, 0])  # by this client
    assert s.answered(claim, LEAVE, 101.0, grant_of(60, 3000), False) is None
    s.poll(sure_ms=60_000, grants=0)
    assert claim.session == 0 and s.sure(claim) == 104.0
    assert s.time(claim, None) and s.next_end == 104.0
    s.at = 104.0
    s.ripe()
    assert s.releases == [] and claim.reason == "expired"


def test_extending_a_fixed_lease_moves_its_end(s):
    claim = s.claim("k", wait=0, fixed=True, lease=3.0)
    s.answer(claim, s.step(claim), 100.0, grant_of(50, 3000))
    s.time(claim, None)
    call = s.begin(claim, EXTEND, 9.0)
    s.answered(claim, EXTEND, 102.0, grant_of(50, 9000))
    s.end_call(call)
    s.at = 105.0
    s.ripe()
    assert (s.next_end, s.releases) == (111.0, []) and claim.phase == "held"


def test_a_maximum_time(s):
    claim = s.taken()
    assert s.time(claim, 4.0) and s.next_end == 104.0 and not s.time(s.taken("other", token=60), 5.0)
    s.at = 104.0
    release = "LOCK.RELEASE", "k", "o", "HOLDS", 0, "SESSION", 7, "TOKEN", 50
    s.ripe()
    assert s.releases == [release]
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
    s.answer(claim, ask, 100.0, reply)
    s.at = 101.0
    if error is None:
        assert s.step(claim) is None and s.remaining(claim) == 9.0 and claim.handed_over
    else:
        with pytest.raises(error):
            s.step(claim)
        assert s.give_up(claim) is None and s.is_idle  # the grant is another's


# Clusters.

def in_doubt(state, key="k", token=50, reason="deleted"):
    """A grant that the server has reported as lost: it may have moved to another node."""
    claim = state.taken(key, token=token)
    state.changed.clear()
    state.poll(lost(key, token, reason))
    return claim


def test_a_lost_grant_of_a_cluster_is_asked_for_before_the_loss_is_reported():
    s = Rig(is_cluster=True)
    there, gone = in_doubt(s, "there"), in_doubt(s, "gone", token=60)
    assert there.phase == gone.phase == "held" and s.remaining(there) == s.remaining(gone) == 0
    s.poll(lost("gone", 60))  # once more
    assert s.send_due(grant_of(50), Fault.reply("NOTHELD x")) == [
        "LOCK.RENEW there o SESSION 7 TOKEN 50", "LOCK.RENEW gone o SESSION 7 TOKEN 60"]
    assert s.remaining(there) == 10.0 and gone.reason == "deleted"
    assert in_doubt(s, "old", token=70, reason="expired").reason == "expired"


def test_a_grant_in_doubt_that_nobody_answers_for_is_lost():
    s = Rig(is_cluster=True)
    claim = in_doubt(s)
    s.at = 112.0
    s.failed(110.5, NO_REPLY)
    assert claim.reason == "deleted"


@pytest.mark.parametrize("word", ["MOVED", "ASK"])
def test_a_grant_that_moved_to_another_node(word):
    old, new = Rig(is_cluster=True), Rig(is_cluster=True, session=9)
    claim = in_doubt(old)
    old.changed.clear()
    old.send_due(Fault.reply(f"{word} 1 x:1"))
    assert old.changed == [claim] and claim.cause.word == word
    claim.asking = word == "ASK"
    assert old.move(claim, new) and not old.grants and not old.move(claim, new)
    asking = ["ASKING"] if word == "ASK" else []
    assert new.send_due(grant_of(50)) == [*asking, "LOCK.RENEW k o SESSION 9 TOKEN 50"]
    assert new.remaining(claim) == 10.0 and new.send_due() == []
    new.at = 105.0
    new.poll()
    assert new.remaining(claim) == 10.0


def test_a_grant_that_moved_still_ends_by_its_maximum_time():
    old, new = Rig(is_cluster=True), Rig(is_cluster=True, session=9)
    claim = old.taken()
    old.time(claim, 4.0)
    old.relocate(claim)
    assert old.move(claim, new) and not old.timed
    assert new.next_end == 104.0
    new.at = 104.0
    new.ripe()
    assert "maximum" in claim.reason and new.releases


def test_a_wait_that_moved_to_another_node():
    old, new = Rig(is_cluster=True), Rig(is_cluster=True, session=9)
    claim = old.in_line()
    old.relocate(claim)
    old.move(claim, new)
    assert not old.waits and new.step(claim).session == 9
