"""When the clock looks at the grants, and what it does then.

A kept grant has no time of its own while the connection of its keeper is heard: one sign of life tells of all that is
kept there, so there is one time for all of them. Only when the connection has closed, or is silent for too long, is
each of them looked at by itself.
"""

from __future__ import annotations

import heapq
import itertools
import math
from typing import TYPE_CHECKING

from .errors import RELEASE, LockLost, ServerError, meaning
from .grants import Held
from .keeper import AGAIN, Call, Keeper
from .options import milliseconds
from .runtime import STILL

if TYPE_CHECKING:
    from .engine import Engine

MOMENT = 0.1  # seconds for which a grant that a wait gave is left to its lease, as most are released by then


class Deadlines:
    """The grants by the time at which each has to be looked at: one for each grant."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Held]] = []  # also what was dropped, or has an earlier time by now
        self._at: dict[Held, float] = {}
        self._numbers = itertools.count()

    def put(self, held: Held, at: float) -> float:
        """It is to be looked at by then. Gives that time."""
        if at < self._at.get(held, math.inf):
            heapq.heappush(self._heap, (at, next(self._numbers), held))
            self._at[held] = at  # behind it, as a signal may come in between
            if len(self._heap) > 2 * len(self._at) + 256:
                self._heap = [entry for entry in self._heap if self._at.get(entry[2]) == entry[0]]
                heapq.heapify(self._heap)
        return at

    def drop(self, held: Held) -> None:
        """It has ended."""
        self._at.pop(held, None)

    def first(self) -> float:
        """When the first one is due."""
        while self._heap and self._at.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf

    def due(self, now: float) -> list[Held]:
        """Takes out what is due."""
        found = []
        while self.first() <= now:
            held = heapq.heappop(self._heap)[2]
            self.drop(held)
            found.append(held)
        return found


class Looks:
    """The times at which the clock looks at grants. What is not said to be otherwise is called with the mutex held."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._own = Deadlines()  # of grants of which no connection tells
        self._takeovers = Deadlines()  # of grants that the keeper does not have yet
        self._awake = 0.0
        self._was_waited = False  # since the last look

    def add(self, held: Held) -> float:
        """A grant, or one of which something has changed. Gives the time by which the clock has to look."""
        at = self._own.put(held, self._time_of(held))
        return min(at, held.keeper.known_until()) if held.keeper.tells_of(held) else at

    def add_waited(self, held: Held, now: float) -> float:
        """A grant that a wait gave, which its keeper takes over when it is still held in a moment."""
        self._was_waited = True
        return self._takeovers.put(held, min(now + MOMENT, held.sent + held.lease / 3))

    def add_all(self, keeper: Keeper) -> float:
        """Its connection tells nothing any more of its grants."""
        for held in keeper.grants:
            self._own.put(held, self._time_of(held))
        return self._own.first()

    def drop(self, held: Held) -> None:
        """It has ended."""
        self._own.drop(held)
        self._takeovers.drop(held)

    def _time_of(self, held: Held) -> float:
        if not held.keep:
            return held.known_until()
        last_lease = held.ends - held.lease
        return last_lease if held.keeper.tells_of(held) else min(held.known_until(), last_lease)

    def look(self, now: float, late: float) -> float:
        """Looks at what is due, without the mutex. Gives the time of the next look."""
        engine, mutex = self._engine, self._engine.rt.mutex
        # Where one wait after the other gives a grant that is soon released, the clock looks now and then, and not at each.
        soon = now + MOMENT if self._was_waited else math.inf
        self._was_waited = False
        if late > STILL:
            self._awake = now + engine.limits.reply
            for keeper in list(engine.keepers.values()):
                with mutex:
                    keeper.stood_still(now)
                engine.rt.wake(keeper)
        elif late > AGAIN:
            self._awake = max(self._awake, now + AGAIN)
        with mutex:
            due = self._takeovers.due(now)
        for held in due:
            engine.take_over(held)
        if now < self._awake:
            with mutex:
                return min(self._awake, self._takeovers.first())
        with mutex:
            for keeper in engine.keepers.values():
                was_silent, keeper.is_silent = keeper.is_silent, keeper.known_until() <= now
                if keeper.is_silent and not was_silent:
                    self.add_all(keeper)
            due = self._own.due(now)
        for held in due:
            self._look(held, now)
        with mutex:
            times = [keeper.known_until() for keeper in engine.keepers.values() if not keeper.is_silent]
            return min(soon, self._own.first(), self._takeovers.first(), *times)

    def _look(self, held: Held, now: float) -> None:
        if now >= held.known_until():
            if now >= held.ends:
                why = "the longest time that was asked for has passed"
            elif held.keep:
                why = "nothing has been heard of it for a whole lease"
            else:
                why = "its lease has passed"
            self._engine.lose_unheard(held, why)
            return
        if held.keep and held.ends - now <= held.lease:
            self._let_go(held, now)
        with self._engine.rt.mutex:
            if held.state == "held":
                self._own.put(held, max(self._time_of(held), now + 0.001))

    def _let_go(self, held: Held, now: float) -> None:
        """The last lease of a grant that is kept at most so long: nobody renews it any more."""
        with self._engine.rt.mutex:
            last = held.last_if_named()
            held.keeper.leave(held)
            held.keep, held.is_let_go = 0.0, False  # it is known for as long as before, until this is answered
        words = ("LOCK.RENEW", held.name, held.owner, "TOKEN", held.token, "PX", milliseconds(held.ends - now))

        def answered(call: Call) -> None:
            text = str(call.reply)
            if isinstance(call.reply, LockLost):
                self._engine.lose(held, text, None)
            elif isinstance(call.reply, ServerError) and meaning(text, RELEASE) == "lost":
                self._engine.lose(held, f"a renewal was answered {text}", call.reply)
            elif not isinstance(call.reply, list):
                held.keeper.reset()  # else the server would go on
            else:
                held.proven(call.sent, call.epoch, call.reply)
                held.is_let_go = True

        self._engine.send(held.keeper, (*words, "KEEP", 0), answered, last)
