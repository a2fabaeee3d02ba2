"""What both waits and grants need: calls under way, losses that were reported, and releases that are not finished."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, Optional

from ..errors import LockError, LockUnavailable
from .claims import FAR, Claim, Name, Owner
from .faults import Command, Fault, made



class Release(NamedTuple):
    """Names an unfinished release: without a token, it cancels a wait too."""

    key: str
    owner: str
    token: int


class Unfinished(NamedTuple):
    """A release that the loop repeats."""

    words: Command
    session: int  # when it was begun
    till: float  # without that session, nothing is left to release then


class Ledger:
    """The attributes of the state of one server, and its calls. `changed`, `elsewhere` and `misplaced` are for its
    callers: claims that have to look again, grants that another node of the cluster may have, and releases that belong
    to another node."""

    def __init__(self, server: str, lease: float, reply: float, is_cluster: bool) -> None:
        """lease: that of the session. reply: how long a reply may take."""
        self.server, self.lease, self.reply, self.is_cluster = server, lease, reply, is_cluster
        self.at = 0.0  # the time of this call: the caller sets it
        self.session = 0
        self.changed: list[Claim] = []
        self.elsewhere: list[Claim] = []
        self.misplaced: list[Command] = []

        self.seen = 0  # the number of the last event that was applied
        self.waits: dict[Name, Claim] = {}
        self.asked = 0  # waits so far
        self.grants: dict[Name, Claim] = {}  # that the session renews, or will
        self.fixed: dict[Name, Claim] = {}  # grants without a session
        self.pending: set[Claim] = set()  # grants that the user does not have yet
        self.timed: dict[Claim, float] = {}  # grants that end by time, and when
        self.unfinished: dict[Release, Unfinished] = {}
        self.calls: dict[int, Name] = {}  # calls under way
        self.last_call = 0
        self.losses: dict[int, tuple[str, int]] = {}  # by token: the reason, and the last call then under way

        self.polls = 0  # POLLs sent
        self.sures: list[tuple[int, float]] = []  # by POLL, until when; each reaches less far than those before it
        self.soonest = FAR  # no grant's time ends before
        self.outside = False  # a grant or place may belong to an earlier session
        self.excess: Optional[float] = None  # since when every reply shows more grants than are known
        self.tries: deque[float] = deque()  # when the failed tries of the last second began
        self.refused: Optional[Fault] = None  # the server refuses a session
        self.leaving = False
        self.left: dict[int, float] = {}  # sessions left after a refused release, and when
        self.is_closed = False

    def begin_call(self, name: Name) -> int:
        """Registers a call before it is sent. An owner is not used again while a call in its name is unanswered."""
        self.last_call += 1
        self.calls[self.last_call] = name
        return self.last_call

    def end_call(self, call: int) -> None:
        """Follows the application of the reply. No later reply can name the losses before it."""
        self.calls.pop(call, None)
        if self.losses:
            first = next(iter(self.calls), self.last_call + 1)
            self.losses = {token: loss for token, loss in self.losses.items() if loss[1] >= first}

    def is_called(self, name: Name) -> bool:
        """Whether a call in this name is under way."""
        return name in self.calls.values()

    def usable_owner(self, task: Owner) -> str:
        """The owner that the task may use for another call; empty: it needs a fresh one."""
        if task.name and (any(task.name == owner for _, owner in self.calls.values()) or
                          any(task.name == release.owner for release in self.unfinished)):
            task.name = ""
        return task.name

    def finish_later(self, release: Release, words: Command, lease: float) -> None:
        """The loop sends this release until it is answered."""
        self.unfinished[release] = Unfinished(words, self.session, self.at + max(lease, 1.0) + self.reply)

    def finished(self, release: Release, reply: object) -> None:
        """Applies the reply to an unfinished release."""
        if isinstance(reply, Fault):
            if reply.passing:
                return
            self.leaving = self.leaving or bool(release.token) and not reply.gone
        self.unfinished.pop(release, None)

    def unavailable(self, key: str, fault: Fault | None = None, text: str = "no answer in time") -> LockError:
        """The error of a call whose time is over. It names the server."""
        return made(LockUnavailable, key, f"no answer from {self.server}: {fault.text if fault else text}",
                    fault.cause if fault else None)

    def error(self, key: str, fault: Fault) -> LockError:
        """The error of a call that got this as its last reply."""
        return self.unavailable(key, fault) if fault.passing else fault.error(key)
