"""Leaders, several locks at once, blocks that end elsewhere: whose errors and whose grants count."""

import asyncio
import threading
import time
from contextlib import AsyncExitStack, ExitStack

import pytest
import redis
from redis.asyncio import Redis

from both import OfTasks, OfThreads
from redis_lock_client import LockBusy, LockLost, Locks, LockUnavailable
from redis_lock_client import asyncio as tasks
from servers import eventually
from test_tasks import run, until

KEY = "lock:orders:42"


@pytest.fixture
def locks(server):
    with Locks(redis.Redis(port=server.port), "test") as locks:
        yield locks


# Leaders.


@pytest.mark.parametrize("error", [LockLost("of another lock"), LockBusy("of another lock"), LockUnavailable("of another"),
                                   ValueError("of no lock")])
def test_an_error_of_the_work_ends_the_lead(server, locks, error):
    begun = []

    def work(grant):
        begun.append(1)
        if len(begun) < 3:
            raise error

    async def in_a_task():
        async def work_there(grant):
            work(grant)

        async with Redis(port=server.port) as client, tasks.Locks(client) as there:
            await there.lead(KEY, work_there)

    with pytest.raises(type(error), match="of"):
        locks.lead(KEY, work)
    begun.clear()
    with pytest.raises(type(error), match="of"):
        asyncio.run(in_a_task())
    assert begun == [1] and server.info(KEY) is None


@pytest.mark.parametrize("tells", ["check", "extend", "nothing"])
def test_the_loss_of_its_own_grant_begins_it_again(server, locks, tells):
    begun = []

    def lose():
        begun.append(1)
        if len(begun) == 1:
            server.redis.delete(KEY)
            return True
        return False

    def work(grant):
        if lose():
            if tells == "nothing":
                eventually(lambda: grant.lost, "the loss")
            elif tells == "extend":
                grant.extend(60)
            else:
                eventually(lambda: grant.lost, "the loss")
                grant.check()

    async def in_a_task():
        async def work_there(grant):
            if lose():
                if tells == "extend":
                    await grant.extend(60)
                await until(lambda: grant.lost, "the loss")
                if tells == "check":
                    await grant.check()
                await asyncio.sleep(10)

        async with Redis(port=server.port) as client, tasks.Locks(client) as there:
            await there.lead(KEY, work_there)

    locks.lead(KEY, work)
    assert len(begun) == 2
    begun.clear()
    asyncio.run(in_a_task())
    assert len(begun) == 2


def test_a_leader_that_is_to_stop_keeps_its_place_till_then_and_survives_a_restart(server, locks):
    server.redis.config_set("save", "")
    server.redis.execute_command("LOCK.ACQUIRE", KEY, "other", "EX", 60)
    stop, led, ends = threading.Event(), [], []

    def lead():
        locks.lead(KEY, lambda grant: led.append(stop.wait(20)), stop=stop)
        ends.append(time.monotonic())

    leading = threading.Thread(target=lead)
    leading.start()
    server.wait_for_waiters(KEY, 1)
    waits = server.calls("lock.acquire")
    time.sleep(2.5)
    assert server.calls("lock.acquire") == waits, "it stays in line"
    server.order("kill")
    time.sleep(2.5)
    server.order("restart")
    server.redis.execute_command("LOCK.ACQUIRE", KEY, "other", "EX", 60)
    eventually(lambda: server.info(KEY)["owner"] != "other" or server.waiters(KEY), "it to come back")
    asked = time.monotonic()
    stop.set()
    leading.join(10)
    assert ends and ends[0] - asked < 1
    eventually(lambda: server.waiters(KEY) == [], "its place to be free")


# Several at once.


def test_one_object_for_several_that_hold_them_one_after_the_other(server, locks):
    all_of_them = locks.all(["a", "b"], wait=20)
    lost, entered, left = threading.Event(), threading.Event(), threading.Event()
    ends = []

    def first():
        with pytest.raises(LockLost), all_of_them as grants:
            eventually(lambda: all(grant.lost for grant in grants), "the loss")
            lost.set()
            entered.wait(20)
        left.set()

    def second():
        lost.wait(20)
        with all_of_them as grants:
            entered.set()
            left.wait(20)
            for grant in grants:
                grant.check()
            ends.append(len(grants))

    threads = [threading.Thread(target=work) for work in (first, second)]
    for thread in threads:
        thread.start()
    eventually(lambda: server.info("b"), "the first to have them")
    server.redis.delete("a", "b")
    for thread in threads:
        thread.join(30)
    assert ends == [2]
    assert server.info("a") is None and server.info("b") is None


