"""A claim: one acquire, which is first a wait and then a grant."""

from __future__ import annotations

import random
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, Optional

from ..errors import LockError
from .faults import Command, Fault

Name = tuple[str, str]  # key and owner: no two claims of a client have the same

# The phases. A wait is asked, in line or over (ended without a grant). A grant that is held and whose time has passed is
# unsure.
ASKED, IN_LINE, OVER, HELD, LOST, RELEASED = "asked", "in line", "over", "held", "lost", "released"

FAR = 1e12  # the end of a wait without a limit
LEAST_LEASE = 1.0  # the shortest that the server renews
TEN_YEARS = 315_360_000.0  # the longest time that the server takes


def pause(tries: int) -> float:
    """The time before the next try: none at first, then from 50 ms growing to 1 s, with jitter."""
    return min(0.05 * 2 ** min(tries - 1, 5), 1.0) * random.uniform(0.5, 1) if tries > 0 else 0.0


def milliseconds(seconds: float) -> int:
    """Rounds up."""
    return -int(-seconds * 1000 // 1)


class Task:
    """One owner for all locks of one piece of work, made by `Locks.task`: it enters a lock again that it holds, and
    the server finds a deadlock among tasks. Pass it along with the work; never share it between two."""

    def __init__(self, owner: str = "") -> None:
        self.owner = owner  # to the server. Without one, the next acquire uses a fresh one
        self.grants: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()  # by key


class Terms(NamedTuple):
    """How a lock is acquired."""

    mode: Command
    lease: float
    fixed: bool  # the lease is not renewed
    wait: Optional[float]  # seconds; 0: not at all; None: without a limit
    max_hold: Optional[float] = None
    on_lost: Optional[Callable[[Any], object]] = None
    stop: Optional[Callable[[], bool]] = None


class Claim:
    """One acquire: first a wait, then a grant. The attributes are changed by `State` alone."""

    def __init__(self, name: Name, terms: Terms, at: float, *, caller: Any = None, task: Optional[Task] = None,
                 adopts: int = 0) -> None:
        """Makes a claim, whose wait begins now."""
        self.name, self.terms, self.caller, self.task = name, terms, caller, task
        self.key, self.owner = name
        self.adopts = adopts  # the token of a grant that is taken over; 0: the lock is acquired
        self.phase = ASKED
        self.session = 0  # of the place, or of the grant; 0: none
        self.token, self.holds, self.lease, self.fixed = 0, 1, terms.lease, terms.fixed
        self.needs_session = terms.wait != 0 or not terms.fixed  # the call names one
        self.begun = at
        self.end = FAR if terms.wait is None else at + terms.wait  # of the caller's time
        self.open = 0  # acquires without a reply, which the server may still carry out
        self.cause: Optional[Fault] = None  # the last passing error
        self.tries = 0  # that got one
        self.rests: tuple[int, float] = (-1, 0.0)  # the session in which it does not ask again before this time
        self.ended_at = -FAR  # when the session reported the end of a place with one
        self.failure: Optional[LockError] = None  # of a wait that is over
        self.handed_over = False  # the user has the grant
        self.sure = 0.0  # see State.sure
        self.joined = 0.0  # no POLL counts up to this one: it was sent before the grant, or its lease, was known
        self.reason = ""  # of the loss
        self.doubt = ""  # another cluster node may have the grant: the reason of its loss if not
        self.cut_at = FAR  # when its maximum time is over

    @property
    def ends_at(self) -> float:
        """When the grant ends by time."""
        return min(self.cut_at, self.sure) if self.fixed and self.handed_over else self.cut_at

    def acquire_command(self, session: int, at: float) -> Command:
        """Asks for the lock. HOLDS 1 makes it safe to repeat."""
        lease = milliseconds(max(self.lease, LEAST_LEASE) if session else self.lease)
        if self.adopts:
            return ("LOCK.RENEW", *self.name, "PX", lease, "SESSION", session, "TOKEN", self.adopts)
        command = ("LOCK.ACQUIRE", *self.name, *self.terms.mode, "PX", lease, "HOLDS", 1)
        if session:
            command += ("SESSION", session)
            if self.terms.wait != 0:
                left = max(1, milliseconds(min(self.end - at, TEN_YEARS)))
                command += ("QUEUE", 0 if self.end >= FAR else left)
        return command

    def enter_command(self, mode: Command) -> Command:
        """Adds a hold."""
        holds = ("HOLDS", self.holds + 1, "TOKEN", self.token)
        return ("LOCK.ACQUIRE", *self.name, *mode, "PX", milliseconds(self.lease), *holds)

    def renew_command(self, *words: Any) -> Command:
        """Changes the grant."""
        return ("LOCK.RENEW", *self.name, *words, "TOKEN", self.token)

    def release_command(self) -> Command:
        """The user's own release. It alone names the session, so that the server reports no loss."""
        session = ("SESSION", self.session) if self.session else ()
        return ("LOCK.RELEASE", *self.name, "HOLDS", self.holds, *session, "TOKEN", self.token)

    def renounce_owner(self) -> None:
        """The task continues with a fresh owner."""
        if self.task:
            self.task.owner = ""
