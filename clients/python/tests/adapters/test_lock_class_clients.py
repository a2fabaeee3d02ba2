"""The lock classes beside what a lock does: their clients and connections, event loops, observers and processes."""

import asyncio
import importlib
import subprocess
import sys
import time

import pytest
import redis
import redis.asyncio
import valkey

from redis_lock_client import Observer, lock_class
from redis_lock_client.lock_class import KeptLock, Lock
from redis_lock_client.lock_class import asyncio as with_asyncio

KEY = "lock:orders:42"


def test_clients_with_the_same_settings_share_their_connections(server):
    for _ in range(20):
        with redis.Redis(port=server.port) as client, client.lock(KEY, lock_class=Lock):
            pass
    assert server.redis.info("lock")["lock_sessions"] == 1
    lock_class.close()


class Seen(Observer):
    def __init__(self):
        self.told = []

    def acquired(self, key, seconds, error):
        self.told.append(("acquired", key))

    def released(self, key, seconds, error):
        self.told.append(("released", key))


def test_a_class_with_an_observer_tells_it(server):
    class Observed(Lock):
        observer = Seen()

    class ObservedTwin(with_asyncio.KeptLock):
        observer = Seen()

    async def work():
        async with redis.asyncio.Redis(port=server.port) as client:
            async with client.lock(KEY, timeout=5, lock_class=ObservedTwin):
                pass
            async with client.lock("other", timeout=5, lock_class=with_asyncio.Lock):
                pass
        await with_asyncio.close()

    with redis.Redis(port=server.port) as client:
        for name, kind in (("other", Lock), (KEY, Observed)):
            with client.lock(name, timeout=5, lock_class=kind):
                pass
    lock_class.close()
    asyncio.run(work())
    for observer in (Observed.observer, ObservedTwin.observer):
        assert observer.told == [("acquired", KEY), ("released", KEY)]


def test_loops_that_end_leave_nothing(server):
    async def work():
        async with redis.asyncio.Redis(port=server.port) as client:
            async with client.lock(KEY, timeout=5, lock_class=with_asyncio.Lock):
                pass

    for _ in range(5):
        asyncio.run(work())
    assert len(with_asyncio._all) == 1


def test_of_valkey_py(server):
    client = valkey.Valkey(port=server.port)
    with client.lock(KEY, timeout=5, lock_class=Lock) as mine:
        assert mine.owned()
        server.redis.delete(KEY)
        with pytest.raises(valkey.exceptions.LockNotOwnedError):
            mine.extend(1)
        mine.acquire(blocking=False)
    lock_class.close()


def test_in_a_cluster_and_by_a_sentinel(cluster, sentinels):
    for client in (redis.RedisCluster(host="127.0.0.1", port=cluster[0].port),
                   redis.Sentinel([("127.0.0.1", sentinels.sentinel.port)]).master_for("lock")):
        with client.lock(KEY, timeout=5, lock_class=Lock) as mine:
            assert mine.owned()
        assert not mine.locked()
    lock_class.close()


HOLD = """
import sys, time, redis
from redis_lock_client.lock_class import KeptLock
client = redis.Redis(port=int(sys.argv[1]))
client.lock("lock:orders:42", timeout=3600, lock_class=KeptLock).acquire()
print("held", flush=True)
time.sleep(3600)
"""


def test_a_process_that_is_killed_frees_a_kept_lock_soon(server):
    path = str(importlib.import_module("redis_lock_client").__path__[0]).removesuffix("/redis_lock_client")
    with subprocess.Popen([sys.executable, "-c", HOLD, str(server.port)], stdout=subprocess.PIPE,
                          env={"PYTHONPATH": path}) as child:
        assert child.stdout.readline() == b"held\n"
        child.kill()
    begin = time.monotonic()
    client = redis.Redis(port=server.port)
    assert client.lock(KEY, timeout=5, lock_class=Lock).acquire(blocking_timeout=30)
    assert time.monotonic() - begin < 20
    lock_class.close()
