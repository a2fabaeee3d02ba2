"""The wait connections of threads."""

from __future__ import annotations

import math
import threading
import time
import weakref
from contextlib import AbstractContextManager
from typing import Any

from .clients import Source
from .keeper import Unanswered
from .runtime import IDLE_SECONDS, LONGEST
from .wires import Wire

IDLE = 256  # how many stay open: opening one takes long where many threads do so at once
JUST_USED = 0.1  # seconds for which nobody looks whether an idle one has been closed meanwhile


class Gate:
    """What one caller waits at, once."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def open(self) -> None:
        """Lets the caller through."""
        try:
            self._lock.release()
        except RuntimeError:
            pass  # it is open

    def wait(self, seconds: float) -> bool:
        """Whether it has opened by then."""
        return self._lock.acquire(timeout=max(0.0, min(seconds, LONGEST)))


class Pool:
    """The wait connections: in use, and idle for the next wait."""

    def __init__(self, source: Source, mutex: AbstractContextManager[Any]) -> None:
        self._source, self._mutex = source, mutex
        self._idle: list[Wire] = []  # the last used last
        # What an exception of a signal makes nobody's is closed with the last reference to it.
        self._used: weakref.WeakSet[Wire] = weakref.WeakSet()
        self._is_over = False

    def take(self, place: Any) -> Wire | None:
        """An idle one, where there is one."""
        while True:
            with self._mutex:
                at = next((at for at in reversed(range(len(self._idle))) if self._idle[at].node == place), None)
                if at is None:
                    return None
                wire = self._idle.pop(at)
                self._used.add(wire)
            if time.monotonic() - wire.idle_since < JUST_USED or wire.is_fresh():
                return wire
            wire.close()

    def open(self, place: Any, until: float) -> Wire:
        """A new one, opened in a thread of its own, so that neither a time limit nor a signal is held up."""
        found: list[Any] = []
        gate, guard = Gate(), threading.Lock()
        left = False

        def connect() -> None:
            try:
                wire: Any = Wire(self._source, place, "lock-wait")
            except Exception as error:
                wire = self._source.failure(error)
            with guard:
                found.append(wire)
                if left and isinstance(wire, Wire):
                    wire.close()
            gate.open()

        try:
            threading.Thread(target=connect, name="lock-wait", daemon=True).start()
        except RuntimeError:  # at the end of the interpreter no thread can be started
            connect()
        try:
            gate.wait(until - time.monotonic())
        except BaseException:
            with guard:
                left = True
                if found and isinstance(found[0], Wire):
                    found[0].close()
            raise
        with guard:
            left = True
        if not found:
            raise Unanswered("no connection in time")
        if isinstance(found[0], Exception):
            raise found[0]
        wire: Wire = found[0]
        with self._mutex:
            self._used.add(wire)
            is_over = self._is_over
        if is_over:
            self.drop(wire)
            raise Unanswered("the locks were closed")
        return wire

    def give_back(self, wire: Wire) -> float:
        """Nothing is under way on it. Gives the time by which to look for old ones."""
        with self._mutex:
            if wire not in self._used:  # a signal came when it had just been dropped
                return math.inf
            self._used.discard(wire)
            if len(self._idle) < IDLE and not self._is_over:
                wire.idle_since = time.monotonic()
                self._idle.append(wire)
                return wire.idle_since + IDLE_SECONDS
        wire.close()
        return math.inf

    def drop(self, wire: Wire) -> None:
        """It is of no use any more."""
        with self._mutex:
            self._used.discard(wire)
        wire.close()

    def desert(self, wire: Wire) -> None:
        """It leads to a replica, and so may the idle ones that lead to the same place."""
        self.drop(wire)
        with self._mutex:
            left = [it for it in self._idle if it.node == wire.node]
            self._idle = [it for it in self._idle if it.node != wire.node]
        for it in left:
            it.close()

    def shut(self, place: Any) -> None:
        """Ends what is read on those in use that lead there."""
        with self._mutex:
            used = [wire for wire in self._used if wire.node == place]
        for wire in used:
            wire.shut()

    def close_old(self, now: float) -> float:
        """Closes those that were idle for long. Gives the time of the next look."""
        with self._mutex:
            old = [wire for wire in self._idle if wire.idle_since + IDLE_SECONDS <= now]
            self._idle = [wire for wire in self._idle if wire.idle_since + IDLE_SECONDS > now]
            first = self._idle[0].idle_since + IDLE_SECONDS if self._idle else math.inf
        for wire in old:
            wire.close()
        return first

    def close(self) -> None:
        """Closes the idle ones, and ends what is read on the others."""
        with self._mutex:
            self._is_over = True
            idle, self._idle = self._idle, []
            used = list(self._used)
        for wire in idle:
            wire.close()
        for wire in used:
            wire.shut()

    def all(self) -> list[Wire]:
        """What is open."""
        return [*self._idle, *self._used]
