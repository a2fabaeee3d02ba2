"""A claim: one acquire, which is first a wait and then a grant."""

from __future__ import annotations

from typing import Any

from ..errors import LockError
from .faults import Command, Fault

Name = tuple[str, str]  # key and owner: no two claims of a client have the same

# The phases. A wait is asked, in line or over (ended without a grant). A grant that is held and whose time has passed is
# unsure.
ASKED, IN_LINE, OVER, HELD, LOST, RELEASED = "asked", "in line", "over", "held", "lost", "released"

FAR = 1e12  # the end of a wait without a limit
LEAST_LEASE = 1.0  # the shortest that the server renews
TEN_YEARS = 315_360_000.0  # the longest time that the server takes


def milliseconds(seconds: float) -> int:
    """Rounds up."""
    return -int(-seconds * 1000 // 1)


class Owner:
    """The owner of a task. Without a name the next acquire uses a fresh one."""

    __slots__ = ("name",)

    def __init__(self) -> None:
        self.name = ""


class Claim:
    """One acquire: first a wait, then a grant. The attributes are changed by `State` alone."""

    __slots__ = (
        "asked_end", "caller", "cause", "changes", "cut_at", "doubt", "end", "failure", "fixed", "handed_over", "holds",
        "joined", "key", "last", "lease", "limit", "mode", "name", "no_session", "open", "order", "owner", "phase",
        "queues", "reason", "session", "shortening", "sure", "task", "token",
    )

    def __init__(self, name: Name, mode: Command, lease: float, wait: float | None, reply: float, at: float, *,
                 fixed: bool = False, caller: Any = None) -> None:
        """Makes a claim that waits for so many seconds from now on. 0: it does not wait; None: without a limit."""
        self.name, self.mode, self.lease, self.fixed, self.caller = name, mode, lease, fixed, caller
        self.key, self.owner = name
        self.task: Owner | None = None
        self.phase = ASKED
        self.session = 0  # of the place, or of the grant; 0: none
        self.token, self.holds = 0, 1
        self.reason = ""  # of the loss
        self.handed_over = False  # the user has the grant
        self.queues = wait != 0
        seconds = FAR if wait is None else wait
        asking = seconds if seconds > reply else reply
        self.limit = min(reply, asking / 2)  # of one try: a dead connection takes half at most
        self.end = at + seconds  # of the caller's time
        self.asked_end = at + asking  # of asking without a reply
        self.last = at + seconds + reply  # of waiting in line: the server should have ended the wait before
        self.order = 0  # among the waits of its state
        self.sure = 0.0  # see State.sure
        self.joined = 0  # the last POLL that was sent before the grant was known: it does not count
        self.changes = 0  # of the lease
        self.shortening = False  # a RENEW that shortens the lease is unanswered: no POLL counts
        self.doubt = ""  # another cluster node may have it: the reason of its loss if not; or "moved"
        self.open = 0  # acquires without a reply, which the server may still carry out
        self.failure: LockError | None = None
        self.cause: Fault | None = None
        self.no_session = -1  # the session that the server did not know
        self.cut_at = FAR  # when its maximum time is over

    @property
    def needs_session(self) -> bool:
        """Whether the ACQUIRE names a session."""
        return self.queues or not self.fixed

    def acquire_command(self, session: int, at: float) -> Command:
        """Asks for the lock. HOLDS 1 makes it safe to repeat."""
        if not session:
            return ("LOCK.ACQUIRE", self.key, self.owner, *self.mode, "PX", milliseconds(self.lease), "HOLDS", 1)
        lease = milliseconds(max(self.lease, LEAST_LEASE))
        command = ("LOCK.ACQUIRE", self.key, self.owner, *self.mode, "PX", lease, "HOLDS", 1, "SESSION", session)
        if not self.queues:
            return command
        if self.end >= FAR:
            return (*command, "QUEUE", 0)
        return (*command, "QUEUE", max(1, int(min(self.end - at, TEN_YEARS) * 1000)))

    def renew_command(self, *words: Any) -> Command:
        """Changes the grant."""
        return ("LOCK.RENEW", self.key, self.owner, *words, "TOKEN", self.token)

    def release_command(self) -> Command:
        """The user's own release. It alone names the session, so that the server reports no loss."""
        return ("LOCK.RELEASE", self.key, self.owner, *self.release_words(), "TOKEN", self.token)

    def release_words(self) -> Command:
        """The options of the user's own release, but for the token."""
        return ("HOLDS", self.holds, "SESSION", self.session) if self.session else ("HOLDS", self.holds)

    def cancel_command(self) -> Command:
        """Makes sure that the owner neither holds the lock nor waits for it."""
        return ("LOCK.RELEASE", self.key, self.owner, "ALL")

    def renounce_owner(self) -> None:
        """The task goes on with a fresh owner."""
        if self.task:
            self.task.name = ""
