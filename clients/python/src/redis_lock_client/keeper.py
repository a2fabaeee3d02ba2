"""The keeper: what is sent on the one connection that keeps the grants of a server, and what its replies tell.

No I/O: whoever has the connection asks what to send (`to_send`), hands in what came (`received`), says when the
connection has opened and closed, and comes back at `next_time`.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from .errors import ACQUIRE, RENEW, LockError, LockLost, ServerError, is_of_replica, meaning
from .grants import Held, Last
from .options import Limits
from .resp import Word, encode

IDLE_PING = 10.0  # seconds between two PINGs where nothing is kept
IDS = 1000  # of so many of its connections a keeper knows the ids
ELSEWHERE = "another connection keeps it now"
AGAIN = 0.1  # seconds until a renewal or release that could not be carried out is sent again


class Unanswered(Exception):
    """The connection has closed before the reply: the call may have been carried out, or not."""


class Silent(Unanswered):
    """Nothing was heard for as long as a reply may take: waits at that server would not hear anything either."""


class Call:
    """One call on a keeper. What it is answered with goes to `then`; it is `done` from then on."""

    __slots__ = ("words", "then", "sent", "epoch", "reply", "done", "dropped", "attempts", "gate", "only", "__weakref__")

    def __init__(self, words: tuple[Word, ...], then: Callable[[Call], None] | None = None, gate: Any = None) -> None:
        self.words, self.then, self.gate = words, then, gate  # the gate: what the caller waits at
        self.sent, self.epoch, self.attempts = 0.0, 0, 0
        self.only = 0  # the one connection on which it may be sent; 0: on any
        self.reply: Any = None
        self.done = self.dropped = False

    @property
    def key(self) -> bytes:
        """That of the lock that it is about."""
        key = self.words[1]
        assert isinstance(key, bytes)
        return key

    def answer(self, reply: Any) -> None:
        """The reply, or an exception in its place."""
        self.reply = reply
        if self.then is not None:
            self.then(self)
        else:
            self.finish(reply)

    def finish(self, reply: Any) -> None:
        """Lets the caller go on."""
        self.reply, self.done = reply, True
        if self.gate is not None:
            self.gate.open()


class Keeper:
    """The bookkeeping of one connection after the other to one server."""

    def __init__(self, place: Any, limits: Limits, lose: Callable[[Held, str, BaseException | None], None],
                 moved: Callable[[Held, str], bool]) -> None:
        self.place, self._limits, self._lose, self._moved = place, limits, lose, moved
        self.epoch, self.is_open = 0, False
        self.must_close = ""  # why
        self._is_down = False  # whether the end of the last one, or that none could be opened, was told
        self.error: BaseException | None = None  # why it is not open
        self.grants: dict[Held, Call | None] = {}  # with the renewal that is under way
        self._kinds: Counter[tuple[float, float]] = Counter()  # of grants: lease and silence
        self._waits: Counter[float] = Counter()  # the leases of calls that wait at this server
        self._next = math.inf  # when whoever has the connection comes back
        self._outgoing: deque[Call] = deque()
        self._pending: deque[Call] = deque()
        self._later: list[tuple[float, int, Call]] = []
        self._numbers = itertools.count()
        self._pinged, self._proven, self._awake = 0.0, -math.inf, 0.0
        self._oldest = -math.inf  # no grant that is kept on this connection was last found by a call before
        self.is_silent = False  # whether each of its grants is looked at by itself, as it has not been heard for long
        self._heard = False
        self._openings: deque[float] = deque(maxlen=8)
        self._ids: deque[int] = deque(maxlen=IDS)  # by which the server knows its connections
        self._has_ids = True  # of all of them
        self.io: Any = None  # who has the connection

    # What the calls use.

    def put(self, call: Call, last: Last | None = None, now_only: bool = False) -> None:
        """To be sent next. Where others may have its grant kept by now, that is on the connection that kept it last, or behind
        a look: on whatever connection comes, or on the present one only."""
        if last is not None and self.is_that_of(last):
            call.only = self.epoch
        elif last is not None:
            call = self._look_before(call, last)
            call.only = self.epoch if now_only else 0
        self._outgoing.append(call)

    def put_later(self, call: Call, at: float) -> None:
        """To be sent then."""
        heapq.heappush(self._later, (at, next(self._numbers), call))

    def put_again(self, call: Call, last: Last | None, at: float) -> None:
        """To be sent then, which it has been before, or could not be. Others may keep its grant by now."""
        self.put_later(call if last is None else self._look_before(call, last), at)

    def is_that_of(self, last: Last) -> bool:
        """Whether the connection that is open now is the one that kept this grant last."""
        return self.is_open and last.keeper is self and last.epoch == self.epoch

    def keep(self, held: Held, epoch: int) -> None:
        """A grant that a call with KEEP on that connection has made or renewed."""
        held.keeper = self
        self._oldest = min(self._oldest, held.sent) if self.grants else held.sent
        if held not in self.grants:
            held.kind = (held.lease, held.keep)
            self._kinds[held.kind] += 1  # before it is in: a signal in between leaves one too many, and not one too few
            self.grants[held] = None
        held.epoch = epoch
        if self.is_open and epoch != self.epoch:  # else all are, as soon as it opens
            self._ask_for(held)

    def leave(self, held: Held) -> None:
        """Keeps it no longer, and sends no renewal any more."""
        if held in self.grants:
            self._note(held)
            renewal = self.grants.pop(held)
            if renewal is not None:
                renewal.dropped = True
            self._uncount(held.kind)

    def count(self, held: Held) -> None:
        """Its lease may be another by now."""
        kind = (held.lease, held.keep)
        if held in self.grants and kind != held.kind:
            self._kinds[kind] += 1
            kind, held.kind = held.kind, kind
            self._uncount(kind)

    def _uncount(self, kind: tuple[float, float]) -> None:
        self._kinds[kind] -= 1
        if not self._kinds[kind]:
            del self._kinds[kind]

    def tells_of(self, held: Held) -> bool:
        """Whether a sign of life of the connection is one of this grant, so that it needs no look of its own."""
        return self.is_open and not self.is_silent and held.epoch == self.epoch

    def known_until(self) -> float:
        """From when on the first of its grants may not be known any more, if nothing is heard until then."""
        if not self.is_open or not self._kinds:
            return math.inf
        return max(self._proven, self._oldest) + min(lease for lease, _ in self._kinds)

    def _note(self, held: Held) -> None:
        """What the connection has told of it counts for it from here on, whatever becomes of the connection."""
        if held.epoch == self.epoch:
            held.sent = max(held.sent, self.proven_after(held.sent))

    def awaits(self, lease: float) -> bool:
        """A call waits at this server, on another connection, and has to hear when it falls silent. Whether the keeper
        has to be woken for that."""
        self._waits[lease] += 1
        return not self.is_open or self._pinged + self._pace() < self._next

    def awaits_no_more(self, lease: float) -> None:
        """It has been answered."""
        self._waits[lease] -= 1
        if not self._waits[lease]:
            del self._waits[lease]

    def reset(self, why: str = "a release is not answered") -> None:
        """Has the connection closed, and its grants kept on a new one."""
        self.must_close = why

    def wanted(self) -> bool:
        """Whether there is something to do for a connection."""
        return bool(self.grants or self._outgoing or self._later or self._waits)

    def proven_after(self, sent: float) -> float:
        """When the PING was sent whose PONG tells of grants of that time."""
        return self._proven if self.is_open and self._proven > sent else -math.inf

    # What the one who has the connection uses.

    def opened(self, now: float, id: int | None) -> bool:
        """A new connection, which the server knows by that id. Whether it is to be told: it follows one that has ended."""
        was_down, self._is_down = self._is_down, False
        self.epoch += 1
        self.is_open, self.must_close, self.error = True, "", None
        self._proven, self._pinged, self._awake, self._oldest = -math.inf, now, now, now
        self._heard = False
        self._openings.append(now)
        self._has_ids = self._has_ids and id is not None
        if id is not None:
            if self._ids and id < self._ids[-1]:  # of a server that has begun to count anew
                self._ids.clear()
            self._ids.append(id)
        for held in self.grants:
            self._ask_for(held)
        return was_down

    def closed(self, error: BaseException) -> bool:
        """Its end, or that none could be opened. All that was sent stays unanswered. Whether that is to be told."""
        was_down, self._is_down = self._is_down, True
        if self.is_open:
            for held in self.grants:
                self._note(held)
        self.is_open, self.is_silent, self.error = False, False, error
        pending, self._pending = self._pending, deque()
        for call in pending:
            call.answer(Unanswered(str(error)))
        for call in [call for call in self._outgoing if call.only]:
            self._outgoing.remove(call)
            call.answer(Unanswered(str(error)))
        return not was_down

    @property
    def was_heard(self) -> bool:
        """Whether the last connection was of use: then losses closed it, however many, and the pauses need not grow."""
        return self._heard

    def may_open_at_once(self, now: float) -> bool:
        """Whether the last connection was of use, and there were not many of them within a second."""
        return self._heard and (len(self._openings) < 8 or self._openings[0] < now - 1.0)

    def refused(self, error: Exception) -> None:
        """What waits to be sent is answered with it."""
        self.error = error
        waiting, self._outgoing = self._outgoing, deque()
        for call in waiting:
            call.answer(error)

    def to_send(self, now: float) -> bytes:
        """All that is to be sent now."""
        due = []
        while self._later and self._later[0][0] <= now:
            due.append(heapq.heappop(self._later)[2])
        self._outgoing.extendleft(reversed(due))  # they are older than what waits
        if now >= self._pinged + self._pace():
            self._ping(now)
        parts = []
        while self._outgoing:
            call = self._outgoing.popleft()
            if call.dropped:
                continue
            call.sent, call.epoch = now, self.epoch
            call.attempts += 1
            self._pending.append(call)
            parts.append(encode(call.words))
        return b"".join(parts)

    def received(self, reply: Any) -> None:
        """One reply."""
        if not self._pending:
            raise Unanswered("a reply that nobody asked for")
        if is_of_replica(reply):
            self.reset(str(reply))
        else:
            self._heard = True
        self._pending.popleft().answer(reply)

    def stood_still(self, now: float) -> None:
        """The process did not run: what has come meanwhile is read before anything is judged."""
        self._awake = now
        if self.is_open:
            self._ping(now)

    def is_overdue(self, now: float) -> bool:
        """Whether a reply should have come."""
        return bool(self._pending) and now >= max(self._pending[0].sent, self._awake) + self._limits.reply

    def next_time(self) -> float:
        """When to come back, where nothing else happens."""
        at = self._pinged + self._pace()
        if self._pending:
            at = min(at, max(self._pending[0].sent, self._awake) + self._limits.reply)
        if self._later:
            at = min(at, self._later[0][0])
        self._next = at
        return at

    def _ping(self, now: float) -> None:
        self._pinged = now
        self._outgoing.append(Call(("PING",), self.ponged))

    def _pace(self) -> float:
        shortest = min([*map(min, self._kinds), *self._waits], default=math.inf)
        return max(0.1, min(shortest / 3, IDLE_PING))

    def ponged(self, call: Call) -> None:
        """A PONG tells of all grants that were kept on its connection when the PING was sent."""
        if not isinstance(call.reply, Exception) and call.epoch == self.epoch:
            self._proven = max(self._proven, call.sent)

    def _ask_for(self, held: Held) -> None:
        """Asks that it be kept on this connection. That of a named owner may be kept by others by now."""
        if held.is_named and self._has_ids:
            self._outgoing.append(self._look(held))
        else:
            self._renew(held)

    def _renew(self, held: Held) -> None:
        self._outgoing.append(self._renewal(held))

    def _look_before(self, call: Call, last: Last) -> Call:
        """Asks who keeps the grant of this call, and sends that behind the answer, on the same connection. Where others
        keep it, the call is answered so."""

        def looked(look: Call) -> None:
            reply = look.reply
            if call.dropped:
                return
            passes = isinstance(reply, ServerError) and meaning(str(reply), ACQUIRE) == "passing"
            is_elsewhere = self.is_elsewhere(last, reply)
            if passes or isinstance(reply, (Unanswered, LockError)):
                call.answer(reply)
            elif is_elsewhere and last.is_being_entered():  # who enters it again takes it back
                call.answer(Unanswered(ELSEWHERE))
            elif is_elsewhere:
                call.answer(LockLost(ELSEWHERE))
            else:
                call.only = look.epoch
                self._outgoing.append(call)

        return Call(("LOCK.HOLDERS", last.name), looked)

    def _renewal(self, held: Held) -> Call:
        return self._only(held, held.renewal(), self._renewed)

    def _look(self, held: Held) -> Call:
        """Asks who keeps it now, before it is kept on this connection."""
        return self._only(held, ("LOCK.HOLDERS", held.name), self._looked)

    def _only(self, held: Held, words: tuple[Word, ...], then: Callable[[Held, Call], None]) -> Call:
        """The call that is under way for this grant from here on, in place of an earlier one."""
        earlier = self.grants[held]
        if earlier is not None:
            earlier.dropped = True
        self.grants[held] = call = Call(words, lambda call: then(held, call))
        return call

    def _looked(self, held: Held, call: Call) -> None:
        reply = call.reply
        if self.grants.get(held) is not call:
            return
        self.grants[held] = None
        if isinstance(reply, Unanswered):
            return
        if self.is_elsewhere(held.last(), reply):
            if held.is_being_entered():  # who enters it again takes it back
                self.put_later(self._look(held), call.sent + AGAIN)
            else:
                self._lose(held, ELSEWHERE, None)
        elif not isinstance(reply, ServerError) or meaning(str(reply), ACQUIRE) != "passing":
            self._renew(held)
        elif not self._moved(held, str(reply)):
            self.put_later(self._look(held), call.sent + AGAIN)

    def is_elsewhere(self, last: Last, holders: Any) -> bool | None:
        """Whether a grant is kept on a connection of others, as LOCK.HOLDERS tells. None: it does not tell."""
        if not self._has_ids or not isinstance(holders, list):
            return None
        told = [dict(zip(it[::2], it[1::2], strict=True)) for it in holders]
        keeps = next((it[b"kept-by"] for it in told if last.is_of(it)), 0)
        return keeps != 0 and keeps not in self._ids

    def _renewed(self, held: Held, call: Call) -> None:
        reply = call.reply
        if self.grants.get(held) is not call:  # it has ended, or is kept elsewhere, or was renewed again
            return
        self.grants[held] = None
        if isinstance(reply, Unanswered):
            return
        if isinstance(reply, list):
            held.proven(call.sent, call.epoch, reply)
            return
        text = str(reply)
        if isinstance(reply, ServerError) and meaning(text, RENEW) == "lost":
            self._lose(held, f"a renewal was answered {text}", reply)
        elif not self._moved(held, text):  # others may keep it when that comes
            again = self._look(held) if held.is_named and self._has_ids else self._renewal(held)
            self.put_later(again, call.sent + AGAIN)
