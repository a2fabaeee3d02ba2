"""What threads and asyncio have in common: the calls, step by step, and what becomes of grants.

Each step that does I/O, or waits, is one of a `Runtime`. That of asyncio suspends the task there; that of threads
blocks, so that its coroutines run from their begin to their end without ever being suspended.
"""

from __future__ import annotations

import logging
import math
import time
import weakref
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .errors import RELEASE, LockError, LockLost, LockUnavailable, ServerError, caused, error_of, meaning, show
from .grants import NEVER, Held
from .keeper import AGAIN, Call, Keeper, Silent, Unanswered
from .looks import Looks
from .observer import Observer, Reports
from .options import Limits
from .owners import Tasks
from .resp import Word
from .runtime import Place, Runtime

log = logging.getLogger("redis_lock_client")


class Engine:
    """The grants of a `Locks` object and the keepers of their servers."""

    def __init__(self, runtime: Runtime, service: str, limits: Limits, observer: Observer | None = None) -> None:
        self.rt, self.service, self.limits = runtime, service, limits
        self.reports = Reports(observer, runtime.tell)
        self.tasks = Tasks(service)
        self.keepers: dict[object, Keeper] = {}
        self.held: set[Held] = set()
        self.looks = Looks(self)
        self.waits: set[tuple[bytes, str, Any]] = set()
        self.waiting: Counter[bytes] = Counter()
        self.acquiring: set[object] = set()  # what takes a lock, and may have to give it back
        self.releasing: weakref.WeakSet[Call] = weakref.WeakSet()  # what has not been answered
        self.is_closed = False

    # Keepers.

    def keeper(self, place: Place) -> Keeper:
        """That of a server."""
        with self.rt.mutex:
            found = self.keepers.get(place.address)
            if found is None:
                found = self.keepers[place.address] = Keeper(place, self.limits, self.lose, self.moved)
            return found

    def opened(self, keeper: Keeper) -> None:
        """It has a connection."""
        if keeper.is_open:  # the end of the last one was not told
            self.closed(keeper, Unanswered("another connection has taken its place"))
        with self.rt.mutex:
            is_news = keeper.opened(time.monotonic())
        if is_news:
            self.reports.keeper_up(keeper.place.name)

    def closed(self, keeper: Keeper, error: Exception) -> None:
        """Its connection has ended, or none could be opened."""
        with self.rt.mutex:
            was_open = keeper.is_open
            is_news = keeper.closed(error)
            if isinstance(error, LockError):
                keeper.refused(error)
            look = self.looks.add_all(keeper) if was_open else math.inf
        self.rt.watch(look)
        if isinstance(error, Silent):
            self.rt.break_waits(keeper.place)
        if is_news and not self.is_closed:
            self.reports.keeper_down(keeper.place.name, error)

    def not_opened(self, keeper: Keeper, error: Exception, begun: float) -> None:
        """No connection could be opened, which was tried since then."""
        self.closed(keeper, error)
        if time.monotonic() - begun >= self.limits.reply * 0.9:  # of a silent server
            self.rt.break_waits(keeper.place)

    def send(self, keeper: Keeper, words: tuple[Word, ...], then: Callable[[Call], None] | None = None) -> Call:
        """Sends a call, and does not wait for it."""
        return self._put(keeper, Call(words, then, self.rt.gate()))

    def _put(self, keeper: Keeper, call: Call) -> Call:
        with self.rt.mutex:
            keeper.put(call)
        self.rt.wake(keeper)
        return call

    async def call(self, keeper: Keeper, words: tuple[Word, ...], until: float) -> Call:
        """Sends a call, and waits for it until then. What is not sent by then will never be."""
        call = self.send(keeper, words)
        try:
            await self.rt.wait(call, until)
        finally:
            if not call.done:
                call.dropped = True
        if isinstance(call.reply, Unanswered) or not call.done:
            self.rt.unreachable(keeper.place)
        return call

    # Grants.

    def add(self, held: Held, epoch: int | None) -> None:
        """A grant that a call on that connection of its keeper has found. None: a wait, of a grant to be kept."""
        with self.rt.mutex:
            self.held.add(held)
            if epoch is None:
                now = time.monotonic()
                held.ends = now + held.request.at_most
                look = self.looks.add_waited(held, now)
            else:
                held.epoch = epoch
                if held.keep:
                    held.keeper.keep(held, epoch)
                look = self.looks.add(held)
        if epoch is not None:
            self.rt.wake(held.keeper)
        self.rt.watch(look)

    def take_over(self, held: Held) -> None:
        """Has it kept, where a wait gave it and the keeper does not have it yet. Does not wait for the answer."""
        with self.rt.mutex:
            if held.state != "held" or not held.keep or held in held.keeper.grants:
                return
            held.keeper.keep(held, NEVER)
            look = self.looks.add(held)
        self._return_wire(held)
        self.rt.wake(held.keeper)
        self.rt.watch(look)

    def _return_wire(self, held: Held) -> None:
        """Gives back the connection of its wait, where it has one."""
        with self.rt.mutex:
            wire = held.take_wire()
        if wire is not None:
            self.rt.give_back(wire)

    def forget(self, held: Held, state: str) -> None:
        """A grant that has ended. Where a signal comes in between, it is called again, as the state comes last."""
        held.keeper.leave(held)
        self.looks.drop(held)
        self.held.discard(held)
        if held.task is not None and held.task.held.get(held.name) is held:
            del held.task.held[held.name]
        held.state = state

    def lose(self, held: Held, why: str, cause: BaseException | None) -> None:
        """Tells a loss, once."""
        if self._end(held, why, cause):
            self.reports.lost(held)

    def _end(self, held: Held, why: str, cause: BaseException | None) -> bool:
        """Ends it here, otherwise than by its release. Whether it stood till now."""
        with self.rt.mutex:
            if held.state != "held":
                return False
            held.why, held.cause = why, cause
            self.forget(held, "lost")
        self._return_wire(held)
        with suppress(IndexError):
            while True:  # from here on they are called by who adds them
                self.rt.tell(held.listeners.pop(0))
        return True

    def moved(self, held: Held, text: str) -> bool:
        """A kept grant whose key another server has by now, as a MOVED tells."""
        place = self.rt.moved(text)
        return place is not None and self.follow(held, place)

    def follow(self, held: Held, place: Place) -> bool:
        """Has it kept there from now on, where that is elsewhere."""
        if place.address == held.keeper.place.address:
            return False
        held.keeper.leave(held)
        keeper = self.keeper(place)
        keeper.keep(held, NEVER)
        self.rt.watch(self.looks.add(held))
        self.rt.wake(keeper)
        return True

    # Releasing.

    def _less(self, held: Held) -> tuple[Word, ...]:
        """Takes away a hold here. Gives the call that does so at the server."""
        with self.rt.mutex:
            held.holds -= 1
            holds = held.holds
            if not holds and held.state == "held":
                self.forget(held, "released")
        return ("LOCK.RELEASE", held.name, held.owner, "HOLDS", holds, "TOKEN", held.token)

    def abandon(self, held: Held) -> Call:
        """Gives back a hold, whether somebody waits for it or not."""
        call = self.give_back(held.keeper, self._less(held), max(self.limits.release, held.lease))
        self._return_wire(held)
        return call

    def give_up(self, held: Held, error: BaseException | None = None) -> None:
        """Gives back a hold in the background: what has ended its use, if anything has, is that error."""
        self.abandon(held)
        if held.state == "released":
            self.reports.released(held, error)

    async def release(self, held: Held) -> None:
        """Gives back one hold."""
        until, keeper = time.monotonic() + self.limits.release, held.keeper
        call = self._releasing(keeper, self._less(held), max(self.limits.release, held.lease))
        failed: BaseException | None = None
        if held.wire is None or not await self.rt.answer(held, call, until):
            self._put(keeper, call)
        if held.state == "lost":
            raise held.lost()
        try:
            await self.rt.wait(call, until)
            self._judge(held, call)
        except BaseException as error:
            failed = error
            raise
        finally:
            if held.state == "released":
                self.reports.released(held, failed)

    def _judge(self, held: Held, call: Call) -> None:
        """Raises what the answer to a release tells, where it is none."""
        error = self._failure(held, call)
        if isinstance(error, LockLost):
            if held.state == "held":
                self.lose(held, f"a release was answered {call.reply}", call.reply)
            elif held.state == "released" and call.attempts > 1:
                return  # an earlier attempt has released it
        elif error is not None:
            self.reset(held.keeper)
        elif held.state == "held":
            held.sent = max(held.sent, call.sent)
        if error is not None:
            raise error

    def _failure(self, held: Held, call: Call) -> LockError | None:
        key, answer = held.request.key, call.reply
        if not call.done or isinstance(answer, Unanswered):
            why = held.keeper.error or answer
            told = LockUnavailable(f"{show(key)}: the release has not been answered: {why}")
            return caused(told, why if isinstance(why, BaseException) else None)
        if isinstance(answer, LockError):
            return caused(type(answer)(f"{show(key)}: {answer}"), answer.__cause__)
        return error_of(key, answer, RELEASE) if isinstance(answer, Exception) else None

    def give_back(self, keeper: Keeper, words: tuple[Word, ...], seconds: float) -> Call:
        """A release that is sent until it is answered, whether somebody waits for it or not."""
        return self._put(keeper, self._releasing(keeper, words, seconds))

    def _releasing(self, keeper: Keeper, words: tuple[Word, ...], seconds: float) -> Call:
        """The call, which is sent again on the keeper where it is not answered."""
        until = time.monotonic() + seconds

        def answered(call: Call) -> None:
            reply = call.reply
            passes = isinstance(reply, Unanswered) or (
                isinstance(reply, ServerError) and meaning(str(reply), RELEASE) == "passing")
            now = time.monotonic()
            if not passes or now > until:
                if passes or (isinstance(reply, Exception) and not isinstance(reply, ServerError)):
                    self.rt.tell(lambda: log.warning(
                        "a release could not be carried out: a lease may have to end: %s", reply))
                self.releasing.discard(call)
                call.finish(reply)
                return
            place = self.rt.moved(str(reply)) if isinstance(reply, ServerError) else None
            target = self.keeper(place) if place is not None else keeper
            with self.rt.mutex:
                target.put_later(call, now if isinstance(reply, Unanswered) or place else now + AGAIN)
            self.rt.wake(target)

        call = Call(words, answered, self.rt.gate())
        self.releasing.add(call)
        return call

    def reset(self, keeper: Keeper) -> None:
        """Closes the connection: what must not be kept there is not kept on the next."""
        with self.rt.mutex:
            keeper.reset()
        self.rt.wake(keeper)

    async def close(self) -> None:
        """Releases all that is held, and calls off all waits."""
        self.is_closed = True
        until = time.monotonic() + self.limits.close
        calls = [self.give_back(self.keeper(place), ("LOCK.RELEASE", name, owner, "ALL"), self.limits.close)
                 for name, owner, place in list(self.waits)]
        releases: list[tuple[Held, Call]] = []
        for held in list(self.held):
            if self._end(held, "the locks were closed", None):
                words = ("LOCK.RELEASE", held.name, held.owner, "HOLDS", 0, "TOKEN", held.token)
                releases.append((held, self.give_back(held.keeper, words, self.limits.close)))
        for call in [*calls, *(call for _, call in releases)]:
            await self.rt.wait(call, until)
        for held, call in releases:
            self.reports.released(held, self._failure(held, call))
        while (self.acquiring or self.releasing) and time.monotonic() < until:
            await self.rt.sleep(0.005)

