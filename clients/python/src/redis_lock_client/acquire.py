"""Taking a lock: at once, again by the same task, or in line."""

from __future__ import annotations

import math
import time
from typing import Any

from .engine import Engine
from .errors import (
    ACQUIRE,
    RENEW,
    LockBusy,
    LockError,
    LockLost,
    LockMisuse,
    LockUnavailable,
    ServerError,
    caused,
    error_of,
    is_of_replica,
    meaning,
    show,
)
from .grants import Held
from .keeper import Call, Keeper, Unanswered
from .observer import safely
from .options import FOR_EVER, TEN_YEARS, Request, milliseconds
from .owners import Task, new_owner
from .resp import Word
from .runtime import Pause


async def acquire(engine: Engine, request: Request, task: Task | None) -> Held:
    """A grant, or an error; the observer is told which. `task` is None where every hold has an owner of its own."""
    observer = engine.reports.observer
    if observer is None:
        return await _acquire(engine, request, task)
    begun = time.monotonic()
    try:
        held = await _acquire(engine, request, task)
    except BaseException as error:
        safely(observer.refused, request.key, time.monotonic() - begun, error)
        raise
    try:
        safely(observer.acquired, request.key, time.monotonic() - begun)
    except BaseException as error:  # of a signal
        engine.give_up(held, error)
        raise
    return held


async def _acquire(engine: Engine, request: Request, task: Task | None) -> Held:
    if engine.is_closed:
        raise LockMisuse(f"{show(request.key)}: the locks are closed")
    if task is None:
        return await Acquire(engine, request, request.owner or new_owner(engine.service)).run()
    if request.name in task.acquiring:
        raise LockMisuse(f"{show(request.key)}: this task is acquiring it already")
    step = got = None
    try:
        task.acquiring.add(request.name)
        held = task.held.get(request.name)
        if held is not None and held.state == "held":
            got = await enter_again(engine, request, held)
        else:
            step = Acquire(engine, request, task.owner)
            got = await step.run()
            got.task, task.held[request.name] = task, got
        task.acquiring.discard(request.name)  # in here: a signal may come behind it, too
        return got
    except BaseException:
        task.acquiring.discard(request.name)
        taken = got or step and step.held
        if taken:
            engine.abandon(taken)
        if step is not None and (step.is_open or taken):
            task.rename()
        raise


async def enter_again(engine: Engine, request: Request, held: Held) -> Held:
    """One more hold of a grant."""
    engine.take_over(held)
    with engine.rt.mutex:
        holds = held.holds
        keep: tuple[Word, ...] = ("KEEP", milliseconds(request.keep)) if request.keep and held.keep else ()
    words = ("LOCK.ACQUIRE", held.name, held.owner, *request.mode(), "PX", milliseconds(request.lease), *keep,
             "HOLDS", holds + 1, "TOKEN", held.token)
    until = time.monotonic() + max(engine.limits.now, request.wait if request.wait != FOR_EVER else 0)
    step = Acquire(engine, request, held.owner)
    try:
        call = await step.answered(held.keeper, words, until)
    except BaseException as error:
        if isinstance(error, LockLost):
            engine.lose(held, str(error), error.__cause__)
        elif step.is_open:
            engine.give_back(held.keeper, ("LOCK.RELEASE", held.name, held.owner, "HOLDS", holds, "TOKEN",
                                           held.token), engine.limits.release)
        raise
    if call.reply is None:
        raise LockBusy(f"{show(request.key)}: others are in line for it")
    with engine.rt.mutex:
        held.holds += 1
        held.lease = int(call.reply[3]) / 1000
        held.sent = max(held.sent, call.sent) if not held.keep or call.epoch == held.epoch else held.sent
        held.keeper.count(held)
        look = engine.looks.add(held)
    engine.rt.watch(look)
    return held


