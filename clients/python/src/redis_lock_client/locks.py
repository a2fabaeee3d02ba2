"""Locks for threads, on redis-py or valkey-py."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, TypeVar

from . import calls
from .acquire import acquire
from .base import Entered, GrantBase, Holder, LocksBase, all_locks, holder, limits_of, told_at_end
from .engine import Engine
from .errors import LockBusy, LockError, LockLost, LockMisuse
from .observer import Observer
from .options import FOR_EVER, Key, Request, request
from .owners import Task
from .resp import Word
from .runtime import Pause
from .threads import Threads, drive

T = TypeVar("T")


class Grant(GrantBase):
    """One hold of a lock. As a `with` block, it is released at its end."""

    def __init__(self, locks: Locks, held: Any) -> None:
        super().__init__(held)
        self._locks = locks
        self._engine = locks._engine

    def check(self) -> None:
        """Makes sure, by asking the server, that the lock is held. Raises LockLost, LockUnavailable."""
        self._must_stand()
        drive(calls.check(self._engine, self._held))

    def extend(self, seconds: float | None = None) -> None:
        """A fixed lease begins anew, of this length; a lock with `at_most` is kept for so long from now on."""
        self._must_stand()
        drive(calls.extend(self._engine, self._held, seconds))

    def downgrade(self) -> None:
        """Goes on as one of those that share the lock, without letting go."""
        self._must_stand()
        drive(calls.downgrade(self._engine, self._held))

    def release(self) -> None:
        """Gives it back. Raises LockLost where it was lost, LockUnavailable where the server gave no answer."""
        held = self._held
        holds = held.holds
        try:
            self._to_be_released()
            drive(self._engine.release(held))
        except LockError:
            raise
        except BaseException as error:  # of a signal, at any moment: the call may be sent twice, but not left out
            if held.state != "lost":
                held.holds, self._released = holds, True
                self._engine.give_up(held, error)
            raise

    def _give_up(self) -> None:
        """Gives it back in the background, where that has not begun."""
        if not self._released and self._held.state == "held" and self._held.pid == os.getpid():
            self._released = True
            self._engine.give_up(self._held)

    def __enter__(self) -> Grant:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._released or self._held.pid != os.getpid():
            return  # it has been released; or this is a forked child, which holds nothing
        try:
            self.release()
        except LockError as failed:
            if told_at_end(error, failed):
                raise


class Lock:
    """A lock by its name, its mode and its options. To make one calls nothing; it may be used again and again."""

    def __init__(self, locks: Locks, asked: Request, task: Task | None) -> None:
        self._locks, self._request, self._task = locks, asked, task
        self._entered: Entered[Grant] = Entered()

    @property
    def key(self) -> Key:
        """The lock's name."""
        return self._request.key

    def acquire(self, wait: float | None = None) -> Grant:
        """A grant, to be released. Raises LockBusy when the time to wait is over."""
        asked = self._request
        if wait is not None:
            asked = request(asked.key, limit=asked.limit, wait=wait, lease=asked.lease, keep=asked.keep or 30.0,
                            fixed=not asked.keep, at_most=None if asked.at_most == FOR_EVER else asked.at_most,
                            owner=asked.owner, replicas=asked.replicas, permit=asked.is_permit)
        engine = self._locks._engine
        held = drive(acquire(engine, asked, self._locks._task_of(asked, self._task)))
        try:
            return Grant(self._locks, held)
        except BaseException as error:
            engine.give_up(held, error)
            raise

    def try_acquire(self) -> Grant | None:
        """A grant, or None where others hold the lock."""
        try:
            return self.acquire(wait=0)
        except LockBusy:
            return None

    def __enter__(self) -> Grant:
        grant = self.acquire()
        try:
            self._entered.push(grant)
        except BaseException:
            grant._give_up()
            raise
        return grant

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        entry = None
        try:
            entry = self._entered.last()
            entry[1].__exit__(kind, error, trace)
        except LockError:
            raise
        except BaseException:  # of a signal, at any moment
            entry = entry or self._entered.last()
            entry[1]._give_up()
            raise
        finally:
            if entry is not None:
                self._entered.drop(entry)


