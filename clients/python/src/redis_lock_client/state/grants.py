"""Waits and grants of one server, and the calls about them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Optional, Union

from ..errors import LockBusy, LockError, LockLost, LockMisuse
from .claims import ASKED, FAR, HELD, IN_LINE, LOST, OVER, RELEASED, Claim, Name, Task, pause
from .faults import Command, Fault, made

Release = tuple[str, str, int]  # key, owner and token; without a token, it cancels a wait too

# The calls about a grant. A grant with a fixed lease leaves the session once it is granted.
CHECK, EXTEND, ENTER, LEAVE, DETACH, RELEASE = "check", "extend", "enter", "leave", "detach", "release"
LEAVES, ENDS = (LEAVE, DETACH), (DETACH, RELEASE)


class Call(NamedTuple):
    """A command to send, with the time for its reply, and what the reply changes, from the time of the sending."""

    limit: float
    command: Command
    apply: Callable[[float, Any], None]
    is_vital: bool = False  # without a reply, or with an error as reply, the loop begins anew


class Grants:
    """The waits, grants and releases of one server. A reply is what the server answered, or a `Fault`. Its callers
    set `at` to the time of each call, and take care of `unfinished` and of `changed`: claims whose callers look again."""

    def __init__(self, server: str, lease: float, reply: float, is_cluster: bool) -> None:
        """lease: that of the session. reply: how long a reply may take."""
        self.server, self.lease, self.reply, self.is_cluster = server, lease, reply, is_cluster
        self.at = 0.0
        self.session = 0
        self.waits: dict[Name, Claim] = {}  # in the order of asking
        self.grants: dict[Name, Claim] = {}  # that the session renews, or will
        self.fixed: dict[Name, Claim] = {}  # grants without a session
        self.next_end = FAR  # when a grant ends by time
        self.unfinished: dict[Release, Command] = {}  # that the loop repeats
        self.leaves: list[Release] = []  # grants that this client takes out of the session, until their `taken`
        self.calls: dict[int, Name] = {}  # calls under way
        self.last_call = 0
        self.losses: dict[int, tuple[str, int]] = {}  # by token: the reason, and the last call then under way
        self.changed: list[Claim] = []
        self.polls = 0  # POLLs sent
        self.sures: list[tuple[int, float]] = []  # by POLL, until when; each reaches less far than those before it
        self.soonest = FAR  # no grant's time ends before
        self.outside = False  # a grant or place may belong to an earlier session
        self.leaving = False  # the session, after a refused release
        self.is_closed = False

    # Calls under way, and releases that are not finished.

    def begin_call(self, name: Name) -> int:
        """Registers a call before it is sent. An owner is not used again while a call in its name is unanswered."""
        self.last_call += 1
        self.calls[self.last_call] = name
        return self.last_call

    def end_call(self, call: int) -> None:
        """Ends a call, after its reply was applied. No later reply can name the losses before it."""
        self.calls.pop(call, None)
        if self.losses:
            first = next(iter(self.calls), self.last_call + 1)
            self.losses = {token: loss for token, loss in self.losses.items() if loss[1] >= first}

    def usable_owner(self, task: Task) -> str:
        """The owner that the task may use for another call; empty: it needs a fresh one."""
        if task.owner in (name[1] for names in (self.calls.values(), self.unfinished) for name in names):
            task.owner = ""
        return task.owner

    def finish_later(self, name: Name, token: int = 0, command: Command = ()) -> None:
        """The loop sends this release until it is answered. Without a command it is not the user's own: it ends all
        holds of this token; without a token, it cancels a wait too."""
        of_token = ("TOKEN", token) if token else ()
        self.unfinished[name[0], name[1], token] = command or ("LOCK.RELEASE", *name, "ALL", *of_token)

    def finished(self, release: Release, command: Command, _: float, reply: object) -> None:
        """Applies the reply to an unfinished release."""
        if self.unfinished.get(release) is not command:
            return
        if isinstance(reply, Fault) and reply.word != "MOVED":  # there, no session renews the grant
            if reply.passing:
                return
            self.leaving = self.leaving or bool(release[2]) and not reply.gone
        self.unfinished.pop(release, None)

    # Waits.

    def ask(self, wait: Claim) -> None:
        """Registers a wait before its call is sent: its event may arrive before its reply."""
        if self.is_closed:
            raise made(LockMisuse, wait.key, "the client is closed")
        if wait.name in self.waits or self.find(wait.name):
            raise made(LockMisuse, wait.key, "this owner already waits for the lock or holds it")
        self.waits[wait.name] = wait
        if wait.task:
            wait.task.owner = wait.owner

    def step(self, wait: Claim) -> Union[None, float, Call]:
        """The next step of the caller of an acquire: None: it has the grant; a Call: sends it; seconds: waits for so long,
        or until the claim has changed. Raises if the acquire has failed."""
        phase = wait.phase
        if phase is OVER:
            raise wait.failure or made(LockMisuse, wait.key, "its caller has stopped waiting for the lock")
        if phase is LOST or phase is RELEASED:
            self.require_held(wait)
        if phase is HELD and self.remaining(wait) > 0:
            wait.handed_over = not wait.fixed or not wait.session  # else after it has left
            return None
        session = self.session if wait.needs_session else 0
        # The server should have ended a place in line before.
        end = max(wait.end, wait.begun + self.reply) if phase is ASKED else wait.end + self.reply
        if self.at >= end:
            if phase is IN_LINE and wait.session == self.session:
                raise made(LockBusy, wait.key, "other owners hold it or wait for it, and the time to wait is over")
            raise (wait.cause or Fault("no answer in time")).error(wait.key, self.server)
        if phase is not ASKED or wait.needs_session and not session:
            return end - self.at
        if session == wait.rests[0] and self.at < wait.rests[1]:
            return min(end, wait.rests[1]) - self.at
        # A dead connection takes half of the time for asking at most.
        return self.acquiring(wait, session, min(self.reply, (end - wait.begun) / 2, end - self.at))

    def acquiring(self, wait: Claim, session: int, limit: float) -> Call:
        """Registers an ACQUIRE, to be sent now."""
        wait.open += 1
        apply = partial(self._answered, wait, session, self.begin_call(wait.name))
        return Call(limit, wait.acquire_command(session, self.at), apply)

    def _answered(self, wait: Claim, session: int, call: int, sent: float, reply: object) -> None:
        """Applies the reply to an ACQUIRE: a grant, an error, None, or the place in line."""
        fault = reply if isinstance(reply, Fault) else None
        is_waiting = self.waits.get(wait.name) is wait
        is_known = is_waiting or self.find(wait.name) is wait  # not given up, nor moved
        if fault and fault.no_reply:
            wait.renounce_owner()
        elif is_known:
            wait.open -= 1
        if isinstance(reply, list):
            if not self.granted(wait.name, reply[0], session, sent + reply[3] / 1000) and not wait.adopts:
                self.finish_later(wait.name, reply[0])
        elif fault and fault.passing:
            wait.cause = fault
            self.outside = self.outside or wait.phase is IN_LINE  # a place in an earlier session is asked for again
            if not (self.is_cluster and fault.word in ("MOVED", "ASK")):  # else its caller knows where to ask
                wait.rests = session, FAR if fault.word == "NOSESSION" else self.at + pause(wait.tries)
                wait.tries += 1
            if fault.word == "MOVED" and wait.phase is IN_LINE and wait.session != self.session:
                self.set(wait, ASKED)  # its place is gone
        elif fault:
            self.end_wait(wait, fault.error(wait.key, self.server))
        elif reply is None:
            self.end_wait(wait, made(LockBusy, wait.key, "other owners hold it or wait for it"))
        elif is_waiting and session == self.session and sent > wait.ended_at:  # else the place may have ended since
            wait.phase, wait.session = IN_LINE, session
        elif not is_known:
            self.finish_later(wait.name)
        self.end_call(call)

    def give_up(self, wait: Claim) -> Optional[Call]:
        """Forgets a wait. If the server may know it, returns its cancel: the owner neither holds the lock then nor waits
        for it."""
        is_open = wait.open > 0 or wait.phase in (IN_LINE, HELD) or self.is_closed and wait.fixed
        if wait.phase not in (LOST, RELEASED):
            self.forget(wait, OVER)
        if not is_open or wait.adopts:
            return None
        wait.renounce_owner()  # an event of this wait may arrive after the cancel
        limit = min(self.reply, wait.end + self.reply - self.at)
        cancel = ("LOCK.RELEASE", *wait.name, "ALL")
        return Call(limit, cancel, partial(self._cancelled, wait, self.begin_call(wait.name)))

    def _cancelled(self, wait: Claim, call: int, _: float, reply: object) -> None:
        if isinstance(reply, Fault) and reply.passing:
            self.finish_later(wait.name)
        self.end_call(call)

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
        claim = self.find(name) or self.waits.get(name)
        if token in self.losses:  # its loss was reported before: it is no grant
            if claim and claim.phase is not HELD:
                self.set(claim, ASKED)
            return True
        if claim is None:
            return False
        if token < claim.token:
            return True  # an earlier grant, reported late
        if token > claim.token and claim.handed_over:
            return False  # the user counts on the earlier one
        self.changed.append(claim)
        if token == claim.token:
            if name in self.fixed:  # it has left the session since
                return True
            till = max(self.sure(claim), till)
        self.waits.pop(name, None)
        claim.phase, claim.token, claim.sure = HELD, token, till
        claim.joined = max(claim.joined, self.polls)
        claim.session = session
        (self.grants if session else self.fixed)[name] = claim
        if session:
            self.outside = self.outside or session != self.session
            self.soonest = min(self.soonest, till)
        return True

    # Grants.

    def sure(self, claim: Claim) -> float:
        """Until when nobody else has the lock."""
        if claim.session == self.session:
            for poll, till in self.sures:
                if poll > claim.joined:  # the grant was known when it was sent
                    return max(claim.sure, till)
        return claim.sure

    def remaining(self, claim: Claim) -> float:
        """For how long nobody else has the lock, by the clock alone."""
        return max(0.0, self.sure(claim) - self.at) if claim.phase is HELD else 0.0

    def require_held(self, claim: Claim) -> None:
        """Raises if the grant has ended."""
        if claim.phase is not HELD:
            raise self.end_of(claim)

    def end_of(self, claim: Claim) -> LockError:
        """The error of a grant that has ended, for its user."""
        if claim.phase is not LOST:
            return made(LockMisuse, claim.key, "the client is closed" if self.is_closed else "it was released already")
        error = made(LockLost, claim.key, f"the lock was lost: {claim.reason}. Stop the work under it")
        error.reason = claim.reason
        return error

    def find(self, name: Name) -> Optional[Claim]:
        """The grant of this name."""
        return self.grants.get(name) or self.fixed.get(name)

    def forget(self, claim: Claim, phase: str = RELEASED) -> None:
        """The wait or grant no longer counts."""
        for claims in (self.waits, self.grants, self.fixed):
            if claims.get(claim.name) is claim:
                del claims[claim.name]
        claim.phase = phase

    def lose(self, claim: Claim, reason: str) -> None:
        """The grant ended before it was released. That is reported once."""
        if not claim.reason:
            self.forget(claim, LOST)
            claim.reason, claim.doubt = reason, ""
            claim.renounce_owner()
            self.changed.append(claim)

    def gone(self, claim: Claim, fault: Fault) -> LockError:
        """A reply shows that the grant is lost: the reason is what the server reported, or else that reply."""
        loss = self.losses.get(claim.token)
        self.lose(claim, loss[0] if loss else claim.doubt or f"gone ({fault.word})")
        return self.end_of(claim)

    def begin(self, claim: Claim, what: str, lease: float = 0.0) -> int:
        """Registers a call about a grant that is held, before it is sent. Its owner is used again only after `end_call`.
        A release takes a hold away, and a detached grant is let go of: from here on it is not held. lease: the new one."""
        self.require_held(claim)
        if what is DETACH and claim.holds > 1:
            raise made(LockMisuse, claim.key, "its owner holds it more than once")
        if what in LEAVES and claim.session and claim.session == self.session:
            self.leaves.append((*claim.name, claim.token))
        if what is EXTEND and lease < claim.lease:  # until it is answered no POLL counts
            claim.sure, claim.joined = min(self.sure(claim), self.at + lease), FAR
            self.soonest = min(self.soonest, claim.sure)
        claim.holds -= what in ENDS
        if not claim.holds:
            self.forget(claim)
        return self.begin_call(claim.name)

    def answered(self, claim: Claim, what: str, sent: float, reply: object, was_open: bool = False) -> Optional[LockError]:
        """Applies the last reply to a call about a grant, which was sent at this time. `was_open`: an earlier try had no
        reply. Returns the error to raise."""
        fault = reply if isinstance(reply, Fault) else None
        is_open = fault is not None and fault.no_reply
        if is_open or what is DETACH or what is RELEASE and was_open:
            claim.renounce_owner()
        if fault and not is_open and what in LEAVES and (*claim.name, claim.token) in self.leaves:
            self.leaves.remove((*claim.name, claim.token))
        if fault and fault.gone and (what in ENDS or claim.phase is HELD):
            is_done = what is RELEASE and not claim.holds and was_open and claim.token not in self.losses
            return None if is_done else self.gone(claim, fault)
        if what not in ENDS and claim.phase is not HELD:
            return self.end_of(claim)
        if fault and what is RELEASE and not claim.holds:  # between others a re-entry may have come
            if fault.passing:
                self.finish_later(claim.name, claim.token, claim.release_command())
            elif claim.session and claim.session == self.session:
                self.leaving = True  # the server would go on to renew the grant
        if what is EXTEND and not is_open:
            claim.sure = self.sure(claim)
            self.polls += 1  # a POLL that is under way does not count
            claim.joined = self.polls
        if fault:
            return fault.error(claim.key, self.server)
        return None if what in ENDS else self._renewed(claim, what, sent, reply)

    def _renewed(self, claim: Claim, what: str, sent: float, reply: object) -> Optional[LockError]:
        if isinstance(reply, list):
            if what is LEAVE and reply[0] != claim.token:
                return Fault("it was granted twice").error(claim.key, self.server)
            claim.token, claim.lease = reply[0], reply[3] / 1000
            if claim.token in self.losses:  # of a raised token, reported before the reply
                self.lose(claim, self.losses[claim.token][0])
                return self.end_of(claim)
            claim.sure = max(self.sure(claim), sent + claim.lease)
            self.next_end = min(self.next_end, claim.ends_at)
        if what is LEAVE:
            self.grants.pop(claim.name, None)
            self.fixed[claim.name] = claim
            claim.session, claim.sure, claim.handed_over, claim.doubt = 0, sent + claim.lease, True, ""
        claim.holds += what is ENTER
        return None

    # Grants that end by time.

    def time(self, claim: Claim, max_hold: Optional[float]) -> None:
        """A grant was handed over, or gets another longest time from now on."""
        claim.cut_at = FAR if max_hold is None else self.at + max_hold
        self.next_end = min(self.next_end, claim.ends_at)

    def ripe(self) -> list[Claim]:
        """Ends the grants whose time is over. Returns those to release at once."""
        self.next_end, over = FAR, []
        for claim in [*self.grants.values(), *self.fixed.values()]:
            if claim.ends_at > self.at:
                self.next_end = min(self.next_end, claim.ends_at)
            elif claim.cut_at > self.at:
                self.lose(claim, "expired")
            else:
                claim.holds = 0
                if claim.session:  # else its lease ends it
                    self.finish_later(claim.name, claim.token, claim.release_command())
                self.lose(claim, "its maximum time is over")
                over.append(claim)
        return over
