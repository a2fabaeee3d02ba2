"""What threads and asyncio have in common: the calls, step by step, and what becomes of grants.

Each step that does I/O, or waits, is one of a `Runtime`. That of asyncio suspends the task there; that of threads
blocks, so that its coroutines run from their begin to their end without ever being suspended.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .errors import RELEASE, LockError, LockLost, LockUnavailable, ServerError, caused, error_of, show
from .grants import NEVER, Held, Last
from .keeper import Call, Keeper, Silent, Unanswered
from .looks import Looks
from .observer import Observer, Reports
from .options import Limits
from .owners import Task, Tasks
from .resp import Word
from .runtime import Place, Runtime
from .undo import Undo


class Engine:
    """The grants of a `Locks` object and the keepers of their servers."""

    def __init__(self, runtime: Runtime, service: str, limits: Limits, observer: Observer | None = None) -> None:
        self.rt, self.service, self.limits = runtime, service, limits
        self.reports = Reports(observer, runtime.tell)
        self.tasks = Tasks(service)
        self.keepers: dict[object, Keeper] = {}
        self.held: set[Held] = set()
        self.looks = Looks(self)
        self.waits: set[tuple[bytes, str, Any, Task | None]] = set()
        self.waiting: Counter[bytes] = Counter()
        self.acquiring: set[object] = set()  # what takes a lock, and may have to give it back
        self.undo = Undo(self)
        self.is_closed = False

    # Keepers.

    def keeper(self, place: Place) -> Keeper:
        """That of a server."""
        with self.rt.mutex:
            found = self.keepers.get(place.address)
            if found is None:
                found = self.keepers[place.address] = Keeper(place, self.limits, self.lose, self.moved)
            return found

    def opened(self, keeper: Keeper, id: int | None) -> None:
        """It has a connection, which the server knows by that id."""
        if keeper.is_open:  # the end of the last one was not told
            self.closed(keeper, Unanswered("another connection has taken its place"))
        with self.rt.mutex:
            is_news = keeper.opened(time.monotonic(), id)
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

    def send(self, keeper: Keeper, words: tuple[Word, ...], then: Callable[[Call], None] | None = None,
             last: Last | None = None) -> Call:
        """Sends a call, and does not wait for it."""
        return self.put(keeper, Call(words, then, self.rt.gate()), last)

    def put(self, keeper: Keeper, call: Call, last: Last | None = None) -> Call:
        """Has it sent next."""
        with self.rt.mutex:
            keeper.put(call, last)
        self.rt.wake(keeper)
        return call

    async def call(self, keeper: Keeper, call: Call, until: float, last: Last | None = None) -> Call:
        """Sends a call, and waits for it until then. What is not sent by then will never be."""
        try:
            self.put(keeper, call, last)
        except BaseException:  # of a signal
            call.dropped = True
            raise
        return await self.answer(keeper, call, until)

    async def answer(self, keeper: Keeper, call: Call, until: float) -> Call:
        """Waits for the answer to what was sent."""
        try:
            await self.rt.wait(call, until)
        finally:
            if not call.done:
                call.dropped = True
        if isinstance(call.reply, Unanswered) or not call.done:
            self.rt.unreachable(keeper.place)
        return call

    # Grants.

    def found(self, name: bytes, owner: str) -> Held | None:
        """What this owner has of that key here, where it has it."""
        with self.rt.mutex:
            return next((it for it in self.held if it.name == name and it.owner == owner), None)

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

    def may_have_lease(self, held: Held, begun: float, lease: float) -> tuple[float, float, float] | None:
        """A call since then may make this its lease. What to go back to where it has not."""
        with self.rt.mutex:
            before = held.may_have_lease(begun, lease)
            look = self.looks.add(held) if before is not None and held.state == "held" else math.inf
        self.rt.watch(look)
        return before

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

    def lose_unheard(self, held: Held, why: str) -> None:
        """Tells the loss of a grant of which nothing was heard. The server may keep it still, for nobody."""
        if not self._end(held, why, held.keeper.error):
            return
        self.reports.lost(held)
        if held.request.keep and not held.is_let_go:
            self.undo.give_back_unheard(held)

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
        return held.less(holds)

    def abandon(self, held: Held) -> Call | None:
        """Gives back a hold, whether somebody waits for it or not. None: it was lost."""
        words = self._less(held)
        if held.state == "lost":
            return None
        seconds = max(self.limits.release, held.lease)
        if held.holds:
            call = self.undo.repeat(held.keeper, words, seconds, held.task, held.last_if_named())
        else:
            call = self.undo.give_back(held.keeper, words, seconds, held.task, held.last())
        self._return_wire(held)
        return call

    def uncount(self, held: Held) -> None:
        """Takes away a hold that the server has not got."""
        with self.rt.mutex:
            is_last = held.holds == 1
            if not is_last:
                held.holds -= 1
        if is_last:  # the others were given back meanwhile
            self.abandon(held)

    def give_up(self, held: Held, error: BaseException | None = None) -> None:
        """Gives back a hold in the background: what has ended its use, if anything has, is that error."""
        self.abandon(held)
        if held.state == "released":
            self.reports.released(held, error)

    async def release(self, held: Held, until: float = math.inf) -> None:
        """Gives back one hold, by then."""
        until, keeper = min(until, time.monotonic() + self.limits.release), held.keeper
        with self.rt.mutex:
            held.must_not_be_let_go()
            words = self._less(held)
        if held.state == "lost":
            raise held.lost()
        seconds = self.limits.release if held.is_named else max(self.limits.release, held.lease)
        last = held.last_if_named()
        call = self.undo.repeated(keeper, words, seconds, held.task, last)
        failed: BaseException | None = None
        if held.wire is None or not await self.rt.answer(held, call, until):
            self.put(keeper, call, last)
        try:
            await self.rt.wait(call, until)
            self._judge(held, call)
        except BaseException as error:
            failed = error
            raise
        finally:
            if held.is_named and not call.done:  # it comes back: this is not to be sent any more
                call.dropped = True
                self.undo.is_settled(call, held.task)
            if held.state == "released":
                self.reports.released(held, failed)

    def _judge(self, held: Held, call: Call) -> None:
        """Raises what the answer to a release tells, where it is none."""
        error = self._failure(held, call)
        if isinstance(error, LockLost):
            if held.state == "held":
                is_told = isinstance(call.reply, ServerError)
                self.lose(held, f"a release was answered {call.reply}" if is_told else str(call.reply), call.reply)
            elif held.state == "released" and call.attempts > 1 and isinstance(call.reply, ServerError):
                return  # an earlier attempt has released it
        elif error is not None:
            if not isinstance(call.reply, ServerError):  # by which it has been already
                self.reset(held.keeper)
        elif held.state == "held" and call.attempts == 1:  # a repeated one may have found it done, which renews nothing
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

    async def detach(self, held: Held) -> None:
        """Lets go of it, with all its holds: nobody keeps it any more, and it is not released."""
        keeper = held.keeper
        with self.rt.mutex:
            held.must_stand()
            self.forget(held, "released")
            if held.task is not None and not held.is_named:
                held.task.rename()  # else its next acquire would be a re-entry of what is another's by then
        self._return_wire(held)
        if not held.keep:
            return
        call = self.undo.keep_no_more(keeper, held)
        await self.rt.wait(call, time.monotonic() + self.limits.release)
        error = self._failure(held, call)
        if isinstance(error, LockUnavailable):
            self.reset(keeper)  # else the server would go on
        if error is not None:
            raise error

    def reset(self, keeper: Keeper) -> None:
        """Closes the connection: what must not be kept there is not kept on the next."""
        with self.rt.mutex:
            keeper.reset()
        self.rt.wake(keeper)

    async def close(self) -> None:
        """Releases all that is held, and calls off all waits."""
        self.is_closed = True
        until = time.monotonic() + self.limits.close
        calls = []
        for name, owner, place, task in list(self.waits):
            last = Last(self.keeper(place), NEVER, name, owner)
            calls.append(self.undo.give_back_all(last.keeper, self.limits.close, task, last))
        releases: list[tuple[Held, Call]] = []
        for held in list(self.held):
            if self._end(held, "the locks were closed", None):
                call = self.undo.repeat(held.keeper, held.less(0), self.limits.close, held.task, held.last_if_named())
                releases.append((held, call))
        for call in [*calls, *(call for _, call in releases)]:
            await self.rt.wait(call, until)
        for held, call in releases:
            self.reports.released(held, self._failure(held, call))
        while (self.acquiring or self.undo.pending) and time.monotonic() < until:
            await self.rt.sleep(0.005)

