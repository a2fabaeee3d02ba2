"""Grants that go from one to another, by `detach` and `adopt`: at each moment one has them."""

import asyncio
import threading
import time

import pytest
import redis
from redis.asyncio import Redis

from both import OfTasks, OfThreads
from redis_lock_client import LockBusy, LockLost, LockMisuse, Locks, LockUnavailable
from redis_lock_client import asyncio as tasks
from servers import eventually
from test_tasks import run

KEY = "lock:orders:42"
NAMED = {"owner": "user-7"}


@pytest.fixture(params=[OfThreads, OfTasks])
def client(request, server):
    client = request.param(server.port)
    yield client
    client.end()


@pytest.mark.parametrize("is_fixed", [False, True])
def test_who_has_let_go_of_it_does_not_re_enter_what_another_has_adopted(client, other, is_fixed):
    task = client.locks.task()
    grant = client.acquire(KEY, task=task)
    taken = other.adopt(KEY, grant.owner, client.detach(grant), fixed=is_fixed)
    with pytest.raises(LockBusy):
        client.acquire(KEY, task=task)
    other.check(taken)
    other.release(taken)
    client.release(client.acquire(KEY, task=task))


def test_its_other_holds_here_release_nothing_of_what_another_has_adopted(server, client, other):
    first, second = client.acquire(KEY, **NAMED), client.acquire(KEY, **NAMED)
    taken = other.adopt(KEY, first.owner, client.detach(first))
    assert not second.held
    with pytest.raises(LockMisuse):
        client.release(second)
    assert server.calls("lock.release") == 0
    other.check(taken)


def test_a_block_ends_without_an_error_when_all_holds_were_let_go_of_in_it(server):
    with Locks(redis.Redis(port=server.port)) as locks, locks.lock(KEY):
        locks.lock(KEY).acquire().detach()
    assert server.calls("lock.release") == 0

    async def work():
        async with Redis(port=server.port) as client, tasks.Locks(client) as locks, locks.lock("k"):
            await (await locks.lock("k").acquire()).detach()

    asyncio.run(work())
    assert server.calls("lock.release") == 0


def test_one_release_gives_back_all_holds_of_what_was_adopted(server, client, other):
    first, _ = client.acquire(KEY, **NAMED), client.acquire(KEY, **NAMED)
    taken = other.adopt(KEY, first.owner, client.detach(first))
    again = other.acquire(KEY, **NAMED)
    other.release(again)
    assert server.info(KEY)
    other.release(taken)
    assert server.info(KEY) is None


@pytest.mark.parametrize("options", [{}, NAMED])
def test_what_is_adopted_where_it_is_held_is_the_adopters(server, client, options):
    first = client.acquire(KEY, **options or {"task": client.locks.task()})
    taken = client.adopt(KEY, first.owner, first.token)
    assert taken.held and not first.held
    again = client.adopt(KEY, first.owner, taken.token, fixed=True)
    assert again.held and not taken.held
    assert server.kept_by(KEY) == 0
    for lost in (first, taken):
        with pytest.raises(LockLost):
            client.release(lost)
    client.check(again)
    client.release(again)
    assert server.info(KEY) is None
    assert not client.locks._engine.held


def test_what_is_adopted_takes_the_place_of_a_grant_that_has_ended(server, client):
    first = client.acquire(KEY, lease=30.0, fixed=True, **NAMED)
    server.redis.delete(KEY)
    token = server.redis.execute_command("LOCK.ACQUIRE", KEY, first.owner, "PX", 60_000)[0]
    taken = client.adopt(KEY, first.owner, token)
    assert not first.held
    client.release(client.acquire(KEY, **NAMED))
    client.check(taken)


@pytest.mark.parametrize("is_fixed", [False, True])
@pytest.mark.parametrize("kind", [OfThreads, OfTasks])
def test_an_adoption_without_an_answer_leaves_what_is_held_here_as_it_was(server, proxy, kind, is_fixed):
    client = kind(proxy.port)
    grant = client.acquire(KEY, lease=2.0, **NAMED)
    proxy.order("inject", fault="silence", words="LOCK.RENEW")
    with pytest.raises(LockUnavailable):
        client.adopt(KEY, grant.owner, grant.token, lease=2.0, fixed=is_fixed)
    proxy.order("speak")
    time.sleep(2.5)  # more than a lease
    if grant.held:
        assert server.kept_by(KEY)
        client.release(grant)
    client.end()


@run
async def test_an_adoption_that_was_cancelled_leaves_what_is_held_here_as_it_was(server, proxy):
    async with Redis(port=proxy.port) as client, tasks.Locks(client) as locks:
        kept = await locks.lock(KEY, lease=1.0, **NAMED).acquire()
        await asyncio.sleep(1.2)  # so that the connection alone tells of it
        fixed = await locks.lock("fixed", fixed=True, lease=60, **NAMED).acquire()
        for grant in (kept, fixed):
            proxy.order("inject", fault={"delay": 300}, words="LOCK.RENEW")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(locks.adopt(grant.key, grant.owner, grant.token, lease=5), 0.1)
        while locks._engine.undo.pending:
            await asyncio.sleep(0.01)
        await kept.check()
        assert server.kept_by(KEY)
        assert fixed.held and fixed.remaining <= server.redis.pttl("fixed") / 1000 + 0.1


def test_what_a_wait_gave_is_not_taken_from_who_asked_for_it_later(server, client, other):
    other.acquire("warm")
    grant = server.after_a_wait(KEY, lambda: client.acquire(KEY, wait=20, lease=30, **NAMED))
    taken = other.acquire(KEY, **NAMED)
    keeper = server.kept_by(KEY)
    eventually(lambda: grant.lost, "the first to be told", 5)
    other.check(taken)
    assert server.kept_by(KEY) == keeper


def test_who_enters_it_again_while_looking_who_keeps_it_has_it(server, proxy, client, other):
    client = type(client)(proxy.port)
    client.acquire(KEY, **NAMED)
    proxy.order("inject", fault={"delay": 400}, words="LOCK.HOLDERS")
    taken = other.adopt(KEY, "user-7", int(server.info(KEY)["token"]))
    eventually(lambda: proxy.order("lost")["pending"] == 0, "the look to be on its way")
    again = client.acquire(KEY, **NAMED)
    client.check(again)
    eventually(lambda: taken.lost, "the other to be told", 5)
    client.check(again)
    client.end()


@pytest.mark.parametrize("options", [{}, NAMED])
def test_what_was_lost_unheard_and_is_adopted_meanwhile_is_not_released(server, proxy, client, options):
    client = type(client)(proxy.port, reply=8)
    grant = client.acquire(KEY, lease=1.0, **options)
    token, taken = grant.token, []
    proxy.order("inject", fault={"delay": 1800}, words="LOCK.RENEW")  # and all answers behind it

    def adopt():
        try:
            taken.append(client.adopt(KEY, grant.owner, token))
        except LockLost as error:
            taken.append(error)

    adopting = threading.Thread(target=adopt)
    adopting.start()
    eventually(lambda: grant.lost, "the loss to be told")
    adopting.join()
    eventually(lambda: not client.locks._engine.undo.pending, "what gives back")
    if isinstance(taken[0], LockLost):
        assert server.info(KEY) is None
    else:
        client.check(taken[0])
    client.end()
