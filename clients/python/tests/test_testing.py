"""The stand-in for unit tests, under the clients of threads and of asyncio."""

import asyncio
import threading
import time

import pytest

from redis_lock_client import LockBusy, LockLost, Locks
from redis_lock_client import asyncio as tasks
from redis_lock_client.alone import alone
from redis_lock_client.testing import Server
from servers import eventually


@pytest.fixture
def stand_in():
    with Server() as server:
        yield server


@pytest.fixture
def locks(stand_in):
    with Locks(stand_in.client(), name="test", reply=5) as locks:
        yield locks


def test_an_immediate_grant_has_no_event(stand_in):
    """One that was waited for has."""
    with stand_in.client(decode_responses=True) as client:
        session = client.execute_command("LOCK.SESSION", "OPEN")
        for owner in "first", "next":
            client.execute_command("LOCK.ACQUIRE", "k", owner, "PX", 10_000, "SESSION", session, "QUEUE", 0)
        assert "granted" not in str(client.execute_command("LOCK.SESSION", "POLL", session, "BLOCK", 0))
        client.execute_command("LOCK.RELEASE", "k", "first", "HOLDS", 0)
        assert str(client.execute_command("LOCK.SESSION", "POLL", session, "BLOCK", 0)).count("granted") == 1


def test_first_come_first_served_and_tokens_rise(stand_in, locks):
    taken = []

    def contend(number):
        with locks.lock("k") as grant:
            taken.append((number, grant.token))

    with locks.lock("k", wait=0) as grant:
        threads = [threading.Thread(target=contend, args=(number,)) for number in range(5)]
        for number, thread in enumerate(threads, 1):
            thread.start()
            eventually(lambda: len(stand_in.waiters("k")) == number, "one more in line")
        with pytest.raises(LockBusy):
            locks.lock("k", wait=0)
        begun = time.monotonic()
        with pytest.raises(LockBusy):
            locks.lock("k", wait=0.2)
        assert time.monotonic() - begun < 2
        assert stand_in.holders("k") == [grant.owner]
    for thread in threads:
        thread.join()
    assert [number for number, _ in taken] == [0, 1, 2, 3, 4]
    assert [grant.token, *(token for _, token in taken)] == sorted({grant.token, *(token for _, token in taken)})
    eventually(lambda: stand_in.holders("k") == [], "the lock to be free")


def test_a_lock_can_be_lost(stand_in, locks):
    lost = threading.Event()
    with pytest.raises(LockLost), locks.lock("k", on_lost=lambda _: lost.set()) as grant:
        grant.check()
        assert stand_in.lose("k") and not stand_in.lose("k")
        assert lost.wait(5) and not grant.held and grant.lost == "deleted"
    with locks.lock("k") as again:
        assert again.token > grant.token


def test_what_else_the_clients_use(stand_in, locks):
    task = locks.task()
    with locks.lock("k", task=task), locks.lock("k", task=task), locks.lock("other", task=task):
        pass
    with locks.lock("k", shared=True), locks.lock("k", shared=True):
        with pytest.raises(LockBusy):
            locks.lock("k", wait=0)
    with locks.lock("k", permits=2), locks.lock("k", permits=2), pytest.raises(LockBusy):
        locks.lock("k", permits=2, wait=0)
    grant = locks.lock("k", lease=5)
    grant.extend(6)
    grant.detach(7)
    with locks.adopt("k", grant.owner, grant.token) as adopted:
        assert adopted.held
    with locks.lock_all(["a", "b"]):
        assert stand_in.holders("a") == stand_in.holders("b")


def test_a_function_that_does_not_run_again_so_soon(stand_in):
    with Locks(stand_in.client(), prefix="shop:") as locks:
        run = alone(locks, "k{number}", at_least=60)(lambda number: number)
        assert run(1) == 1 and run(2) == 2
        with pytest.raises(LockBusy, match="shop:k1:ran"):
            run(1)
        assert locks.client.get("shop:k1:ran")


def test_with_asyncio(stand_in):
    async def work():
        async with stand_in.asyncio_client() as client, tasks.Locks(client, name="test", reply=5) as locks:
            async with locks.lock("k") as grant:
                waiting = asyncio.ensure_future(locks.lock("k").__aenter__())
                while not stand_in.waiters("k"):
                    await asyncio.sleep(0.01)
            second = await waiting
            assert second.token > grant.token
            await second.release()
            with pytest.raises(LockLost):
                async with locks.lock("k"):
                    stand_in.lose("k")
                    await asyncio.sleep(60)  # the loss ends it

    asyncio.run(work())
