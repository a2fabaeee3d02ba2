"""Locks on the Redis of Django's `CACHES`: the built-in `RedisCache`, and django-redis.

    from redis_lock_client.django import alone, get_or_compute

    @alone("orders:{order_id}", wait=5)
    def pay(order_id): ...

    page = get_or_compute("front-page", render, timeout=60)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from django.core.cache import caches
from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django.core.exceptions import ImproperlyConfigured

from . import alone as _alone
from .alone import grant
from .errors import LockError
from .observer import Observer
from .shared import close, locks_of
from .threads import Locks

__all__ = ["ComputationFailed", "alone", "close", "get_or_compute", "grant", "lock_key", "locks"]
F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")
log = logging.getLogger("redis_lock_client")
_MISSING: Any = object()
FAILED = 60  # seconds for which the cache remembers a failed computation


class ComputationFailed(Exception):
    """Another caller computed the value while this one waited for it, and that computation failed."""


def locks(using: str = "default", observer: Observer | None = None) -> Locks:
    """The locks on the server of this cache. All threads of the process have the same ones, for each observer. Raises
    ImproperlyConfigured for a cache that is not known to use Redis.

    >>> with locks().lock(lock_key("orders:42"), wait=5) as held:
    ...     held.held
    True
    """
    cache: Any = caches[using]
    get_client = getattr(getattr(cache, "client", None), "get_client", None)  # of django-redis
    if get_client is None:
        get_client = getattr(getattr(cache, "_cache", None), "get_client", None)  # of Django's own
    if get_client is None:
        raise ImproperlyConfigured(f"CACHES[{using!r}] is a {type(cache).__name__}, which is not known to use Redis")
    return locks_of(get_client(write=True), observer)


def lock_key(key: str, using: str = "default", version: int | None = None) -> str:
    """The name of a lock on the server: as the cache names its keys, with its prefix and version, after ``lock:``."""
    return f"lock:{caches[using].make_key(key, version=version)}"


def alone(key: str, *, using: str = "default", wait: float = 0.0, at_least: float = 0.0,
          observer: Observer | None = None) -> Callable[[F], F]:
    """A decorator: see `redis_lock_client.alone`. If others hold the lock for all of `wait` seconds, LockBusy is raised.

    >>> @alone("orders:{order_id}", wait=5)
    ... def pay(order_id):
    ...     return f"{order_id}: paid" if grant().token else order_id
    >>> pay(42)
    '42: paid'
    """
    return _alone.alone(lambda: locks(using, observer), key, wait=wait, at_least=at_least,
                        named=lambda name: lock_key(name, using))


def get_or_compute(key: str, compute: Callable[[], R], timeout: Any = DEFAULT_TIMEOUT, *,
                   using: str = "default", version: int | None = None, wait: float = 10.0,
                   observer: Observer | None = None) -> R:
    """`cache.get_or_set`, where one process computes the value and the others wait for it.

    Callers that wait while the computation fails get ComputationFailed, and do not repeat it one after the other. If
    the wait is longer than `wait` seconds, or no lock can be acquired, each caller computes for itself: the cache
    continues. `timeout`, in seconds, and `version`: as in `cache.set`. An error of `compute` is raised as it is.

    >>> get_or_compute("front-page", lambda: "<html>", timeout=60)
    '<html>'
    """
    cache, failed = caches[using], f"{key}:failed"
    found: Any = cache.get(key, _MISSING, version=version)
    if found is not _MISSING:
        return found  # type: ignore[no-any-return]
    with ExitStack() as stack:
        token: object = None
        try:
            failure = cache.get(failed, version=version)
            token = stack.enter_context(_held(locks(using, observer), lock_key(key, using, version), wait))
            found = cache.get(key, _MISSING, version=version)
            if found is not _MISSING:
                return found  # type: ignore[no-any-return]
            latest = cache.get(failed, version=version)
        except LockError:
            failure = latest = None  # no lock can be acquired
        if latest is not None and latest != failure:
            raise ComputationFailed(f"{key}: {latest}")
        try:
            value = compute()
        except Exception as error:
            if token is not None:
                cache.set(failed, f"{error!r} (computed with token {token})", FAILED, version=version)
            raise
        cache.set(key, value, timeout, version=version)
        return value


@contextmanager
def _held(locks: Locks, name: str, wait: float) -> Iterator[int]:
    """Holds the lock, and gives its token. A loss or a failed release is no error: the cache continues."""
    held = locks.lock(name, wait=wait)
    try:
        yield held.token
    finally:
        try:
            held.release()
        except LockError as error:
            log.info("%s: %s", name, error)
