"""What the client does with asyncio: connections, signals, and code in the background."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Optional

from .observer import log
from .resp import INCOMPLETE, Parser, pack
from .servers import Server, fault_of
from .state import Fault

DAY = 86_400.0  # a longer wait needs no timer


class Signal:
    """Wakes one waiting task. Set while nobody waits, it ends the next wait at once."""

    __slots__ = ("_future", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        self._future: Optional[asyncio.Future[None]] = None

    def set(self) -> None:
        """Wakes the task."""
        if self._future and not self._future.done():
            self._future.set_result(None)
        else:
            self._is_set = True

    async def wait(self, seconds: float, _: object = None) -> None:
        """Waits for the signal, for no longer than this."""
        if not self._is_set and seconds > 0:
            loop = asyncio.get_running_loop()
            future = self._future = loop.create_future()
            timer = loop.call_later(seconds, self.set) if seconds < DAY else None
            try:
                await future
            finally:
                self._future = None
                if timer:
                    timer.cancel()
        self._is_set = False


class Batch:
    """Commands that were sent together, and their replies so far."""

    __slots__ = ("count", "future", "replies")

    def __init__(self, count: int, future: asyncio.Future[list[Any]]) -> None:
        self.count, self.future = count, future
        self.replies: list[Any] = []

    def fail(self, fault: Fault) -> None:
        """No more replies come."""
        if not self.future.done():
            self.future.set_result(self.replies + [fault] * (self.count - len(self.replies)))


class Line(asyncio.Protocol):
    """A connection of the library, used directly. All calls share it: the replies come in the order of the calls."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection: Any = None
        self._connecting: Optional[asyncio.Task[Optional[Fault]]] = None
        self._transport: Any = None
        self._parser = Parser()
        self._batches: deque[Batch] = deque()
        self._out: list[bytes] = []
        self.is_over = False  # it takes no more calls

    async def exchange(self, limit: float, commands: tuple[tuple[Any, ...], ...]) -> list[Any]:
        """Sends commands, and returns the reply to each, or a Fault."""
        loop = asyncio.get_running_loop()
        if self._transport is None:
            end = loop.time() + limit
            fault = await self._connected(limit)
            limit = end - loop.time()
            if fault or self.is_over or limit <= 0:
                self.is_over = True
                return [fault or Fault("no time was left", sent=False)] * len(commands)
        batch = Batch(len(commands), loop.create_future())
        data = pack(commands[0]) if len(commands) == 1 else b"".join(map(pack, commands))
        if not self._batches:
            self._transport.write(data)
        elif self._out:
            self._out.append(data)
        else:  # while others wait, what comes together is sent together
            self._out.append(data)
            loop.call_soon(self._send)
        self._batches.append(batch)
        timer = loop.call_later(limit, self._expire, batch, limit)
        try:
            return await batch.future
        finally:
            timer.cancel()

    def _send(self) -> None:
        out, self._out = self._out, []
        if self._transport and out:
            self._transport.write(b"".join(out))

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
        except Exception as error:
            self.is_over = True
            return fault_of(error, sent=False)
        transport = self._connection._writer.transport
        if self.is_over:
            transport.abort()
            return Fault("the connection was closed", sent=False)
        transport.set_protocol(self)
        self._transport = transport
        if self._server.has_sentinels:
            [role] = await self.exchange(1.0, (("ROLE",),))
            if isinstance(role, list) and role[0] != "master":
                self.close()
                return Fault("the Sentinels named a server that is no primary", sent=False)
        return None

    def data_received(self, data: bytes) -> None:
        """Gives the replies to the calls."""
        self._parser.feed(data)
        try:
            while self._batches and (reply := self._parser.reply()) is not INCOMPLETE:
                batch = self._batches[0]
                batch.replies.append(reply)
                if len(batch.replies) == batch.count:
                    self._batches.popleft()
                    if not batch.future.done():
                        batch.future.set_result(batch.replies)
        except ValueError as error:
            self._fail(error)
        if self.is_over:
            self.retire()

    def connection_lost(self, error: Optional[Exception]) -> None:
        """Ends the calls that wait for a reply."""
        self._fail(error or ConnectionError("the connection was closed"))

    def _expire(self, batch: Batch, limit: float) -> None:
        batch.fail(Fault(f"no reply within {limit:.3g} s"))
        self.retire()

    def _fail(self, error: Exception) -> None:
        fault = fault_of(error, sent=True)
        self.is_over = True
        batches, self._batches = self._batches, deque()
        for batch in batches:
            batch.fail(fault)
        self._close()

    def retire(self) -> None:
        """Takes no more calls. The connection is closed when all that were made have been answered."""
        self.is_over = True
        if all(batch.future.done() for batch in self._batches):
            self._close()

    def close(self) -> None:
        """Closes the connection."""
        if not self.is_over or self._transport:
            self._fail(ConnectionError("the connection was closed"))

    def _close(self) -> None:
        connection, self._connection, transport, self._transport = self._connection, None, self._transport, None
        if self._connecting and not self._connecting.done():
            self._connecting.cancel()
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
    """The connection to one server for calls."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._line: Optional[Line] = None
        self._lines: weakref.WeakSet[Line] = weakref.WeakSet()

    async def call(self, limit: float, command: tuple[Any, ...], asking: bool = False) -> Any:
        """Sends a command once. Returns the reply or a Fault."""
        if limit <= 0:
            return Fault("no time was left", sent=False)
        reply = (await self.line().exchange(limit, (("ASKING",), command) if asking else (command,)))[-1]
        if reply.__class__ is Fault and reply.word in ("READONLY", "UNBLOCKED", "MASTERDOWN"):
            self.line().retire()  # the address may lead to a new primary
        return reply

    def line(self) -> Line:
        """The connection that takes calls."""
        if self._line is None or self._line.is_over:
            self._line = Line(self._server)
            self._lines.add(self._line)
        return self._line

    def close(self) -> None:
        """Closes all connections."""
        for line in list(self._lines):
            line.close()

    def abandon(self) -> None:
        """Forgets all connections."""
        for line in list(self._lines):
            line.abandon()


class Poller(Wire):
    """The connection of a session: no other call uses it."""

    async def send(self, limit: float, *commands: tuple[Any, ...]) -> list[Any]:
        """Sends commands in a pipeline, each of whose replies has this time."""
        return await self.line().exchange(limit, commands)


class NoMutex:
    """In one event loop, nothing happens between two awaits."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class Tasks:
    """The world of asyncio, to the code that is written for both."""

    signal, turn, wire, poller, sleep = Signal, asyncio.Lock, Wire, Poller, staticmethod(asyncio.sleep)

    def __init__(self) -> None:
        self.mutex = NoMutex()
        self.loop: Optional[asyncio.AbstractEventLoop] = None
        self._running: set[asyncio.Task[Any]] = set()

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Runs code in the background. Returns what `join` takes."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception():
            log.error("a function of the redis-lock client failed", exc_info=task.exception())

    async def join(self, task: asyncio.Task[Any], seconds: float) -> None:
        """Waits until code in the background has ended, for no longer than this."""
        if task is not asyncio.current_task():
            await asyncio.wait({task}, timeout=seconds)

    def notify(self, calls: list[Callable[[], object]]) -> None:
        """Calls what the user gave, in the event loop."""
        for call in calls:
            asyncio.get_running_loop().call_soon(self._notify, call)

    def _notify(self, call: Callable[[], object]) -> None:
        try:
            result = call()
        except Exception:
            log.exception("a function of the redis-lock client failed")
            return
        if inspect.isawaitable(result):
            self.spawn(_awaited(result))


async def _awaited(result: Any) -> None:
    await result
