"""The runtime of asyncio: a task for each keeper, one for the clock."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from typing import Any, TypeVar

from .clients import Node, Source
from .engine import Engine
from .errors import LockMisuse
from .grants import Held
from .keeper import Call, Keeper, Unanswered
from .keeper_task import KeeperTask
from .observer import safely
from .options import Limits
from .places import Places
from .resp import Word, encode
from .runtime import IDLE_SECONDS, LONGEST
from .streams import Wire, close_unused, until_done

T = TypeVar("T")
log = logging.getLogger("redis_lock_client")
IDLE = 16  # how many wait connections stay open for the next wait


class Gate:
    """What one caller waits at, once."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def open(self) -> None:
        """Lets the caller through."""
        if not self.future.done():
            self.future.set_result(None)


class Loop(Places):
    """What the engine does with asyncio."""

    def __init__(self, client: Any, limits: Limits) -> None:
        self.source, self.limits = Source(client, limits, is_async=True), limits
        self.engine: Engine
        self.mutex = nullcontext()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: list[Wire] = []
        self._used: set[Wire] = set()
        self._clock: asyncio.Task[None] | None = None
        self._watched: asyncio.Event | None = None
        self._looks_at = math.inf
        self._map: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[Any]] = set()
        self._is_over = False

    def must_be_ours(self) -> None:
        """Locks belong to the loop that used them first."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        if self._loop is not loop:
            raise LockMisuse("these locks belong to another event loop: make them inside of the loop that uses them")

    # Calls.

    def has_ended(self) -> bool:
        return self._loop is not None and self._loop.is_closed()

    def gate(self) -> Gate:
        return Gate()

    async def wait(self, call: Call, until: float) -> bool:
        return call.done or await until_done(call.gate.future, until)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Work that goes on by itself."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        task = self.start(work)
        try:
            return await asyncio.shield(task)
        except BaseException:
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise

    def wake(self, keeper: Keeper) -> None:
        if keeper.io is None or keeper.io.task.done():
            if self._is_over:
                return
            keeper.io = KeeperTask(self, keeper)
        keeper.io.wake()

    # Where the servers are.

    async def place_of(self, name: bytes, until: float) -> Node:
        if self.source.is_cluster and not self.source.client.nodes_manager.slots_cache:
            self._refresh()
            assert self._map is not None
            await until_done(self._map, until)
        return await super().place_of(name, until)

    def _refresh(self) -> None:
        """Asks the cluster for its map, in a task of its own: a node that hangs must hold up nobody."""
        if self._map is None or self._map.done():
            self._map = self.start(self._read_map())

    async def _read_map(self) -> None:
        client = self.source.client
        try:
            if not client.nodes_manager.slots_cache:
                await client.initialize()
            else:
                await client.nodes_manager.initialize()
            self._follow()
        except Exception as error:
            log.info("the cluster's map could not be read: %s", error)
            await asyncio.sleep(0.2)

    # Wait connections.

    async def borrow(self, place: Any, until: float) -> Wire:
        while True:
            wire = next((it for it in reversed(self._idle) if it.node == place), None)
            if wire is None:
                break
            self._idle.remove(wire)
            if wire.is_fresh():
                self._used.add(wire)
                return wire
            wire.close()
        opening = self.start(Wire.open(place, "lock-wait", self.limits.reply))
        try:
            if not await until_done(opening, until):
                raise Unanswered("no connection in time")
            opened = opening.result()
        except asyncio.CancelledError:
            opening.add_done_callback(close_unused)
            raise
        except Exception as error:
            raise self.source.failure(error) from error
        finally:
            if not opening.done():
                opening.cancel()
        self._used.add(opened)
        return opened

    async def ask(self, wire: Wire, calls: list[tuple[Word, ...]], until: float,
                  stop: Callable[[], bool] | None = None) -> list[Any]:
        wire.send(b"".join(map(encode, calls)))
        return [await wire.reply(until) for _ in calls]

    def lend(self, wire: Wire) -> None:
        self.give_back(wire)  # the keeper sends at once what is asked for, with what others ask for

    async def answer(self, held: Held, call: Call, until: float) -> bool:
        return False

    async def answer_of(self, wire: Wire, until: float) -> Any:
        return await wire.reply(until)

    def give_back(self, wire: Wire) -> None:
        self._used.discard(wire)
        if len(self._idle) >= IDLE or self._is_over:
            wire.close()
            return
        wire.idle_since = time.monotonic()
        self._idle.append(wire)
        self.watch(wire.idle_since + IDLE_SECONDS)

    def drop(self, wire: Wire) -> None:
        self._used.discard(wire)
        wire.close()

    def break_waits(self, place: Any) -> None:
        for wire in [it for it in self._used if it.node == place]:
            wire.writer.transport.abort()

    def desert(self, wire: Wire) -> None:
        self.drop(wire)
        left = [it for it in self._idle if it.node == wire.node]
        self._idle = [it for it in self._idle if it.node != wire.node]
        for it in left:
            it.close()

    # The clock.

    def watch(self, at: float) -> None:
        if self._is_over or self._looks_at <= at:
            return
        if self._clock is None or self._clock.done():
            self._watched = asyncio.Event()
            self._clock = asyncio.get_running_loop().create_task(self._watch(), name="lock-clock")
        assert self._watched is not None
        self._watched.set()

    async def _watch(self) -> None:
        assert self._watched is not None
        at, loop = time.monotonic(), asyncio.get_running_loop()
        while True:
            self._watched.clear()
            self._looks_at = math.inf  # what comes from here on may not be seen by this look
            now = time.monotonic()
            if now - at > 0.05:
                await asyncio.sleep(0.05)  # the loop stood still: what has come is read first
            next_look = self.engine.looks.look(time.monotonic(), now - at)
            old = [wire for wire in self._idle if wire.idle_since + IDLE_SECONDS <= now]
            self._idle = [wire for wire in self._idle if wire not in old]
            for wire in old:
                wire.close()
            if self._idle:
                next_look = min(next_look, self._idle[0].idle_since + IDLE_SECONDS)
            self._looks_at = next_look
            seconds = min(max(0.0, next_look - time.monotonic()), LONGEST)
            is_due: list[bool] = []
            timer = loop.call_later(seconds, lambda due=is_due: (due.append(True), self._watched.set()))  # type: ignore
            try:
                await self._watched.wait()
            finally:
                timer.cancel()
            at = next_look if is_due and seconds < LONGEST else time.monotonic()

    def tell(self, call: Callable[[], None]) -> None:
        safely(call)

    # The end.

    async def close(self) -> None:
        """Closes all connections. Waits that are still out end by it."""
        self._is_over = True
        tasks: list[asyncio.Task[Any]] = [
            keeper.io.task for keeper in self.engine.keepers.values() if keeper.io is not None]
        if self._clock is not None:
            tasks.append(self._clock)
        if self._map is not None:
            tasks.append(self._map)
        for task in tasks:
            task.cancel()
        for wire in self._idle:
            wire.close()
        self._idle.clear()
        for wire in list(self._used):
            wire.writer.transport.abort()
        if tasks:
            await asyncio.wait(tasks, timeout=0.2)

    def leave(self) -> None:
        """In a forked child: closes what was inherited, and sends nothing."""
        wires = [*self._idle, *self._used]
        wires += [it.io.wire for it in self.engine.keepers.values() if it.io is not None and it.io.wire is not None]
        for wire in wires:
            try:
                wire.close()
            except OSError:
                pass
