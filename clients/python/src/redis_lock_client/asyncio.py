"""The locks of a program with asyncio: the names of `redis_lock_client`, and what asks the server is awaited."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from types import TracebackType
from typing import Any

from .observer import Observer

__all__ = ["Grant", "Grants", "Locks", "Task"]


class Task:
    """One owner for all locks of one piece of work, made by `Locks.task`: it enters a lock again that it holds, and
    the server finds a deadlock among tasks. Pass it along with the work; never share it between two."""


class Grant:
    """A lock that is held, until its release or its loss. A context manager: the end of the block releases it.

    If the lock is lost, the task is cancelled inside the block, and the block ends with LockLost. If the block raises,
    its error is raised as it is, whatever becomes of the release.
    """

    @property
    def key(self) -> str:
        """The key of the lock, with the client's prefix."""
        raise NotImplementedError

    @property
    def owner(self) -> str:
        """The holder, to the server."""
        raise NotImplementedError

    @property
    def token(self) -> int:
        """The fencing token: later grants of the lock have higher ones."""
        raise NotImplementedError

    @property
    def held(self) -> bool:
        """Whether nobody else has the lock, by the clock alone. False also while the server is silent."""
        raise NotImplementedError

    @property
    def remaining(self) -> float:
        """The seconds for which `held` stays true without another reply of the server."""
        raise NotImplementedError

    @property
    def lost(self) -> str | None:
        """The reason of the loss, or None: the grant is not lost."""
        raise NotImplementedError

    def on_lost(self, call: Callable[[Grant], object]) -> None:
        """Calls this in the event loop when the grant is lost, not when it is released; soon if it is lost already.
        A coroutine function runs as a task. The reason is in `lost`."""
        raise NotImplementedError

    async def check(self) -> None:
        """Asks the server whether the grant stands. Raises LockLost if it does not; use it before a step that matters."""
        raise NotImplementedError

    async def extend(self, lease: float) -> None:
        """Gives the grant another lease, from now on. The server goes on to renew it with that lease, unless the
        lease is fixed. Raises LockLost, LockUnavailable."""
        raise NotImplementedError

    async def release(self) -> None:
        """Gives the lock back, or one hold of it. Raises LockLost if it was lost before, LockUnavailable without an
        answer within two replies (then the session repeats the release), LockMisuse if it was released already."""
        raise NotImplementedError

    async def detach(self, lease: float) -> None:
        """Lets go of the lock without releasing it: nobody renews it, and it stays for this lease, for a caller of
        `Locks.adopt` with its key, owner and token. Not a loss; `held` is false from now on."""
        raise NotImplementedError

    async def __aenter__(self) -> Grant:
        raise NotImplementedError

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        raise NotImplementedError


class Acquiring:
    """What `Locks.lock` returns: await it for the Grant, or use it by `async with`. It acquires once."""

    def __await__(self) -> Generator[Any, None, Grant]:
        raise NotImplementedError

    async def __aenter__(self) -> Grant:
        raise NotImplementedError

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        raise NotImplementedError


class Grants(list[Grant]):
    """Several locks that were acquired together, sorted by key. A context manager: the end of the block releases
    them."""

    async def release(self) -> None:
        """Gives all back, the last one first. Raises the first error, after all have been tried."""
        raise NotImplementedError

    async def __aenter__(self) -> Grants:
        raise NotImplementedError

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        raise NotImplementedError


class AcquiringAll:
    """What `Locks.lock_all` returns: await it for the Grants, or use it by `async with`."""

    def __await__(self) -> Generator[Any, None, Grants]:
        raise NotImplementedError

    async def __aenter__(self) -> Grants:
        raise NotImplementedError

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        raise NotImplementedError


class Locks:
    """The locks of one program on one server or cluster, for any number of tasks of one event loop. It opens no
    connection yet, and closes no client. After a fork, and in another event loop once the first one is closed, it has
    no grants, and can acquire locks of its own."""

    def __init__(self, client: Any, *, name: str | None = None, lease: float = 10.0, silence: float = 30.0,
                 reply: float = 1.0, prefix: str = "", observer: Observer | None = None) -> None:
        """client: a Redis (also of `Sentinel.master_for`) or a RedisCluster of redis-py, for its settings.
        name: begins each owner and names the session; by default the name of the program.
        lease: how long others wait for a lock when this process has died; seconds, at least 1.
        silence: how long the process may be suspended and keep its locks; seconds, at least 1.
        reply: how long one reply of the server may take, connecting included; seconds.
        prefix: begins the key of each lock. observer: is notified of what happens, for metrics."""
        raise NotImplementedError

    def task(self) -> Task:
        """Makes an owner for several locks of one piece of work: for re-entry, and so that deadlocks are found."""
        raise NotImplementedError

    def lock(self, key: str | bytes, *, wait: float | None = None, shared: bool = False, permits: int | None = None,
             lease: float | None = None, max_hold: float | None = None, task: Task | None = None,
             on_lost: Callable[[Grant], object] | None = None) -> Acquiring:
        """Acquires a lock: `async with locks.lock("orders:42", wait=10) as grant`, or `grant = await locks.lock(…)`.
        A task that is cancelled gives up its wait, or what it was granted meanwhile.

        wait: seconds to wait in line; 0: now or never; None: without a limit.
        shared: together with other shared holders. permits: one of so many, if all callers give the same number.
        lease: a fixed lease in seconds. It is the whole life of the grant: only `Grant.extend` renews it.
        max_hold: the grant ends after so many seconds: then it is lost.
        task: the owner; without one each acquire is an owner of its own. If the task holds the lock already, that
        grant is returned with another hold, and takes one more release. With permits the task is not used.
        on_lost: as `Grant.on_lost`.

        Raises LockBusy, LockUnavailable, LockRefused, LockDeadlock, LockNotAlone, LockMisuse, LockLost."""
        raise NotImplementedError

    def lock_all(self, keys: Iterable[str | bytes], *, wait: float | None = None, shared: bool = False,
                 permits: int | None = None, lease: float | None = None, max_hold: float | None = None,
                 on_lost: Callable[[Grant], object] | None = None) -> AcquiringAll:
        """Acquires the locks of several keys, or none, in the order of their names, so that two callers never wait
        for each other. They have one owner (unless they are permits) and one time to wait."""
        raise NotImplementedError

    async def adopt(self, key: str | bytes, owner: str, token: int, *, lease: float | None = None,
              max_hold: float | None = None, on_lost: Callable[[Grant], object] | None = None) -> Grant:
        """Takes over a grant that another process has detached. Without a fixed lease the server renews it from now
        on. One release gives back all its holds. Raises LockLost if it is gone. The key is without the prefix."""
        raise NotImplementedError

    async def lead(self, key: str | bytes, work: Callable[[Grant], Awaitable[object]], *,
             shared: bool = False, permits: int | None = None, lease: float | None = None,
             max_hold: float | None = None) -> None:
        """Elects a leader: waits for the lock as long as it takes, calls `work` with the grant, and begins again when
        the work has returned or the lock was lost. It ends when its task is cancelled, with an error of the work
        that does not stem from the loss, and with an error of the lock that does not pass. The work is cancelled when
        the lock is lost."""
        raise NotImplementedError

    async def close(self) -> None:
        """Ends all waits, releases all locks and closes the connections, but not the client. Call it when the work
        under the locks has stopped. It takes at most two replies; what could not be released is free a lease later."""
        raise NotImplementedError

    async def __aenter__(self) -> Locks:
        raise NotImplementedError

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        raise NotImplementedError
