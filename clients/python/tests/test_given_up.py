"""What was given up does not stay with the server; a loss is told at once, however many there were."""

import asyncio
import subprocess
import sys
import threading
import time

import pytest
import redis
from redis.asyncio import Redis

from both import OfTasks, OfThreads
from redis_lock_client import LockMisuse, LockRefused, Locks, LockUnavailable
from redis_lock_client import asyncio as tasks
from redis_lock_client.alone import alone
from servers import eventually
from test_processes import FOLDER
from test_tasks import run


@run
async def test_an_adoption_that_was_cancelled_keeps_nothing(server, proxy):
    token = server.redis.execute_command("LOCK.ACQUIRE", "k", "other", "EX", 60)[0]
    async with Redis(port=proxy.port) as client, tasks.Locks(client) as locks:
        async with locks.lock("warm"):
            pass
        proxy.order("inject", fault={"delay": 400}, words="LOCK.RENEW")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(locks.adopt("k", "other", token), 0.1)
        while server.calls("lock.renew") < 2:
            await asyncio.sleep(0.01)
        [holder] = server.redis.execute_command("LOCK.HOLDERS", "k")
        assert (holder["owner"], holder["kept-by"]) == ("other", 0)


@pytest.mark.parametrize("options", [{}, {"owner": "user-7"}])
@run
async def test_what_may_not_be_released_is_kept_for_nobody(server, proxy, options):
    server.redis.execute_command("ACL", "SETUSER", "default", "-lock.release")
    async with Redis(port=proxy.port) as client, tasks.Locks(client) as locks:
        other = await locks.lock("other").acquire()
        proxy.order("inject", fault={"delay": 300}, words="LOCK.ACQUIRE")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(locks.lock("k", lease=1.0, **options).acquire(), 0.1)
        while not server.info("k"):
            await asyncio.sleep(0.01)
        end = time.monotonic() + 5
        while server.info("k"):
            assert time.monotonic() < end, "the server keeps it, for nobody"
            await asyncio.sleep(0.01)
        await other.check()


@pytest.mark.parametrize("kind", [OfThreads, OfTasks])
def test_a_wait_that_is_refused_leaves_nothing_of_a_call_that_was_not_answered(server, proxy, kind):
    client = kind(proxy.port)
    proxy.order("inject", fault="silence", words="LOCK.ACQUIRE")
    told = []
    failed = threading.Thread(target=lambda: told.append(pytest.raises(LockRefused, client.acquire, "k", wait=10)))
    failed.start()
    eventually(lambda: server.info("k") and client.locks._engine.waiting, "the wait behind a grant that is not told")
    server.redis.config_set("maxmemory", 1)
    proxy.order("speak")
    failed.join()
    assert told
    eventually(lambda: server.info("k") is None, "it to be given back", 5)
    client.end()


@pytest.mark.parametrize("kind", [OfThreads, OfTasks])
def test_the_last_try_before_a_limit_has_time_for_its_answer(server, kind):
    client = kind(server.port)
    client.release(client.acquire("warm"))
    for _ in range(3):
        server.redis.config_set("min-replicas-to-write", 1)
        back = threading.Timer(0.8, lambda: server.redis.config_set("min-replicas-to-write", 0))
        back.start()
        client.release(client.acquire("k"))
        back.join()
    client.end()


def test_what_works_later_is_refused_by_alone():
    async def coroutine():
        pass

    def generator():
        yield

    for function in (coroutine, generator):
        with pytest.raises(LockMisuse):
            alone(lambda: None, "k")(function)


def test_losses_in_quick_succession_are_told_at_once(server):
    with redis.Redis(port=server.port) as client, Locks(client) as locks:
        for number in range(20):
            grant = locks.lock(f"k{number}").acquire()
            server.redis.delete(f"k{number}")
            begun = time.monotonic()
            eventually(lambda grant=grant: not grant.held, "the loss", 5)
            assert time.monotonic() - begun < 0.5, number


@pytest.mark.parametrize("kind", [OfThreads, OfTasks])
def test_a_deletion_without_an_answer_is_not_sent_again(server, proxy, kind):
    client = kind(proxy.port)
    server.redis.execute_command("LOCK.ACQUIRE", "k", "stuck", "EX", 60)
    proxy.order("inject", fault="reset", words="DEL")
    client.call(client.locks.holders("k"))
    with pytest.raises(LockUnavailable):
        client.call(client.locks.force_unlock("k"))
    assert server.calls("del") == 1  # a second one would be of whoever has the lock by then
    client.end()


@pytest.mark.parametrize("kind", [OfThreads, OfTasks])
def test_a_replica_deletes_nothing_and_is_left(server, kind):
    client = kind(server.port)
    client.call(client.locks.holders("k"))
    [idle] = [it["id"] for it in server.redis.client_list() if it["name"] == "lock-wait"]
    server.redis.execute_command("LOCK.ACQUIRE", "k", "stuck", "EX", 60)
    server.redis.replicaof("localhost", 1)
    primary = threading.Timer(0.3, lambda: server.redis.replicaof("NO", "ONE"))
    primary.start()
    assert client.call(client.locks.force_unlock("k"))
    primary.join()
    assert idle not in [it["id"] for it in server.redis.client_list()]
    client.end()


@pytest.mark.parametrize("kind", [OfThreads, OfTasks])
def test_who_has_released_its_hold_is_not_told_of_the_loss_of_others(server, kind):
    client, told = kind(server.port), []
    first = client.acquire("k", owner="user-7")
    first.on_lost(lambda: told.append("first"))
    for _ in range(3):
        second = client.acquire("k", owner="user-7")
        second.on_lost(lambda: told.append("second"))
        client.release(second)
    assert len(first._held.listeners) == 1
    server.redis.delete("k")
    eventually(lambda: told == ["first"], "the loss")
    client.end()
    assert told == ["first"]


OUT_OF_FILES = """
import os, redis, resource, sys
sys.path.insert(0, sys.argv[1])
from redis_lock_client import Locks, LockUnavailable
locks = Locks(redis.Redis(port=int(sys.argv[2])))
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
files = []
try:
    while True:
        files.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
for options in ({}, {"owner": "user-7"}, {"wait": 0.1}):
    try:
        locks.lock("lock:orders:42", **options).acquire()
    except LockUnavailable as error:
        assert "Too many open files" in str(error), error
for file in files:
    os.close(file)
locks.lock("another").acquire().check()
locks.lock("lock:orders:42").acquire().release()
"""


def test_without_a_file_that_can_be_opened_nothing_is_taken_and_nothing_is_taken_later(server):
    subprocess.run([sys.executable, "-c", OUT_OF_FILES, FOLDER, str(server.port)], check=True, timeout=60)


def test_a_grant_is_not_held_when_its_loop_has_ended(server):
    async def take():
        grant = await tasks.Locks(Redis(port=server.port)).lock("k", lease=1.0).acquire()
        assert grant.held
        return grant

    grant = asyncio.run(take())
    assert not grant.held and not grant.remaining
    with pytest.raises(LockMisuse):
        _ = grant.token
