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

from ..asyncio import Grant, Locks
from ..errors import LockBusy
from ..observer import Observer
from ..options import key_bytes
from ..shared import settings_of
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
        _all[where] = Locks(client, "redis-py", observer=observer)
    return _all[where]


async def close() -> None:
    """Releases what is held by the locks of this loop, and closes their connections: before the loop ends."""
    loop = asyncio.get_running_loop()
    for where in [it for it in _all if it[0] is loop]:
        await _all.pop(where).close()


class Lock(Form[Grant]):
    """`timeout` is the longest life of the lock, as in redis-py; without one, the lock lives as long as its process."""

    @property
    def _locks(self) -> Locks:
        return locks_of(self.redis, self.observer)

    async def acquire(self, blocking: bool | None = None, blocking_timeout: float | None = None,
                      token: str | bytes | None = None) -> bool:
        """Whether it was taken. `token` names the owner."""
        with self._told("acquire"):
            locks, grant = self._locks, None
            task = locks.task(None if token is None else text(token))
            try:
                grant = await locks.lock(self.name, task=task, **self._options()).acquire(
                    self._wait(blocking, blocking_timeout))
                self._took(grant)
            except LockBusy:
                return False
            except BaseException:  # of a signal
                if grant is not None:
                    self.local.token = None
                    grant._give_up()
                raise
        return True

    async def locked(self) -> bool:
        """Whether anybody holds it."""
        with self._told("look at"):
            return bool(await self._locks.holders(self.name))

    async def owned(self) -> bool:
        """Whether this object holds it: the server is asked."""
        with self._told("look at"):
            return self.local.token is not None and any(
                [it.owner == text(self.local.token) for it in await self._locks.holders(self.name)])

    async def release(self) -> None:
        """Gives it back."""
        token = self._held("release")
        self.local.token = None
        await self.do_release(token)

    async def do_release(self, expected_token: bytes | str) -> None:
        """Gives back what this token has taken, here or in another process."""
        with self._told("release"):
            await (await self._grant(expected_token, "release")).release()

    async def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """It lasts so much longer; with `replace_ttl`, so long from now on."""
        token, _ = self._held("extend"), self._timed("extend")
        with self._told("extend"):
            grant = await self._grant(token, "extend")
            left = 0.0 if replace_ttl else await self._remaining(grant)
            await grant.extend(self._span(left + additional_time))
            self.local.ends = time.monotonic() + left + additional_time
        return True

    async def reacquire(self) -> Literal[True]:
        """It lasts for its `timeout` from now on."""
        token, timeout = self._held("reacquire"), self._timed("reacquire")
        with self._told("reacquire"):
            await (await self._grant(token, "reacquire")).extend(self._span(timeout))
            self.local.ends = time.monotonic() + timeout
        return True

    async def _remaining(self, grant: Grant) -> float:
        if self.kept and self._is_kept():
            ends: float = self.local.ends
            return max(0.0, ends - time.monotonic())
        return next(iter([it.left for it in await self._locks.holders(self.name) if it.token == grant.token]), 0.0)

    async def _grant(self, token: bytes | str, what: str) -> Grant:
        grant = self._own(token)
        if grant is not None:
            return grant
        here = self._locks._engine.found(key_bytes(self.name), text(token))
        if here is not None:  # another object of this process has taken it
            return Grant(self._locks, here)
        for it in await self._locks.holders(self.name):
            if it.owner == text(token):
                grant = await self._locks.adopt(self.name, it.owner, it.token, lease=it.lease, fixed=True)
                if self.local.token == token:
                    self.local.grant = grant
                return grant
        raise self._not_owned(what)

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

    `timeout` is the longest life that is left to a process that lives, but hangs.
    """

    kept = True
