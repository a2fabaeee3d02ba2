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
from .base import AllBase, Entered, GrantBase, Holder, LocksBase, all_locks, holder, limits_of, release_in_time, told_at_end
from .engine import Engine
from .errors import LockBusy, LockError, LockLost, LockMisuse, LockUnavailable
from .observer import Observer
from .options import FOR_EVER, Key, Request, request
from .owners import Task
from .resp import Word
from .runtime import Pause, Stopped
from .take import acquire
from .threads import Threads, drive

T = TypeVar("T")


class Grant(GrantBase):
    """One hold of a lock. As a `with` block, it is released at its end."""

    def __init__(self, locks: Locks, held: Any) -> None:
        super().__init__(locks._engine, held)
        self._locks = locks

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

    def detach(self) -> int:
        """Lets go of it without a release, with all its holds: it stays for a lease, for whoever adopts it.

        Gives the token for that. Raises LockLost, LockUnavailable.
        """
        try:
            self._to_be_detached()
            drive(self._engine.detach(self._held))
            return self._held.token
        except LockError:
            raise
        except BaseException:  # of a signal, at any moment: the call may be sent twice, but not left out
            self._released = True
            calls.let_go(self._engine, self._held)
            raise

    def release(self) -> None:
        """Gives it back. Raises LockLost where it was lost, LockUnavailable where the server gave no answer."""
        held = self._held
        holds = held.holds
        try:
            self._to_be_released()
            drive(self._engine.release(held, self._until))
        except LockError:
            raise
        except BaseException as error:  # of a signal, at any moment: the call may be sent twice, but not left out
            if held.state != "lost":
                held.holds, self._released = holds, True
                self._engine.give_up(held, error)
            raise

    def __enter__(self) -> Grant:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._released or self._held.state == "released" or self._held.pid != os.getpid():
            return  # it has been released, or let go of; or this is a forked child, which holds nothing
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
        return self._acquire(asked)

    def _acquire(self, asked: Request, stop: Callable[[], bool] | None = None) -> Grant:
        engine = self._locks._engine
        held = drive(acquire(engine, asked, self._locks._task_of(asked, self._task), stop))
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
        return AllLocks(self, keys, {"lease": lease, "keep": keep, "task": task}, wait)

    def adopt(self, key: Key, owner: str, token: int, *, lease: float = 10.0, keep: float = 30.0,
              fixed: bool = False) -> Grant:
        """A grant that another process, or another request, has taken. From now on it is this one's, with all its holds:
        one release gives them back."""
        asked = request(key, lease=lease, keep=keep, fixed=fixed, owner=owner)
        held = drive(calls.adopt(self._engine, asked, owner, token))
        try:
            return Grant(self, held)
        except BaseException:  # of a signal
            calls.let_go(self._engine, held)
            raise

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

        `work` should look at `grant.held`, or `check`, or have `on_lost` tell it. `stop` ends the election, too, a wait
        within a tenth of a second. An error of `work` ends it, unless it tells the loss of this very lock.
        """
        lock, pause = self.lock(key, wait=FOR_EVER, lease=lease, keep=keep), Pause()
        ends = stop or threading.Event()
        while not ends.is_set():
            failed: BaseException | None = None  # of the work
            grant = None
            try:
                with lock._acquire(lock._request, stop.is_set if stop else None) as grant:
                    pause = Pause()
                    try:
                        return work(grant)
                    except BaseException as error:
                        failed = None if grant._is_lost_by(error) else error
                        raise
            except Stopped:
                return
            except LockError as error:
                if error is failed or not isinstance(error, LockLost if grant else (LockLost, LockUnavailable)):
                    raise
            ends.wait(pause.take())

    def once(self, key: Key, look: Callable[[], T | None], work: Callable[[Grant], T], *, wait: float = FOR_EVER,
             lease: float = 10.0, keep: float = 30.0) -> T:
        """What `look` finds; else what `work` makes, which one caller does while the others wait for it."""
        until, is_first = time.monotonic() + wait, True
        while True:
            if (found := look()) is not None:
                return found
            left = max(0.0, until - time.monotonic())
            try:
                grant = self.lock(key, wait=0.0 if is_first else left, lease=lease, keep=keep).acquire()
            except LockBusy:
                if not is_first or not left:
                    raise
                self.shared(key, wait=left, lease=lease, keep=keep).acquire().release()
                is_first = False  # who finds nothing then stands in line: those who share it for other ends may stay
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


class AllLocks(AllBase[ExitStack]):
    """Several locks, to be taken together."""

    def __init__(self, locks: Locks, keys: Iterable[Key], options: dict[str, Any], wait: float) -> None:
        super().__init__(locks, keys, options, wait)
        self._locks = locks

    def __enter__(self) -> list[Grant]:
        until = time.monotonic() + self._wait
        grants: list[Grant] = []
        with ExitStack() as stack:
            try:
                for key in self._keys:
                    left = max(0.0, until - time.monotonic())
                    grants.append(stack.enter_context(self._locks.lock(key, wait=left, **self._options)))
                self._begin(grants, stack)
            except BaseException:
                release_in_time(grants, self._release)
                raise
        return grants

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        entry = self._entered.last()
        self._entered.drop(entry)
        entry[1].__exit__(kind, error, trace)
