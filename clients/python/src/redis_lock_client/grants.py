"""What is known of a grant, and when to look at it again. No I/O."""

from __future__ import annotations

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

    def __init__(self, request: Request, owner: str, keeper: Keeper, reply: list[Any], sent: float,
                 wire: Any = None) -> None:
        self.request, self.owner, self.keeper = request, owner, keeper
        self.wire = wire  # the wait connection on which it came, until the keeper takes it over
        self.token, self.holds = int(reply[0]), 1
        self.lease, self.keep = int(reply[3]) / 1000, request.keep
        self.ends = sent + request.at_most  # when the user wants it to end
        self.sent, self.epoch = sent, NEVER  # of the last call that proved it, and on which connection
        self.state, self.why = "held", ""  # held, released or lost
        self.since, self.is_told = time.monotonic(), False  # whether the observer knows of its release
        self.cause: BaseException | None = None
        self.task: Task | None = None
        self.listeners: list[Callable[[], None]] = []
        self.kind = (math.inf, math.inf)  # as its keeper counts it: the lease, and the silence
        self.pid = os.getpid()

    @property
    def name(self) -> bytes:
        """The key as the server knows it."""
        return self.request.name

    def proven(self, sent: float, epoch: int, reply: list[Any]) -> None:
        """A call that was sent then has found it held."""
        self.sent, self.epoch, self.lease = max(self.sent, sent), epoch, int(reply[3]) / 1000
        self.keeper.count(self)

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

    def take_wire(self) -> Any:
        """The connection of its wait, for whoever uses it last. From here on it has none."""
        wire, self.wire = self.wire, None
        return wire

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
