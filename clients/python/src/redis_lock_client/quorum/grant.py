"""A lock that a majority of the servers has granted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from types import TracebackType
from typing import Any

from .._holding import attach
from ..errors import LockError, LockLost, LockMisuse, LockUnavailable
from ..observer import Observer, log
from ..threads import Grant

__all__ = ["QuorumGrant", "in_background", "majority_of", "notify"]


def majority_of(servers: int) -> int:
    """How many of the servers have to agree."""
    return servers // 2 + 1


def in_background(work: Callable[..., object], *words: object) -> threading.Thread:
    """Runs it on a thread of its own: a server that hangs holds up no call to another."""
    thread = threading.Thread(target=work, args=words, name="redis-lock-quorum", daemon=True)
    thread.start()
    return thread


def notify(call: Callable[..., object], *words: object) -> None:
    """Calls what the user has given."""
    try:
        call(*words)
    except Exception:
        log.exception("%r failed", call)


def give_back(part: Grant) -> None:
    """Releases what one server has granted. If it does not answer, its session repeats the release."""
    try:
        part.release()
    except LockError as error:
        log.debug("%s", error)


class QuorumGrant:
    """A lock that a majority of the servers has granted, until its release or its loss. A context manager: the end of
    the block releases it.

    Each server renews its part. When a server loses its part the others keep the lock; with fewer than a majority it
    is lost. `key` is the key with the client's prefix, `token` the fencing token, the same on all servers: later grants of
    the lock have higher ones.
    """

    def __init__(self, key: str, token: int, servers: int, observer: Observer) -> None:
        self.key, self.token = key, token
        self._servers, self._majority, self._observer = servers, majority_of(servers), observer
        self._since = time.monotonic()
        self._mutex = threading.Lock()
        self._parts: list[Grant] = []  # that are not lost
        self._losses: list[str] = []
        self._failure: LockError | None = None  # why it is not held any more
        self._calls: list[Callable[[QuorumGrant], object]] = []

    @property
    def held(self) -> bool:
        """Whether nobody else has the lock, by the clock alone. Also false while a majority of the servers is
        silent."""
        return self.remaining > 0

    @property
    def remaining(self) -> float:
        """The seconds for which `held` stays true without another reply of a server."""
        with self._mutex:
            left = sorted((part.remaining for part in self._parts), reverse=True)
            if self._failure is not None or len(left) < self._majority:
                return 0.0
        return max(0.0, left[self._majority - 1] * 0.99 - 0.002)  # clocks drift a little

    @property
    def lost(self) -> str | None:
        """The servers' reports of the loss, or None: the grant is not lost."""
        return "; ".join(self._losses) if isinstance(self._failure, LockLost) else None

    def on_lost(self, call: Callable[[QuorumGrant], object]) -> None:
        """Calls this, on a thread of its own, when the grant is lost, not when it is released; at once if it is lost
        already."""
        with self._mutex:
            self._calls.append(call)
            is_lost = isinstance(self._failure, LockLost)
        if is_lost:
            in_background(notify, call, self)

    def check(self) -> None:
        """Asks the servers whether the grant still exists. Raises LockLost if a majority no longer has it,
        LockUnavailable if too few answer."""
        with self._mutex:
            parts, error = [*self._parts], self._failure
        error = error or self._ask(parts, Grant.check)
        if error:
            raise error

    def release(self) -> None:
        """Gives the lock back on all servers. Returns when a majority has answered; the sessions repeat what the others
        have not answered. Raises LockLost if it was lost before, LockUnavailable if too few have answered in time."""
        with self._mutex:
            parts, error = self._parts, self._failure
            if error is None:
                self._failure = LockMisuse(f"{self.key}: it was released already")
        error = error or self._ask(parts, Grant.release)
        notify(self._observer.released, self.key, time.monotonic() - self._since, error)
        if error:
            raise error

    def __enter__(self) -> QuorumGrant:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        try:
            self.release()
        except LockError as failure:
            if error is None:
                raise
            attach(error, failure)

    def add(self, part: Grant) -> bool:
        """Takes in what one more server has granted. False if the grant has ended: then the part has to be given back."""
        with self._mutex:
            if self._failure is not None:
                return False
            self._parts.append(part)
        part.on_lost(self._part_lost)
        return True

    def _part_lost(self, part: Grant) -> None:
        with self._mutex:
            if self._failure is not None or part not in self._parts:
                return
            self._parts.remove(part)
            self._losses.append(f"{part.lost}")
            if len(self._parts) >= self._majority:
                return
            error = LockLost(f"{self.key}: the lock was lost, no majority of the servers still has it: "
                             f"{', '.join(self._losses)}. Stop the work under it")
            self._failure, calls, parts = error, self._calls, self._parts
        log.warning("%s", error)
        notify(self._observer.lost, self.key, error)
        for call in calls:
            in_background(notify, call, self)
        for left in parts:
            in_background(give_back, left)

    def _ask(self, parts: Sequence[Grant], call: Callable[[Grant], None]) -> LockError | None:
        """Asks for each part at once, until a majority has agreed or can no longer agree. Returns the error."""
        replies: SimpleQueue[Any] = SimpleQueue()

        def ask(part: Grant) -> None:
            reply = None
            try:
                call(part)
            except BaseException as error:
                reply = error
            replies.put(reply)

        for part in parts:
            in_background(ask, part)
        errors: list[BaseException] = []
        agreed = 0
        while agreed < self._majority and agreed + len(errors) < len(parts):
            reply = replies.get()
            if reply is None:
                agreed += 1
            else:
                errors.append(reply)
        if agreed >= self._majority:
            return None
        lost = self._servers - len(parts) + sum(isinstance(error, LockLost) for error in errors)
        others = [type(error) for error in errors if isinstance(error, LockError) and not isinstance(error, LockLost)]
        is_lost = self._servers - lost < self._majority
        kind = LockLost if is_lost else others[0] if others else LockUnavailable
        return kind(f"{self.key}: no majority of the servers: {'; '.join(map(str, [*self._losses, *errors]))}")
