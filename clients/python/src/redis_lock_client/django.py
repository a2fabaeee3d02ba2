"""Locks on the Redis of Django's `CACHES`: the built-in `RedisCache`, and django-redis.

    from redis_lock_client.django import alone, get_or_compute

    @alone("orders:{order_id}", wait=5)
    def pay(order_id): ...

    page = get_or_compute("front-page", render, timeout=60)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, cast

from django.core.cache import caches
from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django.core.exceptions import ImproperlyConfigured

from . import alone as _alone
from .alone import grant
from .errors import LockError
from .locks import Grant, Locks
from .observer import Observer
from .shared import close, locks_of

__all__ = ["alone", "close", "get_or_compute", "grant", "lock_key", "locks"]
P = ParamSpec("P")
R = TypeVar("R")
_MISSING: Any = object()


def locks(using: str = "default", observer: Observer | None = None) -> Locks:
    """The locks on the server of this cache. All threads of the process have the same ones, for each observer."""
    cache: Any = caches[using]
    get_client = getattr(getattr(cache, "client", None), "get_client", None)  # of django-redis
    if get_client is None:
        get_client = getattr(getattr(cache, "_cache", None), "get_client", None)  # of Django's own
    if get_client is None:
        raise ImproperlyConfigured(f"CACHES[{using!r}] is a {type(cache).__name__}: not known to be on Redis")
    return locks_of(get_client(write=True), observer)


def lock_key(key: str, using: str = "default", version: int | None = None) -> str:
    """The name of a lock on the server: as the cache names its keys, with its prefix and version, after ``lock:``."""
    return f"lock:{caches[using].make_key(key, version=version)}"


def alone(key: str, *, using: str = "default", wait: float = 0.0, lease: float = 10.0, keep: float = 30.0,
          at_least: float = 0.0, observer: Observer | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: see `redis_lock_client.alone`. Where others hold the lock for all of `wait`, LockBusy is raised."""
    return _alone.alone(lambda: locks(using, observer), key, wait=wait, lease=lease, keep=keep, at_least=at_least,
                        named=lambda name: lock_key(name, using))


def get_or_compute(key: str, compute: Callable[[], R], timeout: Any = DEFAULT_TIMEOUT, *,
                   using: str = "default", version: int | None = None, wait: float = 10.0,
                   observer: Observer | None = None) -> R:
    """`cache.get_or_set`, where one process computes the value and the others wait for it.

    Where that takes longer than `wait`, or there is no lock to be had, each computes it for itself: the cache
    goes on.
    """
    cache = caches[using]
    work = _Work(compute, lambda value: cache.set(key, value, timeout, version=version))

    def look() -> tuple[R] | None:
        found = cache.get(key, _MISSING, version=version)
        return None if found is _MISSING else (cast(R, found),)

    if (found := look()) is not None:
        return found[0]
    try:
        return locks(using, observer).once(lock_key(key, using, version), look, work, wait=wait)[0]
    except LockError:
        if work.is_begun and not work.made:
            raise  # of the work itself
    return work.made[0] if work.made else work()[0]


class _Work(Generic[R]):
    """Computes the value, and puts it into the cache."""

    def __init__(self, compute: Callable[[], R], put: Callable[[R], None]) -> None:
        self._compute, self._put = compute, put
        self.is_begun = False
        self.made: tuple[R] | None = None

    def __call__(self, _: Grant | None = None) -> tuple[R]:
        self.is_begun = True
        value = self._compute()
        self.made = (value,)
        self._put(value)
        return self.made
