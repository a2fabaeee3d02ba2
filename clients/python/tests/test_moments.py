"""What a wait has given is left to its lease for a moment, and taken over by the keeper where it is held for longer."""

import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from both import OfTasks, OfThreads
from redis_lock_client import LockLost, LockMisuse
from servers import LONG, eventually

KEY = "lock:orders:42"
MOMENT = 0.1
ROUNDS, KEYS = 20 if LONG else 4, 30


@pytest.fixture(params=[OfThreads, OfTasks])
def client(request, server):
    client = request.param(server.port)
    yield client
    client.end()


@pytest.fixture
def waited(server, client):
    """Takes locks that come from a wait."""
    callers = ThreadPoolExecutor(KEYS)

    def waited(*keys, for_ms=0, **options):
        for key in keys:
            assert server.redis.execute_command("LOCK.ACQUIRE", key, "other", "PX", 60_000)
        calls = [callers.submit(client.acquire, key, wait=20, **options) for key in keys]
        for key in keys:
            server.wait_for_waiters(key, 1)
        time.sleep(for_ms / 1000)
        for key in keys:
            server.redis.execute_command("LOCK.RELEASE", key, "other")
        grants = [call.result(20) for call in calls]
        return grants if len(keys) > 1 else grants[0]

    yield waited
    callers.shutdown()


def renewals(server):
    """How many were sent, and how many of them found the lock held by others or by nobody."""
    told = server.redis.info("commandstats").get("cmdstat_lock.renew", {"calls": 0, "failed_calls": 0})
    return told["calls"], told["failed_calls"]


def test_a_contended_lock_that_is_held_for_a_moment_is_not_renewed(server, client):
    def work():
        for _ in range(10):
            client.release(client.acquire(KEY, wait=30))

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert server.info(KEY) is None
    assert server.calls("lock.release") == 80
    assert renewals(server)[0] < 20  # on a busy machine one or the other is held for longer


def test_a_lock_that_is_held_for_longer_is_kept(server, client, waited):
    grant = waited(KEY, lease=1)
    assert grant.held
    eventually(lambda: server.kept_by(KEY), "it to be kept", 5)
    time.sleep(2)
    assert grant.held and server.info(KEY)["token"] == grant.token
    client.check(grant)
    assert renewals(server) == (1, 0)
    client.release(grant)
    assert server.info(KEY) is None


def test_its_lease_is_counted_from_the_sending_of_the_wait(client, waited):
    grant = waited(KEY, lease=3, for_ms=500)
    assert 1.5 < grant.remaining <= 2.5
    eventually(lambda: grant.remaining > 2.5, "the keeper to have it")


@pytest.mark.parametrize("options", [{"lease": 1.0}, {"lease": 30.0, "fixed": True}])
def test_what_comes_late_or_is_not_kept_is_renewed_first(server, waited, options):
    grant = waited(KEY, for_ms=500, **options)
    assert renewals(server) == (1, 0)
    assert grant.remaining > options["lease"] - 0.4
    time.sleep(3 * MOMENT)
    assert renewals(server) == (1, 0)


def test_its_loss_in_that_moment_is_told_soon(server, client, waited):
    grant, told = waited(KEY), threading.Event()
    server.redis.delete(KEY)
    grant.on_lost(told.set)
    assert told.wait(5)
    assert grant.lost and not grant.held
    with pytest.raises(LockLost):
        client.release(grant)


def test_a_check_takes_it_over(server, client, waited):
    grant, lost = waited(KEY, "lost", lease=5)
    server.redis.delete("lost")
    with pytest.raises(LockLost):
        client.check(lost)
    assert lost.lost
    client.check(grant)
    assert server.kept_by(KEY)
    time.sleep(3 * MOMENT)
    assert renewals(server) == (2, 1)


def test_a_release_at_the_takeover_leaves_nothing_held_and_nothing_renewed(server, client, waited):
    keys = [f"lock:{number}" for number in range(KEYS)]

    def hold(grant):
        time.sleep(random.uniform(0.9, 1.1) * MOMENT)
        client.release(grant)

    for _ in range(ROUNDS):
        holders = [threading.Thread(target=hold, args=(grant,)) for grant in waited(*keys)]
        for holder in holders:
            holder.start()
        for holder in holders:
            holder.join(20)
        assert not any(server.info(key) for key in keys)
    time.sleep(2 * MOMENT)
    calls, failed = renewals(server)
    assert failed == 0 and calls <= KEYS * ROUNDS
    engine = client.locks._engine
    assert not engine.held and not any(keeper.grants for keeper in engine.keepers.values())
    assert server.calls("lock.release") == 2 * KEYS * ROUNDS  # the other's, and one for each grant


def test_what_was_released_does_not_pile_up(client, waited):
    engine = client.locks._engine
    held = waited(KEY)
    for _ in range(40):
        for grant in waited(*(f"lock:{number}" for number in range(10))):
            client.release(grant)
    assert len(engine.looks._takeovers._heap) < 300
    eventually(lambda: not engine.looks._takeovers._heap, "the last takeover")
    assert held.held


def test_a_re_entry_takes_it_over(server, client, waited):
    grant = waited(KEY, lease=1, owner="me")
    again = client.acquire(KEY, lease=1, owner="me")
    assert again.token == grant.token and server.info(KEY)["holds"] == 2
    client.release(again)
    time.sleep(2)
    assert grant.held and server.info(KEY)["holds"] == 1
    assert renewals(server) == (1, 0)


def test_at_most_is_counted_from_the_grant(server, waited):
    grant = waited(KEY, lease=1.5, at_most=2, for_ms=300)
    granted = time.monotonic()
    eventually(lambda: grant.lost, "the longest time to pass", 5)
    assert 1.9 < time.monotonic() - granted < 4
    eventually(lambda: server.info(KEY) is None, "the server to end it", 1)


def test_a_keeper_that_closes_in_that_moment_is_followed_by_one_that_keeps_it(server, waited):
    grant = waited(KEY, lease=1)
    server.redis.client_kill_filter(_type="normal", skipme=True)
    time.sleep(2)
    assert grant.held and server.info(KEY)["token"] == grant.token


def test_a_close_in_that_moment_frees_it(server, client, waited):
    grant = waited(KEY)
    client.close()
    assert server.info(KEY) is None
    with pytest.raises(LockLost):
        client.release(grant)
    time.sleep(2 * MOMENT)
    assert renewals(server)[1] == 0


@pytest.mark.parametrize("client", [OfThreads], indirect=True)
def test_a_child_that_is_forked_in_that_moment_takes_over_nothing(server, client, waited):
    grant = waited(KEY)
    child = os.fork()
    if child == 0:
        try:
            assert not grant.held
            time.sleep(3 * MOMENT)
            try:
                grant.check()
            except LockMisuse:
                os._exit(0)
            os._exit(1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    client.check(grant)
    assert renewals(server) == (1, 0)
