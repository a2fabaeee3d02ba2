"""What both clients offer without waiting for anything: the arguments of locks, and what is known of grants."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from .engine import Engine
from .errors import LockError, LockLost, LockMisuse, show
from .grants import Held
from .options import Key, Limits, Request, request
from .owners import Task, has_ended, new_owner, runs_now

log = logging.getLogger("redis_lock_client")


@dataclass(frozen=True)
class Holder:
    """Who holds a lock, as ``LOCK.HOLDERS`` tells it. Times are in seconds."""

    owner: str
    token: int
    holds: int
    lease: float
    left: float
    held_for: float
    limit: int


def holder(told: dict[str, Any]) -> Holder:
    """One entry of ``LOCK.HOLDERS``."""
    return Holder(told["owner"], told["token"], told["holds"], told["lease-ms"] / 1000, told["ttl-ms"] / 1000,
                  told["held-ms"] / 1000, told["limit"])


class GrantBase:
    """One hold of a lock."""

    def __init__(self, engine: Engine, held: Held) -> None:
        self._engine, self._held = engine, held
        self._released = False
        self._until = math.inf  # when its release is to be over, which is one of several
        self._listeners: list[Callable[[], None]] = []  # its own, of those of all holds

    @property
    def key(self) -> Key:
        """The lock's name."""
        return self._held.request.key

    @property
    def owner(self) -> str:
        """The owner's name."""
        return self._held.owner

    @property
    def token(self) -> int:
        """The fencing token: it rises from grant to grant. Raises where the lock is known not to be held."""
        self._must_stand()
        return self._held.token

    @property
    def holds(self) -> int:
        """How many holds of this grant the task has."""
        return self._held.holds

    @property
    def held(self) -> bool:
        """Whether it is held, as far as is known here: neither released nor lost."""
        return (not self._released and self._held.state == "held" and self._held.pid == os.getpid()
                and not self._engine.rt.has_ended())

    @property
    def lost(self) -> bool:
        """Whether it has been lost."""
        return self._held.state == "lost"

    @property
    def remaining(self) -> float:
        """For how many seconds it is known to be held, without another word of the server."""
        return max(0.0, self._held.known_until() - time.monotonic()) if self.held else 0.0

    def on_lost(self, listener: Callable[[], None]) -> None:
        """Calls this, once, when the lock is lost before this is released; at once when it has been. It must not block."""
        self._listeners.append(listener)
        self._held.listeners.append(listener)
        if self.lost:
            try:
                self._held.listeners.remove(listener)
            except ValueError:
                return  # who has told the loss has taken it
            listener()

    def _is_lost_by(self, error: BaseException) -> bool:
        """Whether this error tells the loss of this grant."""
        return isinstance(error, LockLost) and error.of is self._held

    def _must_stand(self) -> None:
        self._held.must_be_ours()
        if self._released:
            raise LockMisuse(f"{show(self.key)}: released")
        if self._engine.rt.has_ended():
            raise LockMisuse(f"{show(self.key)}: its event loop has ended, and nothing is heard of it any more")
        self._held.must_stand()

    def _leave(self) -> None:
        """It is not held from here on, and hears nothing of what becomes of other holds."""
        self._released = True
        while self._listeners:
            with suppress(ValueError):  # it has been told
                self._held.listeners.remove(self._listeners.pop())

    def _give_up(self) -> None:
        """Gives it back in the background, where that has not begun."""
        if not self._released and self._held.state == "held" and self._held.pid == os.getpid():
            self._leave()
            self._engine.give_up(self._held)

    def _to_be_released(self) -> None:
        self._held.must_be_ours()
        if self._released:
            raise LockMisuse(f"{show(self.key)}: released already")
        self._leave()

    def _to_be_detached(self) -> None:
        self._must_stand()
        self._leave()

    def __repr__(self) -> str:
        state = "released" if self._released else self._held.state
        return f"<Grant {show(self.key)} token={self._held.token} {state}>"


G = TypeVar("G")


