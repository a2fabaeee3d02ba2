"""What is known of a grant, and when to look at it again. No I/O."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import LockLost, LockMisuse, caused, show
from .options import Request

if TYPE_CHECKING:
    from .keeper import Keeper
    from .owners import Task


NEVER = -1  # a connection that no keeper has had


class Last(NamedTuple):
    """The connection that kept a grant last. On another, what ends that, or has it kept, comes behind a look at who keeps it
    by then."""

    keeper: Keeper
    epoch: int
    name: bytes
    owner: str
    token: int = 0  # 0: it is not known
    held: Held | None = None  # where it is to stay

    def is_of(self, holder: dict[bytes, Any]) -> bool:
        """Whether this entry of LOCK.HOLDERS is about it."""
        if self.token:
            return bool(holder[b"token"] == self.token)
        return bool(holder[b"owner"] == self.owner.encode("utf-8", "surrogateescape"))

    def is_being_entered(self) -> bool:
        """Whether it is to stay, and a call of its owner is under way that may have it kept here."""
        return self.held is not None and self.held.state == "held" and self.held.is_being_entered()


class Held:
    """One unbroken ownership of a lock by one owner: what all its holds have in common."""

    def __init__(self, request: Request, owner: str, keeper: Keeper, reply: list[Any], sent: float,
                 wire: Any = None, task: Task | None = None) -> None:
        self.request, self.owner, self.keeper, self.task = request, owner, keeper, task
        # Others may use that name, too, and release it or keep it, of which no connection tells.
        self.is_named = task is not None and task.is_named
        self.wire = wire  # the wait connection on which it came, until the keeper takes it over
        self.token, self.holds = int(reply[0]), 1
        self.lease, self.keep = int(reply[3]) / 1000, request.keep
        self.ends = sent + request.at_most  # when the user wants it to end
        self.sent, self.epoch = sent, NEVER  # of the last call that proved it, and on which connection
        self.leased = sent  # when the call was sent that made this its lease
        self.state, self.why = "held", ""  # held, released or lost
        self.since, self.is_told = time.monotonic(), False  # whether the observer knows of its release
        self.cause: BaseException | None = None
        self.is_let_go = False  # whether the server has heard that nobody renews it any more
        self.listeners: list[Callable[[], None]] = []
        self.kind = (math.inf, math.inf)  # as its keeper counts it: the lease, and the silence
        self.pid = os.getpid()

    @property
    def name(self) -> bytes:
        """The key as the server knows it."""
        return self.request.name

    def proven(self, sent: float, epoch: int, reply: list[Any]) -> None:
        """A call that was sent then has found it held."""
        self.sent, self.epoch = max(self.sent, sent), epoch
        self.has_lease(sent, int(reply[3]) / 1000)

    def has_lease(self, sent: float, lease: float) -> None:
        """The answer to a call that was sent then. Threads may take their answers in another order than that of the calls."""
        if sent > self.leased:
            self.leased, self.lease = sent, lease
        elif sent == self.leased:
            self.lease = min(self.lease, lease)
        self.keeper.count(self)

    def may_have_lease(self, begun: float, lease: float) -> tuple[float, float, float] | None:
        """A call since then may make this its lease: where that is shorter, it is known for no longer. What to go back to."""
        if begun + lease >= self.known_until():
            return None
        before = (self.sent, self.leased, self.lease)
        self.sent = self.leased = begun
        self.lease = lease
        self.keeper.count(self)
        return before

    def has_no_such_lease(self, begun: float, before: tuple[float, float, float] | None) -> None:
        """That call has been refused."""
        if before is not None and self.leased == begun:
            self.sent, self.leased, self.lease = before[0] if self.sent == begun else self.sent, before[1], before[2]
            self.keeper.count(self)

    def is_being_entered(self) -> bool:
        """Whether a call of its owner for this key is under way."""
        return self.task is not None and self.name in self.task.acquiring

    def last(self) -> Last:
        """The connection that kept it last; none, where nobody keeps it any more."""
        epoch = NEVER if self.request.keep and not self.keep else self.epoch
        return Last(self.keeper, epoch, self.name, self.owner, self.token)

    def last_if_named(self) -> Last | None:
        """The same, where others may have it kept by now."""
        return self.last() if self.is_named else None

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
        told.of = self
        caused(told, self.cause)
        return told

    def less(self, holds: int) -> tuple[str | bytes | int, ...]:
        """The call that leaves so many holds of it."""
        return ("LOCK.RELEASE", self.name, self.owner, "HOLDS", holds, "TOKEN", self.token)

    def take_wire(self) -> Any:
        """The connection of its wait, for whoever uses it last. From here on it has none."""
        wire, self.wire = self.wire, None
        return wire

    def must_stand(self) -> None:
        """Raises unless it is held, as far as is known."""
        self.must_be_ours()
        if self.state == "lost":
            raise self.lost()
        self.must_not_be_let_go()

    def must_not_be_let_go(self) -> None:
        """Another hold of it may have been, with all of them: it is for others to release."""
        if self.state == "released":
            raise LockMisuse(f"{show(self.request.key)}: released")

    def must_be_ours(self) -> None:
        """A forked child holds nothing."""
        if self.pid != os.getpid():
            raise LockMisuse(f"{show(self.request.key)}: held by the parent process, not by this one")
