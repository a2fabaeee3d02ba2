"""The session of one server: what the loop sends, and what it learns."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any, Optional

from ..errors import LockBusy, LockMisuse
from .claims import ASKED, FAR, IN_LINE, Claim, Name, milliseconds
from .faults import Command, Fault, made
from .grants import Call, Grants

BRIEF = 0.1  # how long a POLL blocks while a grant is unsure
MOVED = "moved to another node, and gone"


def fields(reply: list[Any]) -> dict[str, Any]:
    """A map, which RESP2 sends as a flat list."""
    return dict(zip(reply[::2], reply[1::2]))


class State(Grants):
    """The state of one server."""

    def __init__(self, server: str, lease: float, reply: float, is_cluster: bool, open_command: Command = ()) -> None:
        super().__init__(server, lease, reply, is_cluster)
        self.open_command = open_command  # of a session
        self.seen = 0  # the number of the last event that was applied
        self.excess: Optional[float] = None  # since when every reply shows more grants than are known
        self.tries: deque[float] = deque()  # when the failed tries of the last reply timeout began
        self.left: dict[int, float] = {}  # sessions left after a refused release, and when
        self.failures = 0  # tries since the last POLL that was answered
        self.is_unknown = False  # the server does not know the session
        self.polls_next = False  # what was due has been sent

    @property
    def is_idle(self) -> bool:
        """Whether nothing depends on the session."""
        return not (self.waits or self.grants or self.unfinished or self.calls or self.left)

    def plan(self) -> list[Call]:
        """What the loop sends next: an OPEN, the calls that are due, or a POLL."""
        if self.leaving:  # so that a grant whose release was refused is not renewed forever
            self.leaving = False
            if self.session:
                self.left[self.session] = self.at
                self.ended()
        if not self.session:
            self.polls_next = False
            return [Call(self.reply, self.open_command, self.opened, is_vital=True)]
        due = [] if self.polls_next else self.due()
        self.polls_next = bool(due)
        return due or [self.begin_poll()]

    def opened(self, _: float, session: int) -> None:
        """Begins a session."""
        self.session, self.seen, self.excess, self.outside = session, 0, None, True
        self.changed += self.waits.values()

    def ended(self) -> None:
        """Forgets the session. The leases of its grants continue."""
        for claim in self.grants.values():
            claim.sure = self.sure(claim)
        self.session, self.sures, self.leaves = 0, [], []

    # The calls that are due before a POLL.

    def due(self) -> list[Call]:
        """What is due in this session, in the order of sending."""
        due: list[Call] = []
        session = self.session
        if self.outside:
            self.outside = False
            for claim in self.grants.values():
                if claim.session != session and not claim.doubt:
                    apply = partial(self._moved, claim, session, claim.joined)
                    due.append(Call(self.reply, claim.renew_command("SESSION", session), apply))
            for wait in self.waits.values():
                if wait.phase is IN_LINE and wait.session != session and wait.end > self.at:
                    due.append(self.acquiring(wait, session, self.reply))
        for release, command in self.unfinished.items():
            due.append(Call(self.reply, command, partial(self.finished, release, command)))
        if self.excess is not None and self.at > self.excess + self.lease:
            apply = partial(self._listed, {*self.calls.values()})
            due.append(Call(self.reply, ("LOCK.SESSION", "GRANTS", session), apply))
        for old, since in self.left.items():
            if self.at > since + 2 * self.reply and all(claim.session != old for claim in self.grants.values()):
                due.append(Call(self.reply, ("LOCK.SESSION", "CLOSE", old), partial(self._left, old)))
        return due

    def _moved(self, claim: Claim, session: int, joined: float, sent: float, reply: object) -> None:
        if self.grants.get(claim.name) is not claim or claim.doubt:
            return
        if isinstance(reply, list):
            self.stands(claim, session, joined, sent, reply)
        elif isinstance(reply, Fault) and reply.gone:
            self.gone(claim, reply)
        elif isinstance(reply, Fault) and reply.word in ("MOVED", "ASK"):
            self.relocate(claim)
        else:
            self.outside = True

    def _listed(self, called_before: set[Name], _: float, reply: object) -> None:
        """Releases the grants of the session that nobody knows."""
        self.excess = None
        known = {*called_before, *self.calls.values(), *self.waits, *self.grants, *self.fixed}
        for row in map(fields, reply if isinstance(reply, list) else ()):
            name, token = (row["key"], row["owner"]), row["token"]
            if name not in known and (*name, token) not in self.unfinished:
                self.finish_later(name, token)

    def _left(self, old: int, _: float, reply: object) -> None:
        if not isinstance(reply, Fault) or not reply.passing or reply.word == "NOSESSION":
            self.left.pop(old, None)

    # The POLL.

    def begin_poll(self) -> Call:
        """A POLL that is sent now."""
        self.polls += 1
        block = BRIEF if self.is_unsure() else self.lease / 3
        command = ("LOCK.SESSION", "POLL", self.session, "BLOCK", milliseconds(block))
        return Call(self.reply + block, command, partial(self.polled, self.polls), is_vital=True)

    def is_unsure(self) -> bool:
        """Whether the time of a grant has passed, so that the next reply decides."""
        if self.at >= self.soonest:
            self.soonest = min(map(self.sure, self.grants.values()), default=FAR)
        return self.at >= self.soonest

    def polled(self, poll: int, sent: float, reply: list[Any]) -> None:
        """Applies the reply to the POLL with this number."""
        parts = fields(reply)
        till = sent + (parts["sure-ms"] / 1000 if parts["sure-ms"] >= 0 else self.lease)
        for number, kind, key, owner, detail, *more in parts["events"]:
            if number > self.seen:  # else it was answered before
                self.seen = number
                self._event(kind, (key, owner), detail, more, till)
        while self.sures and self.sures[-1][1] <= till:
            self.sures.pop()
        self.sures.append((poll, till))
        if parts["grants"] <= len(self.grants) + len(self.unfinished):
            self.excess = None
        elif self.excess is None:
            self.excess = sent
        self.failures, self.is_unknown = 0, False
        self.tries.clear()
        self._silent(sent)

    def _event(self, kind: str, name: Name, detail: Any, more: list[Any], till: float) -> None:
        grant = (*name, detail)
        leaves = grant in self.leaves  # by this client
        if leaves and kind == "taken" and more[0] == 0:
            self.leaves.remove(grant)
        elif kind == "granted":
            if not leaves and not self.granted(name, detail, self.session, till) and name not in self.calls.values():
                self.finish_later(name, detail)  # its wait was given up
        elif kind == "ended":
            self._ended(name, detail)
        elif kind in ("lost", "taken"):
            claim = self.find(name)
            if claim and claim.token != detail:
                claim = None
            reason = more[0] if kind == "lost" else kind
            self.unfinished.pop(grant, None)
            if claim and self.is_cluster and reason == "deleted":
                self.relocate(claim, reason)
                return  # no loss yet: a reply may show that its slot has moved
            if self.calls:
                self.losses[detail] = reason, self.last_call
            if claim and not claim.doubt:
                self.lose(claim, reason)

    def _ended(self, name: Name, why: str) -> None:
        """A place in line has ended without a grant."""
        wait, fault = self.waits.get(name), Fault.reply(why)
        if wait and why in ("timeout", "cancelled"):
            self.end_wait(wait, made(LockBusy, wait.key, f"other owners hold it or wait for it: the wait has ended ({why})"))
        elif wait and fault.passing:
            self.set(wait, ASKED)
            wait.cause, wait.ended_at = fault, self.at
        elif wait:
            self.end_wait(wait, fault.error(wait.key, self.server))

    def failed(self, began: float, fault: Fault) -> bool:
        """A try to connect or to poll that began at this time failed. Returns whether the connection is useless: the
        first NOSESSION is an answer. A try that failed immediately counts only after tries for a whole reply
        timeout."""
        if fault.word == "NOSESSION":
            self.ended()
            if not self.is_unknown:
                self.failures, self.is_unknown = 0, True
                return False
        self.failures, self.polls_next = self.failures + 1, False
        self.tries.append(began)
        while self.tries and self.at >= self.tries[0] + self.reply:
            self._silent(self.tries.popleft())
        for wait in list(self.waits.values()):
            if not self.session:
                wait.cause = fault
                if wait.needs_session and not fault.passing:
                    self.end_wait(wait, fault.error(wait.key, self.server))
        return True

    def _silent(self, since: float) -> None:
        """A POLL or connect that began at this time has failed: ends the grants whose time was over by then."""
        if since <= self.soonest:
            return
        self.soonest = since
        for claim in list(self.grants.values()):
            if claim.doubt:
                continue  # it is looked for
            if self.sure(claim) < since:
                self.finish_later(claim.name, claim.token)
                self.lose(claim, "silence")
            elif not claim.handed_over:
                self.changed.append(claim)

    def close(self) -> tuple[list[int], list[Claim]]:
        """Ends all waits and grants. Returns the sessions to close, and the grants."""
        self.is_closed = True
        for wait in list(self.waits.values()):
            self.end_wait(wait, made(LockMisuse, wait.key, "the client is closed"))
        grants = [*self.grants.values(), *self.fixed.values()]
        for claim in grants:
            self.forget(claim)
            claim.holds = 0
        self.changed += grants
        return [session for session in (self.session, *self.left) if session], grants

    # Clusters: a claim may be on another node.

    def relocate(self, claim: Claim, reason: str = MOVED) -> None:
        """Makes the program look for a claim, because another node of the cluster may have its key now. A grant is in
        doubt until `found`; this is the reason of its loss if it is gone."""
        if self.waits.get(claim.name) is claim:
            self.set(claim, ASKED)
        elif self.grants.get(claim.name) is claim and not claim.doubt:
            claim.sure = self.sure(claim) if reason is MOVED else min(self.sure(claim), self.at)
            claim.doubt, claim.session = reason, 0
            self.changed.append(claim)

    def found(self, claim: Claim, to: State, joined: float, sent: float, reply: Any) -> bool:
        """Applies the last reply to the RENEW by which a grant was looked for, from the node of this state. Of a grant
        that was reported lost nothing but a renewal shows that it stands. Returns whether it is there."""
        if self.grants.get(claim.name) is not claim or not claim.doubt:
            return False
        is_found = isinstance(reply, list)
        if not is_found and (reply.gone or claim.doubt is not MOVED):
            self.gone(claim, reply)
            return False
        home = to if is_found else self
        home.grants[claim.name] = self.grants.pop(claim.name)
        if is_found:
            home.losses.pop(claim.token, None)  # reported there after the grant had left
            home.stands(claim, 0, joined, sent, reply)
        claim.doubt, home.outside = "", True
        home.soonest, home.next_end = min(home.soonest, claim.sure), min(home.next_end, claim.ends_at)
        self.changed.append(claim)
        return is_found

    def stands(self, claim: Claim, session: int, joined: float, sent: float, reply: list[Any]) -> None:
        """Applies the grant in the reply to the client's own RENEW."""
        if joined == claim.joined < FAR:  # its lease is not shortened meanwhile
            claim.sure, claim.joined = max(self.sure(claim), sent + reply[3] / 1000), self.polls
        claim.session = session

    def move(self, wait: Claim, to: State) -> bool:
        """Hands a wait that has no place to the state of another node. Returns false if it stays."""
        if wait.phase is not ASKED or self.waits.get(wait.name) is not wait:
            return False
        del self.waits[wait.name]
        to.waits[wait.name] = wait
        if wait.open:
            self.finish_later(wait.name)
        wait.open, wait.rests = 0, (-1, 0.0)
        return True
