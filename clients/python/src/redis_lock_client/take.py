"""Taking a lock: by which task, anew or again."""

from __future__ import annotations

import time
from collections.abc import Callable

from .acquire import Acquire
from .engine import Engine
from .errors import LockBusy, LockLost, LockMisuse, LockUnavailable, closed, show
from .grants import Held
from .observer import safely
from .options import Request, milliseconds
from .owners import Task, new_owner, runs_now
from .resp import Word

MOMENT = 0.1  # seconds for which a call that does not wait waits for another of the same owner
LOOK = 0.005  # seconds between two looks at whether another call is over


async def acquire(engine: Engine, request: Request, task: Task | None, stop: Callable[[], bool] | None = None) -> Held:
    """A grant, or an error; the observer is told which. `task` is None where every hold has an owner of its own. Threads
    can `stop` a wait."""
    observer = engine.reports.observer
    if observer is None:
        return await _acquire(engine, request, task, stop)
    begun = time.monotonic()
    try:
        held = await _acquire(engine, request, task, stop)
    except BaseException as error:
        safely(observer.refused, request.key, time.monotonic() - begun, error)
        raise
    try:
        safely(observer.acquired, request.key, time.monotonic() - begun)
    except BaseException as error:  # of a signal
        engine.give_up(held, error)
        raise
    return held


async def _acquire(engine: Engine, request: Request, task: Task | None, stop: Callable[[], bool] | None) -> Held:
    if engine.is_closed:
        raise closed(request.key)
    until = time.monotonic() + (request.wait or engine.limits.now)
    if task is None:
        return await Acquire(engine, request, new_owner(engine.service), until, None, stop).run()
    turn: list[object] = [runs_now() if task.is_named else None]
    step = got = None
    try:
        await begin(engine, request, task, turn, until)
        while (held := task.held.get(request.name)) is not None and held.state == "held":
            got = await enter_again(engine, request, held, until)
            if got is not None:
                break
            await settled(engine, request, task, until)
        else:
            step = Acquire(engine, request, task.owner, until, task, stop)
            got = await step.run()
            task.held[request.name] = got
        end(request, task, turn)  # in here: a signal may come behind it, too
        return got
    except BaseException:
        end(request, task, turn)
        taken = got or step and step.held
        if taken:
            engine.abandon(taken)
        if step is not None and (step.is_open or taken):
            task.rename()
        raise


async def begin(engine: Engine, request: Request, task: Task, turn: list[object], until: float) -> None:
    """Waits until the task does nothing else with that key. Of a named owner, another thread or task may do so."""
    last = until if request.wait else time.monotonic() + MOMENT
    while (other := task.acquiring.setdefault(request.name, turn)) is not turn:
        if not task.is_named or other[0] is turn[0]:
            raise LockMisuse(f"{show(request.key)}: this task is acquiring it already")
        if time.monotonic() >= last:
            raise LockBusy(f"{show(request.key)}: another call in the name of {task.owner} is acquiring it")
        await engine.rt.sleep(LOOK)
    await settled(engine, request, task, until)


def end(request: Request, task: Task, turn: list[object]) -> None:
    """Lets others begin."""
    if task.acquiring.get(request.name) is turn:
        del task.acquiring[request.name]


async def settled(engine: Engine, request: Request, task: Task, until: float) -> None:
    """Sees to it that what gives back what the task had of that key cannot meet what it gets now: it gets that as
    another owner; where it cannot, it waits."""
    while engine.undo.of(task, request.name) is not None:
        if not task.is_named and request.name not in task.held:
            task.rename()
            return
        if engine.is_closed or time.monotonic() >= until:
            raise LockUnavailable(f"{show(request.key)}: what was given back before has not been answered yet")
        await engine.rt.sleep(LOOK)


async def enter_again(engine: Engine, request: Request, held: Held, until: float) -> Held | None:
    """One more hold of a grant. None: it has just been given back."""
    step = Acquire(engine, request, held.owner, until, held.task)
    is_counted, before, begun = False, None, time.monotonic()
    try:
        engine.take_over(held)
        with engine.rt.mutex:
            if held.state != "held":
                return None
            held.holds += 1  # at once, so that who gives back another hold meanwhile leaves this one
            is_counted = True
            holds = held.holds
            keep: tuple[Word, ...] = ("KEEP", milliseconds(request.keep)) if request.keep and held.keep else ()
        lease = min(request.lease, held.ends - time.monotonic()) if held.request.keep and not held.keep else request.lease
        before = engine.may_have_lease(held, begun, lease)
        asked: tuple[Word, ...] = ("LOCK.ACQUIRE", held.name, held.owner, *request.mode(), "PX", milliseconds(lease))
        count: tuple[Word, ...] = ("HOLDS", holds, "TOKEN", held.token)
        call = await step.answered(held.keeper, (*asked, *keep, *count), until)
        if call.reply is None:
            raise LockBusy(f"{show(request.key)}: others are in line for it")
        if request.replicas:
            await step.repeated_to_replicas(step.keeper or held.keeper, (*asked, *count))
        held.must_stand()
    except BaseException as error:
        if isinstance(error, LockLost):
            error.of = held
            engine.lose(held, str(error), error.__cause__)
        elif is_counted and held.state == "held":
            if step.is_open:
                engine.abandon(held)
            else:
                with engine.rt.mutex:
                    held.has_no_such_lease(begun, before)
                engine.uncount(held)
        raise
    finally:
        if not held.keep:
            held.is_let_go = False  # the server may have given it a longer lease than the rest: its end is a release
    with engine.rt.mutex:
        if keep and held.keep:
            held.keep = max(held.keep, request.keep)  # as the server does
        held.sent = max(held.sent, call.sent) if not held.keep or call.epoch == held.epoch else held.sent
        held.has_lease(call.sent, int(call.reply[3]) / 1000)
        look = engine.looks.add(held)
    engine.rt.watch(look)
    return held