class Entered(Generic[G]):
    """The grants of `with` blocks, or stacks of them: each task leaves its own, the last first."""

    def __init__(self) -> None:
        self._entries: list[tuple[object, G]] = []

    def push(self, grant: G) -> None:
        """One more block."""
        self._entries.append((runs_now(), grant))

    def last(self) -> tuple[object, G]:
        """The block that ends, which stays here until it is dropped."""
        me, entries = runs_now(), list(self._entries)
        mine = [entry for entry in entries if entry[0] is me]
        if not mine:  # entered in one task, and left in another
            mine = [entry for entry in entries if has_ended(entry[0])]
        if not mine and len({id(entry[0]) for entry in entries}) == 1:
            mine = entries
        if not mine:
            raise LockMisuse("this task is in no `with` of this lock")
        return mine[-1]

    def drop(self, entry: tuple[object, G]) -> None:
        """It has ended."""
        if entry in self._entries:
            self._entries.remove(entry)


def release_in_time(grants: Sequence[GrantBase], seconds: float) -> None:
    """The releases of all of them are to take no longer than one may."""
    until = time.monotonic() + seconds
    for grant in grants:
        grant._until = until


S = TypeVar("S", ExitStack, AsyncExitStack)


class AllBase(Generic[S]):
    """Several locks, to be taken together."""

    def __init__(self, locks: LocksBase, keys: Iterable[Key], options: dict[str, Any], wait: float) -> None:
        self._keys = sorted(set(keys), key=lambda key: request(key).name)
        self._options, self._wait, self._release = options, wait, locks._limits.release
        self._entered: Entered[S] = Entered()

    def _begin(self, grants: Sequence[GrantBase], stack: S) -> None:
        """All have come: the block begins."""
        for grant in grants:
            grant._must_stand()  # it may have been lost while the others came
        stack.callback(release_in_time, grants, self._release)
        self._entered.push(stack.pop_all())


def attach(error: BaseException, other: Exception) -> None:
    """Tells of a second error with the first."""
    note = f"and {type(other).__name__}: {other}"
    add_note = getattr(error, "add_note", None)  # from Python 3.11
    if add_note:
        add_note(note)
    else:
        log.warning("%s", note)


def told_at_end(error: BaseException | None, failed: LockError) -> bool:
    """Whether the end of a block raises what its release did: not in place of the error of its work."""
    if error is None:
        return True
    if not (isinstance(error, LockLost) and isinstance(failed, LockLost)):
        attach(error, failed)
    return False


all_locks: WeakSet[Any] = WeakSet()


def _in_child() -> None:
    for locks in list(all_locks):
        locks._in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


class LocksBase:
    """The arguments, and the tasks."""

    _engine: Engine
    _service: str
    _limits: Limits

    def task(self, owner: str | None = None) -> Task:
        """A task to be passed along: one owner for several locks, whoever uses them."""
        return Task(self._service) if owner is None else self._engine.tasks.named(owner)

    def _task_of(self, asked: Request, task: Task | None) -> Task | None:
        if asked.is_permit:
            if asked.owner is not None:
                raise LockMisuse("a permit has an owner of its own")
            return None
        if task is not None:
            if asked.owner is not None:
                raise LockMisuse("either a task or an owner")
            if task.pid != os.getpid():
                raise LockMisuse("the task is of the parent process")
            return task
        if asked.owner is not None:
            return self._engine.tasks.named(asked.owner)
        return self._engine.tasks.current()


def limits_of(reply: float, release: float, close: float) -> Limits:
    """The time limits, checked."""
    for name, value in (("reply", reply), ("release", release), ("close", close)):
        if not 0.01 <= value <= 3600:
            raise LockMisuse(f"{name} is from 0.01 to 3600 s, not {value!r}")
    return Limits(reply, max(reply, 0.01), release, close)


__all__ = ["AllBase", "Entered", "GrantBase", "Holder", "LocksBase", "Task", "all_locks", "attach", "holder", "limits_of",
           "new_owner", "request", "told_at_end"]
