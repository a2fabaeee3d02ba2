"""The locks of a program with asyncio: the names of `redis_lock_client`, and what asks the server is awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Generic, Optional, TypeVar

from ._holding import Holding, release_all
from ._locking import Locking
from ._tasks import Tasks
from .errors import LockLost, LockMisuse
from .state import Task
from .state.claims import LOST

__all__ = ["Acquiring", "Grant", "Grants", "Locks", "Task"]
T = TypeVar("T")


class Grant(Holding):
    """A lock that is held, until its release or its loss. A context manager: the end of the block releases it.

    If the lock is lost, the task is cancelled inside the block, and the block ends with LockLost. If the block raises,
    its error is raised as it is, even if the release fails.

    >>> async def work() -> str:
    ...     try:
    ...         async with locks.lock("lock:orders:42") as grant:
    ...             await grant.check()  # before a step that matters
    ...             await grant.extend(30)
    ...             server.lose("lock:orders:42")  # as an operator's DEL
    ...             await asyncio.sleep(60)  # is cancelled
    ...     except LockLost as error:
    ...         return error.reason
    >>> asyncio.run(work())
    'deleted'
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._workers: list[asyncio.Task[Any]] = []  # that work under the lock
        self._stopped: set[asyncio.Task[Any]] = set()  # that were cancelled because it is lost

    def on_lost(self, call: Callable[[Grant], object]) -> None:
        """Calls this in the event loop when the grant is lost, not when it is released; soon if it is lost already.
        A coroutine function runs as a task. The reason is in `lost`.

        >>> async def main() -> str | None:
        ...     grant, stop = await locks.lock("lock:orders:42"), asyncio.Event()
        ...     grant.on_lost(lambda grant: stop.set())
        ...     server.lose("lock:orders:42")
        ...     await stop.wait()
        ...     return grant.lost
        >>> asyncio.run(main())
        'deleted'
        """
        self._on_lost(call)

    async def check(self) -> None:
        """Asks the server whether the grant still exists; use it before a step that matters. Raises LockLost if it does
        not, LockUnavailable without an answer."""
        await self._check()

    async def extend(self, lease: float) -> None:
        """Gives the grant another lease, in seconds from now on: at least 1, or 0.001 if fixed. The server then renews
        it with that lease, unless it is fixed. Raises LockLost, LockUnavailable, LockMisuse."""
        await self._extend(lease)

    async def release(self) -> None:
        """Gives the lock back, or one hold of it. Raises LockLost if it was lost before, LockUnavailable without an
        answer within two replies (then the session repeats the release), LockMisuse if it was released already."""
        await self._release()

    async def detach(self, lease: float) -> None:
        """Lets go of the lock without releasing it: nobody renews it, and it lasts for this lease, in seconds, during
        which `Locks.adopt` can take it over by its key, owner and token. Not a loss; `held` is false from now on.
        Raises LockLost, LockUnavailable; LockMisuse for a lease below 0.001."""
        await self._detach(lease)

    async def __aenter__(self) -> Grant:
        self._begin_work()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._exit(error[1])

    def _begin_work(self) -> None:
        if self._claim.phase is LOST:
            raise self._node.state.end_of(self._claim)
        worker = asyncio.current_task()
        if worker:
            self._workers.append(worker)

    def _stop_work(self) -> None:
        """Cancels the tasks that work under the lock. The current task, if it is one of them, learns of the loss from
        the reply to its call."""
        self._stopped = {worker for worker in self._workers if worker is not asyncio.current_task()}
        for worker in self._stopped:
            worker.cancel()

    async def _exit(self, error: Optional[BaseException]) -> None:
        worker = asyncio.current_task()
        if worker in self._workers:
            self._workers.remove(worker)
        if worker in self._stopped:
            self._stopped.discard(worker)
            if not isinstance(error, asyncio.CancelledError):
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0)  # takes the cancellation that has not arrived yet
            uncancel = getattr(worker, "uncancel", None)  # of Python 3.11
            left = uncancel() if uncancel else 0
            if isinstance(error, asyncio.CancelledError) and not left:
                raise self._node.state.end_of(self._claim) from None
        await super()._exit(error)


class Grants(list[Grant], AbstractAsyncContextManager["Grants"]):
    """Several locks that were acquired together, sorted by key. A context manager: the end of the block releases
    them."""

    async def release(self) -> None:
        """Gives all back, the last one first. Raises the first error, after all have been tried."""
        await release_all(self, None)

    async def __aenter__(self) -> Grants:
        try:
            for grant in self:
                grant._begin_work()
        except LockLost as error:
            await release_all(self, error)
            raise
        return self

    async def __aexit__(self, *error: Any) -> None:
        await release_all(self, error[1])


class Acquiring(Generic[T]):
    """The result of `Locks.lock` and `Locks.lock_all`: await it for the Grant or the Grants, or use it by `async with`.
    It acquires once, and raises what `Locks.lock` names."""

    def __init__(self, acquire: Coroutine[Any, Any, T]) -> None:
        self._acquire = acquire
        self._got: Any = None

    def __await__(self) -> Generator[Any, None, T]:
        return self._acquire.__await__()

    async def __aenter__(self) -> T:
        self._got = await self._acquire
        await self._got.__aenter__()
        return self._got  # type: ignore[no-any-return]

    async def __aexit__(self, *error: Any) -> None:
        await self._got.__aexit__(*error)


