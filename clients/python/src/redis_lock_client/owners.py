"""Who holds a lock: names of owners, tasks, and what runs just now."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
import threading
import uuid
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

if TYPE_CHECKING:
    from .grants import Held
    from .keeper import Call


def new_owner(service: str) -> str:
    """A name that nobody else has: ``service:host:pid:unique``."""
    place = re.sub(r"[^!-~]", "_", f"{service}:{socket.gethostname()}:{os.getpid()}")
    return f"{place[:219]}:{uuid.uuid4()}"


class Task:
    """One owner for several locks. By it the server knows a re-entry, and finds circles of waits.

    It is for one flow of work: what runs beside it needs a task of its own.
    """

    def __init__(self, service: str, owner: str | None = None) -> None:
        self._service, self._given = service, owner
        self._owner = owner
        self.is_named = owner is not None
        self.pid = os.getpid()
        self.held: dict[bytes, Held] = {}
        self.acquiring: dict[bytes, list[object]] = {}  # by whom
        self.undoing: dict[bytes, Call] = {}  # by key: what gives back what it had, or may have had, until it is answered

    @property
    def owner(self) -> str:
        """The name by which the server knows this task."""
        if self._owner is None:
            self._owner = new_owner(self._service)
        return self._owner

    def rename(self) -> None:
        """The next grant gets a new owner: a release of the present one may still be on its way."""
        self._owner = self._given


class Tasks:
    """The task of whatever runs: a thread, an asyncio or trio task, a greenlet."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._mine: WeakKeyDictionary[object, Task] = WeakKeyDictionary()
        self._named: WeakValueDictionary[str, Task] = WeakValueDictionary()
        self._guard = threading.RLock()  # a signal handler may ask, too

    def current(self) -> Task:
        """That of the caller."""
        running = runs_now()
        with self._guard:
            task = self._mine.get(running)
            if task is None or task.pid != os.getpid():
                task = self._mine[running] = Task(self._service)
            return task

    def named(self, owner: str) -> Task:
        """That of an owner which the user has named."""
        with self._guard:
            task = self._named.get(owner)
            if task is None or task.pid != os.getpid():
                task = self._named[owner] = Task(self._service, owner)
            return task


def has_ended(runner: object) -> bool:
    """Whether what ran once does so no more, as far as is known."""
    if isinstance(runner, asyncio.Task):
        return runner.done()
    if isinstance(runner, threading.Thread):
        return not runner.is_alive()
    return bool(getattr(runner, "dead", False))  # of a greenlet


def runs_now() -> object:
    """What runs here, and nothing else at the same time: an asyncio task before its thread, for instance."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    if task is not None:
        return task
    if "trio" in sys.modules:
        lowlevel = sys.modules["trio"].lowlevel
        try:
            return lowlevel.current_task()
        except RuntimeError:
            pass
    if "greenlet" in sys.modules:
        greenlet = sys.modules["greenlet"].getcurrent()
        if greenlet.parent is not None:
            return greenlet
    return threading.current_thread()
