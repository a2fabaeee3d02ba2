"""What can be done with a grant beside its release, and with a lock beside taking it."""

from __future__ import annotations

import time
from typing import Any

from .acquire import Acquire
from .engine import Engine
from .errors import (
    ACQUIRE,
    RELEASE,
    RENEW,
    LockLost,
    LockMisuse,
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
from .keeper import Call, Unanswered
from .options import FOR_EVER, Request, key_bytes, milliseconds, seconds
from .owners import Task, runs_now
from .resp import Word
from .take import begin, end, settled


async def check(engine: Engine, held: Held) -> None:
    """Makes sure, by asking the server, that it is held."""
    until = time.monotonic() + engine.limits.reply
    engine.take_over(held)
    while True:
        held.must_stand()
        keeper = held.keeper
        ping = engine.send(keeper, ("PING",)) if held.keep else None
        # A PONG does not tell what others in the name of the owner have released.
        fence = None if held.keep and not held.is_named else engine.send(keeper, ("LOCK.FENCE", held.name, held.token))
        asked = [call for call in (ping, fence) if call is not None]
        for call in asked:
            await engine.answer(keeper, call, until)
        failed = [call for call in asked if not call.done or isinstance(call.reply, Exception)]
        if fence is not None and isinstance(fence.reply, ServerError) and meaning(str(fence.reply), RELEASE) == "lost":
            engine.lose(held, str(fence.reply), fence.reply)
        if ping is not None and ping not in failed:
            keeper.ponged(ping)
        held.must_stand()
        if not failed and (ping is None or ping.epoch == held.epoch == keeper.epoch):
            return
        if time.monotonic() >= until:
            why = (failed[0].reply if failed else None) or keeper.error
            told = LockUnavailable(f"{show(held.request.key)}: {why or 'no answer in time'}")
            raise caused(told, why if isinstance(why, BaseException) else None)
        await engine.rt.sleep(0.01)


async def renew(engine: Engine, held: Held, words: tuple[Word, ...], lease: float = FOR_EVER) -> Call:
    """A RENEW of this grant, until it is answered. Of a grant that is not kept, it may make the lease this one."""
    held.must_stand()
    engine.take_over(held)
    begun = time.monotonic()
    until = begun + engine.limits.reply
    before = engine.may_have_lease(held, begun, lease)
    step = Acquire(engine, held.request, held.owner, until)
    call = ("LOCK.RENEW", held.name, held.owner, "TOKEN", held.token, *words)
    try:
        last = held.last()._replace(held=held) if held.is_named else None
        answer = await step.answered(held.keeper, call, until, RENEW, last)
    except BaseException as error:
        if isinstance(error, LockLost):
            error.of = held
            engine.lose(held, str(error), error.__cause__)
        elif not step.is_open:
            with engine.rt.mutex:
                held.has_no_such_lease(begun, before)
        raise
    held.must_stand()
    with engine.rt.mutex:
        is_kept = "KEEP" in words and answer.epoch == held.keeper.epoch
        if not held.keep or is_kept or answer.epoch == held.epoch:
            held.proven(answer.sent, answer.epoch, answer.reply)
    return answer


async def extend(engine: Engine, held: Held, by: float | None) -> None:
    """A fixed lease begins anew; a lock that is kept at most so long is kept for so long from now."""
    held.must_stand()
    if by is not None:
        seconds("seconds", by, 0.001, FOR_EVER)
    if held.request.keep:
        span = held.request.at_most if by is None else by
        if span <= held.request.lease:
            raise LockMisuse(f"{show(held.request.key)}: a kept lock is kept for longer than its lease, or released")
        now, had_let_go = time.monotonic(), not held.keep
        held.is_let_go = False  # also where the answer is not heard
        await renew(engine, held, ("PX", milliseconds(held.request.lease), "KEEP", milliseconds(held.request.keep)))
        with engine.rt.mutex:
            held.ends, held.keep, held.is_let_go = now + span, held.request.keep, False
            held.keeper.count(held)
            if had_let_go:
                held.keeper.keep(held, held.epoch)
    else:
        await renew(engine, held, () if by is None else ("PX", milliseconds(by)), by or FOR_EVER)
    with engine.rt.mutex:
        look = engine.looks.add(held)
    engine.rt.wake(held.keeper)
    engine.rt.watch(look)


async def downgrade(engine: Engine, held: Held) -> None:
    """Others that share may come in: the grant stays."""
    await renew(engine, held, ("SHARED",))


async def adopt(engine: Engine, request: Request, owner: str, token: int) -> Held:
    """A grant that somebody else has taken, of which its key, owner and token are known."""
    if engine.is_closed:
        raise closed(request.key)
    until, task = time.monotonic() + engine.limits.now, engine.tasks.named(owner)
    turn: list[object] = [runs_now()]
    held = None
    try:
        await begin(engine, request, task, turn, until)
        held = await _adopt(engine, request, task, token, until)
        end(request, task, turn)  # in here: a signal may come behind it, too
        return held
    except BaseException:
        end(request, task, turn)
        if held is not None:
            let_go(engine, held)
        raise


async def _adopt(engine: Engine, request: Request, task: Task, token: int, until: float) -> Held:
    here, begun = engine.found(request.name, task.owner), time.monotonic()
    step = Acquire(engine, request, task.owner, until, task)
    keeper = engine.keeper(await engine.rt.place_of(request.name, until))
    keep: tuple[Word, ...] = ("KEEP", milliseconds(request.keep)) if request.keep else ()
    if here is not None and not keep:  # what is kept here already is to be kept no more
        keep = ("KEEP", 0)
    words = ("LOCK.RENEW", request.name, task.owner, "TOKEN", token, "PX", milliseconds(request.lease), *keep)
    held = None
    try:
        call = await step.answered(keeper, words, until, RENEW)
        if here is not None and here.state == "lost":  # meanwhile, and what gives it back may have come behind that
            await settled(engine, request, task, until)
            call = await step.answered(keeper, words, until, RENEW)
        if (here := engine.found(request.name, task.owner)) is not None:
            engine.lose(here, "another call has adopted it", None)
        held = Held(request, task.owner, step.keeper or keeper, call.reply, call.sent, task=task)
        task.held[request.name] = held
        engine.add(held, call.epoch)
        if engine.is_closed:  # which did not see it any more
            engine.lose(held, "the locks were closed", None)
            raise closed(request.key)
        return held
    except BaseException:  # also of a signal, at any moment
        if held is not None:
            let_go(engine, held)
        elif step.is_open:
            undo_adoption(engine, request, task, step.last(step.keeper or keeper, token), begun)
        raise


def let_go(engine: Engine, held: Held) -> None:
    """Nobody has got it, or it was to be let go of when a signal came: it is kept no more, and not released."""
    with engine.rt.mutex:
        if held.state == "held":
            engine.forget(held, "released")
        if held.task is not None and not held.is_named:
            held.task.rename()
    if held.request.keep and held.state == "released":
        engine.undo.keep_no_more(held.keeper, held)


def undo_adoption(engine: Engine, request: Request, task: Task, last: Last, begun: float) -> None:
    """It may have been carried out. It is another's still: it is not released, but kept here, for nobody, no more. Where
    it is held here, that goes on."""
    here = engine.found(request.name, task.owner)
    if here is not None and here.keep:
        with engine.rt.mutex:
            here.keeper.leave(here)  # which notes what its connection has told of it
            here.keeper.keep(here, NEVER)
            look = engine.looks.add(here)
        engine.rt.wake(here.keeper)
        engine.rt.watch(look)
        return
    if here is not None:
        engine.may_have_lease(here, begun, request.lease)
    if request.keep:
        words = ("LOCK.RENEW", request.name, task.owner, "TOKEN", last.token, "KEEP", 0)
        engine.undo.repeat(last.keeper, words, engine.limits.release, task, last)


async def look(engine: Engine, key: str | bytes, *words: Word) -> Any:
    """The reply to a call that looks at a lock, or deletes it: that is sent once, as another may have it by then."""
    if engine.is_closed:
        raise closed(key)
    until = time.monotonic() + engine.limits.now
    name = key_bytes(key)
    while True:
        error: BaseException
        try:
            place = await engine.rt.place_of(name, until)
            wire = await engine.rt.borrow(place, until)
            try:
                reply = (await engine.rt.ask(wire, [(words[0], name, *words[1:])], until))[0]
            except BaseException as failure:
                engine.rt.drop(wire)
                if isinstance(failure, Unanswered) and words[0] == "DEL":
                    raise caused(LockUnavailable(f"{show(key)}: {failure}"), failure)
                raise
            if is_of_replica(reply):
                engine.rt.desert(wire)
            else:
                engine.rt.give_back(wire)
            if not isinstance(reply, ServerError):
                return reply
            if engine.rt.moved(str(reply)) is None and meaning(str(reply), ACQUIRE) != "passing":
                raise error_of(key, reply, ACQUIRE)
            error = reply
        except Unanswered as failure:
            error = failure
        if time.monotonic() >= until:
            raise caused(LockUnavailable(f"{show(key)}: {error}"), error)
        await engine.rt.sleep(0.05)


def table(flat: Any) -> dict[str, Any]:
    """A flat array, or a map, of names and values."""
    pairs = zip(flat[::2], flat[1::2], strict=True)
    return {name.decode(): _plain(value) for name, value in pairs}


def _plain(value: Any) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