@run
async def test_one_object_for_several_tasks(server):
    async with Redis(port=server.port) as client, tasks.Locks(client) as locks:
        all_of_them, is_left, ends = locks.all(["a", "b"], wait=20), asyncio.Event(), []
        entered = asyncio.Event()

        async def first():
            try:
                async with all_of_them:
                    try:
                        await asyncio.sleep(20)
                    except asyncio.CancelledError:
                        await entered.wait()
                        raise
            except LockLost:
                is_left.set()

        async def second():
            async with all_of_them as grants:
                entered.set()
                await is_left.wait()
                for grant in grants:
                    await grant.check()
                ends.append(len(grants))

        one = asyncio.create_task(first())
        await until(lambda: server.info("b"), "the first to have them")
        server.redis.delete("a", "b")
        other = asyncio.create_task(second())
        await asyncio.wait_for(asyncio.gather(one, other), 20)
        assert ends == [2]
        assert server.info("a") is None and server.info("b") is None


# Blocks that end elsewhere.


def test_blocks_that_are_left_by_another_thread_give_everything_back(server, locks):
    permits, stacks = locks.permit(KEY, of=5), []

    def enter():
        stacks.append(ExitStack())
        stacks[-1].enter_context(permits)

    for _ in range(2):
        entering = threading.Thread(target=enter)
        entering.start()
        entering.join()
    assert len(locks.holders(KEY)) == 2
    for stack in stacks:
        stack.close()
    assert locks.holders(KEY) == []


@run
async def test_blocks_that_are_left_by_another_task_give_everything_back(server):
    async with Redis(port=server.port) as client, tasks.Locks(client) as locks:
        permits, stacks = locks.permit(KEY, of=5), []

        async def enter():
            stacks.append(AsyncExitStack())
            await stacks[-1].enter_async_context(permits)

        for _ in range(2):
            await asyncio.create_task(enter())
        assert len(await locks.holders(KEY)) == 2
        for stack in stacks:
            await stack.aclose()
        assert await locks.holders(KEY) == []


# Time.


def test_a_wait_takes_no_longer_than_its_time_and_a_reply(server, proxy):
    with Locks(redis.Redis(port=server.port)) as others, Locks(redis.Redis(port=proxy.port)) as locks:
        others.lock(KEY).acquire()
        locks.lock("warm").acquire().release()
        proxy.order("inject", fault={"delay": 800}, words="CLIENT SETNAME lock-wait")
        threading.Timer(0.9, proxy.order, ["silence"]).start()
        begun = time.monotonic()
        with pytest.raises((LockUnavailable, LockBusy)):
            locks.lock(KEY, wait=1.0).acquire()
        assert time.monotonic() - begun < 2.4
        proxy.order("speak")


@pytest.mark.parametrize("kind", [OfThreads, OfTasks])
def test_once_stands_in_line_where_readers_stay(server, kind):
    client = kind(server.port)
    server.redis.execute_command("LOCK.ACQUIRE", "k", "reader", "SHARED", "EX", 60)
    looks = []

    def look():
        looks.append(None)

    async def look_later():
        look()

    is_async = kind is OfTasks
    with pytest.raises(LockBusy):
        client.call(client.locks.once("k", look_later if is_async else look, None, wait=1))
    assert len(looks) <= 3
    client.end()


def test_several_are_released_in_the_time_of_one_release(server):
    with Locks(redis.Redis(port=server.port), close=0.1) as locks:
        begun = 0.0
        with pytest.raises(LockUnavailable), locks.all("abcd", lease=20):
            server.order("pause")
            begun = time.monotonic()
        assert time.monotonic() - begun < 3
        server.order("resume")
        eventually(lambda: not any(map(server.info, "abcd")), "all to be free", 5)


@run
async def test_several_are_released_in_the_time_of_one_release_by_tasks(server):
    async with Redis(port=server.port) as client, tasks.Locks(client, close=0.1) as locks:
        begun = 0.0
        with pytest.raises(LockUnavailable):
            async with locks.all("abcd", lease=20):
                server.order("pause")
                begun = time.monotonic()
        assert time.monotonic() - begun < 3
        server.order("resume")
        await until(lambda: not any(map(server.info, "abcd")), "all to be free", 5)


def test_no_work_begins_where_one_of_several_was_lost_while_the_others_came(server):
    server.redis.execute_command("LOCK.ACQUIRE", "b", "other", "PX", 60_000)
    with Locks(redis.Redis(port=server.port)) as locks:
        def lose():
            server.wait_for_waiters("b", 1)
            server.redis.delete("a")
            [held] = locks._engine.held
            eventually(lambda: held.state == "lost", "the loss")
            server.redis.delete("b")

        losing = threading.Thread(target=lose)
        losing.start()
        with pytest.raises(LockLost), locks.all("ab", wait=20):
            pytest.fail("work under a lock that is lost")
        losing.join()
    assert not server.info("b")
