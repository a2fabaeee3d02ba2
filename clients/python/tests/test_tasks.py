"""Locks of asyncio tasks. What the two clients share is tested with threads."""

import asyncio
import functools
import os
import re
import subprocess
import sys
import time
from contextlib import AsyncExitStack

import pytest
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.sentinel import Sentinel

from redis_lock_client import LockBusy, LockLost
from redis_lock_client.asyncio import Locks
from servers import node_of

KEY = "lock:orders:42"
# A process that holds the lock and says so, and releases on SIGTERM.
PROCESS = """
import asyncio, signal, sys
sys.path.insert(0, sys.argv[1])
from redis.asyncio import Redis
from redis_lock_client.asyncio import Locks
async def main():
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)
    async with Locks(Redis(port=int(sys.argv[2])), "test") as locks:
        async with locks.lock("lock:orders:42", lease=float(sys.argv[3]), wait=60):
            print("held", flush=True)
            await asyncio.sleep(60)
asyncio.run(main())
"""


def run(test):
    """Runs a test that is a coroutine."""
    @functools.wraps(test)
    def in_a_loop(**fixtures):
        async def bounded():
            await asyncio.wait_for(test(**fixtures), 100)
        asyncio.run(bounded())

    return in_a_loop


async def until(holds, what, seconds=20):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"waited in vain for {what}"
        await asyncio.sleep(0.01)


class Other:
    """Another task, which takes the lock, and releases it when told."""

    def __init__(self, locks, lease=30, wait=60):
        self.grant, self.end = None, asyncio.Event()
        self.task = asyncio.create_task(self._run(locks, lease, wait))

    async def _run(self, locks, lease, wait):
        async with locks.lock(KEY, lease=lease, wait=wait) as self.grant:
            await self.end.wait()

    async def holds(self):
        await until(lambda: self.grant or self.task.done(), "another task to hold the lock")
        assert self.grant
        return self.grant

    async def ends(self):
        self.end.set()
        await self.task


async def waiters(server, number, seconds=20):
    await until(lambda: len(server.waiters(KEY)) == number, f"{number} to wait", seconds)


@run
async def test_the_wait_is_one_call_on_its_own_connection_and_outlasts_the_read_timeout(server):
    client = Redis(port=server.port, socket_timeout=0.3, max_connections=1)
    async with Locks(client, "test") as locks:
        async with locks.lock(KEY):
            other = Other(locks, wait=9)
            await waiters(server, 1)
            first = server.waiters(KEY)[0]
            assert 8000 < first["left-ms"] <= 9000
            assert await client.ping()
            await asyncio.sleep(2.5)  # longer than its read time-out, and that of other calls
            assert server.waiters(KEY)[0]["client-id"] == first["client-id"]
        await other.holds()
        assert server.calls("lock.acquire") == 3  # one attempt each, and one wait
        await other.ends()
    assert server.info(KEY) is None
    await client.aclose()


@run
async def test_a_cancelled_wait_leaves_the_line_at_once(server):
    async with Locks(Redis(port=server.port), "test") as locks:
        async with locks.lock(KEY):
            others = [Other(locks), Other(locks), Other(locks, wait=0.3)]
            await waiters(server, 3)
            others[0].task.cancel()
            await waiters(server, 2, seconds=1)
            with pytest.raises(asyncio.CancelledError):
                await others[0].task
            with pytest.raises(LockBusy):
                await others[2].task
            assert len(server.waiters(KEY)) == 1
        await others[1].holds()
        await others[1].ends()
    assert server.info(KEY) is None


@run
async def test_a_grant_that_crosses_the_cancel_is_released(server, proxy):
    async with Locks(Redis(port=server.port)) as locks, Locks(Redis(port=proxy.port)) as waiting:
        proxy.order("inject", fault="keep", words="BLOCK")
        async with locks.lock(KEY):
            other = Other(waiting)
            await waiters(server, 1)
        await until(lambda: server.info(KEY), "the grant")
        other.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await other.task
        assert server.info(KEY) is None


@run
async def test_the_lease_is_counted_from_the_sending_and_after_a_wait_from_a_renewal(server, proxy):
    async with Locks(Redis(port=proxy.port)) as slow, Locks(Redis(port=server.port)) as locks:
        await (await slow.lock("warm").acquire()).release()
        proxy.order("inject", fault={"delay": 500}, words="LOCK.ACQUIRE")
        async with slow.lock(KEY, lease=10) as grant:
            assert 9 < grant.remaining <= 9.5
            other = Other(locks, lease=3)
            await waiters(server, 1)
            await asyncio.sleep(1.5)
        renewals = server.calls("lock.renew")
        assert (await other.holds()).remaining > 2.5
        assert server.calls("lock.renew") == 1 >= renewals
        await other.ends()


