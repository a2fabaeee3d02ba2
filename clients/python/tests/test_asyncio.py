"""What concerns asyncio alone."""

import asyncio
import time

import pytest
from redis.asyncio import Redis
from redis_lock_client import LockLost, LockMisuse
from redis_lock_client.asyncio import Locks
from servers import eventually

KEY = "lock:orders:42"


def run(server, work, **words):
    async def main():
        async with Redis(port=server.port) as client, Locks(client, name="test", **{"lease": 2.0, **words}) as locks:
            return await asyncio.wait_for(work(locks), 30)

    return asyncio.run(main())


def test_a_loss_stops_the_block(server):
    async def work(locks):
        began = time.monotonic()
        with pytest.raises(LockLost, match="deleted"):
            async with locks.lock(KEY):
                asyncio.get_running_loop().call_later(0.1, server.redis.delete, KEY)
                await asyncio.sleep(20)
        assert time.monotonic() - began < 5
        await asyncio.sleep(0)  # the task itself continues
        with pytest.raises(LockLost):
            async with locks.lock_all(["b", "a"]):
                server.redis.delete("a")
                await asyncio.sleep(20)
        assert server.info("b") is None
        with pytest.raises(LockLost):
            async with await locks.lock_all(["b", "a"]):
                server.redis.delete("a")
                await asyncio.sleep(20)
        assert server.info("b") is None

    run(server, work)


def test_a_loss_before_the_block(server):
    async def work(locks):
        grants = await locks.lock_all(["b", "a"])
        server.redis.delete("a")
        with pytest.raises(LockLost):
            await grants[0].check()
        with pytest.raises(LockLost):
            async with grants:
                pytest.fail("the block began")
        assert server.info("b") is None

    run(server, work)


def test_a_loss_that_the_block_finds_by_itself(server):
    async def work(locks):
        with pytest.raises(LockLost):
            async with locks.lock(KEY, lease=60) as grant:
                server.redis.delete(KEY)
                await grant.check()
        await asyncio.sleep(0.01)

    run(server, work)


def test_a_loss_in_a_block_that_does_not_wait(server):
    async def work(locks):
        with pytest.raises(LockLost):
            async with locks.lock(KEY):
                server.redis.delete(KEY)
                time.sleep(0.1)
        await asyncio.sleep(0.01)

    run(server, work)


def test_cancelling_at_any_moment_leaves_nothing_behind(server):
    async def work(locks):
        async def one():
            while True:
                async with locks.lock(KEY):
                    pass

        for number in range(200):
            tasks = [asyncio.ensure_future(one()) for _ in range(3)]
            await asyncio.sleep(0.001 + number * 0.00002)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            assert all(task.cancelled() for task in tasks), tasks
        async with locks.lock(KEY, wait=5):
            pass
        assert server.info(KEY) is None

    run(server, work)


def test_leading(server):
    async def work(locks):
        turns = []

        async def lead(grant):
            turns.append(grant.token)
            if len(turns) == 1:
                server.redis.delete(KEY)
            await asyncio.sleep(0.05 if len(turns) == 2 else 20)

        leading = asyncio.ensure_future(locks.lead(KEY, lead))
        while len(turns) < 3:
            await asyncio.sleep(0.01)
        leading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leading
        assert server.info(KEY) is None and turns == sorted(turns)

        async def fail(grant):
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await locks.lead(KEY, fail)

    run(server, work)


def test_one_object_in_one_loop_after_the_other(server):
    client = Redis(port=server.port)
    locks = Locks(client, lease=1.0)
    held = []

    async def work():
        async with locks.lock("a", wait=5):
            held.append(await locks.lock(KEY, wait=5))

    asyncio.run(work())
    eventually(lambda: server.info(KEY) is None, "the lock of the ended loop to be free")
    asyncio.run(work())
    assert not held[0].held

    async def other():
        async with locks.lock("b"):
            with pytest.raises(LockMisuse):
                await held[0].release()
            await asyncio.to_thread(lambda: pytest.raises(LockMisuse, asyncio.run, work()))

    if hasattr(asyncio, "to_thread"):
        asyncio.run(other())


def test_a_coroutine_is_told_of_a_loss(server):
    async def work(locks):
        told = asyncio.get_running_loop().create_future()

        async def tell(grant):
            told.set_result(grant.lost)

        await locks.lock(KEY, on_lost=tell)
        server.redis.delete(KEY)
        assert await told == "deleted"

    run(server, work)


def test_calls_of_contenders_go_together_with_the_next_poll(server):
    """A release, the next acquire and the next POLL are one piece for the server, which spares it most of their cost."""
    def reads():
        return server.redis.info("stats")["total_reads_processed"]

    async def work(locks):
        grants = 0

        async def contend():
            nonlocal grants
            for _ in range(50):
                async with locks.lock(KEY, wait=30):
                    grants += 1

        before = reads()
        await asyncio.gather(*(contend() for _ in range(8)))
        assert (reads() - before) / grants < 1.8  # each for itself: more than 2.5

    run(server, work)
