"""What both lock classes have in common: the arguments of redis-py's `Lock`, its state and its errors. No I/O."""

from __future__ import annotations

import importlib
import logging
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, ClassVar, Generic, TypeVar

from ..base import GrantBase, attach
from ..errors import LockError, LockLost, LockMisuse, LockUnavailable
from ..observer import Observer

G = TypeVar("G", bound=GrantBase)
log = logging.getLogger("redis_lock_client")
LEASE = 10.0  # seconds: the longest lease of a lock that is kept


class _Local(threading.local):
    token: bytes | None = None
    grant: Any = None
    ends = 0.0  # when its longest life is over


class Form(Generic[G]):
    """The arguments are those of redis-py's `Lock`. `sleep` has no meaning: nobody polls."""

    kept: ClassVar[bool] = False
    observer: ClassVar[Observer | None] = None  # of a class of your own: it is told what happens

    def __init__(
        self, redis: Any, name: str | bytes | memoryview, timeout: float | None = None, sleep: float = 0.1,
        blocking: bool = True, blocking_timeout: float | None = None, thread_local: bool = True,
        raise_on_release_error: bool = True,
    ) -> None:
        self.redis, self.timeout, self.sleep = redis, timeout, sleep
        self.name = bytes(name) if isinstance(name, memoryview) else name
        self.blocking, self.blocking_timeout = blocking, blocking_timeout
        self.thread_local, self.raise_on_release_error = bool(thread_local), raise_on_release_error
        self.local: Any = _Local() if thread_local else SimpleNamespace(token=None, grant=None, ends=0.0)
        library = next((kind.__module__.split(".")[0] for kind in type(redis).__mro__
                        if kind.__module__.split(".")[0] in ("redis", "valkey")), "redis")
        self._errors: Any = importlib.import_module(f"{library}.exceptions")

    @property
    def fencing_token(self) -> int:
        """Rises from holder to holder, to fence writes with. (`local.token` is the owner's name.)"""
        self._held("fence with")
        if self.local.grant is None:
            raise self._error("This token was taken elsewhere")
        with self._told("fence with"):
            token: int = self.local.grant.token
        return token

    def _wait(self, blocking: bool | None, blocking_timeout: float | None) -> float:
        if not (self.blocking if blocking is None else blocking):
            return 0.0
        seconds = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        return math.inf if seconds is None else max(0.0, seconds)

    def _options(self) -> dict[str, Any]:
        """The lease, as `Locks.lock` takes it."""
        if self.timeout is None or self.timeout == 0:
            return {}
        if self.kept:
            return {"lease": self._lease(), "at_most": self.timeout}
        return {"lease": self.timeout, "fixed": True}

    def _lease(self) -> float:
        return max(1.0, min(LEASE, (self.timeout or math.inf) / 2))

    def _took(self, grant: G) -> None:
        self.local.token, self.local.grant = grant.owner.encode("utf-8", "surrogateescape"), grant
        self.local.ends = time.monotonic() + (self.timeout or math.inf)

    def _own(self, token: bytes | str) -> G | None:
        """The grant of this token, where it has been taken by this object."""
        grant: G | None = self.local.grant
        return grant if grant is not None and grant.owner == text(token) else None

    def _held(self, what: str) -> bytes:
        """The token; refuses where there is none."""
        if self.local.token is None:
            raise self._error(f"Cannot {what} an unlocked lock")
        token: bytes = self.local.token
        return token

    def _timed(self, what: str) -> float:
        if not self.timeout:
            raise self._error(f"Cannot {what} a lock with no timeout")
        return self.timeout

    def _span(self, seconds: float) -> float:
        """How long a grant is to last from now on: one that is kept lasts for a lease at least."""
        return max(seconds, self._lease() + 0.001) if self.kept and self._is_kept() else seconds

    def _is_kept(self) -> bool:
        return self.timeout is None or self.timeout > self._lease()

    def _not_owned(self, what: str) -> Exception:
        return self._error(f"Cannot {what} a lock that's no longer owned", "LockNotOwnedError")

    def _error(self, message: str, kind: str = "LockError") -> Exception:
        try:
            error: Exception = getattr(self._errors, kind)(message, lock_name=self.name)
        except TypeError:  # an error of an older library, which takes no name
            error = getattr(self._errors, kind)(message)
        return error

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """The errors of this package as those of the library."""
        try:
            yield
        except LockLost as error:
            raise self._not_owned(what) from error
        except LockUnavailable as error:
            raise self._errors.ConnectionError(str(error)) from error
        except LockMisuse as error:
            if error.__cause__ is None:  # not of the server
                raise self._error(str(error)) from error
            raise self._errors.ResponseError(str(error)) from error
        except LockError as error:
            raise self._errors.ResponseError(str(error)) from error

    def _left(self, own: BaseException | None, error: Exception) -> None:
        """A `with` block has ended without its lock. An error of its own is told before that."""
        if own is not None:
            attach(own, error)
            return
        if self.raise_on_release_error or not isinstance(error, self._errors.LockError):
            raise error
        log.warning("%s: was unlocked, or no longer owned, at the end of its block", text(self.name))


def text(token: bytes | str) -> str:
    """An owner's name."""
    return token.decode("utf-8", "surrogateescape") if isinstance(token, bytes) else token
