"""The lock of redis-py and valkey-py, by this module: for `Redis.lock(…, lock_class=Lock)`.

    from redis_lock_client.lock_class import Lock

    with redis.Redis().lock("lock:orders:42", timeout=30, lock_class=Lock):
        ...

With asyncio: `redis_lock_client.lock_class.asyncio`.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Literal

from ..errors import LockBusy
from ..shared import close, limit, locks_of
from ..state import Task
from ..threads import Locks
from .form import Form, text

__all__ = ["KeptLock", "Lock", "close"]


class Lock(Form):
    """`timeout` is the longest life of the lock, as in redis-py; without one, the lock lives as long as its process.

    Times are in seconds. The errors are those of the library: LockNotOwnedError if the lock is no longer held,
    LockError for a wrong call, ConnectionError without an answer, ResponseError for what the server refuses.

    >>> with client.lock("lock:orders:42", timeout=30, blocking_timeout=10, lock_class=Lock) as lock:
    ...     lock.locked(), lock.owned(), lock.fencing_token > 0
    ...     lock.extend(10)
    (True, True, True)
    True
    """

    @property
    def _locks(self) -> Locks:
        return locks_of(self.redis, self.observer)

    def acquire(self, sleep: float | None = None, blocking: bool | None = None,
                blocking_timeout: float | None = None, token: str | bytes | None = None) -> bool:
        """Whether the lock was acquired: immediately, or within `blocking_timeout` seconds. `token` names the owner."""
        with self._as_theirs("acquire"):
            locks = self._locks
            task = None if token is None else Task(text(token))
            wait = self._wait(blocking, blocking_timeout)
            try:
                return self._took(locks.lock(self.name, wait=wait, task=task, **self._options()))
            except LockBusy:
                return False

    def locked(self) -> bool:
        """Whether anybody holds it."""
        return self._ask("LOCK.INFO", self.name) is not None

    def owned(self) -> bool:
        """Whether this object holds it: the server is asked."""
        return self._is_owner(self._ask("LOCK.INFO", self.name))

    def release(self) -> None:
        """Gives it back. LockNotOwnedError if it is no longer held."""
        token = self._held("release")
        self.local.token = None
        self.do_release(token)

    def do_release(self, expected_token: bytes | str) -> None:
        """Gives back what this token has acquired, here or in another process."""
        grant = self._own(expected_token)
        with self._as_theirs("release"):
            if grant is not None:
                grant.release()
            else:
                self._ask("LOCK.RELEASE", self.name, expected_token, "ALL")

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """It lasts this many seconds longer; with `replace_ttl`, this many from now on. LockError without a
        `timeout`."""
        token, _ = self._held("extend"), self._timed("extend")
        with self._as_theirs("extend"):
            left = 0.0 if replace_ttl else self._left_of(token)
            return self._last(token, left + additional_time)

    def reacquire(self) -> Literal[True]:
        """It lasts for its `timeout` from now on. LockError without one."""
        token, timeout = self._held("reacquire"), self._timed("reacquire")
        with self._as_theirs("reacquire"):
            return self._last(token, timeout)

    def _left_of(self, token: bytes) -> float:
        """How long it lasts from now on, in seconds."""
        if self.kept and self._own(token) is not None:
            return float(self.local.ends) - time.monotonic()
        left: int = self._ask("PTTL", self.name)
        return max(0, left) / 1000

    def _last(self, token: bytes, seconds: float) -> Literal[True]:
        """Sets how long it lasts from now on."""
        grant = self._own(token)
        if grant is None:  # acquired elsewhere
            self._ask("LOCK.RENEW", self.name, token, "PX", round(seconds * 1000))
        elif self.kept:
            grant.check()
            limit(grant, seconds)
        else:
            grant.extend(seconds)
        self.local.ends = time.monotonic() + seconds
        return True

    def _ask(self, *words: Any) -> Any:
        return self.redis.execute_command(*words)

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

    `timeout` is the longest time for which a process that lives, but hangs, keeps the lock.
    """

    kept = True
