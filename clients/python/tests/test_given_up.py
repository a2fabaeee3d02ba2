"""What was given up does not stay with the server; a loss is told at once, however many there were."""

import asyncio
import time

import pytest
import redis
from redis.asyncio import Redis

from redis_lock_client import LockMisuse, Locks
from redis_lock_client import asyncio as tasks
from redis_lock_client.alone import alone
from servers import eventually
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