class Locks(LocksBase):
    """The locks of a process, on a client of redis-py or valkey-py: a server's, a Sentinel's or a cluster's.

    `service` is the first part of each owner's name. `reply`, `release` and `close` limit, in seconds, how long a
    reply, a release and `close` may take. `observer` is told what happens.
    """

    def __init__(self, client: Any, service: str = "app", *, reply: float = 1.0, release: float = 2.0,
                 close: float = 2.0, observer: Observer | None = None) -> None:
        self._client, self._service, self._limits = client, service, limits_of(reply, release, close)
        self._observer = observer
        self._start()
        all_locks.add(self)

    def _start(self) -> None:
        self._threads = Threads(self._client, self._limits)
        self._engine = self._threads.engine = Engine(self._threads, self._service, self._limits, self._observer)

    def _in_child(self) -> None:
        self._threads.leave()
        self._start()

    def lock(self, key: Key, *, wait: float = 0.0, lease: float = 10.0, keep: float = 30.0, fixed: bool = False,
             at_most: float | None = None, owner: str | None = None, task: Task | None = None,
             replicas: int = 0) -> Lock:
        """The lock for one holder.

        `wait`: how long to wait in line, in seconds (`math.inf`: for ever). `lease`: how long others wait when this
        process has died. `keep`: how long it may stand still and keep the lock. `fixed`: nobody renews the lease.
        `at_most`: how long it is kept at most. `owner`: a name in place of the task's. `replicas`: how many have to
        acknowledge the grant.
        """
        return self._made(request(key, wait=wait, lease=lease, keep=keep, fixed=fixed, at_most=at_most, owner=owner,
                                  replicas=replicas), task)

    def shared(self, key: Key, *, wait: float = 0.0, lease: float = 10.0, keep: float = 30.0, fixed: bool = False,
               at_most: float | None = None, owner: str | None = None, task: Task | None = None,
               replicas: int = 0) -> Lock:
        """The lock for any number that share it: the readers' side of a read and write lock."""
        return self._made(request(key, limit=0, wait=wait, lease=lease, keep=keep, fixed=fixed, at_most=at_most,
                                  owner=owner, replicas=replicas), task)

    def permit(self, key: Key, of: int, *, wait: float = 0.0, lease: float = 10.0, keep: float = 30.0,
               fixed: bool = False, at_most: float | None = None, replicas: int = 0) -> Lock:
        """One of `of` permits of a semaphore. Each has an owner of its own."""
        if of < 1:
            raise LockMisuse(f"a semaphore has 1 permit or more, not {of}")
        asked = request(key, limit=of, wait=wait, lease=lease, keep=keep, fixed=fixed, at_most=at_most,
                        replicas=replicas, permit=True)
        return self._made(asked, None)

    def _made(self, asked: Request, task: Task | None) -> Lock:
        self._task_of(asked, task)
        return Lock(self, asked, task)

    def all(self, keys: Iterable[Key], *, wait: float = 0.0, lease: float = 10.0, keep: float = 30.0,
            task: Task | None = None) -> AllLocks:
        """Several locks at once, always taken in the same order, with one time to wait."""
        return AllLocks(self, sorted(set(keys), key=lambda key: key if isinstance(key, bytes) else key.encode()),
                        {"lease": lease, "keep": keep, "task": task}, wait)

    def adopt(self, key: Key, owner: str, token: int, *, lease: float = 10.0, keep: float = 30.0,
              fixed: bool = False) -> Grant:
        """A grant that another process, or another request, has taken. From now on it is this one's."""
        asked = request(key, lease=lease, keep=keep, fixed=fixed, owner=owner)
        return Grant(self, drive(calls.adopt(self._engine, asked, owner, token)))

    def holders(self, key: Key) -> list[Holder]:
        """Who holds the lock."""
        told = self._look(key, "LOCK.HOLDERS")
        return [holder(calls.table(entry)) for entry in told]

    def force_unlock(self, key: Key) -> bool:
        """Ends all grants of the lock. Who holds it is told; the next in line gets it."""
        return bool(self._look(key, "DEL"))

    def _look(self, key: Key, *words: Word) -> Any:
        return drive(calls.look(self._engine, key, *words))

    def lead(self, key: Key, work: Callable[[Grant], None], *, stop: threading.Event | None = None,
             lease: float = 10.0, keep: float = 30.0) -> None:
        """Elects a leader: waits for the lock, works until `work` returns, and begins again where the lock was lost.

        `work` should look at `grant.held`, or `check`, or have `on_lost` tell it. `stop` ends the election, too.
        """
        pause = Pause()
        while stop is None or not stop.is_set():
            try:
                with self.lock(key, wait=FOR_EVER if stop is None else 1.0, lease=lease, keep=keep) as grant:
                    work(grant)
                    if grant.held:
                        return
            except LockBusy:
                continue
            except LockLost:
                time.sleep(pause.take())

    def once(self, key: Key, look: Callable[[], T | None], work: Callable[[Grant], T], *, wait: float = FOR_EVER,
             lease: float = 10.0, keep: float = 30.0) -> T:
        """What `look` finds; else what `work` makes, which one caller does while the others wait for it."""
        until = time.monotonic() + wait
        while True:
            if (found := look()) is not None:
                return found
            try:
                grant = self.lock(key, lease=lease, keep=keep).acquire()
            except LockBusy:
                left = until - time.monotonic()
                if left <= 0:
                    raise
                self.shared(key, wait=left, lease=lease, keep=keep).acquire().release()
                continue
            with grant:
                return found if (found := look()) is not None else work(grant)

    def close(self) -> None:
        """Releases what is held, calls off all waits, and closes the connections."""
        if not self._engine.is_closed:
            try:
                drive(self._engine.close())
            finally:
                self._threads.close()

    def __enter__(self) -> Locks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AllLocks:
    """Several locks, to be taken together."""

    def __init__(self, locks: Locks, keys: list[Key], options: dict[str, Any], wait: float) -> None:
        self._locks, self._keys, self._options, self._wait = locks, keys, options, wait
        self._stacks: list[ExitStack] = []

    def __enter__(self) -> list[Grant]:
        until = time.monotonic() + self._wait
        with ExitStack() as stack:
            grants = []
            for key in self._keys:
                left = max(0.0, until - time.monotonic())
                grants.append(stack.enter_context(self._locks.lock(key, wait=left, **self._options)))
            self._stacks.append(stack.pop_all())
        return grants

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._stacks.pop().__exit__(kind, error, trace)
