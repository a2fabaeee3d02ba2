"""Locks for asyncio tasks, on redis.asyncio or valkey.asyncio.

    from redis.asyncio import Redis
    from redis_lock_client.asyncio import Locks

    async with Locks(Redis(), service="orders") as locks:
        async with locks.lock("lock:orders:42", wait=10) as grant:
            print("fence writes with", grant.token)

A block whose lock is lost is stopped: its task is cancelled, and LockLost raised at the end of the block.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, TypeVar

from . import calls
from .base import AllBase, Entered, GrantBase, Holder, LocksBase, all_locks, holder, limits_of, release_in_time, told_at_end
from .engine import Engine
from .errors import LockBusy, LockError, LockLost, LockMisuse, LockUnavailable
from .loop import Loop
from .observer import Observer
from .options import FOR_EVER, Key, Request, request
from .owners import Task
from .resp import Word
from .runtime import Pause
from .take import acquire

T = TypeVar("T")
__all__ = ["AllLocks", "Grant", "Lock", "Locks", "Task"]
_STOPPED = "the lock has been lost"


class Grant(GrantBase):
    """One hold of a lock. As an `async with` block, it is released at its end, and its loss stops the block."""

    def __init__(self, locks: Locks, held: Any) -> None:
        super().__init__(locks._engine, held)
        self._locks = locks
        self._body: asyncio.Task[Any] | None = None
        self._cancels, self._stopped = 0, False

    async def check(self) -> None:
        """Makes sure, by asking the server, that the lock is held. Raises LockLost, LockUnavailable."""
        self._must_stand()
        await calls.check(self._engine, self._held)

    async def extend(self, seconds: float | None = None) -> None:
        """A fixed lease begins anew, of this length; a lock with `at_most` is kept for so long from now on."""
        self._must_stand()
        await calls.extend(self._engine, self._held, seconds)

    async def downgrade(self) -> None:
        """Goes on as one of those that share the lock, without letting go."""
        self._must_stand()
        await calls.downgrade(self._engine, self._held)

    async def detach(self) -> int:
        """Lets go of it without a release, with all its holds: it stays for a lease, for whoever adopts it.

        Gives the token for that. Is carried out also when this task is cancelled meanwhile. Raises LockLost, LockUnavailable.
        """
        self._to_be_detached()
        await self._locks._loop.finish(self._engine.detach(self._held))
        return self._held.token

    async def release(self) -> None:
        """Gives it back, also when this task is cancelled meanwhile. Raises LockLost, LockUnavailable."""
        self._to_be_released()
        await self._locks._loop.finish(self._engine.release(self._held, self._until))

    async def __aenter__(self) -> Grant:
        self._enter()
        return self

    def _enter(self) -> None:
        self._body = asyncio.current_task()
        if self._body is not None:
            cancelling = getattr(self._body, "cancelling", None)  # from Python 3.11
            self._cancels = cancelling() if cancelling else 0
        self.on_lost(self._stop)

    def _stop(self) -> None:
        """Cancels the block."""
        if self._body is not None and not self._stopped and not self._released:
            self._stopped = True
            self._body.cancel(_STOPPED)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        was_ours = await self._stop_is_over(error) if self._stopped else False
        if was_ours:
            error = None
        if self._released or self._held.state == "released" or self._held.pid != os.getpid():
            return
        try:
            await self.release()
        except LockError as failed:
            if told_at_end(error, failed):
                raise

    async def _stop_is_over(self, error: BaseException | None) -> bool:
        """Takes the cancellation back. False when somebody else has cancelled the task, too."""
        body = self._body
        assert body is not None
        if error is None or not isinstance(error, asyncio.CancelledError):
            try:  # the block has ended otherwise, but the cancellation may be to come still
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                pass
        uncancel = getattr(body, "uncancel", None)
        if uncancel:
            left = uncancel()
            if left > self._cancels:
                if not isinstance(error, asyncio.CancelledError):
                    raise asyncio.CancelledError
                return False
        elif isinstance(error, asyncio.CancelledError) and error.args != (_STOPPED,):
            return False
        return isinstance(error, asyncio.CancelledError)


class Lock:
    """A lock by its name, its mode and its options. To make one calls nothing; it may be used again and again."""

    def __init__(self, locks: Locks, asked: Request, task: Task | None) -> None:
        self._locks, self._request, self._task = locks, asked, task
        self._entered: Entered[Grant] = Entered()

    @property
    def key(self) -> Key:
        """The lock's name."""
        return self._request.key

    async def acquire(self, wait: float | None = None) -> Grant:
        """A grant, to be released. Raises LockBusy when the time to wait is over."""
        asked, locks = self._request, self._locks
        if wait is not None:
            asked = request(asked.key, limit=asked.limit, wait=wait, lease=asked.lease, keep=asked.keep or 30.0,
                            fixed=not asked.keep, at_most=None if asked.at_most == FOR_EVER else asked.at_most,
                            owner=asked.owner, replicas=asked.replicas, permit=asked.is_permit)
        locks._loop.must_be_ours()
        return Grant(locks, await acquire(locks._engine, asked, locks._task_of(asked, self._task)))

    async def try_acquire(self) -> Grant | None:
        """A grant, or None where others hold the lock."""
        try:
            return await self.acquire(wait=0)
        except LockBusy:
            return None

    async def __aenter__(self) -> Grant:
        grant = await self.acquire()
        self._entered.push(grant)
        grant._enter()
        return grant

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        entry = self._entered.last()
        self._entered.drop(entry)
        await entry[1].__aexit__(kind, error, trace)


