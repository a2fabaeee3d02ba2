"""What another connection keeps by now is left to it, whatever would end it, or have it kept, here."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from redis.asyncio import Redis

from both import OfTasks, OfThreads
from redis_lock_client import LockLost, LockUnavailable
from redis_lock_client import asyncio as tasks
from servers import LONG, eventually
from test_tasks import run

KEY = "lock:orders:42"
NAMED = {"owner": "user-7"}
ROUNDS = 200 if LONG else 40


@pytest.fixture(params=[OfThreads, OfTasks])
def client(request, proxy):
    client = request.param(proxy.port, reply=4)
    yield client
    client.end()


def must_be_of(server, other, taken, keeper):
    """It stands, and nobody else has asked that it be kept."""
    other.check(taken)
    [holder] = server.redis.execute_command("LOCK.HOLDERS", KEY)
    assert (holder["kept-by"], holder["limit"]) == (keeper, 1)


def taken_over(server, proxy, other, how="owner", after="LOCK.HOLDERS"):
    """What the other has by now, of which the first does not know yet: its new connection has no answer so far."""
    proxy.order("inject", fault={"delay": 600}, words=after)
    token = server.info(KEY)["token"]
    taken = other.adopt(KEY, "user-7", token) if how == "adopt" else other.acquire(KEY, **NAMED)
    assert taken.token == token
    eventually(lambda: proxy.order("lost")["pending"] == 0, "the look to be on its way")
    return taken, server.kept_by(KEY)


ENDS = {
    "release": lambda client, grant: client.release(grant),
    "detach": lambda client, grant: client.detach(grant),
    "downgrade": lambda client, grant: client.call(grant.downgrade()),
    "extend": lambda client, grant: client.extend(grant, 40),
}


@pytest.mark.parametrize("how", ["owner", "adopt"])
@pytest.mark.parametrize("end", ENDS)
def test_what_ends_it_looks_first_on_another_connection(server, proxy, client, other, end, how):
    grant = client.acquire(KEY, at_most=60, **NAMED)
    taken, keeper = taken_over(server, proxy, other, how)
    with pytest.raises(LockLost, match="another connection"):
        ENDS[end](client, grant)
    assert not grant.held
    must_be_of(server, other, taken, keeper)
    assert server.redis.info("lock")["lock_kept_closes"] == 1


def test_who_enters_it_again_meanwhile_can_lengthen_it(server, proxy, client, other):
    grant = client.acquire(KEY, at_most=60, **NAMED)
    taken, _ = taken_over(server, proxy, other)
    with ThreadPoolExecutor(2) as both:
        extending, entering = both.submit(client.extend, grant, 40), both.submit(client.acquire, KEY, **NAMED)
        entering.result()
        extending.result()
    eventually(lambda: taken.lost, "the other to be told")
    client.check(grant)
    assert server.info(KEY)["holds"] == 2


def test_an_adopted_one_is_released_by_whoever_keeps_it(server, proxy, client, other):
    token = server.redis.execute_command("LOCK.ACQUIRE", KEY, "user-7", "EX", 60)[0]
    grant = client.adopt(KEY, "user-7", token)
    taken, keeper = taken_over(server, proxy, other, "adopt")
    with pytest.raises(LockLost, match="another connection"):
        client.release(grant)
    must_be_of(server, other, taken, keeper)
    other.release(taken)
    assert server.info(KEY) is None


def test_a_hold_that_is_left_is_told_as_lost(server, proxy, client, other):
    first, second = client.acquire(KEY, **NAMED), client.acquire(KEY, **NAMED)
    taken, keeper = taken_over(server, proxy, other)
    with pytest.raises(LockLost, match="another connection"):
        client.release(second)
    assert first.lost
    must_be_of(server, other, taken, keeper)


def given_up(client, grant):
    """As a signal does, or an error behind the grant."""
    async def give_up():
        grant._give_up()

    client.call(give_up() if isinstance(client, OfTasks) else grant._give_up())


@pytest.mark.parametrize("how", [given_up, lambda client, _: client.close()], ids=["given up", "close"])
def test_a_release_in_the_background_looks_first_on_another_connection(server, proxy, client, other, how):
    grant = client.acquire(KEY, **NAMED)
    taken, keeper = taken_over(server, proxy, other)
    how(client, grant)
    eventually(lambda: not client.locks._engine.undo.pending, "what gives it back")
    assert server.calls("lock.release") == 0
    must_be_of(server, other, taken, keeper)


@pytest.mark.parametrize("end", ["release", "give up", "close"])
def test_a_release_is_carried_out_where_nobody_else_keeps_it(server, proxy, client, end):
    grant = client.acquire(KEY, **NAMED)
    proxy.order("inject", fault={"delay": 300}, words="LOCK.HOLDERS")
    server.redis.client_kill_filter(_id=server.kept_by(KEY))
    eventually(lambda: proxy.order("lost")["pending"] == 0, "the look to be on its way")
    ends = {"release": client.release, "give up": lambda grant: given_up(client, grant), "close": lambda _: client.close()}
    ends[end](grant)
    eventually(lambda: server.info(KEY) is None, "it to be released", 5)


def test_a_lease_is_the_last_one_only_of_what_is_kept_here(server, proxy, client, other):
    grant = client.acquire(KEY, at_most=3, lease=2.6, **NAMED)
    taken, keeper = taken_over(server, proxy, other)
    eventually(lambda: grant.lost, "the first to be told")
    must_be_of(server, other, taken, keeper)
    assert server.redis.info("lock")["lock_kept_closes"] == 1


def test_what_nobody_keeps_for_its_last_lease_is_looked_at_before_its_release(server, client, other):
    grant = client.acquire(KEY, at_most=3, lease=2.9, **NAMED)
    eventually(lambda: server.kept_by(KEY) == 0, "the last lease to begin")
    taken = other.adopt(KEY, "user-7", grant.token)
    keeper = server.kept_by(KEY)
    with pytest.raises(LockLost):
        client.release(grant)
    must_be_of(server, other, taken, keeper)


def test_what_a_wait_gave_is_looked_at_before_its_release(server, client, other):
    other.acquire("warm")
    grant = server.after_a_wait(KEY, lambda: client.acquire(KEY, wait=20, lease=30, **NAMED))
    taken = other.acquire(KEY, **NAMED)
    keeper = server.kept_by(KEY)
    with pytest.raises(LockLost):
        client.release(grant)
    must_be_of(server, other, taken, keeper)


def test_a_renewal_that_passes_is_looked_at_again(server, client, other):
    other.acquire("warm")
    grant = client.acquire(KEY, lease=30, **NAMED)
    former = server.kept_by(KEY)
    server.redis.config_set("min-replicas-to-write", 1)
    server.redis.client_kill_filter(_id=former)
    eventually(lambda: server.redis.info("commandstats").get("cmdstat_lock.renew"), "a renewal to be refused")
    server.redis.config_set("min-replicas-to-write", 0)
    taken = other.acquire(KEY, **NAMED)
    keeper = server.kept_by(KEY)
    eventually(lambda: grant.lost, "the first to be told")
    must_be_of(server, other, taken, keeper)


def test_an_adoption_without_an_answer_ends_no_keeping_of_others(server, proxy, other):
    token = server.redis.execute_command("LOCK.ACQUIRE", KEY, "user-7", "EX", 60)[0]
    for kind in (OfThreads, OfTasks):
        client = kind(proxy.port)
        client.release(client.acquire("warm"))
        proxy.order("inject", fault="silence", words="LOCK.RENEW")
        with pytest.raises(LockUnavailable):
            client.adopt(KEY, "user-7", token)
        taken = other.adopt(KEY, "user-7", token)
        keeper = server.kept_by(KEY)
        proxy.order("speak")
        eventually(lambda client=client: not client.locks._engine.undo.pending, "what gives it back")
        must_be_of(server, other, taken, keeper)
        client.end()


@run
async def test_an_acquire_that_was_cancelled_behind_a_closed_connection_releases_nothing_of_others(
        server, proxy, monkeypatch):
    monkeypatch.setattr("redis_lock_client.acquire.Pause.take", lambda *_: 1.0)
    async with Redis(port=proxy.port) as client, tasks.Locks(client) as locks:
        await (await locks.lock("warm").acquire()).check()
        proxy.order("inject", fault="cut", words="LOCK.ACQUIRE")
        acquiring = asyncio.create_task(locks.lock(KEY, wait=10, **NAMED).acquire())
        [keeper] = locks._engine.keepers.values()
        while keeper.epoch < 2:
            await asyncio.sleep(0.01)
        async with Redis(port=server.port) as another, tasks.Locks(another) as others:
            taken = await others.lock(KEY, **NAMED).acquire()
            keeper = server.kept_by(KEY)
            acquiring.cancel()
            with pytest.raises(asyncio.CancelledError):
                await acquiring
            await taken.check()
            assert server.kept_by(KEY) == keeper


def test_what_a_wait_gave_late_is_not_taken_from_who_asked_for_it_meanwhile(server, proxy, client, other):
    assert server.redis.execute_command("LOCK.ACQUIRE", KEY, "other", "PX", 60_000)
    proxy.order("inject", fault={"delay": 900}, words="LOCK.ACQUIRE BLOCK")
    grants = []
    waiting = threading.Thread(target=lambda: grants.append(client.acquire(KEY, wait=20, lease=1, **NAMED)))
    waiting.start()
    server.wait_for_waiters(KEY, 1)
    server.redis.execute_command("LOCK.RELEASE", KEY, "other")
    taken = other.acquire(KEY, **NAMED)
    keeper = server.kept_by(KEY)
    waiting.join()
    eventually(lambda: grants[0].lost, "the first to be told")
    must_be_of(server, other, taken, keeper)


@run
async def test_a_wait_that_is_called_off_releases_nothing_of_others(server, proxy):
    server.redis.execute_command("LOCK.ACQUIRE", KEY, "other", "EX", 60)
    async with Redis(port=proxy.port) as client, tasks.Locks(client) as locks:
        proxy.order("inject", fault={"delay": 900}, words="LOCK.ACQUIRE BLOCK")
        waiting = asyncio.create_task(locks.lock(KEY, wait=20, **NAMED).acquire())
        while not server.waiters(KEY):
            await asyncio.sleep(0.01)
        server.redis.execute_command("LOCK.RELEASE", KEY, "other")
        async with Redis(port=server.port) as another, tasks.Locks(another) as others:
            taken = await others.lock(KEY, **NAMED).acquire()
            keeper = server.kept_by(KEY)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await taken.check()
            assert server.kept_by(KEY) == keeper


def test_who_releases_just_then_frees_nothing_of_whoever_takes_it_over(server, client, other):
    """The end of the connection, and its release, cross."""
    client = type(client)(server.port)
    for number in range(ROUNDS):
        grant = client.acquire(KEY, **NAMED)
        token, taken = grant.token, []
        taking = threading.Thread(target=lambda: taken.append(other.acquire(KEY, **NAMED)))  # noqa: B023
        taking.start()
        time.sleep(number % 10 / 5000)
        try:
            client.release(grant)
        except LockLost:
            pass
        taking.join()
        other.check(taken[0])
        assert server.kept_by(KEY)
        other.release(taken[0])
    client.end()
