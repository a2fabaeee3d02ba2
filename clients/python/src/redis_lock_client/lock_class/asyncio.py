"""The lock of redis.asyncio and valkey.asyncio, by this module: for `Redis.lock(…, lock_class=Lock)`.

    from redis_lock_client.lock_class.asyncio import Lock

    async with Redis().lock("lock:orders:42", timeout=30, lock_class=Lock):
        ...
"""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Any, Literal

from ..asyncio import Locks
from ..errors import LockBusy
from ..observer import Observer
from ..shared import limit, settings_of
from ..state import Task
from .form import Form, text

__all__ = ["KeptLock", "Lock", "close"]
_all: dict[tuple[asyncio.AbstractEventLoop, object, int], Locks] = {}


def locks_of(client: Any, observer: Observer | None = None) -> Locks:
    """The locks of the running loop on the server of this client. They stay until `close`, or the loop's end."""
    loop = asyncio.get_running_loop()
    where = (loop, settings_of(client), id(observer))
    if where not in _all:
        for other in [it for it in _all if it[0].is_closed()]:
            del _all[other]
        _all[where] = Locks(client, observer=observer)
    return _all[where]


async def close() -> None:
    """Releases what is held by the locks of this loop, and closes their connections: before the loop ends."""
    loop = asyncio.get_running_loop()
    for where in [it for it in _all if it[0] is loop]:
        await _all.pop(where).close()


class Lock(Form):
    """`timeout` is the longest life of the lock, as in redis-py; without one, the lock lives as long as its process.

    Times are in seconds. The errors are those of the library: LockNotOwnedError if the lock is no longer held,
    LockError for a wrong call, ConnectionError without an answer, ResponseError for what the server refuses.

    >>> async def main() -> None:
    ...     async with client.lock("lock:orders:42", timeout=30, blocking_timeout=10, lock_class=Lock) as lock:
    ...         print(await lock.locked(), await lock.owned(), lock.fencing_token > 0)
    ...         await lock.extend(10)
    ...     await close()
    >>> asyncio.run(main())
    True True True
    """

    @property
    def _locks(self) -> Locks:
        return locks_of(self.redis, self.observer)

    async def acquire(self, blocking: bool | None = None, blocking_timeout: float | None = None,
                      token: str | bytes | None = None) -> bool:
        """Whether the lock was acquired: immediately, or within `blocking_timeout` seconds. `token` names the owner."""
        with self._as_theirs("acquire"):
            locks = self._locks
            task = None if token is None else Task(text(token))
            wait = self._wait(blocking, blocking_timeout)
            try:
                return self._took(await locks.lock(self.name, wait=wait, task=task, **self._options()))
            except LockBusy:
                return False

    async def locked(self) -> bool:
        """Whether anybody holds it."""
        return await self._ask("LOCK.INFO", self.name) is not None

    async def owned(self) -> bool:
        """Whether this object holds it: the server is asked."""
        return self._is_owner(await self._ask("LOCK.INFO", self.name))

    async def release(self) -> None:
        """Gives it back. LockNotOwnedError if it is no longer held."""
        token = self._held("release")
        self.local.token = None
        await self.do_release(token)

    async def do_release(self, expected_token: bytes | str) -> None:
        """Gives back what this token has acquired, here or in another process."""
        grant = self._own(expected_token)
        with self._as_theirs("release"):
            if grant is not None:
                await grant.release()
            else:
                await self._ask("LOCK.RELEASE", self.name, expected_token, "ALL")

    async def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """It lasts this many seconds longer; with `replace_ttl`, this many from now on. LockError without a
        `timeout`."""
        token, _ = self._held("extend"), self._timed("extend")
        with self._as_theirs("extend"):
            left = 0.0 if replace_ttl else await self._left_of(token)
            return await self._last(token, left + additional_time)

    async def reacquire(self) -> Literal[True]:
        """It lasts for its `timeout` from now on. LockError without one."""
        token, timeout = self._held("reacquire"), self._timed("reacquire")
        with self._as_theirs("reacquire"):
            return await self._last(token, timeout)

    async def _left_of(self, token: bytes) -> float:
        """How long it lasts from now on, in seconds."""
        if self.kept and self._own(token) is not None:
            return float(self.local.ends) - time.monotonic()
        left: int = await self._ask("PTTL", self.name)
        return max(0, left) / 1000

    async def _last(self, token: bytes, seconds: float) -> Literal[True]:
        """Sets how long it lasts from now on."""
        grant = self._own(token)
        if grant is None:  # acquired elsewhere
            await self._ask("LOCK.RENEW", self.name, token, "PX", round(seconds * 1000))
        elif self.kept:
            await grant.check()
            limit(grant, seconds)
        else:
            await grant.extend(seconds)
        self.local.ends = time.monotonic() + seconds
        return True

    async def _ask(self, *words: Any) -> Any:
        return await self.redis.execute_command(*words)

    async def __aenter__(self) -> Lock:
        if await self.acquire():
            return self
        raise self._error("Unable to acquire lock within the time specified")

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        try:
            await self.release()
        except Exception as failed:
            self._left(error, failed)


class KeptLock(Lock):
    """The server renews the lock while its process lives: a process that dies frees it within ten seconds.

    `timeout` is the longest time for which a process that lives, but hangs, keeps the lock.
    """

    kept = True
