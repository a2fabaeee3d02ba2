"""The client's asyncio part: connections, signals, and code in the background."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Optional

from .observer import safely
from .resp import INCOMPLETE, Parser, pack
from .servers import Server, fault_of, require_primary
from .state import Fault
from .state.faults import Command

DAY = 86_400.0  # the longest timer


class Signal:
    """Wakes one waiting task. Set while nobody waits, it ends the next wait at once."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.set = self._event.set

    async def wait(self, seconds: float, _: object = None) -> None:
        """Waits for the signal, for no longer than this."""
        timer = asyncio.get_running_loop().call_later(min(seconds, DAY), self.set)
        try:
            await self._event.wait()
        finally:
            timer.cancel()
            self._event.clear()


class Batch:
    """Commands that were sent together, and their replies so far."""

    __slots__ = ("count", "end", "future", "replies")

    def __init__(self, count: int, end: float, future: asyncio.Future[list[Any]]) -> None:
        self.count, self.end, self.future = count, end, future
        self.replies: list[Any] = []

    def add(self, reply: Any) -> None:
        """A reply has come."""
        self.replies.append(reply)
        if len(self.replies) == self.count and not self.future.done():
            self.future.set_result(self.replies)

    def fail(self, fault: Fault) -> None:
        """No more replies will come."""
        if not self.future.done():
            self.future.set_result(self.replies + [fault] * (self.count - len(self.replies)))


class Line(asyncio.Protocol):
    """A connection of the library, used directly. All calls share it: the replies come in the order of the calls."""

    def __init__(self, server: Server) -> None:
        self._server, self._loop = server, asyncio.get_running_loop()
        self._connection: Any = None
        self._connecting: Optional[asyncio.Task[Optional[Fault]]] = None
        self._transport: Any = None
        self._parser = Parser()
        self._batches: deque[Batch] = deque()
        self._out: list[bytes] = []
        self._timer: Optional[asyncio.TimerHandle] = None
        self.is_over = False  # it takes no more calls

    async def exchange(self, limit: float, commands: tuple[Command, ...]) -> list[Any]:
        """Sends commands, and returns the reply to each, or a Fault."""
        end = self._loop.time() + limit
        if self._transport is None:
            fault = await self._connected(limit)
            if fault or self.is_over or self._loop.time() >= end:
                self.is_over = True
                return [fault or Fault("no time was left", sent=False)] * len(commands)
        batch = Batch(len(commands), end, self._loop.create_future())
        if not self._batches:
            self._write(pack(commands))
        else:  # while others wait, what comes together is sent together
            if not self._out:
                self._loop.call_soon(self._send)
            self._out.append(pack(commands))
        self._batches.append(batch)
        if self._timer is None or end < self._timer.when():
            self._watch(end)
        return await batch.future

    def _send(self) -> None:
        out, self._out = self._out, []
        self._write(b"".join(out))

    def _write(self, data: bytes) -> None:
        if self._transport:
            self._transport.write(data)

    async def _connected(self, limit: float) -> Optional[Fault]:
        if self._connecting is None:
            self._connecting = asyncio.ensure_future(self._connect())
        await asyncio.wait({self._connecting}, timeout=limit)
        if not self._connecting.done() or self._connecting.cancelled():
            return Fault(f"{self._server.address} could not be reached in time", sent=False)
        return self._connecting.result()

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
            while self._batches and (reply := self._parser.reply()) is not INCOMPLETE:
                batch = self._batches[0]
                batch.add(reply)
                if len(batch.replies) == batch.count:
                    self._batches.popleft()
        except ValueError as error:
            self._fail(error)
        if self.is_over:
            self.retire()

    def connection_lost(self, exc: Optional[Exception]) -> None:
        """Ends the calls that wait for a reply."""
        self._fail(exc or ConnectionError("the connection was closed"))

    def _watch(self, end: float) -> None:
        """Looks at the calls again at this time."""
        if self._timer:
            self._timer.cancel()
        self._timer = self._loop.call_at(end, self._expire)

    def _expire(self) -> None:
        """Ends the calls whose time is over."""
        self._timer, now = None, self._loop.time()
        open_ones = [batch for batch in self._batches if not batch.future.done()]
        for batch in open_ones:
            if batch.end <= now:
                batch.fail(Fault("no reply in time"))
                self.is_over = True
        if self.is_over:
            self.retire()
        later = [batch.end for batch in open_ones if batch.end > now]
        if later:
            self._watch(min(later))

    def _fail(self, error: Exception) -> None:
        self.is_over = True
        batches, self._batches = self._batches, deque()
        fault = fault_of(error, sent=True)
        for batch in batches:
            batch.fail(fault)
        self._close()

    def retire(self) -> None:
        """Takes no more calls. The connection is closed when all that were made have been answered."""
        self.is_over = True
        if all(batch.future.done() for batch in self._batches):
            self._batches.clear()
            self._close()

    def close(self) -> None:
        """Closes the connection."""
        self._fail(ConnectionError("the connection was closed"))

    def _close(self) -> None:
        connection, self._connection, transport, self._transport = self._connection, None, self._transport, None
        if self._connecting and self._connecting is not asyncio.current_task():
            self._connecting.cancel()
        if self._timer:
            self._timer.cancel()
        if transport:
            transport.abort()
        if connection:
            connection._reader = connection._writer = None

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

    signal, turn, wire, sleep = Signal, asyncio.Lock, Wire, staticmethod(asyncio.sleep)

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
