"""Contenders for locks on one server, through redis-py. Arguments: the server's port, and the way of
locking: client, commands, lock; and the first two with asyncio: aclient, acommands.

The line "open contenders locks" connects, makes the locks free and is answered "ready". Each line "run
seconds" then is a turn of the contest, answered by a line of JSON. So whoever drives several such programs
can let them take short turns, and can measure the server around each.
"""

import asyncio
import json
import sys
import threading
import time
import uuid
from contextlib import asynccontextmanager, contextmanager

import redis
import redis.asyncio
import redis_lock_client.asyncio
from redis_lock_client import LockError, Locks

LEASE_MS = 30_000


class Client:
    """This project's client, as docs/clients.md shows it."""

    def __init__(self, port, contenders):
        self.redis = redis.Redis(port=port)
        self.locks = Locks(self.redis, name="contenders", lease=LEASE_MS / 1000)

    def handle(self, key):
        return lambda: self.locks.lock(key)

    def close(self):
        self.locks.close()
        self.redis.close()


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


class AsyncClient:
    """This project's client for asyncio."""

    def __init__(self, port, contenders):
        self.redis = redis.asyncio.Redis(port=port)
        self.locks = redis_lock_client.asyncio.Locks(
            self.redis, name="contenders", lease=LEASE_MS / 1000
        )

    def handle(self, key):
        return lambda: self.locks.lock(key)

    async def close(self):
        await self.locks.close()
        await self.redis.aclose()


class AsyncCommands:
    """LOCK.ACQUIRE and LOCK.RELEASE and nothing else, in tasks that keep their connections."""

    def __init__(self, port, contenders):
        self.redis = redis.asyncio.Redis(
            port=port, max_connections=contenders + 1, socket_timeout=None
        )

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


WAYS = {
    "client": Client,
    "commands": Commands,
    "lock": Lock,
    "aclient": AsyncClient,
    "acommands": AsyncCommands,
}


def connect(port, contenders):
    """A call that waits in the server has its connection to itself: one for each contender."""
    pool = redis.ConnectionPool(
        host="127.0.0.1", port=port, max_connections=contenders + 1, socket_timeout=None
    )
    return redis.Redis.from_pool(pool)


class Contest:
    """Contenders that take a lock and give it back, over and over, until their turn is over."""

    def __init__(self, port, name, contenders, locks):
        self.way = WAYS[name](port, contenders)
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
        self.hand_offs = [[] for _ in range(contenders)]
        self.errors = []
        return contenders

    def close(self):
        self.way.close()

    def turn(self, seconds):
        contenders = self.begin()
        self.ready = threading.Barrier(contenders + 1)
        threads = [
            threading.Thread(target=self.contend, args=(number,)) for number in range(contenders)
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
            self.hand_offs[number].append(now - self.releases[lock])

    def outcome(self, seconds):
        if self.errors:
            print(self.errors[0], file=sys.stderr)
        return {
            "grants": self.grants,
            "late": sum(self.late),
            "seconds": seconds,
            "hand_offs_us": [round(time * 1e6, 1) for of in self.hand_offs for time in of],
            "errors": len(self.errors),
        }


class AsyncContest(Contest):
    """The same with tasks of one event loop."""

    def __init__(self, *arguments):
        self.loop = asyncio.new_event_loop()
        super().__init__(*arguments)

    def close(self):
        self.loop.run_until_complete(self.way.close())
        self.loop.close()

    def turn(self, seconds):
        return self.loop.run_until_complete(self.run(seconds))

    async def run(self, seconds):
        tasks = [asyncio.ensure_future(self.compete(it)) for it in range(self.begin())]
        began = time.perf_counter()
        await asyncio.sleep(seconds)
        self.over = True
        lasted = time.perf_counter() - began
        await asyncio.gather(*tasks)
        return self.outcome(lasted)

    async def compete(self, number):
        handle, lock = self.handles[number], number % len(self.keys)
        while not self.over:
            try:
                async with handle():
                    self.granted(number, lock, time.perf_counter())
                    self.releases[lock] = time.perf_counter()
            except (redis.RedisError, RuntimeError, LockError) as error:
                self.errors.append(repr(error))


def main():
    port, name = int(sys.argv[1]), sys.argv[2]
    contest = None
    for line in sys.stdin:
        task, *numbers = line.split()
        if task == "open":
            if contest:
                contest.close()
            kind = AsyncContest if name.startswith("a") else Contest
            contest = kind(port, name, *map(int, numbers))
            print("ready", flush=True)
        else:
            print(json.dumps(contest.turn(float(numbers[0]))), flush=True)


if __name__ == "__main__":
    main()
