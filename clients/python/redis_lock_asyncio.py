"""Locks of redis-lock for asyncio tasks, on redis.asyncio. Copy this file and redis_lock.py.

    locks = Locks(redis.asyncio.Redis(), service="orders")        # one for the process
    async with locks.lock("lock:orders:42", lease=30, wait=10) as grant:
        ...  # claim with grant.token, read, write under the claim: see redis_lock.py

The client may be a Redis (from a Sentinel too) or a RedisCluster, of redis.asyncio.

It does what redis_lock.py does for threads, with these differences:

- A lock belongs to a task. A task started inside the `async with` is another owner.
- When the lock is lost, the body is stopped: its task is cancelled as by asyncio.timeout, and LockLost
  raised at the end of the `async with`.
- A task that is cancelled while it waits leaves the line at once.
- To release on SIGTERM, cancel the tasks, for example by
  `loop.add_signal_handler(signal.SIGTERM, main_task.cancel)`.
"""

import asyncio
import math
import time
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

from redis import exceptions
from redis.asyncio import ConnectionPool, Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis_lock import (CALL_TIMEOUT, LOST, NO_ANSWER, PATIENCE, PAUSE, Grant, LockBusy, LockLost,
                        Refused, first_word, is_passing, log, new_owner, settings_of_a_connection)


def settings(source, read_timeout):
    return {**settings_of_a_connection(source, read_timeout), "retry": Retry(NoBackoff(), 0)}


class TaskGrant(Grant):
    """A grant whose loss stops the task that has it."""

    def __init__(self, key, owner, reply, sent):
        super().__init__(key, owner, reply, sent, asyncio.Event())
        self.task = asyncio.current_task()
        self.cancels_before, self.stopped = self.task.cancelling(), False

    def lose(self, why):
        if not self.why_lost and self.holds and self.task is not asyncio.current_task():
            self.stopped = self.task.cancel()
        super().lose(why)

    def stop_is_over(self):
        """Takes the cancellation back. False when somebody else has cancelled the task, too."""
        self.stopped = False
        return self.task.uncancel() <= self.cancels_before