@run
async def test_each_task_is_an_owner_and_nested_use_counts_and_ends_in_any_order(server):
    async with Locks(Redis(port=server.port), "test") as locks:
        for first, second in ((0, 1), (1, 0)):
            holds = [locks.lock(KEY, lease=5), locks.lock(KEY, lease=30)]
            outer, inner = [await hold.__aenter__() for hold in holds]
            assert outer.token == inner.token == server.info(KEY)["token"]
            assert re.fullmatch(rf"test:[^:]+:{os.getpid()}:[0-9a-f-]{{36}}", outer.owner)
            assert (server.info(KEY)["holds"], server.info(KEY)["lease-ms"]) == (2, 30000)
            with pytest.raises(LockBusy):  # a task started inside is another owner
                await Other(locks, wait=0).task
            await holds[first].__aexit__(None, None, None)
            assert server.info(KEY)["holds"] == 1 and (outer, inner)[second].token
            await holds[second].__aexit__(None, None, None)
            assert server.info(KEY) is None


@run
async def test_calls_whose_replies_are_lost_do_not_add_up(server, proxy):
    async with Locks(Redis(port=proxy.port), "test") as locks:
        def holds_are(number, word):
            assert proxy.order("lost")["pending"] == 0, word
            info = server.info(KEY)
            assert (info["holds"] if info else 0) == number

        outer, inner = locks.lock(KEY, lease=2), locks.lock(KEY, lease=2)
        proxy.order("inject", fault="cut", words="LOCK.ACQUIRE")
        grant = await outer.__aenter__()
        holds_are(1, "LOCK.ACQUIRE")
        proxy.order("inject", fault="cut", words="LOCK.ACQUIRE")
        await inner.__aenter__()
        holds_are(2, "LOCK.ACQUIRE")
        proxy.order("inject", fault="cut", words="LOCK.RENEW")
        server.redis.client_kill_filter(_type="normal", skipme=True)
        await until(lambda: proxy.order("lost")["pending"] == 0, "a renewal without an answer")
        holds_are(2, "LOCK.RENEW")
        await grant.check()
        proxy.order("inject", fault="cut", words="LOCK.RELEASE")
        await inner.__aexit__(None, None, None)
        holds_are(1, "LOCK.RELEASE")
        proxy.order("inject", fault="cut", words="LOCK.RELEASE")
        await outer.__aexit__(None, None, None)  # without LockLost
        holds_are(0, "LOCK.RELEASE")

        async with Locks(Redis(port=server.port)).lock(KEY):
            proxy.order("inject", fault="cut", words="BLOCK")
            other = Other(locks)
            await waiters(server, 1)
        assert (await other.holds()).holds == server.info(KEY)["holds"] == 1
        await other.ends()
    assert server.info(KEY) is None


@run
async def test_the_server_renews_and_the_client_sends_pings_alone(server):
    async with Locks(Redis(port=server.port)) as locks, AsyncExitStack() as all_locks:
        for number in range(20):
            await all_locks.enter_async_context(locks.lock(f"many:{number}", lease=1.5))
        pings = server.calls("ping")
        await asyncio.sleep(3)
        assert server.calls("lock.renew") == 0
        assert 4 <= server.calls("ping") - pings <= 8  # every 0.5 s
        assert len(asyncio.all_tasks()) <= 2 + 3  # this test; the keeper, its reader, the clock


@pytest.mark.parametrize("answer", ["NOTHELD", "NOTOWNER", "FENCED", "WRONGTYPE"])
@run
async def test_a_loss_stops_the_work_at_once(server, answer):
    async with Locks(Redis(port=server.port)) as locks:
        began, stopped = time.monotonic(), None
        with pytest.raises(LockLost, match=answer):
            async with locks.lock("outer"), locks.lock(KEY), locks.lock(KEY) as grant:
                transaction = server.redis.pipeline()
                transaction.delete(KEY)
                if answer == "WRONGTYPE":
                    transaction.set(KEY, "text")
                elif answer != "NOTHELD":
                    owner = grant.owner if answer == "FENCED" else "other"
                    transaction.execute_command("LOCK.ACQUIRE", KEY, owner)
                transaction.execute()
                try:
                    await asyncio.sleep(60)
                finally:
                    stopped = time.monotonic() - began
                    with pytest.raises(LockLost):
                        grant.token
        assert stopped < 2
        if hasattr(asyncio.Task, "cancelling"):
            assert asyncio.current_task().cancelling() == 0
        assert server.redis.exists(KEY) == (answer != "NOTHELD")
        assert server.info("outer") is None


