"""For how long a grant is known, when its keeper is heard, is silent, or has closed."""

import time

import pytest

from both import OfTasks, OfThreads
from redis_lock_client import LockLost
from servers import eventually

LATE = 1.5  # seconds by which a loss may be told late here, as the machine may be busy


@pytest.fixture(params=[OfThreads, OfTasks])
def client(request, proxy):
    client = request.param(proxy.port, reply=6)  # so that silence does not close the keeper soon
    yield client
    proxy.order("speak")
    client.end()


@pytest.fixture(params=[OfThreads, OfTasks])
def direct(request, server):
    client = request.param(server.port)
    yield client
    client.end()


class Known:
    """A grant, and when it was told as lost."""

    def __init__(self, client, key, **options):
        self.grant, self.lost_at = client.acquire(key, **options), None
        self.grant.on_lost(self._lost)

    def _lost(self):
        self.lost_at = time.monotonic()

    def known_until(self):
        assert self.grant.held
        return time.monotonic() + self.grant.remaining


def end_when_known(*all_of_them):
    """Waits until they are told as lost, each when it is not known any more: neither sooner nor much later."""
    ends = [known.known_until() for known in all_of_them]
    for known, end in zip(all_of_them, ends, strict=True):
        eventually(lambda known=known: known.lost_at, "the loss to be told")
        assert end - 0.05 < known.lost_at < end + LATE, known.grant._held.why


def test_what_was_heard_counts_when_the_keeper_has_closed(server, direct):
    known = Known(direct, "a", lease=1.5)
    fixed = direct.acquire("fixed", lease=30, fixed=True)
    time.sleep(2)  # more than the lease: from here on it is known by PONGs alone
    eventually(lambda: known.grant.remaining > 1.1, "a PONG")
    server.order("kill")
    time.sleep(0.2)
    assert known.grant.held and 0.5 < known.grant.remaining < 1.4
    end_when_known(known)
    assert fixed.held


@pytest.mark.parametrize("how", ["silence", "swallow"])
def test_silence_ends_each_grant_when_its_own_lease_is_over(proxy, client, how):
    grants = [Known(client, f"k{number}", lease=lease) for number, lease in enumerate([1.0, 1.0, 1.7, 2.4])]
    renewed = Known(client, "at-most", lease=1.0, at_most=60)
    time.sleep(1.5)
    proxy.order(how)
    time.sleep(0.1)
    end_when_known(renewed, *grants)
    with pytest.raises(LockLost):
        client.check(grants[0].grant)


def test_what_is_heard_again_in_time_is_kept_and_its_next_silence_is_noticed(server, proxy, client):
    short, long = Known(client, "short", lease=1.0), Known(client, "long", lease=4.0)
    time.sleep(0.5)
    proxy.order("silence")
    eventually(lambda: short.lost_at, "the loss to be told", 2.5)
    assert long.grant.held
    proxy.order("speak")
    late = Known(client, "late", lease=1.5)
    time.sleep(4.5)  # so that only what is heard again keeps it
    assert long.grant.held and late.grant.held
    assert long.grant.remaining > 2
    proxy.order("silence")
    end_when_known(late, long)


def test_at_most_ends_a_grant_that_is_heard_of(server, direct):
    begun = time.monotonic()
    known = Known(direct, "a", lease=1.0, at_most=2.5)
    extended = Known(direct, "b", lease=1.0, at_most=2.0)
    time.sleep(1.5)  # its last lease has begun
    direct.extend(extended.grant, 3)
    eventually(lambda: known.lost_at, "its end to be told")
    assert 2.4 < known.lost_at - begun < 2.5 + LATE
    assert extended.grant.held
    eventually(lambda: extended.lost_at, "its end to be told")
    assert 4.4 < extended.lost_at - begun < 4.5 + LATE
    eventually(lambda: server.info("a") is None and server.info("b") is None, "the server to end them", 1)


@pytest.mark.parametrize("lease", [1.0, 10.0])
@pytest.mark.parametrize("after", [0.5, 1.8])
def test_a_re_entry_keeps_the_end_of_at_most(server, direct, after, lease):
    begun = time.monotonic()
    known = Known(direct, "a", lease=1.0, at_most=2.5, owner="me")
    time.sleep(after)  # in its last lease, or before that
    again = direct.acquire("a", lease=lease, owner="me")
    assert again.remaining <= begun + 2.5 - time.monotonic() + 0.1
    eventually(lambda: known.lost_at, "its end to be told")
    assert 2.4 < known.lost_at - begun < 2.5 + LATE and again.lost
    eventually(lambda: server.info("a") is None, "the server to end it", 0.3)
    if after == 1.8:  # as its lease at the server may be longer
        eventually(lambda: server.calls("lock.release") == 1, "it to be released", 5)


def test_grants_that_their_keeper_is_heard_of_have_no_timers_of_their_own(server, direct):
    grants = [direct.acquire(f"k{number}", lease=1) for number in range(300)]
    looks = direct.locks._engine.looks
    eventually(lambda: not looks._own._at and len(looks._own._heap) < 10, "them to be the keeper's")
    server.redis.client_kill_filter(_type="normal", skipme=True)
    eventually(lambda: all(grant.remaining > 0.5 for grant in grants), "them to be kept again")
    time.sleep(1.5)
    assert all(grant.held for grant in grants)
    eventually(lambda: not looks._own._at, "them to be the new connection's")
    for grant in grants:
        direct.release(grant)
    assert not looks._own._at and not looks._takeovers._at
