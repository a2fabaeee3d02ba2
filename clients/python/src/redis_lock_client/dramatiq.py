"""The mutex and the concurrent limit of dramatiq, by this module: a rate limiter without a backend.

    MUTEX = LockRateLimiter(locks, "lock:stock")

    @dramatiq.actor
    def count():
        with MUTEX.acquire():
            ...
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dramatiq.errors import RateLimitExceeded
from dramatiq.rate_limits import RateLimiter

from .base import told_at_end
from .errors import LockBusy, LockError
from .locks import Grant, Locks
from .owners import runs_now

__all__ = ["LockRateLimiter"]


class LockRateLimiter(RateLimiter):  # type: ignore[misc]
    """In place of `ConcurrentRateLimiter(backend, key, limit=1, ttl=900000)`.

    A worker that dies frees its place a lease later. `ttl`, in milliseconds, is the longest time that a place is kept
    for one that lives; without it, as long as it works. `wait`, in seconds: how long to wait in line for a place.
    """

    def __init__(self, locks: Locks, key: str, *, limit: int = 1, ttl: int | None = None, wait: float = 0.0) -> None:
        super().__init__(None, key)
        self.limit, self.ttl = limit, ttl
        at_most = None if ttl is None else ttl / 1000
        self._lock = locks.permit(key, of=limit, wait=wait, at_most=at_most)
        self._grants: dict[object, list[Grant]] = {}

    @contextmanager
    def acquire(self, *, raise_on_failure: bool = True) -> Iterator[bool]:
        """Whether there is a place. An error of the work is not replaced by one of the release."""
        acquired, failed = False, None
        try:
            acquired = self._acquire()
            if raise_on_failure and not acquired:
                raise RateLimitExceeded(f"rate limit exceeded for key {self.key!r}")
            yield acquired
        except BaseException as error:
            failed = error
            raise
        finally:
            if acquired:
                try:
                    self._release()
                except LockError as error:
                    if told_at_end(failed, error):
                        raise

    def _acquire(self) -> bool:
        grant = None
        try:
            grant = self._lock.acquire()
            self._grants.setdefault(runs_now(), []).append(grant)
        except LockBusy:
            return False
        except BaseException:  # of a signal
            if grant is not None:
                grant._give_up()
            raise
        return True

    def _release(self) -> None:
        mine = self._grants[runs_now()]
        grant = mine.pop()
        try:
            if not mine:
                del self._grants[runs_now()]
            grant.release()
        except BaseException:  # of a signal
            grant._give_up()
            raise
