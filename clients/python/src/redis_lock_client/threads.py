"""The runtime of threads: a daemon thread for each keeper, one for the clock, and waits in the callers' own."""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from .clients import Source
from .engine import Engine
from .errors import is_of_replica
from .grants import Held
from .keeper import Call, Keeper, Unanswered
from .keeper_thread import KeeperThread
from .observer import safely
from .options import Limits
from .places import Places
from .pool import Gate, Pool
from .resp import Word, encode
from .runtime import LONGEST
from .wires import Wire

T = TypeVar("T")
log = logging.getLogger("redis_lock_client")


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine whose every step blocks, so that it never stops half way."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError("a step did not block")


class Threads(Places):
    """What the engine does with threads."""

    def __init__(self, client: Any, limits: Limits) -> None:
        self.source, self.limits = Source(client, limits, is_async=False), limits
        self.engine: Engine
        self.mutex = threading.RLock()  # a signal handler may use the locks, too
        self._pool = Pool(self.source, self.mutex)
        self._clock: threading.Thread | None = None
        self._told: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._teller: threading.Thread | None = None
        # Not an Event: an exception of a signal inside of its set() may leave it locked for ever.
        self._watched: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._looks_at = math.inf
        self._refreshing = False
        self._is_over = False

    # Calls.

    def has_ended(self) -> bool:
        return False

    def gate(self) -> Gate:
        return Gate()

    async def wait(self, call: Call, until: float) -> bool:
        if call.done or call.gate.wait(until - time.monotonic()):
            return True
        late = time.monotonic() - until
        if late > 0.05:  # this process stood still: what has come is read first
            call.gate.wait(min(late, self.limits.reply))
        return call.done

    async def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        return await work

    # A thread that ends says so itself: an exception of a signal inside of Python's is_alive() takes a live one for dead,
    # and two threads of one keeper would mix up its answers.

    def wake(self, keeper: Keeper) -> None:
        thread = keeper.io
        if thread is None:
            with self.mutex:
                thread = keeper.io
                if thread is None:
                    if self._is_over:
                        return
                    try:
                        thread = keeper.io = KeeperThread(self, keeper)
                    except OSError as error:  # too many open files: the next call tries it again
                        keeper.error = error
                        return
                    try:
                        thread.thread.start()
                    except RuntimeError as error:  # no thread can be started
                        keeper.io, keeper.error = None, error
                        thread.close()
                        return
                    except BaseException:  # it may run nevertheless
                        thread.is_over, keeper.io = True, None
                        raise
        thread.wake()

    # Where the servers are.

    def _refresh(self) -> None:
        """Asks the cluster for its map, in a thread of its own: a node that hangs must hold up nobody."""
        if self._refreshing:
            return
        self._refreshing = True

        def refresh() -> None:
            try:
                self.source.client.nodes_manager.initialize()
                self._follow()
            except Exception as error:
                log.info("the cluster's map could not be read: %s", error)
                time.sleep(0.2)
            finally:
                self._refreshing = False

        try:
            threading.Thread(target=refresh, name="lock-map", daemon=True).start()
        except RuntimeError as error:  # no thread can be started: the next call tries it again
            self._refreshing = False
            log.info("the cluster's map could not be read: %s", error)

    # Wait connections.

    async def borrow(self, place: Any, until: float) -> Wire:
        return self._pool.take(place) or self._pool.open(place, until)

    async def ask(self, wire: Wire, calls: list[tuple[Word, ...]], until: float,
                  stop: Callable[[], bool] | None = None) -> list[Any]:
        wire.send(b"".join(map(encode, calls)))
        return [wire.reply(until, stop) for _ in calls]

    def lend(self, wire: Wire) -> Wire:
        # Through the keeper's thread it would take two changes of threads, and each of them waits for the interpreter.
        return wire

    async def answer(self, held: Held, call: Call, until: float) -> bool:
        wire = None
        try:
            with self.mutex:
                wire = held.take_wire()
            if wire is None:
                return False
            if not wire.is_fresh():  # it has ended
                self.drop(wire)
                return False
            call.sent, call.attempts = time.monotonic(), 1
            wire.send(encode(call.words))
            # Half of the time, as there has to be enough for the keeper to find out that it has to open a new connection.
            reply = wire.reply(min(until, call.sent + min(self.limits.reply, self.limits.release) / 2))
        except BaseException as error:
            if wire is not None:
                self.drop(wire)
            if not isinstance(error, Unanswered):  # but of a signal
                raise
            call.answer(error)  # which sends it again
            return True
        if is_of_replica(reply):
            self.desert(wire)
        else:
            self.give_back(wire)
        call.answer(reply)
        return True

    async def answer_of(self, wire: Wire, until: float) -> Any:
        return wire.reply(until)

    def give_back(self, wire: Wire) -> None:
        self.watch(self._pool.give_back(wire))

    def drop(self, wire: Wire) -> None:
        self._pool.drop(wire)

    def break_waits(self, place: Any) -> None:
        self._pool.shut(place)

    def desert(self, wire: Wire) -> None:
        self._pool.desert(wire)

    # The clock.

    def watch(self, at: float) -> None:
        if self._looks_at <= at:
            return
        if self._clock is None:
            with self.mutex:
                if self._clock is None:
                    if self._is_over:
                        return
                    self._clock = threading.Thread(target=self._watch, name="lock-clock", daemon=True)
                    try:
                        self._clock.start()
                    except BaseException:  # it may run nevertheless
                        self._clock = None
                        raise
        try:
            self._looks_at = at  # others with a later time need not wake it, too
            self._watched.put(None)
        except BaseException:  # of a signal: it has to be woken all the same
            self._watched.put(None)
            raise

    def _watch(self) -> None:
        at, me = time.monotonic(), threading.current_thread()
        try:
            while not self._is_over and self._clock is me:
                at = self._look(at)
        finally:
            if self._clock is me:
                self._clock, self._looks_at = None, math.inf

    def _look(self, at: float) -> float:
        """One look of the clock, which was to be then, and the sleep behind it. Gives the time of the next."""
        with suppress(queue.Empty):
            while True:
                self._watched.get_nowait()
        self._looks_at = math.inf  # what comes from here on may not be seen by this look
        now = time.monotonic()
        next_look = min(self.engine.looks.look(now, now - at), self._pool.close_old(now))
        self._looks_at = next_look
        seconds = min(max(0.0, next_look - time.monotonic()), LONGEST)
        try:
            self._watched.get(timeout=seconds)
        except queue.Empty:
            return time.monotonic() if seconds == LONGEST else next_look
        return time.monotonic()

    def tell(self, call: Callable[[], None]) -> None:
        self._told.put(call)
        with self.mutex:
            if self._teller is None and not self._is_over:
                self._teller = threading.Thread(target=self._tell, name="lock-teller", daemon=True)
                try:
                    self._teller.start()
                except RuntimeError:  # no thread can be started: the next call tries it again
                    self._teller = None
                except BaseException:  # it may run nevertheless
                    self._teller = None
                    raise

    def _tell(self) -> None:
        while (call := self._told.get()) is not None:
            safely(call)

    # The end.

    def close(self) -> None:
        """Closes all connections. Waits that are still out end by it."""
        with self.mutex:
            self._is_over = True
            keepers = [(keeper, keeper.io) for keeper in self.engine.keepers.values() if keeper.io is not None]
        self._pool.close()
        for keeper, thread in keepers:
            thread.is_over = True
            thread.wake()
            wire = thread.wire
            if wire is not None and keeper._pending:
                wire.shut()
        self._watched.put(None)
        self._told.put(None)
        for _, thread in keepers:
            if thread.thread is not threading.current_thread():
                thread.thread.join(0.2)

    def leave(self) -> None:
        """In a forked child: closes what was inherited, and sends nothing."""
        wires = self._pool.all()
        for keeper in self.engine.keepers.values():
            if keeper.io is not None:
                keeper.io.close()
                if keeper.io.wire is not None:
                    wires.append(keeper.io.wire)
        for wire in wires:
            try:
                wire.close()
            except OSError:
                pass
