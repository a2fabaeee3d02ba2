"""What is known of a grant, and when to look at it again. No I/O."""

from __future__ import annotations

import heapq
import itertools
import math
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .errors import LockLost, LockMisuse, caused, show
from .options import Request

if TYPE_CHECKING:
    from .keeper import Keeper
    from .owners import Task


NEVER = -1  # a connection that no keeper has had


class Held:
    """One unbroken ownership of a lock by one owner: what all its holds have in common."""

    def __init__(self, request: Request, owner: str, keeper: Keeper, reply: list[Any], sent: float) -> None:
        self.request, self.owner, self.keeper = request, owner, keeper
        self.token, self.holds = int(reply[0]), 1
        self.lease, self.keep = int(reply[3]) / 1000, request.keep
        self.ends = sent + request.at_most  # when the user wants it to end
        self.sent, self.epoch = sent, NEVER  # of the last call that proved it, and on which connection
        self.state, self.why = "held", ""  # held, released or lost
        self.since, self.is_told = time.monotonic(), False  # whether the observer knows of its release
        self.cause: BaseException | None = None
        self.task: Task | None = None
        self.listeners: list[Callable[[], None]] = []
        self.pace = 0.0  # how often its keeper is asked, for its sake
        self.pid = os.getpid()

    @property
    def name(self) -> bytes:
        """The key as the server knows it."""
        return self.request.name

    def proven(self, sent: float, epoch: int, reply: list[Any]) -> None:
        """A call that was sent then has found it held."""
        self.sent, self.epoch, self.lease = max(self.sent, sent), epoch, int(reply[3]) / 1000

    def known_until(self) -> float:
        """The time from which nothing is known of it any more."""
        proof = self.sent
        if self.keep and self.epoch == self.keeper.epoch:
            proof = max(proof, self.keeper.proven_after(self.sent))
        return min(proof + self.lease, self.ends)

    def renewal(self) -> tuple[str | bytes | int, ...]:
        """The call that keeps it on another connection."""
        words = ("LOCK.RENEW", self.name, self.owner, "TOKEN", self.token)
        return (*words, "KEEP", math.ceil(self.keep * 1000)) if self.keep else words

    def lost(self) -> LockLost:
        """What is told of its loss."""
        told = LockLost(f"{show(self.request.key)}: {self.why}")
        caused(told, self.cause)
        return told

    def must_stand(self) -> None:
        """Raises unless it is held, as far as is known."""
        self.must_be_ours()
        if self.state == "lost":
            raise self.lost()
        if self.state == "released":
            raise LockMisuse(f"{show(self.request.key)}: released")

    def must_be_ours(self) -> None:
        """A forked child holds nothing."""
        if self.pid != os.getpid():
            raise LockMisuse(f"{show(self.request.key)}: held by the parent process, not by this one")


class Deadlines:
    """The grants by the time at which each has to be looked at."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Held]] = []
        self._numbers = itertools.count()

    def put(self, held: Held, at: float) -> float:
        """One more, or one more time for one. Gives that time."""
        if at < math.inf:
            heapq.heappush(self._heap, (at, next(self._numbers), held))
        return at

    def first(self) -> float:
        """When the first one is due."""
        return self._heap[0][0] if self._heap else math.inf

    def due(self, now: float) -> list[Held]:
        """Takes out what is due. Grants that have ended are dropped, so that none of them is the first to come."""
        found = []
        while self._heap and (self._heap[0][0] <= now or self._heap[0][2].state != "held"):
            held = heapq.heappop(self._heap)[2]
            if held.state == "held":
                found.append(held)
        return found

    def shrink(self, live: int) -> None:
        """Drops grants that have ended, where they are most of all."""
        if len(self._heap) > 2 * live + 256:
            self._heap = [entry for entry in self._heap if entry[2].state == "held"]
            heapq.heapify(self._heap)
