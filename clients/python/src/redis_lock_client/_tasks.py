"""The client's asyncio part: connections, signals, and code in the background."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Optional

from .observer import safely
from .resp import Parser, pack
from .servers import Server, fault_of, require_primary
from .state import Fault
from .state.faults import Command

DAY = 86_400.0  # the longest timer
FEW = 2  # calls under way, each of which is sent at once


class Signal:
    """Wakes one waiting task. Set while nobody waits, it ends the next wait at once."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.set = self._event.set

    async def wait(self, seconds: float, _: object = None) -> None:
        """Waits for the signal, for no longer than this."""
        timer = asyncio.get_running_loop().call_later(seconds, self.set) if seconds < DAY else None
        try:
            await self._event.wait()
        finally:
            if timer:
                timer.cancel()
            self._event.clear()


class Batch(NamedTuple):
    """Commands that were sent together."""

    size: int
    end: float
    replies: asyncio.Future[list[Any]]

    def fail(self, fault: Fault) -> None:
        """The replies will not come."""
        if not self.replies.done():
            self.replies.set_result([fault] * self.size)


class Line(asyncio.Protocol):
    """A connection of the library, used directly. All calls share it: the replies come in the order of the calls."""

    def __init__(self, server: Server) -> None:
        self._server, self._loop = server, asyncio.get_running_loop()
        self._connection: Any = None
        self._transport: Any = None
        self._parser = Parser()
        self._batches: deque[Batch] = deque()
        self._out: list[bytes] = []
        self._timer: Optional[asyncio.TimerHandle] = None
        self.is_over = False  # it takes no more calls
        self._connecting = asyncio.ensure_future(self._connect())

    async def exchange(self, limit: float, commands: tuple[Command, ...]) -> list[Any]:
        """Sends commands, and returns the reply to each, or a Fault."""
        end = self._loop.time() + limit
        if self._transport is None:
            await asyncio.wait({self._connecting}, timeout=limit)
            late = Fault(f"{self._server.address} could not be reached in time", sent=False)
            fault = self._connecting.result() if self._connecting.done() and not self._connecting.cancelled() else late
            if fault or self.is_over or self._loop.time() >= end:
                self.is_over = True
                return [fault or late] * len(commands)
        batch = Batch(len(commands), end, self._loop.create_future())
        self._batches.append(batch)
        if len(self._batches) <= FEW and not self._out:
            self._write(pack(commands))
        else:  # what comes together is sent together
            if not self._out:
                self._loop.call_soon(self._send)
            self._out.append(pack(commands))
        if self._timer is None or end < self._timer.when():
            self._expire()
        return await batch.replies

    def _send(self) -> None:
        out, self._out = self._out, []
        self._write(b"".join(out))

    def _write(self, data: bytes) -> None:
        if self._transport:
            self._transport.write(data)

    async def _connect(self) -> Optional[Fault]:
        try:
            self._connection = self._server.make()
            await self._connection.connect()
            transport = self._connection._writer.transport
            if self.is_over:
                transport.abort()
                return Fault("the connection was closed", sent=False)
            transport.set_protocol(self)
            self._transport = transport
            if self._server.has_sentinels:
                require_primary((await self.exchange(1.0, (("ROLE",),)))[0])
        except Exception as error:
            self.close()
            return fault_of(error, sent=False)
        return None

    def data_received(self, data: bytes) -> None:
        """Gives the replies to the calls."""
        self._parser.feed(data)
        try:
            while self._batches and (replies := self._parser.replies(self._batches[0].size)):
                batch = self._batches.popleft()
                if not batch.replies.done():
                    batch.replies.set_result(replies)
        except ValueError as error:
            self._fail(error)
        if self.is_over:
            self.retire()

    def connection_lost(self, exc: Optional[Exception]) -> None:
        """Ends the calls that wait for a reply."""
        self._fail(exc or ConnectionError("the connection was closed"))

    def _expire(self) -> None:
        """Ends the calls whose time is over, and looks again at the next one's."""
        if self._timer:
            self._timer.cancel()
        now = self._loop.time()
        late = [batch for batch in self._batches if batch.end <= now]
        for batch in late:
            batch.fail(Fault("no reply in time"))
        ends = [batch.end for batch in self._batches if batch.end > now]
        self._timer = self._loop.call_at(min(ends), self._expire) if ends else None
        if late:
            self.retire()

    def _fail(self, error: Exception) -> None:
        batches, self._batches = self._batches, deque()
        for batch in batches:
            batch.fail(fault_of(error, sent=True))
        self.retire()

    def retire(self) -> None:
        """Takes no more calls. The connection is closed when all that were made have been answered."""
        self.is_over = True
        if not all(batch.replies.done() for batch in self._batches):
            return
        self._batches.clear()
        connection, self._connection, transport, self._transport = self._connection, None, self._transport, None
        if self._connecting is not asyncio.current_task():
            self._connecting.cancel()
        if self._timer:
            self._timer.cancel()
        if transport:
            transport.abort()
        if connection:
            connection._reader = connection._writer = None

    def close(self) -> None:
        """Closes the connection."""
        self._fail(ConnectionError("the connection was closed"))

    def abandon(self) -> None:
        """Lets go of the connection without a word to its event loop, which is the parent's, or is closed."""
        connection, self._connection, self.is_over = self._connection, None, True
        with contextlib.suppress(Exception):
            own = connection._writer.get_extra_info("socket")
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, own.fileno())
            os.close(nothing)
            connection._reader = connection._writer = None


class Wire:
    """The connection to one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._line: Optional[Line] = None

    async def send(self, limit: float, *commands: Command) -> list[Any]:
        """Sends commands in a pipeline, each of whose replies has this time. Returns the reply to each, or a Fault."""
        if limit <= 0:
            return [Fault("no time was left", sent=False)] * len(commands)
        if self._line is None or self._line.is_over:
            self._line = Line(self._server)
        return await self._line.exchange(limit, commands)

    def renew(self) -> None:
        """Has the next calls use a new connection."""
        if self._line:
            self._line.retire()

    def close(self) -> None:
        """Closes the connection."""
        if self._line:
            self._line.close()

    def abandon(self) -> None:
        """Forgets the connection."""
        if self._line:
            self._line.abandon()


class Tasks:
    """The world of asyncio, to the code that is written for both."""

    signal, turn, wire = Signal, asyncio.Lock, Wire

    def __init__(self) -> None:
        self.mutex = contextlib.nullcontext()  # nothing happens between two awaits
        self.loop: Optional[asyncio.AbstractEventLoop] = None
        self._running: set[asyncio.Future[Any]] = set()

    def spawn(self, work: Awaitable[Any]) -> asyncio.Future[Any]:
        """Runs code in the background. Returns what `join` takes."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            safely(task.result)

    async def join(self, task: asyncio.Future[Any], seconds: float) -> None:
        """Waits until code in the background has ended, for no longer than this."""
        if task is not asyncio.current_task():
            await asyncio.wait({task}, timeout=seconds)

    def notify(self, calls: list[Callable[[], object]]) -> None:
        """Calls what the user gave, in the event loop."""
        for call in calls:
            asyncio.get_running_loop().call_soon(self._notify, call)

    def _notify(self, call: Callable[[], object]) -> None:
        result = safely(call)
        if inspect.isawaitable(result):
            self.spawn(result)
