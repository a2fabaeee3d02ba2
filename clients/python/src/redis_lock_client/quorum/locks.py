"""Acquires a lock from a majority of several servers."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from ..errors import LockBusy, LockError, LockMisuse, LockRefused, LockUnavailable
from ..observer import Observer
from ..threads import Grant, Locks
from .attempt import Attempt, Member
from .grant import QuorumGrant, give_back, in_background, notify

__all__ = ["Quorum"]


class _OfServers(Observer):
    """The events of each server for the observer of a quorum: those of its connection."""

    def __init__(self, observer: Observer) -> None:
        self.connection = observer.connection  # type: ignore[method-assign]


class Quorum:
    """Locks that a majority of several servers keep together, for any number of threads: a single server that fails,
    hangs or is cut off neither prevents an acquire nor loses a lock. They are exclusive. A context manager: the end of
    the block calls `close`.

    >>> with Quorum(clients, name="reports") as quorum, quorum.lock("lock:report", wait=10) as grant:
    ...     grant.check()  # before a step that matters
    ...     grant.held
    True
    """

    def __init__(self, clients: Sequence[Any], *, name: str | None = None, lease: float = 10.0, silence: float = 30.0,
                 reply: float = 1.0, prefix: str = "", observer: Observer | None = None) -> None:
        """clients: one for each of at least three independent servers: none is a replica of another. All programs name
        them in the same order. The rest: see `redis_lock_client.Locks`. Raises LockMisuse for fewer than three, and as
        `Locks` does."""
        if len(clients) < 3:
            raise LockMisuse("a quorum needs at least three servers")
        self._observer, self._prefix = observer or Observer(), prefix
        of_servers = _OfServers(self._observer)
        self._members = [Member(f"server {number}", Locks(client, name=name, lease=lease, silence=silence, reply=reply,
                                                          prefix=prefix, observer=of_servers))
                         for number, client in enumerate(clients, 1)]

    def lock(self, key: str, *, wait: float | None = None, lease: float | None = None, max_hold: float | None = None,
             on_lost: Callable[[QuorumGrant], object] | None = None) -> QuorumGrant:
        """Acquires the lock and returns its grant: `with quorum.lock("lock:report", wait=10) as grant`. The arguments and
        errors: see `redis_lock_client.Locks.lock`. Waiting callers queue at the first server that answers.

        >>> with Quorum(clients) as quorum, quorum.lock("lock:report"):
        ...     try:
        ...         quorum.lock("lock:report", wait=0)
        ...     except LockBusy:
        ...         print("busy")
        busy
        """
        begun, full, error = time.monotonic(), self._prefix + key, None
        try:
            grant = self._acquire(key, full, begun + (math.inf if wait is None else wait),
                                  {"lease": lease, "max_hold": max_hold})
        except BaseException as raised:
            error = raised
            raise
        finally:
            notify(self._observer.acquired, full, time.monotonic() - begun, error)
        if on_lost is not None:
            grant.on_lost(on_lost)
        return grant

    def close(self) -> None:
        """Ends all waits, releases all locks and closes the connections. See `redis_lock_client.Locks.close`."""
        for closing in [in_background(member.locks.close) for member in self._members]:
            closing.join()

    def __enter__(self) -> Quorum:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _acquire(self, key: str, full: str, end: float, options: dict[str, Any]) -> QuorumGrant:
        """Asks all servers at once. A caller that gets no majority gives back what it got, and waits in line at the first
        server that answers. Only the first in that line keeps what it has while it waits for the other servers, so two
        callers never wait for each other; if they disagree about the first server, the end of their turns resolves
        that."""
        place: _Place | None = None
        pause, is_stuck = 0.02, end <= time.monotonic()
        try:
            while True:
                attempt = Attempt(self._members, key, options)
                try:
                    turn = place.taken() if place else None
                    first = attempt.begin(place.member if place else 0, turn)
                    if turn:
                        place = None
                    has_first = first is not None and attempt.votes[first].grant is not None
                    if has_first and not attempt.has_majority and time.monotonic() < end:
                        attempt.queue(_turn(end))
                    # Callers in line at the first server come before, unless the line there does not move.
                    if has_first or first is not None and is_stuck:
                        attempt.raise_all()
                    if attempt.token:
                        return attempt.granted(full, self._observer)
                except BaseException:
                    attempt.end(None)
                    raise
                attempt.end(None)
                if attempt.is_hopeless or time.monotonic() >= end:
                    raise _failure(attempt, full)
                if first is None or has_first:  # too few servers answer, or the turn is over
                    is_stuck = False
                    time.sleep(max(0.0, min(random.uniform(0, pause), end - time.monotonic())))
                    pause = min(2 * pause, 0.25)
                    continue
                if place is None or place.is_over or place.member != first:
                    if place:
                        place.leave()
                    place = _Place(self._members[first], first, key, end, options)
                is_stuck, pause = not place.wait(_turn(end)), 0.02
        finally:
            if place:
                place.leave()


def _turn(end: float) -> float:
    """How long the first in line waits for the other servers before it joins the end of the line, and how long the
    others wait before they see whether a majority is free anyway."""
    left = max(0.0, end - time.monotonic())
    return min(random.uniform(1, 2), max(left / 2, 0.05), left)


def _failure(attempt: Attempt, full: str) -> LockError:
    """Why there is no majority."""
    kind: type[LockError] = LockUnavailable
    if attempt.is_hopeless:
        kind = attempt.refusal or LockRefused
    elif attempt.has_answers:
        kind = LockBusy
    return kind(f"{full}: no majority of the servers: {attempt.causes}")


class _Place:
    """A place in the line of one server."""

    def __init__(self, at: Member, member: int, key: str, end: float, options: dict[str, Any]) -> None:
        self.member, self.is_over = member, False
        self._mutex, self._news, self._stop = threading.Lock(), threading.Event(), threading.Event()
        self._grant: Grant | None = None
        in_background(self._run, at.locks, key, None if end == math.inf else max(0.0, end - time.monotonic()),
                      {**options, "max_hold": None})

    def _run(self, locks: Locks, key: str, wait: float | None, options: dict[str, Any]) -> None:
        try:
            grant = locks.lock(key, wait=wait, stop=self._stop, **options)
        except LockError:
            self.is_over = True
            return
        with self._mutex:
            self.is_over = True
            if not self._stop.is_set():
                self._grant = grant
                self._news.set()
                return
        give_back(grant)

    def wait(self, seconds: float) -> bool:
        """Whether the turn has come within this time."""
        return self._news.wait(seconds)

    def taken(self) -> Grant | None:
        """The grant of the server, if the turn has come: it belongs to the caller now."""
        with self._mutex:
            grant, self._grant = self._grant, None
            return grant

    def leave(self) -> None:
        """Gives up the place."""
        with self._mutex:
            self._stop.set()
            grant, self._grant = self._grant, None
        if grant:
            in_background(give_back, grant)
