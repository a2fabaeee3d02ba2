"""Contenders for locks on one server, through redis-py. Arguments: the server's port, and the way of
locking (client, commands, lock: threads; asyncio, asyncio-commands: tasks of one event loop).

The line "open contenders locks" connects, makes the locks free and is answered "ready". Each line "run
seconds" then is a turn of the contest, answered by a line of JSON. So whoever drives several such programs
can let them take short turns, and can measure the server around each.
"""

import asyncio
import json
import math
import sys
import threading
import time
import uuid
from contextlib import asynccontextmanager, contextmanager

import redis
import redis.asyncio
from redis_lock_client import LockError, Locks
from redis_lock_client import asyncio as tasks

LEASE_MS = 30_000


class Client:
    """This project's client, as docs/clients.md shows it."""

    def __init__(self, port, contenders):
        self.locks = Locks(redis.Redis(port=port), name="contenders", lease=LEASE_MS / 1000)

    def handle(self, key):
        return lambda: self.locks.lock(key)

    def close(self):
        self.locks.close()


class Commands:
    """LOCK.ACQUIRE and LOCK.RELEASE and nothing else, on connections that are kept."""

    def __init__(self, port, contenders):
        self.redis = connect(port, contenders)

    def handle(self, key):
        owner = str(uuid.uuid4())
        call = self.redis.execute_command

        @contextmanager
        def held():
            if call("LOCK.ACQUIRE", key, owner, "PX", LEASE_MS, "BLOCK", 0) is None:
                raise RuntimeError("no grant")
            yield
            call("LOCK.RELEASE", key, owner)

        return held

    def close(self):
        self.redis.close()


class Lock:
    """redis-py's Lock with its defaults: while the lock is taken it asks again every 0.1 s."""

    def __init__(self, port, contenders):
        self.redis = connect(port, contenders)

    def handle(self, key):
        lock = self.redis.lock(key, timeout=LEASE_MS / 1000)
        return lambda: lock

    def close(self):
        self.redis.close()


class Asyncio:
    """This project's client for asyncio."""

    def __init__(self, port, contenders):
        self.locks = tasks.Locks(redis.asyncio.Redis(port=port), name="contenders", lease=LEASE_MS / 1000)

    def handle(self, key):
        return lambda: self.locks.lock(key)

    async def close(self):
        await self.locks.close()


class AsyncioCommands:
    """The commands alone, for asyncio."""

    def __init__(self, port, contenders):
        pool = redis.asyncio.ConnectionPool(
            host="127.0.0.1", port=port, max_connections=contenders + 1, socket_timeout=None
        )
        self.redis = redis.asyncio.Redis.from_pool(pool)

    def handle(self, key):
        owner = str(uuid.uuid4())
        call = self.redis.execute_command

        @asynccontextmanager
        async def held():
            if await call("LOCK.ACQUIRE", key, owner, "PX", LEASE_MS, "BLOCK", 0) is None:
                raise RuntimeError("no grant")
            yield
            await call("LOCK.RELEASE", key, owner)

        return held

    async def close(self):
        await self.redis.aclose()


WAYS = {"client": Client, "commands": Commands, "lock": Lock}
OF_TASKS = {"asyncio": Asyncio, "asyncio-commands": AsyncioCommands}


def connect(port, contenders):
    """A call that waits in the server has its connection to itself: one for each contender."""
    pool = redis.ConnectionPool(
        host="127.0.0.1", port=port, max_connections=contenders + 1, socket_timeout=None
    )
    return redis.Redis.from_pool(pool)


class Contest:
    """Contenders that take a lock and give it back, over and over, until their turn is over."""

    ways = WAYS

    def __init__(self, port, name, contenders, locks):
        self.way = self.ways[name](port, contenders)
        self.keys = [f"contest:{name}:{number}" for number in range(locks)]
        with redis.Redis(port=port) as client:
            client.delete(*self.keys)
        self.handles = [self.way.handle(self.keys[number % locks]) for number in range(contenders)]

    def begin(self):
        contenders = len(self.handles)
        # When the last release of each lock was sent. Only the holder reads or sets it.
        self.releases = [None] * len(self.keys)
        self.over = False
        self.grants = [0] * contenders
        # Grants after the time was up: each contender that still waits gets one.
        self.late = [0] * contenders
        self.latencies = [[] for _ in range(contenders)]
        self.errors = []

    def turn(self, seconds):
        self.begin()
        self.ready = threading.Barrier(len(self.handles) + 1)
        threads = [
            threading.Thread(target=self.contend, args=(number,))
            for number in range(len(self.handles))
        ]
        for thread in threads:
            thread.start()
        self.ready.wait()
        began = time.perf_counter()
        time.sleep(seconds)
        self.over = True
        lasted = time.perf_counter() - began
        for thread in threads:
            thread.join()
        return self.outcome(lasted)

    def close(self):
        self.way.close()

    def contend(self, number):
        handle, lock = self.handles[number], number % len(self.keys)
        self.ready.wait()
        while not self.over:
            try:
                with handle():
                    self.granted(number, lock, time.perf_counter())
                    self.releases[lock] = time.perf_counter()
            except (redis.RedisError, RuntimeError, LockError) as error:
                self.errors.append(repr(error))

    def granted(self, number, lock, now):
        if self.over:
            self.late[number] += 1
            return
        self.grants[number] += 1
        if self.releases[lock] is not None:
            self.latencies[number].append(now - self.releases[lock])

    def outcome(self, seconds):
        if self.errors:
            print(self.errors[0], file=sys.stderr)
        latencies = sorted(latency for of in self.latencies for latency in of)
        return {
            "grants": self.grants,
            "late": sum(self.late),
            "seconds": seconds,
            "median_us": percentile(latencies, 0.5),
            "p99_us": percentile(latencies, 0.99),
            "worst_us": percentile(latencies, 1.0),
            "errors": len(self.errors),
        }


class ContestOfTasks(Contest):
    """The same, with tasks of one event loop."""

    ways = OF_TASKS

    def __init__(self, *arguments):
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        super().__init__(*arguments)

    def turn(self, seconds):
        return self.loop.run_until_complete(self.take_turns(seconds))

    async def take_turns(self, seconds):
        self.begin()
        began = time.perf_counter()
        contending = [asyncio.create_task(self.contend(number)) for number in range(len(self.handles))]
        await asyncio.sleep(seconds)
        self.over = True
        lasted = time.perf_counter() - began
        await asyncio.gather(*contending)
        return self.outcome(lasted)

    async def contend(self, number):
        handle, lock = self.handles[number], number % len(self.keys)
        while not self.over:
            try:
                async with handle():
                    self.granted(number, lock, time.perf_counter())
                    self.releases[lock] = time.perf_counter()
            except (redis.RedisError, RuntimeError, LockError) as error:
                self.errors.append(repr(error))

    def close(self):
        self.loop.run_until_complete(self.way.close())


def percentile(ordered, part):
    """In microseconds."""
    if not ordered:
        return 0.0
    return ordered[max(math.ceil(part * len(ordered)) - 1, 0)] * 1e6


def main():
    port, name = int(sys.argv[1]), sys.argv[2]
    contest = None
    for line in sys.stdin:
        task, *numbers = line.split()
        if task == "open":
            if contest:
                contest.close()
            kind = ContestOfTasks if name in OF_TASKS else Contest
            contest = kind(port, name, *map(int, numbers))
            print("ready", flush=True)
        else:
            print(json.dumps(contest.turn(float(numbers[0]))), flush=True)


if __name__ == "__main__":
    main()