class Locks(LocksBase):
    """The locks of a process, on a client of redis.asyncio or valkey.asyncio: see `redis_lock_client.Locks`.

    They belong to the event loop that uses them first. A lock belongs to the task that takes it: one that is
    started inside of the block is another owner.
    """

    def __init__(self, client: Any, service: str = "app", *, reply: float = 1.0, release: float = 2.0,
                 close: float = 2.0, observer: Observer | None = None) -> None:
        self._client, self._service, self._limits = client, service, limits_of(reply, release, close)
        self._observer = observer
        self._start()
        all_locks.add(self)

    def _start(self) -> None:
        self._loop = Loop(self._client, self._limits)
        self._engine = self._loop.engine = Engine(self._loop, self._service, self._limits, self._observer)

    def _in_child(self) -> None:
        self._loop.leave()
        self._start()

    def lock(self, key: Key, *, wait: float = 0.0, lease: float = 10.0, keep: float = 30.0, fixed: bool = False,
             at_most: float | None = None, owner: str | None = None, task: Task | None = None,
             replicas: int = 0) -> Lock:
        """The lock for one holder: see `redis_lock_client.Locks.lock` for the options."""
        return self._made(request(key, wait=wait, lease=lease, keep=keep, fixed=fixed, at_most=at_most, owner=owner,
                                  replicas=replicas), task)

    def shared(self, key: Key, *, wait: float = 0.0, lease: float = 10.0, keep: float = 30.0, fixed: bool = False,
               at_most: float | None = None, owner: str | None = None, task: Task | None = None,
               replicas: int = 0) -> Lock:
        """The lock for any number that share it: the readers' side of a read and write lock."""
        return self._made(request(key, limit=0, wait=wait, lease=lease, keep=keep, fixed=fixed, at_most=at_most,
                                  owner=owner, replicas=replicas), task)

    def permit(self, key: Key, of: int, *, wait: float = 0.0, lease: float = 10.0, keep: float = 30.0,
               fixed: bool = False, at_most: float | None = None, replicas: int = 0) -> Lock:
        """One of `of` permits of a semaphore. Each has an owner of its own."""
        if of < 1:
            raise LockMisuse(f"a semaphore has 1 permit or more, not {of}")
        asked = request(key, limit=of, wait=wait, lease=lease, keep=keep, fixed=fixed, at_most=at_most,
                        replicas=replicas, permit=True)
        return Lock(self, asked, None)

    def _made(self, asked: Request, task: Task | None) -> Lock:
        if task is not None or asked.owner is not None:
            self._task_of(asked, task)
        return Lock(self, asked, task)

    def all(self, keys: Iterable[Key], *, wait: float = 0.0, lease: float = 10.0, keep: float = 30.0,
            task: Task | None = None) -> AllLocks:
        """Several locks at once, always taken in the same order, with one time to wait."""
        return AllLocks(self, keys, {"lease": lease, "keep": keep, "task": task}, wait)

    async def adopt(self, key: Key, owner: str, token: int, *, lease: float = 10.0, keep: float = 30.0,
                    fixed: bool = False) -> Grant:
        """A grant that another process, or another request, has taken. From now on it is this one's, with all its holds:
        one release gives them back."""
        self._loop.must_be_ours()
        asked = request(key, lease=lease, keep=keep, fixed=fixed, owner=owner)
        return Grant(self, await calls.adopt(self._engine, asked, owner, token))

    async def holders(self, key: Key) -> list[Holder]:
        """Who holds the lock."""
        return [holder(calls.table(entry)) for entry in await self._look(key, "LOCK.HOLDERS")]

    async def force_unlock(self, key: Key) -> bool:
        """Ends all grants of the lock. Who holds it is told; the next in line gets it."""
        return bool(await self._look(key, "DEL"))

    async def _look(self, key: Key, *words: Word) -> Any:
        self._loop.must_be_ours()
        return await calls.look(self._engine, key, *words)

    async def lead(self, key: Key, work: Callable[[Grant], Awaitable[None]], *, lease: float = 10.0,
                   keep: float = 30.0) -> None:
        """Elects a leader: waits for the lock, works until `work` returns, and begins again where the lock was lost.

        An error of `work` ends it, unless it tells the loss of this very lock.
        """
        lock, pause = self.lock(key, wait=FOR_EVER, lease=lease, keep=keep), Pause()
        while True:
            failed: BaseException | None = None  # of the work
            grant = None
            try:
                async with await lock.acquire() as grant:
                    pause = Pause()
                    try:
                        return await work(grant)
                    except BaseException as error:
                        failed = None if grant._is_lost_by(error) else error
                        raise
            except LockError as error:
                if error is failed or not isinstance(error, LockLost if grant else (LockLost, LockUnavailable)):
                    raise
            await asyncio.sleep(pause.take())

    async def once(self, key: Key, look: Callable[[], Awaitable[T | None]], work: Callable[[Grant], Awaitable[T]], *,
                   wait: float = FOR_EVER, lease: float = 10.0, keep: float = 30.0) -> T:
        """What `look` finds; else what `work` makes, which one caller does while the others wait for it."""
        until, is_first = time.monotonic() + wait, True
        while True:
            if (found := await look()) is not None:
                return found
            left = max(0.0, until - time.monotonic())
            try:
                grant = await self.lock(key, wait=0.0 if is_first else left, lease=lease, keep=keep).acquire()
            except LockBusy:
                if not is_first or not left:
                    raise
                await (await self.shared(key, wait=left, lease=lease, keep=keep).acquire()).release()
                is_first = False  # who finds nothing then stands in line: those who share it for other ends may stay
                continue
            async with grant:
                return found if (found := await look()) is not None else await work(grant)

    async def close(self) -> None:
        """Releases what is held, calls off all waits, and closes the connections."""
        if not self._engine.is_closed:
            self._loop.must_be_ours()
            await self._loop.finish(self._close())

    async def _close(self) -> None:
        try:
            await self._engine.close()
        finally:
            await self._loop.close()

    async def __aenter__(self) -> Locks:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AllLocks(AllBase[AsyncExitStack]):
    """Several locks, to be taken together."""

    def __init__(self, locks: Locks, keys: Iterable[Key], options: dict[str, Any], wait: float) -> None:
        super().__init__(locks, keys, options, wait)
        self._locks = locks

    async def __aenter__(self) -> list[Grant]:
        until = time.monotonic() + self._wait
        grants: list[Grant] = []
        async with AsyncExitStack() as stack:
            try:
                for key in self._keys:
                    left = max(0.0, until - time.monotonic())
                    grants.append(await stack.enter_async_context(self._locks.lock(key, wait=left, **self._options)))
                self._begin(grants, stack)
            except BaseException:
                release_in_time(grants, self._release)
                raise
        return grants

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        entry = self._entered.last()
        self._entered.drop(entry)
        await entry[1].__aexit__(kind, error, trace)