class Acquire:
    """One acquire of an owner that does not hold the lock."""

    def __init__(self, engine: Engine, request: Request, owner: str) -> None:
        self.engine, self.request, self.owner = engine, request, owner
        self.is_open = False  # whether the server may have granted what nobody knows of
        self.keeper: Keeper | None = None
        self.held: Held | None = None
        until = request.wait if request.wait else engine.limits.now
        self.until = time.monotonic() + until

    async def run(self) -> Held:
        """The grant."""
        request = self.request
        try:
            self.engine.acquiring.add(self)
            if not request.replicas and (not request.wait or not self.engine.waiting[request.name]):
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
            elif self.is_open and self.keeper is not None:
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

    def _words(self) -> tuple[Word, ...]:
        request = self.request
        return ("LOCK.ACQUIRE", request.name, self.owner, *request.mode(), "PX", milliseconds(request.lease))

    def _keep(self) -> tuple[Word, ...]:
        return ("KEEP", milliseconds(self.request.keep)) if self.request.keep else ()

    def _give_back(self, keeper: Keeper) -> Call:
        request = self.request
        words = ("LOCK.RELEASE", request.name, self.owner, "ALL")
        return self.engine.give_back(keeper, words, max(self.engine.limits.release, request.lease))

    async def _heard(self, call: Call) -> None:
        """Waits for the answer, for no longer than a reply may take."""
        await self.engine.rt.wait(call, time.monotonic() + self.engine.limits.reply)

    def _granted(self, reply: list[Any], sent: float, epoch: int | None, wire: Any = None) -> Held:
        assert self.keeper is not None
        self.held = held = Held(self.request, self.owner, self.keeper, reply, sent, wire)
        self.engine.add(held, epoch)
        if self.engine.is_closed:  # which did not see it any more
            self.engine.lose(held, "the locks were closed", None)
            raise LockMisuse(f"{show(self.request.key)}: the locks are closed")
        self.is_open = False
        return held

    async def answered(self, keeper: Keeper, words: tuple[Word, ...], until: float, kind: int = ACQUIRE) -> Call:
        """A call that is sent until it is answered with something other than what passes."""
        pause = Pause()
        while True:
            was_open, self.is_open = self.is_open, True
            call = await self.engine.call(keeper, words, until)
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
            await self.engine.rt.sleep(min(pause.take(), left))
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
                raise LockMisuse(f"{show(self.request.key)}: the locks are closed")
            if left <= 0 and last is not None:
                raise caused(LockUnavailable(f"{show(self.request.key)}: {last}"), last)
            try:
                held = await self._in_line(max(left, 0.0))
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
                await self.engine.rt.sleep(min(pause.take(), left))

    async def _in_line(self, left: float) -> Held | None:
        """One wait on a wait connection. None: the grant came, and went unseen."""
        rt, reply_time = self.engine.rt, self.engine.limits.reply
        keeper = await self._keeper()
        wire = await rt.borrow(keeper.place, time.monotonic() + reply_time)
        block: tuple[Word, ...] = ("BLOCK", milliseconds(min(left, TEN_YEARS)) if left != FOR_EVER else 0)
        words = (*self._words(), "HOLDS", 1, *(block if self.request.wait else ()))
        entry = (self.request.name, self.owner, keeper.place)
        self.engine.waits.add(entry)
        if self.engine.is_closed:  # which may not have seen it
            self.engine.waits.discard(entry)
            rt.give_back(wire)
            raise LockMisuse(f"{show(self.request.key)}: the locks are closed")
        self.is_open = True
        with rt.mutex:
            is_new = keeper.awaits(self.request.lease)
        if is_new:
            rt.wake(keeper)
        sent = time.monotonic()
        try:
            reply = (await rt.ask(wire, [words], time.monotonic() + left + reply_time))[0]
            if self.request.replicas and isinstance(reply, list):
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
            return self._granted(reply, sent, None, rt.lend(wire))
        else:
            rt.give_back(wire)
        if isinstance(reply, ServerError):
            self.is_open = False
            raise reply
        if reply is None:
            self.is_open = False
            if self.engine.is_closed:
                raise LockMisuse(f"{show(self.request.key)}: the locks are closed")
            raise LockBusy(f"{show(self.request.key)}: others hold it, or are in line for it")
        return await self._renewed(keeper, reply)

    def _is_early(self, sent: float) -> bool:
        """Whether a grant that a wait gives now is known from the sending of that, and kept a moment later."""
        in_time = time.monotonic() - sent < self.request.lease / 3
        return in_time and bool(self.request.keep) and not self.request.replicas

    async def _renewed(self, keeper: Keeper, reply: list[Any]) -> Held | None:
        """What a wait has given late is renewed on the keeper: from there on its time is known, and it is kept."""
        words = ("LOCK.RENEW", self.request.name, self.owner, "TOKEN", int(reply[0]), *self._keep())
        until = time.monotonic() + self.engine.limits.reply
        try:
            call = await self.answered(keeper, words, until, RENEW)
        except LockLost:
            self.is_open = False
            return None
        return self._granted(call.reply, call.sent, call.epoch)

    async def _call_off(self, keeper: Keeper, wire: Any) -> None:
        """Leaves the line. What is granted meanwhile is released by the same call."""
        rt, until = self.engine.rt, time.monotonic() + self.engine.limits.reply
        call = self._give_back(keeper)
        self.is_open = False
        try:
            answer = await rt.answer_of(wire, until)
            await rt.wait(call, until)
            if isinstance(answer, list):  # granted, maybe after that call, which has then overtaken the wait
                await self._heard(self._give_back(keeper))
        except BaseException as error:
            rt.drop(wire)
            if not isinstance(error, Unanswered):  # which must not take the place of what has ended the wait
                raise
        else:
            rt.give_back(wire)

    async def _acknowledged(self, wire: Any) -> None:
        """Waits until enough replicas have the grant."""
        wanted, left = self.request.replicas, max(self.until - time.monotonic(), self.engine.limits.reply)
        left = min(left, self.request.lease / 2)
        got = (await self.engine.rt.ask(
            wire, [("WAIT", wanted, math.ceil(left * 1000))], time.monotonic() + left + self.engine.limits.reply))[0]
        if isinstance(got, ServerError):
            raise error_of(self.request.key, got, ACQUIRE)
        if got < wanted:
            raise LockUnavailable(f"{show(self.request.key)}: {got} of {wanted} replicas have it")
