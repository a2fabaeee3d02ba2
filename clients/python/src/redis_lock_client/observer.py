"""The observer: what a program can learn of its locks, for metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from .errors import LockLost

log = logging.getLogger("redis_lock_client")


class Observer:
    """Is notified of what happens. Make a class of it with the methods that you need; none of them may block.

    `acquired` and `released` run in the thread or the task of the call; `lost` and `connection` run on a thread of
    their own, or in the event loop. Their errors are logged. Times are in seconds. Keys have the client's prefix.

    >>> from redis_lock_client import Locks
    >>> class Failures(Observer):
    ...     def acquired(self, key, seconds, error):
    ...         print(key, "granted" if error is None else f"not granted: {error}")
    >>> with Locks(client, observer=Failures()) as locks, locks.lock("lock:orders:42"):
    ...     pass
    lock:orders:42 granted
    """

    def acquired(self, key: str, seconds: float, error: BaseException | None) -> None:
        """An acquire or an adoption has ended, after this time; error is None if the lock was granted."""

    def released(self, key: str, seconds: float, error: BaseException | None) -> None:
        """A release has ended. The lock was held for this time."""

    def lost(self, key: str, error: LockLost) -> None:
        """A grant ended before it was released."""

    def connection(self, server: str, error: BaseException | None) -> None:
        """The connection of a session has broken; with None: it is back, or no longer needed."""


def safely(call: Callable[..., Any], *args: object) -> Any:
    """Calls what the user has given, or what runs in the background: its error is logged."""
    try:
        return call(*args)
    except Exception:
        log.exception("a function of the redis-lock client, or one that it was given, failed")
        return None
