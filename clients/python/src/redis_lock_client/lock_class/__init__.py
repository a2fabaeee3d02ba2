"""The lock of redis-py and valkey-py, by this module: for `Redis.lock(…, lock_class=Lock)`.

    from redis_lock_client.lock_class import Lock

    with redis.Redis().lock("lock:orders:42", timeout=30, lock_class=Lock):
        ...

With asyncio: `redis_lock_client.lock_class.asyncio`.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Literal

from ..errors import LockBusy
from ..locks import Grant, Locks
from ..options import key_bytes
from ..shared import close, locks_of
from .form import Form, text

__all__ = ["KeptLock", "Lock", "close"]


class Lock(Form[Grant]):
    """`timeout` is the longest life of the lock, as in redis-py; without one, the lock lives as long as its process."""

    @property
    def _locks(self) -> Locks:
        return locks_of(self.redis, self.observer)

    def acquire(self, sleep: float | None = None, blocking: bool | None = None,
                blocking_timeout: float | None = None, token: str | bytes | None = None) -> bool:
        """Whether it was taken. `token` names the owner."""
        with self._told("acquire"):
            locks, grant = self._locks, None
            task = locks.task(None if token is None else text(token))
            try:
                grant = locks.lock(self.name, task=task, **self._options()).acquire(
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

    def locked(self) -> bool:
        """Whether anybody holds it."""
        with self._told("look at"):
            return bool(self._locks.holders(self.name))

    def owned(self) -> bool:
        """Whether this object holds it: the server is asked."""
        with self._told("look at"):
            return self.local.token is not None and any(
                it.owner == text(self.local.token) for it in self._locks.holders(self.name))

    def release(self) -> None:
        """Gives it back."""
        token = self._held("release")
        self.local.token = None
        self.do_release(token)

    def do_release(self, expected_token: bytes | str) -> None:
        """Gives back what this token has taken, here or in another process."""
        with self._told("release"):
            self._grant(expected_token, "release").release()

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """It lasts so much longer; with `replace_ttl`, so long from now on."""
        token, _ = self._held("extend"), self._timed("extend")
        with self._told("extend"):
            grant = self._grant(token, "extend")
            left = 0.0 if replace_ttl else self._remaining(grant)
            grant.extend(self._span(left + additional_time))
            self.local.ends = time.monotonic() + left + additional_time
        return True

    def reacquire(self) -> Literal[True]:
        """It lasts for its `timeout` from now on."""
        token, timeout = self._held("reacquire"), self._timed("reacquire")
        with self._told("reacquire"):
            self._grant(token, "reacquire").extend(self._span(timeout))
            self.local.ends = time.monotonic() + timeout
        return True

    def _remaining(self, grant: Grant) -> float:
        if self.kept and self._is_kept():
            ends: float = self.local.ends
            return max(0.0, ends - time.monotonic())
        return next((it.left for it in self._locks.holders(self.name) if it.token == grant.token), 0.0)

    def _grant(self, token: bytes | str, what: str) -> Grant:
        grant = self._own(token)
        if grant is not None:
            return grant
        here = self._locks._engine.found(key_bytes(self.name), text(token))
        if here is not None:  # another object of this process has taken it
            return Grant(self._locks, here)
        for it in self._locks.holders(self.name):
            if it.owner == text(token):
                grant = self._locks.adopt(self.name, it.owner, it.token, lease=it.lease, fixed=True)
                if self.local.token == token:
                    self.local.grant = grant
                return grant
        raise self._not_owned(what)

    def __enter__(self) -> Lock:
        if self.acquire():
            return self
        raise self._error("Unable to acquire lock within the time specified")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        try:
            self.release()
        except Exception as failed:
            self._left(error, failed)


class KeptLock(Lock):
    """The server renews the lock while its process lives: a process that dies frees it within ten seconds.

    `timeout` is the longest life that is left to a process that lives, but hangs.
    """

    kept = True