class Locks(Locking[Grant], AbstractAsyncContextManager["Locks"]):
    """The locks of one program on one server or cluster, for any number of tasks of one event loop. It opens no
    connection yet, and closes no client. After a fork, and in another event loop once the first one is closed, it has
    no grants, and can acquire locks of its own. A context manager: the end of the block calls `close`.

    >>> async def main() -> str:
    ...     async with Locks(client, name="orders", prefix="lock:") as locks, locks.lock("orders:42") as grant:
    ...         return grant.key
    >>> asyncio.run(main())
    'lock:orders:42'
    """

    _grant = Grant
    _is_async = True
    _make_world = Tasks

    def _bind(self) -> None:
        """An event loop has its own connections, so the locks belong to one."""
        loop, world = asyncio.get_running_loop(), self._world
        if world.loop is not loop and world.loop is not None:
            if world.loop.is_running():
                raise LockMisuse("these Locks belong to another running event loop: create others for this one")
            self._reset()
        self._world.loop = loop

    def lock(self, key: str | bytes, *, wait: float | None = None, shared: bool = False, permits: int | None = None,
             lease: float | None = None, max_hold: float | None = None, task: Task | None = None,
             on_lost: Callable[[Grant], object] | None = None) -> Acquiring[Grant]:
        """Acquires a lock: `async with locks.lock("orders:42", wait=10) as grant`, or `grant = await locks.lock(…)`.
        A task that is cancelled gives up its wait, or what it was granted meanwhile.

        - `wait`: seconds to wait in line; 0: now or never; None: without a limit.
        - `shared`: together with other shared holders.
        - `permits`: one of this many, if all callers give the same number.
        - `lease`: a fixed lease in seconds. It is the whole life of the grant: only `Grant.extend` renews it.
        - `max_hold`: the grant ends after this many seconds: then it is lost.
        - `task`: the owner; without one each acquire is an owner of its own. If the task holds the lock already, that
          grant is returned with another hold, and takes one more release. With permits the task is not used.
        - `on_lost`: as `Grant.on_lost`.

        Raises LockBusy, LockUnavailable, LockRefused, LockDeadlock, LockNotAlone, LockMisuse, LockLost.

        >>> async def main() -> None:
        ...     async with locks.lock("lock:orders:42", wait=10) as grant:
        ...         print(grant.held)
        ...     grant = await locks.lock("lock:exports", permits=3, wait=0)  # one of three
        ...     await grant.release()
        >>> asyncio.run(main())
        True
        """
        terms = self._terms(wait, shared, permits, lease, max_hold, on_lost)
        return Acquiring(self._acquire(self._full(key), terms, task))

    def lock_all(self, keys: Iterable[str | bytes], *, wait: float | None = None, shared: bool = False,
                 permits: int | None = None, lease: float | None = None, max_hold: float | None = None,
                 on_lost: Callable[[Grant], object] | None = None) -> Acquiring[Grants]:
        """Acquires the locks of several keys, or none, in the order of their names, so that two callers never wait
        for each other. They have one owner (unless they are permits) and one time to wait. The rest, and what it
        raises: as `lock`. If one of them is not granted, none is held.

        >>> async def main() -> list[str]:
        ...     async with locks.lock_all(["lock:seat:2", "lock:seat:1"], wait=10) as grants:
        ...         return [grant.key for grant in grants]
        >>> asyncio.run(main())
        ['lock:seat:1', 'lock:seat:2']
        """
        terms = self._terms(wait, shared, permits, lease, max_hold, on_lost)

        async def acquire() -> Grants:
            return Grants(await self._acquire_all(keys, terms))

        return Acquiring(acquire())

    async def adopt(self, key: str | bytes, owner: str, token: int, *, lease: float | None = None,
                    max_hold: float | None = None, on_lost: Callable[[Grant], object] | None = None) -> Grant:
        """Takes over a grant that another process has detached. Without a fixed lease the server renews it from now
        on. One release gives back all its holds. The key is without the prefix; the rest: as in `lock`. Raises LockLost
        if it is gone, LockUnavailable, LockRefused.

        >>> async def main() -> bool:
        ...     grant = await locks.lock("lock:upload:7")
        ...     await grant.detach(60)
        ...     other = Locks(client, name="uploads")  # in another process
        ...     async with await other.adopt("lock:upload:7", grant.owner, grant.token) as adopted:
        ...         return adopted.token == grant.token
        >>> asyncio.run(main())
        True
        """
        terms = self._terms(0, False, None, lease, max_hold, on_lost)
        return await self._acquire(self._full(key), terms, None, owner, token)

    async def lead(self, key: str | bytes, work: Callable[[Grant], Awaitable[object]], *,
                   shared: bool = False, permits: int | None = None, lease: float | None = None,
                   max_hold: float | None = None) -> None:
        """Elects a leader: waits for the lock as long as it takes, calls `work` with the grant, and begins again when
        the work has returned or the lock was lost. It ends when its task is cancelled, when the work fails for another
        reason than the loss, and when the lock fails with an error that is not temporary. The work is cancelled when
        the lock is lost. The rest: as in `lock`. Raises LockRefused, LockDeadlock, LockNotAlone, LockMisuse, and what
        the work raises.

        >>> async def work(grant: Grant) -> None:
        ...     await asyncio.sleep(60)
        >>> async def main() -> None:
        ...     leading = asyncio.create_task(locks.lead("lock:leader", work))
        ...     await asyncio.sleep(0.1)  # the rest of the program
        ...     leading.cancel()  # which releases the lock
        ...     await asyncio.wait([leading])
        >>> asyncio.run(main())
        """
        terms = self._terms(None, shared, permits, lease, max_hold, None)
        await self._lead(self._full(key), work, terms)

    async def close(self) -> None:
        """Ends all waits, releases all locks and closes the connections, but not the client. Call it when the work
        under the locks has stopped. It takes at most two replies; a lock that could not be released is free a lease
        later. It raises nothing, and a second call does nothing."""
        self._bind()
        await self._close()

    async def __aexit__(self, *error: Any) -> None:
        await self.close()
