"""Cancellations, forks, ends of processes, stalls, and many locks."""

import asyncio
import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest
import redis
from redis.asyncio import Redis
from redis.asyncio import RedisCluster as AsyncCluster
from redis.cluster import RedisCluster

from redis_lock_client import LockBusy, LockLost, LockMisuse, Locks, LockUnavailable
from redis_lock_client import asyncio as tasks
from servers import LONG, eventually, node_of
from test_tasks import run

KEY = "lock:orders:42"
ROUNDS = 500 if LONG else 60
MANY = 10_000 if LONG else 1_000
FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src")


def connect(where, **settings):
    return redis.Redis(port=where.port, **settings)


def connections(server):
    """How many a client of this package has."""
    return sum(it["name"].startswith("lock-") for it in server.redis.client_list())


def test_threads_that_outlive_the_main_thread_keep_their_locks_and_are_told(server):
    program = """
import redis, sys, threading, time
sys.path.insert(0, sys.argv[1])
from redis_lock_client import LockLost, Locks
locks = Locks(redis.Redis(port=int(sys.argv[2])))
def hold():
    lost = threading.Event()
    try:
        with locks.lock("lock:orders:42", lease=1) as grant:
            grant.on_lost(lost.set)
            time.sleep(2.5)
            grant.check()
            with locks.lock("other", wait=1): print("kept", flush=True)
            print("told" if lost.wait(10) else "not told", flush=True)
    except LockLost:
        print("lost", flush=True)
threading.Thread(target=hold).start()
"""
    process = subprocess.Popen([sys.executable, "-c", program, FOLDER, str(server.port)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "kept\n"
    server.redis.delete(KEY)
    assert process.communicate(timeout=20)[0] == "told\nlost\n"


@run
async def test_cancellations_at_random_moments_are_told_and_leave_nothing_behind(server):
    async with tasks.Locks(Redis(port=server.port)) as locks:
        async def work():
            while True:
                async with locks.lock(KEY, wait=5):
                    await asyncio.sleep(0)

        for _ in range(ROUNDS):
            workers = [asyncio.create_task(work()) for _ in range(3)]
            await asyncio.sleep(random.uniform(0, 0.02))
            for worker in workers:
                worker.cancel()
            ends = await asyncio.gather(*workers, return_exceptions=True)
            assert all(isinstance(end, asyncio.CancelledError) for end in ends), ends
            assert (server.info(KEY), server.waiters(KEY)) == (None, []), "who is told of a cancellation holds nothing"


def test_a_forked_child_holds_nothing_and_takes_nothing_from_its_parent(server):
    waiter = Locks(connect(server))
    with Locks(connect(server)) as locks, locks.lock(KEY) as grant:
        waiting = threading.Thread(target=lambda: waiter.lock(KEY, wait=20).acquire().release())
        waiting.start()
        server.wait_for_waiters(KEY, 1)
        child = os.fork()
        if child == 0:
            try:
                with grant:
                    assert not grant.held
                    try:
                        grant.release()
                        os._exit(1)
                    except LockMisuse:
                        pass
                try:
                    locks.lock(KEY).acquire()
                    os._exit(2)
                except LockBusy:
                    pass
                with locks.lock("free"):
                    pass
                os._exit(0)
            except BaseException:
                os._exit(3)
        assert os.waitpid(child, 0)[1] == 0
        grant.check()
        assert len(server.waiters(KEY)) == 1
    waiting.join(10)
    assert not waiting.is_alive()
    waiter.close()


def test_a_forked_child_that_leaves_the_blocks_releases_nothing(server):
    class InTheChild(BaseException):
        pass

    child = None
    try:
        with Locks(connect(server)) as locks, locks.lock(KEY) as grant:
            child = os.fork()
            if child == 0:
                raise InTheChild
            assert os.waitpid(child, 0)[1] == 0
            grant.check()
            assert server.info(KEY)["holds"] == 1
    except InTheChild:
        os._exit(0)
    except BaseException:
        if child == 0:
            os._exit(1)
        raise
    assert server.calls("lock.release") == 1


TAKES = {
    "threads": """
import redis
from redis_lock_client import Locks
grant = Locks(redis.Redis(port=int(sys.argv[2]))).lock("lock:orders:42", lease=1).acquire()
live()
""",
    "asyncio": """
import asyncio
from redis.asyncio import Redis
from redis_lock_client.asyncio import Locks
async def main():
    locks = Locks(Redis(port=int(sys.argv[2])))
    grant = await locks.lock("lock:orders:42", lease=1).acquire()
    await locks.holders("lock:orders:42")
    live()
asyncio.run(main())
""",
}


@pytest.mark.parametrize("kind", TAKES)
def test_a_parent_that_dies_while_its_child_lives_frees_its_locks(server, kind):
    program = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
def live():
    if os.fork() == 0:
        time.sleep(30)
        os._exit(0)
    print("held", flush=True)
    time.sleep(30)
""" + TAKES[kind]
    process = subprocess.Popen([sys.executable, "-c", program, FOLDER, str(server.port)], stdout=subprocess.PIPE,
                               text=True, start_new_session=True)
    assert process.stdout.readline() == "held\n"
    process.kill()
    try:
        eventually(lambda: server.info(KEY) is None, "the lock to be free", 4)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_one_hung_node_of_a_cluster_holds_up_no_other(cluster):
    keys = [f"lock:{number}" for number in range(12)]
    hung = cluster[0]
    others = [key for key in keys if node_of(cluster, key) is not hung]
    free = next(key for key in map("free:{}".format, range(20)) if node_of(cluster, key) is not hung)
    with Locks(RedisCluster(host="127.0.0.1", port=cluster[1].port)) as locks:
        grants = {key: locks.lock(key, lease=1.5).acquire() for key in keys}
        hung.order("pause")
        until = time.monotonic() + 2.5
        while time.monotonic() < until:
            began = time.monotonic()
            for key in others:
                grants[key].check()
            locks.lock(free).acquire().release()
            assert time.monotonic() - began < 0.8
        assert all(grants[key].held for key in others)
        assert not any(grants[key].held for key in keys if key not in others)
        hung.order("resume")


@run
async def test_one_hung_node_of_a_cluster_holds_up_no_other_task(cluster):
    keys = [f"lock:{number}" for number in range(12)]
    hung = cluster[0]
    others = [key for key in keys if node_of(cluster, key) is not hung]
    async with tasks.Locks(AsyncCluster(host="127.0.0.1", port=cluster[1].port)) as locks:
        grants = {key: await locks.lock(key, lease=1.5).acquire() for key in keys}
        hung.order("pause")
        until = time.monotonic() + 2.5
        while time.monotonic() < until:
            began = time.monotonic()
            for key in others:
                await grants[key].check()
            assert time.monotonic() - began < 0.8
            await asyncio.sleep(0.05)
        assert all(grants[key].held for key in others)
        assert not any(grants[key].held for key in keys if key not in others)
        hung.order("resume")


def test_a_slot_that_moves_takes_its_locks_along(cluster):
    home = node_of(cluster, KEY)
    target = next(node for node in cluster if node is not home)
    with Locks(RedisCluster(host="127.0.0.1", port=cluster[0].port)) as locks:
        with locks.lock(KEY, lease=4) as grant:
            slot = home.redis.execute_command("CLUSTER", "KEYSLOT", KEY)
            ids = {node: node.redis.execute_command("CLUSTER", "MYID") for node in (home, target)}
            target.redis.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[home])
            home.redis.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
            home.redis.execute_command("MIGRATE", "127.0.0.1", target.port, KEY, 0, 5000)
            for node in cluster:
                node.redis.execute_command("CLUSTER", "SETSLOT", slot, "NODE", ids[target])
            eventually(lambda: target.kept_by(KEY), "it to be kept there")
            grant.check()
        assert target.info(KEY) is None


def test_while_its_slot_moves_the_answer_ask_passes(cluster):
    home = node_of(cluster, KEY)
    target = next(node for node in cluster if node is not home)
    other = "{" + KEY + "}new"

    def asked():
        return "errorstat_ASK" in home.redis.info("errorstats")

    with Locks(RedisCluster(host="127.0.0.1", port=cluster[0].port)) as locks, locks.lock(KEY, lease=30) as grant:
        slot = home.redis.execute_command("CLUSTER", "KEYSLOT", KEY)
        ids = {node: node.redis.execute_command("CLUSTER", "MYID") for node in (home, target)}
        target.redis.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[home])
        home.redis.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
        home.redis.execute_command("MIGRATE", "127.0.0.1", target.port, KEY, 0, 5000)
        eventually(asked, "a renewal that is sent on")
        with pytest.raises(LockUnavailable):
            grant.check()
        with pytest.raises(LockUnavailable):
            locks.lock(other).acquire()
        home.redis.config_resetstat()
        tokens = []
        waiting = threading.Thread(target=lambda: tokens.append(locks.lock(other, wait=30).acquire().token))
        waiting.start()
        eventually(asked, "a call that is sent on")
        for node in cluster:
            node.redis.execute_command("CLUSTER", "SETSLOT", slot, "NODE", ids[target])
        waiting.join(30)
        assert tokens == [target.info(other)["token"]]
        eventually(lambda: target.kept_by(KEY), "it to be kept there")
        grant.check()


@run
async def test_a_loop_that_stalls_loses_no_lock(server):
    async with tasks.Locks(Redis(port=server.port)) as locks:
        grants = await asyncio.gather(*(locks.lock(f"many:{n}", lease=2).acquire() for n in range(MANY)))
        time.sleep(3)
        await asyncio.sleep(0.5)
        assert all(grant.held for grant in grants)
        await grants[0].check()


@run
async def test_after_two_losses_at_once_a_task_goes_on(server):
    async with tasks.Locks(Redis(port=server.port)) as locks:
        with pytest.raises(LockLost):
            async with locks.lock("a"), locks.lock("b"):
                server.redis.delete("a", "b")
                await asyncio.sleep(30)
        if hasattr(asyncio.Task, "cancelling"):
            assert asyncio.current_task().cancelling() == 0
        async with locks.lock("a"), locks.lock("b") as grant:
            await grant.check()


def test_many_locks_and_waits_need_no_more_connections_or_threads(server):
    count = 40
    with Locks(connect(server)) as locks:
        def work():
            for _ in range(100 if LONG else 10):
                with locks.lock(KEY, wait=60):
                    pass

        def round_of_work():
            workers = [threading.Thread(target=work) for _ in range(count)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()

        round_of_work()
        opened, threads = server.redis.info("stats")["total_connections_received"], threading.active_count()
        round_of_work()
        assert server.redis.info("stats")["total_connections_received"] - opened <= 2
        assert threading.active_count() <= threads
        assert connections(server) <= 1 + count
        assert len(locks._engine.held) == 0 and len(locks._engine.looks._own._heap) < 1000


@run
async def test_500_tasks_on_10_locks_take_turns(server):
    inside = dict.fromkeys(range(10), 0)
    async with tasks.Locks(Redis(port=server.port)) as locks:
        async def work(number):
            async with locks.lock(f"k{number}", wait=60):
                inside[number] += 1
                assert inside[number] == 1
                await asyncio.sleep(0)
                inside[number] -= 1

        await asyncio.gather(*(work(number % 10) for number in range(500 if LONG else 200)))
    eventually(lambda: connections(server) == 0, "the connections to close")


def test_locks_that_are_closed_leave_no_connection_and_no_thread(server):
    threads = threading.active_count()
    for _ in range(20):
        with Locks(connect(server)) as locks, locks.lock(KEY):
            pass
    eventually(lambda: connections(server) == 0, "the connections to close")
    eventually(lambda: threading.active_count() <= threads, "the threads to end")


@pytest.fixture
def unix(start, tmp_path):
    path = str(tmp_path / "redis.sock")
    start("server", config={"unixsocket": path})
    return path


def test_over_a_unix_socket(unix):
    with Locks(redis.Redis(unix_socket_path=unix)) as locks, locks.lock(KEY) as grant:
        grant.check()

    async def with_tasks():
        async with tasks.Locks(Redis(unix_socket_path=unix)) as locks, locks.lock(KEY) as grant:
            await grant.check()

    asyncio.run(with_tasks())


def test_a_lock_without_a_reference_is_held_and_an_object_is_used_again(server):
    with Locks(connect(server)) as locks:
        locks.lock(KEY).__enter__()
        gc.collect()
        time.sleep(0.2)
        assert server.info(KEY)
        locks.force_unlock(KEY)
        lock = locks.lock("again")
        for _ in range(2):
            with lock, lock as grant:
                assert grant.holds == 2
        assert server.info("again") is None


def test_coroutines_that_use_the_client_of_threads_are_owners_of_their_own(server):
    async def several():
        async def one():
            with locks.lock(KEY):
                await asyncio.sleep(0.05)

        return await asyncio.gather(one(), one(), return_exceptions=True)

    with Locks(connect(server)) as locks:
        ends = asyncio.run(several())
    assert [type(end) for end in ends] == [type(None), LockBusy]
