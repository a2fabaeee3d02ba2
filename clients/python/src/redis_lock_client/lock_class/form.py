"""The common part of both lock classes: the arguments of redis-py's `Lock`, its state and its errors. No I/O."""

from __future__ import annotations

import importlib
import logging
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

from .._holding import attach
from ..errors import LockError, LockLost, LockMisuse, LockUnavailable
from ..observer import Observer

log = logging.getLogger("redis_lock_client")
GONE = ("NOTHELD", "NOTOWNER", "FENCED", "WRONGTYPE")  # the replies about a lock that its owner does not hold


class _Local(threading.local):
    token: bytes | None = None
    grant: Any = None
    ends = 0.0  # when its longest life is over


class Form:
    """The arguments are those of redis-py's `Lock`. `sleep` has no meaning: nobody polls."""

    kept: ClassVar[bool] = False
    observer: ClassVar[Observer | None] = None  # of a class of your own: it is notified of what happens

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
        grant = self.local.grant
        if grant is None:
            raise self._error("This token was acquired elsewhere")
        if grant.lost:
            raise self._not_owned("fence with")
        token: int = grant.token
        return token

    def _wait(self, blocking: bool | None, blocking_timeout: float | None) -> float | None:
        if not (self.blocking if blocking is None else blocking):
            return 0.0
        seconds = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        return None if seconds is None else max(0.0, seconds)

    def _options(self) -> dict[str, Any]:
        """The longest life, as `Locks.lock` takes it."""
        if not self.timeout:
            return {}
        return {"max_hold": self.timeout} if self.kept else {"lease": self.timeout}

    def _took(self, grant: Any) -> bool:
        self.local.token, self.local.grant = grant.owner.encode("utf-8", "surrogateescape"), grant
        self.local.ends = time.monotonic() + (self.timeout or math.inf)
        return True

    def _own(self, token: bytes | str) -> Any:
        """The grant of this token, if this object has acquired it; else None."""
        grant = self.local.grant
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

    def _is_owner(self, info: Any) -> bool:
        """Whether this object's token is the owner that LOCK.INFO names."""
        if info is None or self.local.token is None:
            return False
        pairs = info.items() if isinstance(info, dict) else zip(info[::2], info[1::2])
        return text(self.local.token) in [text(value) for name, value in pairs if text(name) == "owner"]

    def _not_owned(self, what: str) -> Exception:
        return self._error(f"Cannot {what} a lock that's no longer owned", "LockNotOwnedError")

    def _error(self, message: str, kind: str = "LockError") -> Exception:
        try:
            error: Exception = getattr(self._errors, kind)(message, lock_name=self.name)
        except TypeError:  # an error of an older library, which takes no name
            error = getattr(self._errors, kind)(message)
        return error

    @contextmanager
    def _as_theirs(self, what: str) -> Iterator[None]:
        """The errors of this package as those of the library."""
        try:
            yield
        except LockLost as error:
            raise self._not_owned(what) from error
        except LockUnavailable as error:
            raise self._errors.ConnectionError(str(error)) from error
        except LockMisuse as error:
            kind = "ResponseError" if "WRONGTYPE" in str(error) else "LockError"
            raise self._error(str(error), kind) from error
        except LockError as error:
            raise self._errors.ResponseError(str(error)) from error
        except self._errors.ResponseError as error:
            if str(error).startswith(GONE):
                raise self._not_owned(what) from error
            raise

    def _left(self, own: BaseException | None, error: Exception) -> None:
        """A `with` block has ended without its lock. An error of the block is not replaced."""
        if own is not None:
            attach(own, error)
            return
        if self.raise_on_release_error or not isinstance(error, self._errors.LockError):
            raise error
        log.warning("%s: was unlocked, or no longer owned, at the end of its block", text(self.name))


def text(token: Any) -> Any:
    """An owner's name."""
    return token.decode("utf-8", "surrogateescape") if isinstance(token, bytes) else token
