"""Grants: what is known of them, and how they end."""

from __future__ import annotations

from typing import Optional

from ..errors import LockError, LockLost, LockMisuse
from .claims import FAR, HELD, LOST, RELEASED, Claim, Name
from .faults import Command, Fault, made
from .ledger import Ledger, Release



class Grants(Ledger):
    """The grants of one server. A reply is what the server answered, or a `Fault`."""

    def sure(self, claim: Claim) -> float:
        """Until when nobody else has the lock."""
        if claim.session != self.session or not self.session or claim.shortening:
            return claim.sure
        for poll, till in self.sures:
            if poll > claim.joined:  # the grant was known when it was sent
                return max(claim.sure, till)
        return claim.sure

    def remaining(self, claim: Claim) -> float:
        """For how long nobody else has the lock, by the clock alone."""
        return max(0.0, self.sure(claim) - self.at) if claim.phase is HELD else 0.0

    def require_held(self, claim: Claim) -> None:
        """Raises if the grant has ended."""
        if claim.phase is LOST:
            raise self.lost_error(claim)
        if self.is_closed:
            raise made(LockMisuse, claim.key, "the client is closed")
        if claim.phase is not HELD:
            raise made(LockMisuse, claim.key, "it was released already")

    def lost_error(self, claim: Claim) -> LockLost:
        """What a lost grant is to its user."""
        error = made(LockLost, claim.key, f"the lock was lost: {claim.reason}. Stop the work under it")
        error.reason = claim.reason
        return error

    def find(self, name: Name) -> Optional[Claim]:
        """The grant of this name."""
        return self.grants.get(name) or self.fixed.get(name)

    def forget(self, claim: Claim) -> None:
        """The grant does not count any more."""
        self.grants.pop(claim.name, None)
        if self.fixed:
            self.fixed.pop(claim.name, None)
        if self.timed:
            self.timed.pop(claim, None)
        self.pending.discard(claim)

    def lose(self, claim: Claim, reason: str) -> None:
        """The grant ended otherwise than by its release. That is reported once."""
        if claim.reason:
            return
        if self.find(claim.name) is claim:
            self.forget(claim)
        claim.phase, claim.reason, claim.doubt = LOST, reason, ""
        claim.renounce_owner()
        self.changed.append(claim)

    def reason(self, claim: Claim, fault: Fault) -> str:
        """That of a loss: what the server reported, or else its reply."""
        loss = self.losses.get(claim.token)
        return loss[0] if loss else f"gone ({fault.word})"

    def begin(self, claim: Claim) -> int:
        """Registers a call about a grant that is held. Its owner is used again only after `end_call`."""
        self.require_held(claim)
        return self.begin_call(claim.name)

    def begin_extend(self, claim: Claim, lease: float) -> int:
        """Registers a RENEW with this lease. Before one that shortens, no POLL counts until it is answered."""
        call = self.begin(claim)
        if lease < claim.lease:
            claim.sure = min(self.sure(claim), self.at + lease)
            claim.shortening = True
            claim.changes += 1
            self.soonest = min(self.soonest, claim.sure)
        return call

    def confirmed(self, claim: Claim, sent: float, reply: object, renewal: bool = False, entry: bool = False) -> None:
        """Applies the last reply to a check, an extension or a re-entry that was sent at this time."""
        fault = reply if isinstance(reply, Fault) else None
        no_reply = fault is not None and fault.no_reply
        if no_reply:
            claim.renounce_owner()
        if fault and fault.gone:
            self.lose(claim, self.reason(claim, fault))
        self.require_held(claim)
        if renewal and not no_reply:
            claim.sure = self.sure(claim)
            claim.shortening, claim.joined = False, self.polls
            claim.changes += 1
        if fault:
            raise self.error(claim.key, fault)
        if isinstance(reply, list):
            claim.token, claim.lease = reply[0], reply[3] / 1000
            if claim.token in self.losses:  # of a raised token, reported before the reply
                self.lose(claim, self.losses[claim.token][0])
                self.require_held(claim)
            claim.sure = max(self.sure(claim), sent + claim.lease)
            if claim in self.timed:
                self.timed[claim] = self.ends_at(claim)
        claim.holds += entry

    def begin_release(self, claim: Claim) -> tuple[int, Command]:
        """Takes a hold away before the release is sent: from here on it is not held."""
        call = self.begin(claim)
        claim.holds -= 1
        if not claim.holds:
            self.forget(claim)
            claim.phase = RELEASED
        return call, claim.release_command()

    def released(self, claim: Claim, reply: object, was_open: bool) -> Optional[LockError]:
        """Applies the last reply to a release. `was_open`: an earlier try had no reply. Returns the error to raise."""
        if not isinstance(reply, Fault):
            if was_open:
                claim.renounce_owner()
            return None
        if was_open or reply.no_reply:
            claim.renounce_owner()
        if reply.gone:
            if not claim.holds and was_open and claim.token not in self.losses:
                return None
            self.lose(claim, self.reason(claim, reply))
            return self.lost_error(claim)
        if not reply.passing:  # the server would go on to renew the grant: leave its session
            self.leaving = self.leaving or not claim.holds and bool(claim.session) and claim.session == self.session
            return reply.error(claim.key)
        if not claim.holds:  # the release of an inner hold is not repeated: a re-entry may have come between
            self.finish_later(Release(*claim.name, claim.token), claim.release_words(), claim.lease)
        return self.unavailable(claim.key, reply)

    def ends_at(self, claim: Claim) -> float:
        """When the grant ends by time."""
        return min(claim.cut_at, claim.sure) if claim.fixed else claim.cut_at

    def time(self, claim: Claim, max_hold: float | None) -> float:
        """A grant was handed over. Returns when it ends by time."""
        claim.cut_at = FAR if max_hold is None else self.at + max_hold
        if claim.phase is HELD and (claim.fixed or max_hold is not None):
            self.timed[claim] = self.ends_at(claim)
            return self.timed[claim]
        return FAR

    def ripe(self) -> tuple[float, list[tuple[Claim, Command]]]:
        """Ends the grants whose time is over. Returns when the next one's is, and the releases to send, whose replies
        are for `cut_answered`."""
        releases = []
        for claim, end in list(self.timed.items()):
            if end > self.at:
                continue
            if claim.cut_at > self.at:
                self.lose(claim, "expired")
                continue
            claim.holds = 0
            self.finish_later(Release(*claim.name, claim.token), claim.release_words(), claim.lease)
            releases.append((claim, claim.release_command()))
            self.lose(claim, "its maximum time is over")
        return min(self.timed.values(), default=FAR), releases

    def cut_answered(self, claim: Claim, reply: object) -> None:
        """Applies the reply to a release of `ripe`."""
        self.finished(Release(*claim.name, claim.token), reply)

    def taken_out(self, claim: Claim, sent: float, reply: object) -> None:
        """Applies the reply to the RENEW that takes a grant with a fixed lease out of its session."""
        fault = reply if isinstance(reply, Fault) else None
        if fault and fault.gone:
            self.lose(claim, self.reason(claim, fault))
        self.require_held(claim)
        if fault:
            raise self.error(claim.key, fault)
        if not isinstance(reply, list) or reply[0] != claim.token:
            raise self.unavailable(claim.key, text="it was granted twice")
        self.forget(claim)
        self.fixed[claim.name] = claim
        claim.session, claim.lease, claim.handed_over = 0, reply[3] / 1000, True
        claim.sure = sent + claim.lease

    def begin_detach(self, claim: Claim) -> int:
        """Lets go of a grant, which stays on the server for its lease."""
        call = self.begin(claim)
        if claim.holds > 1:
            self.end_call(call)
            raise made(LockMisuse, claim.key, "its owner has other holds of it")
        self.forget(claim)
        claim.phase = RELEASED
        claim.renounce_owner()
        return call

    def detached(self, claim: Claim, reply: object) -> Optional[LockError]:
        """Applies the reply to the RENEW that took a grant out of its session."""
        if not isinstance(reply, Fault):
            return None
        if reply.gone:
            claim.reason = self.reason(claim, reply)
            return self.lost_error(claim)
        return self.error(claim.key, reply)
