"""One try to get a lock from a majority. Each of its calls has its own owner, so a late one never counts for another
try."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from .._threads import run
from ..errors import LockBusy, LockError, LockUnavailable
from ..observer import Observer
from ..threads import Grant, Locks
from .grant import QuorumGrant, give_back, in_background, majority_of

__all__ = ["Attempt", "Member"]
PATIENCE = 0.05  # seconds: how long other replies are waited for at least once a majority has answered


class Member:
    """One of the servers."""

    def __init__(self, name: str, locks: Locks) -> None:
        self.name, self.locks = name, locks
        self.is_silent = False  # it did not answer the last time
        self.calls: list[threading.Thread] = []  # under way. In a forked child those of the parent are not alive


class Vote:
    """How far an attempt has come with one server."""

    def __init__(self) -> None:
        self.grant: Grant | None = None
        self.token = 0  # of the grant
        self.is_raised = False  # the server has acknowledged this token
        self.refused = 0  # the token that is too far ahead of its clock
        self.error: BaseException | None = None  # why there is no grant
        self.is_open = False  # a call is under way

    def has(self, token: int) -> bool:
        """Whether the server has acknowledged the token."""
        return self.grant is not None and self.is_raised and self.token == token

    def can_have(self, token: int) -> bool:
        """Whether the server can be raised to a token, as far as is known."""
        return self.grant is not None and self.token <= token and (not self.refused or token < self.refused)


class Attempt:
    """The two rounds: grants, then one token for all."""

    def __init__(self, members: Sequence[Member], key: str, options: dict[str, Any]) -> None:
        self.members, self._key, self._options = members, key, options
        self._majority = majority_of(len(members))
        self.votes = [Vote() for _ in members]
        self.token = 0  # that a majority has acknowledged
        self._replies: SimpleQueue[tuple[int, int, Any]] = SimpleQueue()  # server, token of a raise, grant or error
        self._stop = threading.Event()  # ends the waits of a call whose attempt is over

    def begin(self, first: int, turn: Grant | None) -> int | None:
        """Asks all servers at once, unless the caller has its turn at one. The first server that has answered, or
        None."""
        if turn:
            self.votes[first].grant, self.votes[first].token = turn, turn.token
            return first
        for number in range(len(self.members)):
            self._ask(number, 0.0)
        self._collect(self._is_asked, PATIENCE)
        return next((number for number, vote in enumerate(self.votes)
                     if vote.grant or isinstance(vote.error, LockBusy)), None)

    def queue(self, wait: float) -> None:
        """Waits in line at all servers that have not granted the lock."""
        for number, vote in enumerate(self.votes):
            if vote.grant is None and not vote.is_open:
                self._ask(number, wait)
        self._collect(self._is_asked, PATIENCE)

    def raise_all(self) -> None:
        """Gives a majority one token. Servers whose clocks differ are left out, if a majority remains."""
        while True:
            if not self._common():  # servers that have not answered yet may change that
                self._collect(lambda: bool(self._common()), 0.0)
            token, is_sent = self._common(), False
            for number, vote in enumerate(self.votes):
                if token and vote.can_have(token) and not vote.is_open and not vote.has(token):
                    is_sent = True
                    self._raise(number, token)
            self._collect(lambda: self._acknowledged(token) >= self._majority
                          or self._acknowledged(token) + self._open() < self._majority, 0.0)
            if token and self._acknowledged(token) >= self._majority:
                self.token = token
                return
            if not is_sent:
                return

    def granted(self, key: str, observer: Observer) -> QuorumGrant:
        """Hands over the lock that a majority has raised, and gives back the rest."""
        grant = QuorumGrant(key, self.token, len(self.members), observer)
        self.end(grant)
        return grant

    def end(self, grant: QuorumGrant | None) -> None:
        """The grant, if there is one, takes in what is raised. The rest is given back. Later replies are waited for in
        the background: what they bring still joins the grant, or is given back."""
        if grant is None:
            self._stop.set()
        backs = []
        for number, vote in enumerate(self.votes):
            if grant and not vote.is_open and not vote.has(self.token) and vote.can_have(self.token):
                self._raise(number, self.token)
            if vote.grant is not None and not vote.is_open and not (grant and vote.has(self.token)
                                                                    and grant.add(vote.grant)):
                backs.append(in_background(give_back, vote.grant))
        if self._open():
            in_background(self._finish, grant)
        until = time.monotonic() + PATIENCE  # the next attempt is not to meet what this one had, if the servers answer
        for back in backs:
            back.join(max(0.0, until - time.monotonic()))

    @property
    def has_majority(self) -> bool:
        """Whether a majority has granted the lock."""
        return sum(vote.grant is not None for vote in self.votes) >= self._majority

    @property
    def has_answers(self) -> bool:
        """Whether a majority has answered, by a grant or otherwise."""
        return sum(vote.grant is not None or isinstance(vote.error, LockBusy)
                   for vote in self.votes) >= self._majority

    @property
    def refusal(self) -> type[LockError] | None:
        """The kind of the errors that are not temporary."""
        return next((type(vote.error) for vote in self.votes if isinstance(vote.error, LockError)
                     and not isinstance(vote.error, (LockBusy, LockUnavailable))), None)

    @property
    def is_hopeless(self) -> bool:
        """Whether another attempt would fail too, because too many servers refuse or their clocks differ."""
        refusals = sum(vote.error is not None and not isinstance(vote.error, (LockBusy, LockUnavailable))
                       and not vote.refused for vote in self.votes)
        differ = any(vote.refused for vote in self.votes) and not self.token and self.has_majority
        return len(self.votes) - refusals < self._majority or differ

    @property
    def causes(self) -> str:
        """The answer of each server."""
        return "; ".join(f"{member.name}: {vote.error or 'granted'}"
                         for member, vote in zip(self.members, self.votes))

    def _ask(self, number: int, wait: float) -> None:
        """Acquires the lock of one server."""
        member, vote = self.members[number], self.votes[number]
        calls = [call for call in member.calls if call.is_alive()]
        if member.is_silent and calls:
            vote.error = LockUnavailable("it does not answer")
            return
        vote.is_open = True
        member.calls = [*calls, in_background(self._asked, number, member, wait)]

    def _asked(self, number: int, member: Member, wait: float) -> None:
        reply: Any
        try:
            stop = self._stop if wait else None
            reply = member.locks.lock(self._key, wait=wait, stop=stop, **self._options)
        except BaseException as error:
            reply = error
        member.is_silent = isinstance(reply, LockUnavailable)
        self._replies.put((number, 0, reply))

    def _raise(self, number: int, token: int) -> None:
        """Lifts the token of a grant. After any error but AHEAD the grant is given up: its token is not known."""
        grant: Any = self.votes[number].grant
        self.votes[number].is_open = True

        def lift() -> None:
            try:
                run(grant._raise_token(token))
                self._replies.put((number, token, grant))
            except BaseException as error:
                self._replies.put((number, token, error))

        in_background(lift)

    def _apply(self, number: int, token: int, reply: Any) -> None:
        vote = self.votes[number]
        vote.is_open = False
        if not isinstance(reply, BaseException):
            vote.grant, vote.token, vote.is_raised = reply, token or reply.token, bool(token)
            return
        vote.error = reply
        if token and vote.grant and str(reply).startswith(f"{vote.grant.key}: AHEAD "):
            vote.refused = token
        elif token and vote.grant:
            in_background(give_back, vote.grant)
            vote.grant = None

    def _collect(self, is_clear: Callable[[], bool], patience: float) -> None:
        """Waits for replies until the outcome is clear. With patience it then waits for the others as long again, but
        not for servers that are silent."""
        begun, over = time.monotonic(), None
        while self._open():
            if is_clear():
                if not patience or not self._open(silent=False):
                    return
                if over is None:
                    now = time.monotonic()
                    over = now + min(max(now - begun, patience), 5 * patience)
            try:
                self._apply(*self._replies.get(timeout=None if over is None else max(0.0, over - time.monotonic())))
            except Empty:
                return

    def _finish(self, grant: QuorumGrant | None) -> None:
        """Waits for the calls that are still under way."""
        while self._open():
            number, token, reply = self._replies.get()
            self._apply(number, token, reply)
            vote = self.votes[number]
            if vote.grant is None or grant and vote.has(self.token) and grant.add(vote.grant):
                continue
            if grant and vote.can_have(self.token) and not vote.is_raised:
                self._raise(number, self.token)
            else:
                give_back(vote.grant)
                vote.grant = None

    def _open(self, silent: bool = True) -> int:
        """The calls under way, including those to silent servers."""
        return sum(vote.is_open and (silent or not member.is_silent)
                   for member, vote in zip(self.members, self.votes))

    def _is_asked(self) -> bool:
        granted = sum(vote.grant is not None for vote in self.votes)
        return granted >= self._majority or granted + self._open() < self._majority

    def _common(self) -> int:
        """The highest token that a majority can have, as far as is known; 0: there is none."""
        return max((one.token for one in self.votes if one.grant and
                    sum(vote.can_have(one.token) for vote in self.votes) >= self._majority), default=0)

    def _acknowledged(self, token: int) -> int:
        """How many servers have raised their grants to a token, and still have them."""
        return sum(vote.has(token) and vote.grant is not None and vote.grant.held for vote in self.votes)