class Locks:
    """The locks of a process. `service` is the first part of each owner's name."""

    def __init__(self, client, service="app"):
        if not isinstance(client, RedisCluster):
            pool = client.connection_pool
            own = settings(pool, CALL_TIMEOUT)
            client = Redis(connection_pool=ConnectionPool(pool.connection_class, **own))
        self._client, self._service = client, service
        self._grants, self._waits, self._closed = {}, set(), False
        self._owners, self._tasks = WeakKeyDictionary(), set()
        self._changed, self._scheduler = asyncio.Event(), None

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()

    @asynccontextmanager
    async def lock(self, key, lease=30.0, wait=0.0):
        """Holds the lock. Waits in line for up to `wait` seconds, then raises LockBusy."""
        grant = await self._acquire(key, lease, wait)
        try:
            yield grant
        except asyncio.CancelledError:
            if not grant.stopped:
                await self._to_the_end(self._release(grant))
                raise
            if not grant.stop_is_over():
                raise
        except BaseException:
            await self._to_the_end(self._release(grant))
            raise
        if grant.stopped:  # the body has ended, but its task is to be cancelled still
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                if not grant.stop_is_over():
                    raise
        await self._to_the_end(self._release(grant))
        if grant.why_lost:
            raise LockLost(f"{key}: {grant.why_lost}")

    async def close(self):
        """Stops renewing, releases all locks, stops their tasks and cancels all waits."""
        self._closed = True
        self._changed.set()
        held, self._grants = self._grants, {}
        for grant in held.values():
            grant.lose("the locks were closed")
        await asyncio.gather(*(self._cancel(*it) for it in set(held) | self._waits))
        if not isinstance(self._client, RedisCluster):
            await self._client.aclose()

    async def _acquire(self, key, lease, wait):
        task, px = asyncio.current_task(), max(1, round(lease * 1000))
        owner = self._owners.setdefault(task, new_owner(self._service))
        grant = self._grants.get((key, owner))
        if grant:
            return await self._enter_again(grant, px)
        self._waits.add((key, owner))
        try:
            reply, sent = await self._first_hold(key, owner, px, time.monotonic() + wait)
            if self._closed:
                raise LockBusy(f"{key}: the locks are closed")
        except BaseException as error:
            if not isinstance(error, LockBusy) or self._closed:
                await self._to_the_end(self._cancel(key, owner))
            raise
        finally:
            self._waits.discard((key, owner))
        grant = self._grants[key, owner] = TaskGrant(key, owner, reply, sent)
        self._scheduler = self._scheduler or asyncio.create_task(self._schedule())
        self._changed.set()
        return grant

    async def _first_hold(self, key, owner, px, until):
        acquire = ("LOCK.ACQUIRE", key, owner, "PX", px, "HOLDS", 1)
        while not self._closed:
            reply, sent = await self._repeat(max(until, time.monotonic() + PATIENCE), *acquire)
            left = until - time.monotonic()
            if reply or left <= 0:
                break
            try:
                reply = await self._wait(left, *acquire, "BLOCK", math.ceil(left * 1000))
                if not reply:
                    break
                # When the grant was made cannot be known, so the lease is counted from a renewal.
                return await self._repeat(time.monotonic() + px / 1000,
                                          "LOCK.RENEW", key, owner, "TOKEN", reply[0])
            except Refused:
                continue  # the grant has ended already: back in line
            except exceptions.RedisError as error:
                if not is_passing(error):
                    raise
                await asyncio.sleep(PAUSE)
        if self._closed or not reply:
            raise LockBusy(f"{key}: another owner has it")
        return reply, sent

    async def _enter_again(self, grant, px):
        grant.check()
        try:
            reply, sent = await self._repeat(
                grant.deadline, "LOCK.ACQUIRE", grant.key, grant.owner, "PX", px,
                "HOLDS", grant.holds + 1, "TOKEN", grant._token)
        except Refused as refusal:
            grant.lose(str(refusal))
            grant.check()
        grant.holds += 1
        grant.lengthen(int(reply[3]) / 1000, sent)
        self._changed.set()
        return grant

    async def _release(self, grant):
        if not grant.valid_for():
            grant.lose("the lease has passed")
        grant.holds -= 1
        holds = grant.holds
        if not holds:
            self._grants.pop((grant.key, grant.owner), None)  # from here on nothing renews it
        if grant.why_lost:
            return
        try:
            until = min(grant.deadline, time.monotonic() + PATIENCE)
            _, sent = await self._repeat(until, "LOCK.RELEASE", grant.key, grant.owner,
                                         "HOLDS", holds, "TOKEN", grant._token)
            grant.lengthen(grant.lease, sent)
        except Refused as refusal:
            if holds or not refusal.repeated:  # else an earlier attempt has released it
                grant.lose(str(refusal))
        except exceptions.RedisError as error:
            log.warning("%s: not released, its lease will end: %s", grant.key, error)

    async def _schedule(self):
        """Tells of leases that have passed, and has the others renewed. Never waits for a server."""
        while not self._closed:
            self._changed.clear()
            now, next_look = time.monotonic(), math.inf
            for grant in list(self._grants.values()):
                if grant.why_lost:
                    continue
                if now >= grant.deadline:
                    grant.lose("the lease has passed without an answer")
                    continue
                if now >= grant.renew_at:
                    grant.renew_at = math.inf  # until the answer is there
                    self._start(self._renew(grant))
                next_look = min(next_look, grant.renew_at, grant.deadline)
            try:
                async with asyncio.timeout(None if next_look == math.inf else next_look - now):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def _renew(self, grant):
        sent = time.monotonic()
        try:
            reply = await self._call("LOCK.RENEW", grant.key, grant.owner, "TOKEN", grant._token)
            grant.lengthen(int(reply[3]) / 1000, sent)
        except exceptions.RedisError as error:
            log.warning("%s: not renewed: %s", grant.key, error)
            if first_word(error) in LOST and grant.holds:
                grant.lose(f"a renewal was answered {first_word(error)}")
            grant.renew_at = time.monotonic() + min(PAUSE, grant.lease / 30)
        self._changed.set()

    async def _cancel(self, key, owner):
        """Sees to it that the owner neither holds nor waits."""
        try:
            await self._repeat(time.monotonic() + CALL_TIMEOUT, "LOCK.RELEASE", key, owner, "ALL")
        except Refused:
            pass
        except exceptions.RedisError as error:
            log.warning("%s: not cancelled, a lease may have to end: %s", key, error)

    async def _wait(self, left, *words):
        """One waiting call on a connection of its own, which reads for longer than the wait."""
        source = await self._node(words[1]) or self._client.connection_pool
        connection = source.connection_class(**settings(source, left + PATIENCE))
        try:
            await connection.connect()
            await connection.send_command(*words)
            return await connection.read_response(disconnect_on_error=False)
        except asyncio.CancelledError:
            await self._to_the_end(self._leave_the_line(connection, words[1], words[2]))
            raise
        finally:
            await connection.disconnect(nowait=True)

    async def _leave_the_line(self, connection, key, owner):
        await self._cancel(key, owner)
        try:
            async with asyncio.timeout(CALL_TIMEOUT):
                await connection.read_response()  # a grant is released by the caller
        except (exceptions.RedisError, TimeoutError):
            pass

    async def _repeat(self, until, *words):
        """Sends a call until it is answered. Gives the reply, and when the answered call was sent."""
        repeated = False
        while True:
            sent = time.monotonic()
            try:
                return await self._call(*words), sent
            except exceptions.RedisError as error:
                if first_word(error) in LOST:
                    raise Refused(error, repeated) from None
                if not is_passing(error) or time.monotonic() + PAUSE > until:
                    raise
                repeated = repeated or isinstance(error, NO_ANSWER)
            await asyncio.sleep(PAUSE)

    async def _call(self, *words):
        node = await self._node(words[1])  # named, else a cluster's client repeats calls itself
        return await self._client.execute_command(*words, **({"target_nodes": node} if node else {}))

    async def _node(self, key):
        if isinstance(self._client, RedisCluster):
            await self._client.initialize()
            return self._client.get_node_from_key(key)

    def _start(self, work):
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _to_the_end(self, work):
        """Work that a cancellation of its caller does not stop."""
        return await asyncio.shield(self._start(work))
