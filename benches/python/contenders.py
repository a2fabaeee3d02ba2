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

import redis
import redis.asyncio
import redis_lock_client.asyncio
from redis_lock_client import LockError, Locks

LEASE_MS = 30_000
FAILURES = (redis.RedisError, RuntimeError, LockError)


# Each way gives a function from a lock's name to a contender's view of that lock, and the
# functions that close the connections.


def client(locks, redis_of, port, _):
    """This project's client, as docs/clients.md shows it."""
    connected = redis_of(port=port)
    all_locks = locks(connected, name="contenders", lease=LEASE_MS / 1000)

    def handle(key):
        return lambda: all_locks.lock(key)

    return handle, [all_locks.close, connected.close]


def commands(redis_of, port, contenders):
    """LOCK.ACQUIRE and LOCK.RELEASE and nothing else, on connections that are kept."""
    connected = connect(redis_of, port, contenders)

    def handle(key):
        held = Held(connected.execute_command, key)
        return lambda: held

    return handle, [connected.close]


def lock(port, contenders):
    """redis-py's Lock with its defaults: while the lock is taken it asks again every 0.1 s."""
    connected = connect(redis.Redis, port, contenders)

    def handle(key):
        held = connected.lock(key, timeout=LEASE_MS / 1000)
        return lambda: held

    return handle, [connected.close]


def connect(redis_of, port, contenders):
    """A call that waits in the server has its connection to itself: one for each contender."""
    return redis_of(port=port, max_connections=contenders + 1, socket_timeout=None)


class AsyncRedis(redis.asyncio.Redis):
    """Closes by the same name as the client for threads."""

    close = redis.asyncio.Redis.aclose


class Held:
    """A lock by the commands alone, for threads and for tasks."""

    def __init__(self, call, key):
        self.call, self.key, self.owner = call, key, str(uuid.uuid4())

    def acquire(self):
        return self.call("LOCK.ACQUIRE", self.key, self.owner, "PX", LEASE_MS, "BLOCK", 0)

    def release(self):
        return self.call("LOCK.RELEASE", self.key, self.owner)

    def __enter__(self):
        granted(self.acquire())

    def __exit__(self, *_):
        self.release()

    async def __aenter__(self):
        granted(await self.acquire())

    async def __aexit__(self, *_):
        await self.release()


def granted(grant):
    if grant is None:
        raise RuntimeError("no grant")


WAYS = {
    "client": lambda *of: client(Locks, redis.Redis, *of),
    "commands": lambda *of: commands(redis.Redis, *of),
    "lock": lock,
    "aclient": lambda *of: client(redis_lock_client.asyncio.Locks, AsyncRedis, *of),
    "acommands": lambda *of: commands(AsyncRedis, *of),
}


class Contest:
    """Contenders that take a lock and give it back, over and over, until their turn is over."""

    def __init__(self, port, name, contenders, locks):
        handle, self.closing = WAYS[name](port, contenders)
        keys = [f"contest:{name}:{number}" for number in range(locks)]
        with redis.Redis(port=port) as connected:
            connected.delete(*keys)
        self.handles = [handle(keys[number % locks]) for number in range(contenders)]

    def begin(self):
        self.over = False
        self.errors = []
        # Of each contender: when it asked, had the grant, and sent the release, over and over.
        self.times = [[] for _ in self.handles]
        self.began = time.perf_counter_ns()

    def now(self):
        return time.perf_counter_ns() - self.began

    def close(self):
        for close in self.closing:
            close()

    def turn(self, seconds):
        # The turn begins when all threads have started.
        ready = threading.Barrier(len(self.handles) + 1, action=self.begin)
        threads = [
            threading.Thread(target=self.contend, args=(number, ready))
            for number in range(len(self.handles))
        ]
        for thread in threads:
            thread.start()
        ready.wait()
        time.sleep(seconds)
        self.over, lasted = True, self.now()
        for thread in threads:
            thread.join()
        return self.outcome(lasted)

    def contend(self, number, ready):
        ready.wait()
        handle, times = self.handles[number], self.times[number]
        while not self.over:
            asked = self.now()
            try:
                with handle():
                    times.extend((asked, self.now(), self.now()))
            except FAILURES as error:
                self.errors.append(repr(error))

    def outcome(self, lasted):
        if self.errors:
            print(self.errors[0], file=sys.stderr)
        return {"seconds": lasted / 1e9, "errors": len(self.errors), "times": self.times}


class AsyncContest(Contest):
    """The same with tasks of one event loop."""

    def __init__(self, *arguments):
        self.loop = asyncio.new_event_loop()
        super().__init__(*arguments)

    def close(self):
        for close in self.closing:
            self.loop.run_until_complete(close())
        self.loop.close()

    def turn(self, seconds):
        return self.loop.run_until_complete(self.run(seconds))

    async def run(self, seconds):
        self.begin()
        tasks = [asyncio.ensure_future(self.compete(it)) for it in range(len(self.handles))]
        await asyncio.sleep(seconds)
        self.over, lasted = True, self.now()
        await asyncio.gather(*tasks)
        return self.outcome(lasted)

    async def compete(self, number):
        handle, times = self.handles[number], self.times[number]
        while not self.over:
            asked = self.now()
            try:
                async with handle():
                    times.extend((asked, self.now(), self.now()))
            except FAILURES as error:
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
