"""What can be done with a grant beside its release, and with a lock beside taking it."""

from __future__ import annotations

import time
from typing import Any

from .acquire import Acquire
from .engine import Engine
from .errors import ACQUIRE, RENEW, LockLost, LockMisuse, LockUnavailable, ServerError, caused, error_of, show
from .grants import Held
from .keeper import Call, Unanswered
from .options import FOR_EVER, Request, key_bytes, milliseconds, seconds
from .resp import Word


async def check(engine: Engine, held: Held) -> None:
    """Makes sure, by asking the server, that it is held."""
    until = time.monotonic() + engine.limits.reply
    engine.take_over(held)
    while True:
        held.must_stand()
        keeper = held.keeper
        if held.keep:
            call = await engine.call(keeper, ("PING",), until)
            if call.done and not isinstance(call.reply, Exception):
                keeper.ponged(call)
                held.must_stand()
                if call.epoch == held.epoch == keeper.epoch:
                    return
        else:
            call = await engine.call(keeper, ("LOCK.FENCE", held.name, held.token), until)
            if call.done and not isinstance(call.reply, Exception):
                held.must_stand()
                return
            if isinstance(call.reply, ServerError) and str(call.reply).startswith("FENCED"):
                engine.lose(held, str(call.reply), call.reply)
        held.must_stand()
        if time.monotonic() >= until:
            why = call.reply or keeper.error
            told = LockUnavailable(f"{show(held.request.key)}: {why or 'no answer in time'}")
            raise caused(told, why if isinstance(why, BaseException) else None)
        await engine.rt.sleep(0.01)


async def renew(engine: Engine, held: Held, words: tuple[Word, ...]) -> Call:
    """A RENEW of this grant, until it is answered."""
    held.must_stand()
    engine.take_over(held)
    step = Acquire(engine, held.request, held.owner)
    until = time.monotonic() + engine.limits.reply
    call = ("LOCK.RENEW", held.name, held.owner, "TOKEN", held.token, *words)
    try:
        answer = await step.answered(held.keeper, call, until, RENEW)
    except LockLost as error:
        engine.lose(held, str(error), error.__cause__)
        raise
    held.must_stand()
    with engine.rt.mutex:
        if not held.keep or answer.epoch == held.keeper.epoch:
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
        await renew(engine, held, ("PX", milliseconds(held.request.lease), "KEEP", milliseconds(held.request.keep)))
        with engine.rt.mutex:
            held.ends, held.keep = now + span, held.request.keep
            if had_let_go:
                held.keeper.keep(held, held.epoch)
    else:
        await renew(engine, held, () if by is None else ("PX", milliseconds(by)))
    with engine.rt.mutex:
        look = engine.looks.add(held)
    engine.rt.wake(held.keeper)
    engine.rt.watch(look)


async def downgrade(engine: Engine, held: Held) -> None:
    """Others that share may come in: the grant stays."""
    await renew(engine, held, ("SHARED",))


async def adopt(engine: Engine, request: Request, owner: str, token: int) -> Held:
    """A grant that somebody else has taken, of which its key, owner and token are known."""
    step = Acquire(engine, request, owner)
    keeper = engine.keeper(await engine.rt.place_of(request.name, time.monotonic() + engine.limits.reply))
    keep: tuple[Word, ...] = ("KEEP", milliseconds(request.keep)) if request.keep else ()
    words = ("LOCK.RENEW", request.name, owner, "TOKEN", token, "PX", milliseconds(request.lease), *keep)
    try:
        call = await step.answered(keeper, words, time.monotonic() + engine.limits.now, RENEW)
    except BaseException:
        if keep and step.is_open:
            # It may be kept here, for nobody. It is another's still: it is not released.
            words = ("LOCK.RENEW", request.name, owner, "TOKEN", token, "KEEP", 0)
            engine.give_back(step.keeper or keeper, words, engine.limits.release)
        raise
    held = Held(request, owner, step.keeper or keeper, call.reply, call.sent)
    held.holds = int(call.reply[2])
    engine.add(held, call.epoch)
    return held


async def look(engine: Engine, key: str | bytes, *words: Word) -> Any:
    """The reply to a call that looks at a lock, or deletes it."""
    until = time.monotonic() + engine.limits.now
    name = key_bytes(key)
    while True:
        error: BaseException
        try:
            place = await engine.rt.place_of(name, until)
            wire = await engine.rt.borrow(place, until)
            try:
                reply = (await engine.rt.ask(wire, [(words[0], name, *words[1:])], until))[0]
            except BaseException:
                engine.rt.drop(wire)
                raise
            engine.rt.give_back(wire)
            if not isinstance(reply, ServerError):
                return reply
            if engine.rt.moved(str(reply)) is None:
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
