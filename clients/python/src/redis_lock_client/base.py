"""What both clients offer without waiting for anything: the arguments of locks, and what is known of grants."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from .engine import Engine
from .errors import LockError, LockLost, LockMisuse, show
from .grants import Held
from .options import Key, Limits, Request, request
from .owners import Task, new_owner, runs_now

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

    def __init__(self, held: Held) -> None:
        self._held = held
        self._released = False

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
        return not self._released and self._held.state == "held" and self._held.pid == os.getpid()

    @property
    def lost(self) -> bool:
        """Whether it has been lost."""
        return self._held.state == "lost"

    @property
    def remaining(self) -> float:
        """For how many seconds it is known to be held, without another word of the server."""
        return max(0.0, self._held.known_until() - time.monotonic()) if self.held else 0.0

    def on_lost(self, listener: Callable[[], None]) -> None:
        """Calls this, once, when the lock is lost; at once when it has been. It must not block."""
        self._held.listeners.append(listener)
        if self.lost:
            try:
                self._held.listeners.remove(listener)
            except ValueError:
                return  # who has told the loss has taken it
            listener()

    def _must_stand(self) -> None:
        self._held.must_be_ours()
        if self._released:
            raise LockMisuse(f"{show(self.key)}: released")
        self._held.must_stand()

    def _to_be_released(self) -> None:
        self._held.must_be_ours()
        if self._released:
            raise LockMisuse(f"{show(self.key)}: released already")
        self._released = True

    def __repr__(self) -> str:
        state = "released" if self._released else self._held.state
        return f"<Grant {show(self.key)} token={self._held.token} {state}>"


G = TypeVar("G", bound=GrantBase)


class Entered(Generic[G]):
    """The grants of `with` blocks: each task leaves its own, the last first."""

    def __init__(self) -> None:
        self._entries: list[tuple[object, G]] = []

    def push(self, grant: G) -> None:
        """One more block."""
        self._entries.append((runs_now(), grant))

    def last(self) -> tuple[object, G]:
        """The block that ends, which stays here until it is dropped."""
        me = runs_now()
        mine = [entry for entry in self._entries if entry[0] is me]
        if not mine and len(self._entries) == 1:
            mine = self._entries  # entered in one task, and left in another
        if not mine:
            raise LockMisuse("this task is in no `with` of this lock")
        return mine[-1]

    def drop(self, entry: tuple[object, G]) -> None:
        """It has ended."""
        if entry in self._entries:
            self._entries.remove(entry)


def attach(error: BaseException, other: LockError) -> None:
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

    def task(self, owner: str | None = None) -> Task:
        """A task to be passed along: one owner for several locks, whoever uses them."""
        return Task(self._service, owner)

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


__all__ = ["Entered", "GrantBase", "Holder", "LocksBase", "Task", "all_locks", "attach", "holder", "limits_of",
           "new_owner", "request", "told_at_end"]
