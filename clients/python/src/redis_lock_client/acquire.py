"""One acquire of an owner that does not hold the lock: at once, or in line."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from .engine import Engine
from .errors import (
    ACQUIRE,
    RELEASE,
    RENEW,
    LockBusy,
    LockError,
    LockLost,
    LockUnavailable,
    ServerError,
    caused,
    closed,
    error_of,
    is_of_replica,
    meaning,
    show,
)
from .grants import NEVER, Held, Last
from .keeper import Call, Keeper, Unanswered
from .options import FOR_EVER, TEN_YEARS, Request, milliseconds
from .owners import Task
from .resp import Word
from .runtime import Pause, Stopped


class Acquire:
    """One acquire of an owner that does not hold the lock."""

    def __init__(self, engine: Engine, request: Request, owner: str, until: float, task: Task | None = None,
                 stop: Callable[[], bool] | None = None) -> None:
        self.engine, self.request, self.owner, self.until, self.task = engine, request, owner, until, task
        self.end = until + (engine.limits.reply if request.wait else 0.0)  # by then the caller is told, whatever hangs
        self.stop = stop  # tells whether the wait is to end
        self.is_open = False  # whether the server may have granted what nobody knows of
        self.is_called_off = False
        self.keeper: Keeper | None = None
        self.asked: Call | None = None  # the last call on the keeper
        self.token = 0  # of a grant that nobody else knows of yet
        self.held: Held | None = None

    async def run(self) -> Held:
        """The grant."""
        request = self.request
        try:
            self.engine.acquiring.add(self)
            # A named owner's goes behind what gives back what it had.
            is_first = not self.engine.waiting[request.name] or self._is_named()
            if not request.replicas and (not request.wait or is_first):
                try:
                    held = await self._try()
                except LockUnavailable:
                    if not request.wait:
                        raise
                    held = None
                if held is not None:
                    return held
                if not request.wait:
                    raise LockBusy(f"{show(request.key)}: others hold it, or are in line for it")
            self._count(+1)
            try:
                return await self._wait()
            finally:
                self._count(-1)
        except BaseException as error:
            call = None
            if self.held is not None:  # the signal came after the grant
                call, self.held, self.is_open = self.engine.abandon(self.held), None, True
            elif self.is_open and not self.is_called_off and self.keeper is not None:
                call = self._give_back(self.keeper)
            if call is not None and not isinstance(error, LockError):  # who is told of a cancellation holds nothing
                await self.engine.rt.finish(self._heard(call))
            raise
        finally:
            self.engine.acquiring.discard(self)

    def _count(self, change: int) -> None:
        waiting, name = self.engine.waiting, self.request.name
        with self.engine.rt.mutex:
            waiting[name] += change
            if not waiting[name]:
                del waiting[name]

    async def _try(self) -> Held | None:
        keeper = await self._keeper()
        words = (*self._words(), *self._keep(), "HOLDS", 1)
        call = await self.answered(keeper, words, self.until if not self.request.wait else min(
            self.until, time.monotonic() + self.engine.limits.now))
        return None if call.reply is None else self._granted(call.reply, call.sent, call.epoch)

    async def _keeper(self) -> Keeper:
        until = min(self.until, time.monotonic() + self.engine.limits.now)
        place = await self.engine.rt.place_of(self.request.name, until)
        self.keeper = self.engine.keeper(place)
        return self.keeper

    def _is_named(self) -> bool:
        return self.task is not None and self.task.is_named

    def _words(self) -> tuple[Word, ...]:
        request = self.request
        return ("LOCK.ACQUIRE", request.name, self.owner, *request.mode(), "PX", milliseconds(request.lease))

    def _keep(self) -> tuple[Word, ...]:
        return ("KEEP", milliseconds(self.request.keep)) if self.request.keep else ()

    def _give_back(self, keeper: Keeper) -> Call:
        request, seconds = self.request, max(self.engine.limits.release, self.request.lease)
        if self.token:
            words = ("LOCK.RELEASE", request.name, self.owner, "HOLDS", 0, "TOKEN", self.token)
            return self.engine.undo.give_back(keeper, words, seconds, self.task, self.last(keeper, self.token))
        return self.engine.undo.give_back_all(keeper, seconds, self.task, self.last(keeper))

    def last(self, keeper: Keeper, token: int = 0) -> Last:
        """The connection that may keep what these calls were granted."""
        return Last(keeper, self.asked.epoch if self.asked else NEVER, self.request.name, self.owner, token)

    async def _heard(self, call: Call) -> None:
        """Waits for the answer, for no longer than a reply may take."""
        await self.engine.rt.wait(call, time.monotonic() + self.engine.limits.reply)

    def _granted(self, reply: list[Any], sent: float, epoch: int | None, wire: Any = None) -> Held:
        assert self.keeper is not None
        self.held = held = Held(self.request, self.owner, self.keeper, reply, sent, wire, self.task)
        self.engine.add(held, epoch)
        if self.engine.is_closed:  # which did not see it any more
            self.engine.lose(held, "the locks were closed", None)
            self.held, self.token, self.is_open = None, held.token, True
            raise closed(self.request.key)
        self.is_open = False
        return held

    async def answered(self, keeper: Keeper, words: tuple[Word, ...], until: float, kind: int = ACQUIRE,
                       last: Last | None = None) -> Call:
        """A call that is sent until it is answered with something other than what passes. Where others may keep the grant by
        now, `last` tells which connection did so here."""
        pause = Pause()
        while True:
            was_open, self.is_open = self.is_open, True
            self.asked = call = Call(words, None, self.engine.rt.gate())
            await self.engine.call(keeper, call, until, last)
            self.is_open = was_open or call.attempts > 0
            reply: Any = call.reply
            if call.done and not isinstance(reply, Exception):
                self.is_open = reply is not None
                return call
            if isinstance(reply, ServerError):
                if meaning(str(reply), kind) != "passing":
                    self.is_open = was_open
                    raise error_of(self.request.key, reply, kind)
                place = self.engine.rt.moved(str(reply))
                if place is not None:
                    keeper = self.keeper = self.engine.keeper(place)
            elif isinstance(reply, LockError):
                raise caused(type(reply)(f"{show(self.request.key)}: {reply}"), reply.__cause__)
            left = until - time.monotonic()
            if left <= 0 or self.engine.is_closed:
                why = reply or keeper.error or "no answer in time"
                told = LockUnavailable(f"{show(self.request.key)}: {why}")
                raise caused(told, why if isinstance(why, BaseException) else None)
            await self.engine.rt.sleep(pause.take(left))
            if isinstance(reply, Unanswered):
                self.keeper = keeper = await self._again(keeper)

    async def _again(self, keeper: Keeper) -> Keeper:
        """Where the next attempt goes: in a cluster, the slot may be served elsewhere by now."""
        try:
            return await self._keeper()
        except LockUnavailable:
            return keeper

    # In line.

    async def _wait(self) -> Held:
        pause = Pause()
        last: BaseException | None = None
        while True:
            left = self.until - time.monotonic()
            if self.engine.is_closed:
                raise closed(self.request.key)
            if left <= 0 and last is not None:
                raise caused(LockUnavailable(f"{show(self.request.key)}: {last}"), last)
            if self.stop is not None and self.stop():
                raise Stopped
            try:
                held = await self._in_line()
            except Unanswered as error:
                last, held = error, None
            except ServerError as error:
                if meaning(str(error), ACQUIRE) != "passing":
                    raise error_of(self.request.key, error, ACQUIRE) from error
                self.engine.rt.moved(str(error))
                last, held = error, None
            except LockUnavailable as error:
                last, held = error, None
            if held is not None:
                return held
            left = self.until - time.monotonic()
            if left > 0:
                await self.engine.rt.sleep(pause.take(left))

    async def _in_line(self) -> Held | None:
        """One wait on a wait connection. None: the grant came, and went unseen."""
        rt, reply_time = self.engine.rt, self.engine.limits.reply
        keeper = await self._keeper()
        wire = await rt.borrow(keeper.place, min(time.monotonic() + reply_time, self.end))
        left = max(0.0, self.until - time.monotonic())
        block: tuple[Word, ...] = ("BLOCK", milliseconds(min(left, TEN_YEARS)) if left != FOR_EVER else 0)
        words = (*self._words(), "HOLDS", 1, *(block if self.request.wait else ()))
        entry = (self.request.name, self.owner, keeper.place, self.task)
        self.engine.waits.add(entry)
        if self.engine.is_closed:  # which may not have seen it
            self.engine.waits.discard(entry)
            rt.give_back(wire)
            raise closed(self.request.key)
        was_open, self.is_open, self.token, self.asked = self.is_open, True, 0, None
        with rt.mutex:
            is_new = keeper.awaits(self.request.lease)
        if is_new:
            rt.wake(keeper)
        sent = time.monotonic()
        try:
            reply = (await rt.ask(wire, [words], self.end, self.stop))[0]
            self.token = int(reply[0]) if isinstance(reply, list) else 0
            if self.request.replicas and self.token:
                await self._acknowledged(wire)
        except Unanswered:
            rt.drop(wire)
            raise
        except LockError:
            rt.give_back(wire)
            raise
        except BaseException:
            await rt.finish(self._call_off(keeper, wire))
            raise
        finally:
            self.engine.waits.discard(entry)
            with rt.mutex:
                keeper.awaits_no_more(self.request.lease)
        if is_of_replica(reply):
            rt.desert(wire)
        elif isinstance(reply, list) and self._is_early(sent):
            if not self._is_named():
                return self._granted(reply, sent, None, rt.lend(wire))
            rt.give_back(wire)  # what a name has, others may keep by the release: only the keeper can tell
            return self._granted(reply, sent, None)
        else:
            rt.give_back(wire)
        if isinstance(reply, ServerError):
            self.is_open = was_open  # by an earlier call that was not answered
            raise reply
        if reply is None:
            self.is_open = False
            if self.engine.is_closed:
                raise closed(self.request.key)
            raise LockBusy(f"{show(self.request.key)}: others hold it, or are in line for it")
        return await self._renewed(keeper, reply)

    def _is_early(self, sent: float) -> bool:
        """Whether a grant that a wait gives now is known from the sending of that, and kept a moment later."""
        in_time = time.monotonic() - sent < self.request.lease / 3
        return in_time and bool(self.request.keep) and not self.request.replicas

    async def _renewed(self, keeper: Keeper, reply: list[Any]) -> Held | None:
        """What a wait has given late is renewed on the keeper: from there on its time is known, and it is kept."""
        words = ("LOCK.RENEW", self.request.name, self.owner, "TOKEN", int(reply[0]), *self._keep())
        until = min(time.monotonic() + self.engine.limits.reply, self.end)
        # Who has asked for it later, in this name, has it. With replicas, or a fixed lease, this may be what asks.
        is_later = self._is_named() and self.request.keep and not self.request.replicas
        last = self.last(keeper, self.token) if is_later else None
        try:
            call = await self.answered(keeper, words, until, RENEW, last)
        except LockLost:
            self.is_open, self.token = False, 0
            return None
        return self._granted(call.reply, call.sent, call.epoch)

    async def _call_off(self, keeper: Keeper, wire: Any) -> None:
        """Leaves the line. What is granted meanwhile is released by the same call."""
        rt, until = self.engine.rt, time.monotonic() + self.engine.limits.reply
        self.is_called_off = True
        call = self._give_back(keeper)
        try:
            answer = await rt.answer_of(wire, until)
            await rt.wait(call, until)
            if isinstance(answer, list):  # granted, maybe after that call, which has then overtaken the wait
                self.token = int(answer[0])
                call = self._give_back(keeper)
                await self._heard(call)
            error = call.reply if isinstance(call.reply, Exception) else None
            self.is_open = not call.done or (error is not None and meaning(str(error), RELEASE) != "lost")
        except BaseException as error:
            rt.drop(wire)
            if not isinstance(error, Unanswered):  # which must not take the place of what has ended the wait
                raise
        else:
            rt.give_back(wire)

    async def _acknowledged(self, wire: Any) -> None:
        """Waits until enough replicas have the grant."""
        wanted, now = self.request.replicas, time.monotonic()
        left = max(0.001, min((self.end - now) * 0.8, self.request.lease / 2))  # so that the answer comes in time
        until = min(now + left + self.engine.limits.reply, self.end)
        got = (await self.engine.rt.ask(wire, [("WAIT", wanted, math.ceil(left * 1000))], until))[0]
        if isinstance(got, ServerError):
            raise error_of(self.request.key, got, ACQUIRE)
        if got < wanted:
            raise LockUnavailable(f"{show(self.request.key)}: {got} of {wanted} replicas have it")

    async def repeated_to_replicas(self, keeper: Keeper, words: tuple[Word, ...]) -> None:
        """Has the replicas acknowledge what was entered again, by the same call where it can be waited for."""
        rt = self.engine.rt
        try:
            wire = await rt.borrow(keeper.place, self.end)
            try:
                reply = (await rt.ask(wire, [words], self.end))[0]
                if isinstance(reply, ServerError):
                    raise error_of(self.request.key, reply, ACQUIRE)
                await self._acknowledged(wire)
            except LockError:
                rt.give_back(wire)
                raise
            except BaseException:
                rt.drop(wire)
                raise
            rt.give_back(wire)
        except Unanswered as error:
            raise caused(LockUnavailable(f"{show(self.request.key)}: {error}"), error)
