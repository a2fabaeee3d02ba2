"""One lock on five servers."""

import os
import threading
import time
import traceback

import pytest
import redis

from redis_lock_client import LockBusy, LockLost, LockMisuse, LockRefused, LockUnavailable, Observer
from redis_lock_client.quorum import Quorum
from servers import Place, Server, eventually

KEY = "lock:report"


@pytest.fixture
def five(start):
    return [Server(start("server")) for _ in range(5)]


def connect(servers, **options):
    return Quorum([redis.Redis(port=server.port) for server in servers], name="test", **options)


@pytest.fixture
def quorum(five):
    with connect(five, reply=5) as quorum:
        yield quorum


def tokens(servers):
    infos = (server.info(KEY) for server in servers)
    return [info["token"] for info in infos if info]


def one_token(servers, grant):
    """A server that answers late may be left out: its token may be too high by then."""
    eventually(lambda: {*tokens(servers)} == {grant.token} and len(tokens(servers)) >= 3, "one token on a majority")


def free(servers):
    eventually(lambda: tokens(servers) == [], "the lock to be free")


def test_all_servers_have_one_token_and_it_rises(five, quorum):
    last = 0
    for _ in range(5):
        with quorum.lock(KEY) as grant:
            one_token(five, grant)
            assert grant.token > last and grant.held and 1 < grant.remaining < 10
            grant.check()
            last = grant.token
        free(five)


@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_a_majority_is_enough(five, fault):
    for server in five[:2]:
        server.order(fault)
    begun = time.monotonic()
    with connect(five, lease=4) as quorum, quorum.lock(KEY, wait=10) as grant:
        assert time.monotonic() - begun < 5
        assert tokens(five[2:]) == [grant.token] * 3
        until = time.monotonic() + 5
        eventually(lambda: time.monotonic() > until, "longer than the lease")  # the sessions renew it
        assert grant.held
        grant.check()
    free(five[2:])
    if fault == "pause":
        for server in five[:2]:
            server.order("resume")
        free(five)


@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_less_is_not(five, fault):
    for server in five[:3]:
        server.order(fault)
    with connect(five) as quorum:
        for wait in (0, 1):
            begun = time.monotonic()
            with pytest.raises(LockUnavailable, match="server 1"):
                quorum.lock(KEY, wait=wait)
            assert time.monotonic() - begun < wait + 3
    free(five[3:])
    if fault == "pause":
        for server in five[:3]:
            server.order("resume")
        free(five)


def test_what_is_held_is_not_granted_again(five, quorum):
    with quorum.lock(KEY) as grant:
        for wait in (0, 0.5):
            with pytest.raises(LockBusy):
                quorum.lock(KEY, wait=wait)
        one_token(five, grant)


def test_what_a_minority_has_granted_is_released(five, quorum):
    for server in five[:3]:
        server.redis.execute_command("LOCK.ACQUIRE", KEY, "other")
    with pytest.raises(LockBusy):
        quorum.lock(KEY, wait=0)
    free(five[3:])


def test_contenders_take_turns(five, quorum):
    held, taken, errors = threading.Lock(), [], []

    def contend():
        try:
            with quorum.lock(KEY, wait=60) as grant:
                assert held.acquire(blocking=False), "two holders"
                taken.append(grant.token)
                held.release()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=contend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert len(taken) == 8 and taken == sorted(set(taken))


def test_a_minority_that_is_lost_is_no_loss_and_a_majority_is(five):
    class Seen(Observer):
        def __init__(self):
            self.told = []

        def acquired(self, key, seconds, error):
            self.told.append(("acquired", error))

        def lost(self, key, error):
            self.told.append(("lost", key))

        def released(self, key, seconds, error):
            self.told.append(("released", type(error)))

    seen, lost = Seen(), threading.Event()
    with connect(five, reply=5, observer=seen, prefix="lock:") as quorum:
        with pytest.raises(LockLost, match="deleted"), quorum.lock("report", on_lost=lambda _: lost.set()) as grant:
            one_token(five, grant)
            having = [server for server in five if server.info(KEY)]
            for server in having[3:]:
                server.redis.delete(KEY)
            grant.check()
            assert grant.held and not lost.is_set()
            having[2].redis.delete(KEY)
            assert lost.wait(5) and not grant.held and "deleted" in grant.lost
            free(five)  # the rest is given back
            with pytest.raises(LockLost):
                grant.check()
    assert seen.told == [("acquired", None), ("lost", KEY), ("released", LockLost)]


@pytest.mark.parametrize("word", ["LOCK.ACQUIRE", "LOCK.RENEW"])
def test_lost_replies(start, five, word):
    proxies = [Place(start("proxy", port=server.port)) for server in five]
    for proxy in proxies:
        proxy.order("inject", fault="cut", words=word)
    with connect(proxies, reply=5) as quorum, quorum.lock(KEY) as grant:
        one_token(five, grant)
        assert all(info["holds"] == 1 for server in five if (info := server.info(KEY)))
    free(five)


def set_ahead(server, seconds):
    order = server.redis.execute_command
    order("CONFIG", "SET", "lock.max-token-lead-ms", 86_400_000)
    token = order("LOCK.ACQUIRE", "x", "me")[0]
    order("LOCK.RENEW", "x", "me", "TOKEN", token, "RAISE", token + seconds * 1_000_000)
    order("LOCK.RELEASE", "x", "me")
    order("CONFIG", "SET", "lock.max-token-lead-ms", 5000)
    return token


def test_a_server_far_ahead_is_left_out(five, quorum):
    token = set_ahead(five[0], 3600)
    with quorum.lock(KEY) as grant:
        assert grant.token < token + 1_800_000_000
        one_token(five[1:], grant)
        eventually(lambda: five[0].info(KEY) is None, "the one far ahead to be left out")
    free(five)


def test_servers_whose_clocks_differ_are_named(five, quorum):
    for number, server in enumerate(five):
        set_ahead(server, 3600 * number)
    with pytest.raises(LockRefused, match="AHEAD"):
        quorum.lock(KEY)
    free(five)


def test_a_forked_child_has_locks_of_its_own_and_holds_nothing(five, quorum):
    with quorum.lock(KEY) as grant:
        child = os.fork()
        if child == 0:
            try:
                assert not grant.held
                with pytest.raises(LockMisuse):
                    grant.release()
                with pytest.raises(LockBusy):
                    quorum.lock(KEY, wait=0)
                quorum.lock("another").release()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert grant.held
        grant.check()


def test_a_release_that_no_majority_answers_is_an_error_in_time(five):
    with connect(five, lease=20) as quorum:
        grant = quorum.lock(KEY)
        for server in five[:3]:
            server.order("pause")
        begun = time.monotonic()
        with pytest.raises(LockUnavailable):
            grant.release()
        assert time.monotonic() - begun < 4
        for server in five[:3]:
            server.order("resume")
        free(five)  # long before the lease ends


def test_a_server_that_hangs_holds_up_no_call_to_another(five):
    five[4].order("pause")
    quorum = connect(five)
    taken = []
    threads = [threading.Thread(target=lambda n=n: taken.append(quorum.lock(f"{KEY}:{n}", wait=10))) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 50 and all(grant.held for grant in taken)
    five[4].order("resume")
    quorum.close()
    free(five)
