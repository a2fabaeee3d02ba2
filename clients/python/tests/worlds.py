"""Threads and asyncio under one face, so that a test is written once: asyncio runs in a thread of its own."""

import asyncio
import inspect
import threading

import redis
import redis.asyncio
import redis_lock_client
import redis_lock_client.asyncio


class Threads:
    name = "threads"
    redis = redis

    def client(self, port, **settings):
        return redis.Redis(port=port, **settings)

    def locks(self, client, **words):
        return redis_lock_client.Locks(client, **words)

    def run(self, awaitable):
        return awaitable

    def end(self):
        pass


class Face:
    """Waits for what the methods of an object of asyncio return."""

    def __init__(self, world, of):
        self._world, self._of = world, of

    def __getattr__(self, name):
        value = self._world.run(lambda: getattr(self._of, name))
        if not inspect.ismethod(value):
            return value

        def call(*args, **words):
            result = self._world.run(lambda: value(*args, **words))
            return Face(self._world, result) if hasattr(result, "release") else result

        return call

    def __iter__(self):
        return iter([Face(self._world, it) for it in self._of])

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self._world.run(lambda: self._of.__aexit__(kind, error, trace))


class Tasks:
    name = "asyncio"
    redis = redis.asyncio

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def run(self, make):
        async def work():
            result = make()
            return await result if inspect.isawaitable(result) else result

        return asyncio.run_coroutine_threadsafe(work(), self.loop).result(60)

    def client(self, port, **settings):
        return redis.asyncio.Redis(port=port, **settings)

    def locks(self, client, **words):
        return Face(self, redis_lock_client.asyncio.Locks(client, **words))

    def end(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
