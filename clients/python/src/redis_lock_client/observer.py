"""What a program is told of its locks: by its observer, for metrics, and by log lines."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import ParamSpec

from .errors import LockError, LockLost, LockUnavailable, caused, show
from .grants import Held
from .options import Key

P = ParamSpec("P")
log = logging.getLogger("redis_lock_client")


class Observer:
    """Is told what happens, for metrics: make a class of it with the methods that you need.

    What a call does is told by its own thread or task, all else by a thread of its own, or by the loop. A method may
    use the locks, but must not block. What it raises is logged. Times are in seconds.
    """

    def acquired(self, key: Key, seconds: float) -> None:
        """A lock was taken, after so long."""

    def refused(self, key: Key, seconds: float, error: BaseException) -> None:
        """A lock was not taken, and that was known after so long. A call that was cancelled has no `LockError`."""

    def released(self, key: Key, seconds: float, error: BaseException | None) -> None:
        """A grant was released, with all its holds, after it was held for so long. The error is that of the release."""

    def lost(self, key: Key, error: LockLost) -> None:
        """A grant has ended otherwise than by its release."""

    def keeper_down(self, server: str, error: LockError) -> None:
        """The connection on which a server keeps the grants has ended. They stand for as long as their leases."""

    def keeper_up(self, server: str) -> None:
        """There is such a connection again."""


def safely(call: Callable[P, object], *args: P.args, **named: P.kwargs) -> None:
    """Calls what the user has given."""
    try:
        call(*args, **named)
    except Exception:
        log.exception("%s failed", getattr(call, "__qualname__", call))


class Reports:
    """Tells what happens. What is found with a mutex held, or by a keeper, is told by `soon`: not there."""

    def __init__(self, observer: Observer | None, soon: Callable[[Callable[[], None]], None]) -> None:
        self.observer, self._soon = observer, soon

    def released(self, held: Held, error: BaseException | None) -> None:
        """The last hold of a grant was given back. It is told once, however often that is tried."""
        if self.observer is None or held.is_told:
            return
        held.is_told = True
        if isinstance(error, LockLost):
            safely(self.observer.lost, held.request.key, error)
        safely(self.observer.released, held.request.key, time.monotonic() - held.since, error)

    def lost(self, held: Held) -> None:
        """A grant has ended otherwise than by its release."""

        def tell() -> None:
            log.warning("%s: lost: %s", show(held.request.key), held.why)
            if self.observer is not None:
                safely(self.observer.lost, held.request.key, held.lost())

        self._soon(tell)

    def keeper_down(self, server: str, error: Exception) -> None:
        """No connection keeps the grants of this server."""

        def tell() -> None:
            log.warning("%s: the connection that keeps locks is lost: %s", server, error)
            if self.observer is not None:
                own = error if isinstance(error, LockError) else LockUnavailable(f"{server}: {error}")
                safely(self.observer.keeper_down, server, own if own is error else caused(own, error))

        self._soon(tell)

    def keeper_up(self, server: str) -> None:
        """One does so again."""

        def tell() -> None:
            log.info("%s: there is a connection that keeps locks again", server)
            if self.observer is not None:
                safely(self.observer.keeper_up, server)

        self._soon(tell)