@run
async def test_silence_past_the_lease_stops_the_work_at_its_end(server, proxy):
    locks = Locks(Redis(port=proxy.port))
    began = time.monotonic()
    with pytest.raises(LockLost):
        async with locks.lock(KEY, lease=1) as grant:
            proxy.order("silence")
            await asyncio.sleep(60)
    assert grant.lost and 0.9 < time.monotonic() - began < 2.5


@run
async def test_a_cancel_from_outside_is_not_taken_for_a_loss(server):
    async with Locks(Redis(port=server.port)) as locks:
        other = Other(locks)
        await other.holds()
        other.grant.on_lost(other.task.cancel)  # at the very time
        server.redis.delete(KEY)
        both = () if hasattr(asyncio.Task, "uncancel") else (LockLost,)  # before 3.11 they cannot be told apart
        with pytest.raises((asyncio.CancelledError, *both)):
            await other.task
        # Lost where the work has ended by itself: told all the same, and no cancellation stays.
        other = Other(locks)
        await other.holds()
        other.grant.on_lost(other.end.set)
        server.redis.delete(KEY)
        with pytest.raises(LockLost):
            await other.task


@pytest.fixture
def process(server):
    processes = []

    def start(lease):
        folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src")
        words = [sys.executable, "-c", PROCESS, folder, str(server.port), str(lease)]
        processes.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        return processes[-1]

    yield start
    for it in processes:
        it.kill()
        it.communicate()


def test_sigterm_releases_and_cancels(server, process):
    holder = process(30)
    assert holder.stdout.readline() == "held\n"
    waiter = process(30)
    server.wait_for_waiters(KEY, 1)
    waiter.terminate()
    server.wait_for_waiters(KEY, 0, seconds=2)
    holder.terminate()
    assert holder.wait(10) != 0 != waiter.wait(10)
    assert server.info(KEY) is None


def test_after_a_kill_the_lease_ends_and_the_next_waiter_goes_on(server, process):
    holder = process(1.5)
    assert holder.stdout.readline() == "held\n"
    waiter = process(30)
    server.wait_for_waiters(KEY, 1)
    time.sleep(2)  # longer than the lease: it is renewed
    assert str(holder.pid) in server.info(KEY)["owner"]
    holder.kill()
    killed = time.monotonic()
    assert waiter.stdout.readline() == "held\n"
    assert time.monotonic() - killed < 3


@run
async def test_through_a_failover_the_grant_is_renewed_and_the_wait_goes_on(sentinels):
    # Inline: nothing else has the client.
    async with Locks(Sentinel([("127.0.0.1", sentinels.sentinel.port)]).master_for("lock")) as locks:
        holder = Other(locks)
        token = (await holder.holds()).token
        waiter = Other(locks)
        await until(lambda: sentinels.primary.waiters(KEY), "a waiter")
        await until(lambda: sentinels.replica.info(KEY), "the grant to get to the replica")
        sentinels.primary.order("kill")
        await until(lambda: sentinels.replica.waiters(KEY), "the waiter", 60)
        await until(lambda: sentinels.replica.calls("lock.renew"), "a renewal there")
        assert holder.grant.token == token
        await holder.ends()
        assert (await waiter.holds()).token > token
        await waiter.ends()
    assert sentinels.replica.info(KEY) is None


@run
async def test_in_a_cluster_each_call_goes_to_the_node_of_its_key(cluster):
    client = RedisCluster(host="127.0.0.1", port=cluster[0].port)
    async with Locks(client) as locks:
        for number in range(12):
            key = f"lock:orders:{number}"
            async with locks.lock(key), locks.lock(key):
                assert node_of(cluster, key).info(key)["holds"] == 2
            assert node_of(cluster, key).info(key) is None
        holder = Other(locks)
        await holder.holds()
        waiter = Other(locks)
        await waiters(node_of(cluster, KEY), 1)
        await holder.ends()
        await waiter.holds()
        await waiter.ends()
    await client.aclose()
    for node in cluster:
        assert "errorstat_MOVED" not in node.redis.info("errorstats")
