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

from .errors import LockBusy
from .threads import Grant, Locks

__all__ = ["LockRateLimiter"]


class LockRateLimiter(RateLimiter):  # type: ignore[misc]
    """In place of `ConcurrentRateLimiter(backend, key, limit=1, ttl=900000)`.

    A worker that dies frees its place a lease later. `ttl`, in milliseconds, is the longest time that a living worker
    keeps a place; without it, as long as it works. `wait`, in seconds: how long to wait in line for a place.

    >>> limiter = LockRateLimiter(locks, "lock:exports", limit=3)
    >>> with limiter.acquire(raise_on_failure=False) as has_place:
    ...     has_place
    True
    """

    def __init__(self, locks: Locks, key: str, *, limit: int = 1, ttl: int | None = None, wait: float = 0.0) -> None:
        super().__init__(None, key)
        self.limit, self.ttl, self.wait, self._locks = limit, ttl, wait, locks

    @contextmanager
    def acquire(self, *, raise_on_failure: bool = True) -> Iterator[bool]:
        """Whether there is a place; without one RateLimitExceeded is raised, unless `raise_on_failure` is false. Other
        errors: as `Locks.lock`. An error of the work is not replaced by one of the release."""
        try:
            grant: Grant | None = self._locks.lock(self.key, permits=self.limit, wait=self.wait,
                                                   max_hold=None if self.ttl is None else self.ttl / 1000)
        except LockBusy as error:
            if raise_on_failure:
                raise RateLimitExceeded(f"rate limit exceeded for key {self.key!r}") from error
            grant = None
        if grant is None:
            yield False
            return
        with grant:
            yield True
