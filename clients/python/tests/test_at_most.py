"""Locks that are kept at most so long, and fixed leases: what is known of their end when an answer is lost."""

import asyncio
import threading
import time

import pytest
import redis
from redis.asyncio import Redis

from both import OfTasks, OfThreads
from redis_lock_client import LockLost, LockRefused, Locks, LockUnavailable
from redis_lock_client import asyncio as tasks
from servers import eventually
from test_tasks import run

KEY = "lock:orders:42"


@pytest.mark.parametrize("kind", [OfThreads, OfTasks])
def test_the_last_lease_does_not_begin_in_silence(server, proxy, kind):
    client = kind(proxy.port, reply=8)  # so that silence does not close the keeper
    grant = client.acquire(KEY, lease=2.0, keep=1.0, at_most=3.5)
    begun = time.monotonic()
    proxy.order("swallow")
    eventually(lambda: grant.lost, "the loss")
    assert time.monotonic() - begun < 3  # a lease from the last sign of life
    proxy.order("speak")
    client.end()


@run
async def test_one_that_was_to_go_on_and_was_cancelled_is_released(server, proxy):
    async with Redis(port=proxy.port) as client, tasks.Locks(client) as locks:
        grant = await locks.lock(KEY, lease=1.5, at_most=2.0).acquire()
        while not grant._held.is_let_go:
            await asyncio.sleep(0.01)
        proxy.order("inject", fault={"delay": 300}, words="LOCK.RENEW KEEP")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(grant.extend(10), 0.1)
        while not grant.lost:
            await asyncio.sleep(0.01)
        end = time.monotonic() + 1
        while server.info(KEY):
            assert time.monotonic() < end, "the server keeps it, for nobody"
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("kind", [OfThreads, OfTasks])
def test_a_shorter_lease_that_was_not_answered_may_have_begun(server, proxy, kind):
    client = kind(proxy.port)
    grant = client.acquire(KEY, lease=30.0, fixed=True)
    for length in (8, 1.5):
        proxy.order("inject", fault="silence", words="LOCK.RENEW")
        with pytest.raises(LockUnavailable):
            client.extend(grant, length)
        assert grant.remaining <= length
        proxy.order("speak")
        if length > 5:
            client.extend(grant, 20)
            assert grant.remaining > 15
    eventually(lambda: server.info(KEY) is None, "its end", 5)
    assert grant.remaining == 0
    eventually(lambda: grant.lost, "its loss")
    with pytest.raises(LockLost):
        client.release(grant)
    client.end()


@pytest.mark.parametrize("kind", [OfThreads, OfTasks])
def test_a_shorter_lease_counts_from_its_sending(server, proxy, kind):
    client = kind(proxy.port)
    grant = client.acquire(KEY, lease=30.0, fixed=True, owner="user-7")
    for length, call in ((5, lambda: client.extend(grant, 5)),
                         (2, lambda: client.acquire(KEY, lease=2.0, fixed=True, owner="user-7"))):
        proxy.order("inject", fault="silence", words="LOCK")
        failed = threading.Thread(target=lambda call=call: pytest.raises(LockUnavailable, call))
        failed.start()
        eventually(lambda length=length: grant.remaining <= length, "the shorter lease to be reckoned with", 0.5)
        failed.join()
        assert grant.remaining <= length
        proxy.order("speak")
    client.end()


@pytest.mark.parametrize("kind", [OfThreads, OfTasks])
def test_a_shorter_lease_that_was_refused_has_not_begun(server, kind):
    client = kind(server.port)
    grant = client.acquire(KEY, lease=30.0, fixed=True, owner="user-7")
    server.redis.execute_command("ACL", "SETUSER", "default", "-lock.acquire")
    with pytest.raises(LockRefused):
        client.acquire(KEY, lease=2.0, fixed=True, owner="user-7")
    assert 25 < grant.remaining <= server.redis.pttl(KEY) / 1000 + 0.1
    client.end()


def test_answers_out_of_order_do_not_lengthen_it(server):
    with Locks(redis.Redis(port=server.port)) as locks:
        held = locks.lock(KEY, lease=30.0, fixed=True).acquire()._held
        begun = time.monotonic()
        for sent, lease, known in ((2, 5, 5), (1, 60, 5), (2, 60, 5), (3, 10, 10)):
            held.proven(begun + sent / 1000, 1, [held.token, 1, 0, lease * 1000])
            assert held.lease == known
