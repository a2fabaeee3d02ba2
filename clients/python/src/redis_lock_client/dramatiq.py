"""The mutex and the concurrent limit of dramatiq, by this module: a rate limiter without a backend.

    MUTEX = LockRateLimiter(locks, "lock:stock")

    @dramatiq.actor
    def count():
        with MUTEX.acquire():
            ...
"""

from __future__ import annotations

from dramatiq.rate_limits import RateLimiter

from .errors import LockBusy
from .locks import Grant, Lock, Locks
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
        self._locks, self._wait = locks, wait
        self._grants: dict[object, list[Grant]] = {}

    def _place(self) -> Lock:
        """A place is of a fresh owner, also where there is only one."""
        at_most = None if self.ttl is None else self.ttl / 1000
        if self.limit > 1:
            return self._locks.permit(self.key, of=self.limit, wait=self._wait, at_most=at_most)
        return self._locks.lock(self.key, wait=self._wait, at_most=at_most, task=self._locks.task())

    def _acquire(self) -> bool:
        try:
            grant = self._place().acquire()
        except LockBusy:
            return False
        self._grants.setdefault(runs_now(), []).append(grant)
        return True

    def _release(self) -> None:
        mine = self._grants[runs_now()]
        grant = mine.pop()
        if not mine:
            del self._grants[runs_now()]
        grant.release()
