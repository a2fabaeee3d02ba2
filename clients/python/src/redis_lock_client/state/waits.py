"""Waits: acquires that have no grant yet."""

from __future__ import annotations

from typing import NamedTuple, Optional, Union

from ..errors import LockBusy, LockError, LockLost, LockMisuse
from .claims import ASKED, HELD, IN_LINE, LOST, OVER, RELEASED, Claim, Name
from .faults import Command, Fault, made
from .grants import Grants
from .ledger import Release



class Ask(NamedTuple):
    """An ACQUIRE to send, with the time for its reply."""

    call: int
    session: int
    limit: float
    command: Command


class Waits(Grants):
    """The waits of one server."""

    def ask(self, wait: Claim) -> None:
        """Registers a wait before its call is sent: its event may arrive before its reply."""
        if self.is_closed:
            raise made(LockMisuse, wait.key, "the client is closed")
        if wait.name in self.waits or self.find(wait.name):
            raise made(LockMisuse, wait.key, "this owner waits for the lock, or has it, already")
        self.asked += 1
        wait.order = self.asked
        self.waits[wait.name] = wait

    def move(self, wait: Claim, to: Waits) -> bool:
        """Hands a wait that has no place to the state of another node. Returns false if it stays."""
        if wait.phase is not ASKED or self.waits.get(wait.name) is not wait:
            return False  # it has ended, or has been granted
        del self.waits[wait.name]
        if wait.open:
            self.cancel_later(wait)
        wait.session, wait.open, wait.no_session = 0, 0, -1
        to.asked += 1
        wait.order = to.asked
        to.waits[wait.name] = wait
        return True

    def step(self, wait: Claim) -> Union[None, float, Ask]:
        """What the caller of an acquire does next: None: it has the grant; an Ask: sends it; seconds: waits for so long,
        or until the claim has changed. Raises if the acquire has failed."""
        phase = wait.phase
        if phase is OVER:
            raise wait.failure or made(LockMisuse, wait.key, "it was given up")
        if phase is LOST or phase is RELEASED:
            self.require_held(wait)
        if phase is HELD and self.sure(wait) > self.at:
            if not wait.fixed or not wait.session:  # else after taken_out
                wait.handed_over = True
                self.pending.discard(wait)
            return None
        needs_session = wait.needs_session
        if needs_session and not self.session and self.refused:
            raise self.refused.error(wait.key)
        end = wait.asked_end if phase is ASKED else wait.last
        if self.at >= end:
            if phase is IN_LINE and wait.session == self.session:
                raise made(LockBusy, wait.key, "other owners hold it or wait for it, and the time to wait is over")
            raise self.unavailable(wait.key, wait.cause)
        session = self.session if needs_session else 0
        if phase is not ASKED or session == wait.no_session or needs_session and not session:
            return end - self.at
        wait.open += 1
        limit = min(wait.limit, wait.last - self.at)
        return Ask(self.begin_call(wait.name), session, limit, wait.acquire_command(session, self.at))

    def answer(self, wait: Claim, ask: Ask, sent: float, reply: object) -> None:
        """Applies the reply to an Ask."""
        self.answered(wait, ask.session, sent, reply)
        self.end_call(ask.call)

    def answered(self, wait: Claim, session: int, sent: float, reply: object) -> None:
        """Applies the reply to an ACQUIRE that was sent at this time in this session: a grant, an error, None, or the
        place in line."""
        is_ours = self.waits.get(wait.name) is wait or self.find(wait.name) is wait  # not given up, nor moved
        fault = reply if isinstance(reply, Fault) else None
        if fault and fault.no_reply:
            wait.renounce_owner()
        elif is_ours:
            wait.open -= 1
        if isinstance(reply, list):
            if not self.granted(wait.name, reply[0], session, sent + reply[3] / 1000):
                self.finish_later(Release(*wait.name, reply[0]), ("ALL",), wait.lease)
        elif fault and fault.passing:
            wait.cause = fault
            if fault.word == "NOSESSION":
                wait.no_session = session
            if fault.word == "MOVED" and wait.phase is IN_LINE and wait.session != self.session:
                self.set(wait, ASKED)  # its place is gone, and its caller knows where to ask
        elif fault:
            self.end_wait(wait, fault.error(wait.key))
        elif reply is None:
            self.end_wait(wait, made(LockBusy, wait.key, "other owners hold it or wait for it"))
        elif self.waits.get(wait.name) is wait:
            if session == self.session:
                wait.phase, wait.session = IN_LINE, session
            else:
                self.outside = True
        elif not is_ours:
            self.cancel_later(wait)

    def give_up(self, wait: Claim) -> Optional[int]:
        """Forgets a wait. If the server may know it, returns the call of its cancel, for `cancel_answered`."""
        is_known = wait.open > 0 or wait.phase in (IN_LINE, HELD) or self.is_closed and wait.fixed
        if self.waits.get(wait.name) is wait:
            del self.waits[wait.name]
        if self.find(wait.name) is wait or wait.phase is HELD:
            self.forget(wait)
        if wait.phase not in (LOST, RELEASED):
            wait.phase = OVER
        if not is_known:
            return None
        self.cancel_later(wait)
        wait.renounce_owner()  # an event of this wait may arrive after the cancel
        return self.begin_call(wait.name)

    def cancel_answered(self, wait: Claim, call: int, reply: object) -> None:
        """Applies the reply to the cancel of a wait that was given up."""
        self.finished(Release(*wait.name, 0), reply)
        self.end_call(call)

    def cancel_later(self, wait: Claim) -> None:
        """The loop cancels this wait."""
        self.finish_later(Release(*wait.name, 0), ("ALL",), wait.lease)

    def end_wait(self, wait: Claim, failure: LockError) -> None:
        """The wait is over without a grant."""
        if self.waits.get(wait.name) is wait:
            del self.waits[wait.name]
            self.set(wait, OVER, failure)

    def set(self, wait: Claim, phase: str, failure: Optional[LockError] = None) -> None:
        """Changes the phase of a wait: its caller has to look."""
        wait.phase, wait.session, wait.failure = phase, 0, failure
        self.changed.append(wait)

    def granted(self, name: Name, token: int, session: int, till: float) -> bool:
        """Applies a grant. Returns false if it has to be given back."""
        wait = self.waits.get(name)
        if token in self.losses:  # its loss was reported before: it is no grant
            if wait:
                self.set(wait, ASKED)
            return True
        claim = self.find(name)
        if claim is None:
            if wait is None:
                return False
            claim = wait
            del self.waits[name]
        elif token < claim.token:
            return True  # an earlier grant, reported late
        elif token == claim.token:
            if claim.name not in self.fixed:  # else it has left the session since
                claim.sure = max(self.sure(claim), till)
                if session != claim.session:
                    claim.session, claim.joined, self.outside = session, self.polls, True
                self.changed.append(claim)
            return True
        elif claim.handed_over:
            return False  # the user counts on the earlier one
        claim.phase, claim.token, claim.session, claim.sure, claim.joined = HELD, token, session, till, self.polls
        if session:
            self.grants[name] = claim
            self.outside = self.outside or session != self.session
            self.soonest = min(self.soonest, till)
        else:
            self.fixed[name] = claim
        self.pending.add(claim)
        self.changed.append(claim)
        return True

    def adopted(self, wait: Claim, session: int, sent: float, reply: object) -> None:
        """Applies the reply to the RENEW that adopts a grant. `ask` has registered the wait, with the grant's owner."""
        if isinstance(reply, list) and self.waits.get(wait.name) is wait:
            self.granted(wait.name, reply[0], session, sent + reply[3] / 1000)
        self.waits.pop(wait.name, None)
        if wait.phase is HELD and isinstance(reply, list):
            wait.lease, wait.handed_over = reply[3] / 1000, True
            self.pending.discard(wait)
            return
        failure = wait.failure if wait.phase is OVER else None
        if self.find(wait.name) is wait:
            self.forget(wait)
        wait.phase = OVER
        if failure:
            raise failure
        if not isinstance(reply, Fault):
            raise made(LockLost, wait.key, "it was lost at once")
        raise self.error(wait.key, reply)
