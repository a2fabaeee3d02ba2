"""The clients of threads and of asyncio, in one form, for tests that both have to pass."""

import asyncio
import threading

import redis
from redis.asyncio import Redis

from redis_lock_client import Locks
from redis_lock_client import asyncio as tasks


class OfThreads:
    """The client of threads, in the form that both have here."""

    def __init__(self, port, **options):
        self.locks = Locks(redis.Redis(port=port), "test", **options)
        self.call = lambda result: result

    def acquire(self, key, **options):
        return self.call(self.locks.lock(key, **options).acquire())

    def check(self, grant):
        self.call(grant.check())

    def extend(self, grant, seconds):
        self.call(grant.extend(seconds))

    def release(self, grant):
        self.call(grant.release())

    def adopt(self, *words, **options):
        return self.call(self.locks.adopt(*words, **options))

    def detach(self, grant):
        return self.call(grant.detach())

    def close(self):
        self.call(self.locks.close())

    def end(self):
        self.close()


class OfTasks(OfThreads):
    """The client of asyncio: each call is a task of a loop in another thread."""

    def __init__(self, port, **options):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.locks = tasks.Locks(Redis(port=port), "test", **options)
        self.call = lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)

    def end(self):
        self.close()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()
