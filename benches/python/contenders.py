"""Contenders for locks on one server, through redis-py, as benches/src/contenders/mod.rs describes them."""

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

PORT, NAME, KEY, CONTENDERS, LOCKS, HELD_MS, LEASE_MS = [
    int(word) if word.isdecimal() else word for word in sys.argv[1:]
]
HELD = HELD_MS / 1000
FAILURES = (redis.RedisError, RuntimeError, LockError)


# Each way gives a function from a lock's name to a contender's view of that lock, which gives a context for each hold.


def client(locks, redis_of):
    """This project's client, as docs/clients.md shows it."""
    all_locks = locks(redis_of(port=PORT), name="contenders", lease=LEASE_MS / 1000)
    return lambda key: lambda: all_locks.lock(key)


def commands(redis_of):
    """LOCK.ACQUIRE and LOCK.RELEASE and nothing else, on connections that are kept."""
    connected = connect(redis_of)
    return lambda key: always(Held(connected.execute_command, key))


def lock():
    """redis-py's Lock with its defaults: while the lock is taken it asks again every 0.1 s."""
    connected = connect(redis.Redis)
    return lambda key: always(connected.lock(key, timeout=LEASE_MS / 1000))


def always(held):
    return lambda: held


def connect(redis_of):
    """A call that waits in the server has its connection to itself: one for each contender."""
    return redis_of(port=PORT, max_connections=CONTENDERS + 1, socket_timeout=None)


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
    "client": lambda: client(Locks, redis.Redis),
    "commands": lambda: commands(redis.Redis),
    "lock": lock,
    "aclient": lambda: client(redis_lock_client.asyncio.Locks, redis.asyncio.Redis),
    "acommands": lambda: commands(redis.asyncio.Redis),
}


class Turn:
    """The times of the contenders until their turn is over."""

    def __init__(self):
        self.over = False
        self.errors = []
        # Of each contender, grant by grant: when it asked, had the grant, and sent the release.
        self.times = [[] for _ in range(CONTENDERS)]

    def begin(self):
        self.began = time.perf_counter_ns()

    def now(self):
        return time.perf_counter_ns() - self.began

    def end(self):
        self.over, self.seconds = True, self.now() / 1e9

    def run(self, handles, seconds):
        """With threads; the turn begins when all have started."""
        ready = threading.Barrier(len(handles) + 1, action=self.begin)

        def contend(handle, times):
            ready.wait()
            while not self.over:
                asked = self.now()
                try:
                    with handle():
                        granted = self.now()
                        if HELD:
                            time.sleep(HELD)
                        times.extend((asked, granted, self.now()))
                except FAILURES as error:
                    self.errors.append(repr(error))
                if HELD:
                    time.sleep(HELD)

        contenders = zip(handles, self.times, strict=True)
        threads = [threading.Thread(target=contend, args=both) for both in contenders]
        for thread in threads:
            thread.start()
        ready.wait()
        time.sleep(seconds)
        self.end()
        for thread in threads:
            thread.join()

    async def run_tasks(self, handles, seconds):
        """With tasks of one event loop."""
        self.begin()

        async def contend(handle, times):
            while not self.over:
                asked = self.now()
                try:
                    async with handle():
                        granted = self.now()
                        if HELD:
                            await asyncio.sleep(HELD)
                        times.extend((asked, granted, self.now()))
                except FAILURES as error:
                    self.errors.append(repr(error))
                if HELD:
                    await asyncio.sleep(HELD)

        contenders = zip(handles, self.times, strict=True)
        tasks = [asyncio.ensure_future(contend(*both)) for both in contenders]
        await asyncio.sleep(seconds)
        self.end()
        await asyncio.gather(*tasks)

    def outcome(self):
        if self.errors:
            print(self.errors[0], file=sys.stderr)
        errors = len(self.errors)
        return {"began": self.began, "seconds": self.seconds, "errors": errors, "times": self.times}


def main():
    loop = asyncio.new_event_loop()
    handle = WAYS[NAME]()
    handles = [handle(f"{KEY}:{number % LOCKS}") for number in range(CONTENDERS)]
    print("ready", flush=True)
    for line in sys.stdin:
        turn = Turn()
        if NAME.startswith("a"):
            loop.run_until_complete(turn.run_tasks(handles, float(line)))
        else:
            turn.run(handles, float(line))
        print(json.dumps(turn.outcome()), flush=True)


if __name__ == "__main__":
    main()
