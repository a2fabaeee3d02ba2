"""The client's asyncio part: connections, signals, and code in the background."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Awaitable
from typing import Any, Optional

from .observer import safely
from .resp import Parser, pack
from .servers import Server, fault_of, require_primary
from .state import Fault
from .state.faults import Command


class Signal:
    """Wakes one waiting task. Set while nobody waits, it ends the next wait at once."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.set = self._event.set

    async def wait(self, seconds: float, _: object = None) -> None:
        """Waits for the signal, for no longer than this."""
        timer = asyncio.get_running_loop().call_later(seconds, self.set)
        try:
            await self._event.wait()
        finally:
            timer.cancel()
            self._event.clear()


def settle(future: asyncio.Future[Any], result: Any) -> None:
    """Gives a result to a caller that may have been cancelled."""
    if not future.done():
        future.set_result(result)


class Wire(asyncio.Protocol):
    """A connection of the library, used directly. All calls share it: the replies come in the order of the calls."""

    def __init__(self, server: Server) -> None:
        self._server, self._loop = server, asyncio.get_running_loop()
        self._connection: Any = None
        self._transport: Any = None
        self._parser = Parser()
        self._calls: deque[tuple[int, asyncio.Future[Any]]] = deque()  # how many replies each lacks, and where to
        self._out: list[bytes] = []
        self.is_idle = False  # all that was sent has been answered, so that more can be sent together
        self.is_over = False  # it takes no more calls
        self._connecting: Optional[asyncio.Task[Optional[Fault]]] = None

    async def send(self, limit: float, *commands: Command, is_held: bool = False) -> list[Any]:
        """Sends commands in a pipeline, each of whose replies has this time. Returns the reply to each, or a Fault.
        is_held: sends them together with what is sent next."""
        end, fault = self._loop.time() + limit, None
        if self._transport is None and limit > 0:
            connecting = self._connecting = self._connecting or self._loop.create_task(self._connect())
            await asyncio.wait({connecting}, timeout=limit)
            fault = connecting.result() if connecting.done() and not connecting.cancelled() else None
            self.is_over = self.is_over or bool(fault) or self._loop.time() >= end
        if self.is_over or limit <= 0:
            return [fault or Fault(f"{self._server.address} could not be reached in time", sent=False)] * len(commands)
        future = self._loop.create_future()
        self._calls.append((len(commands), future))
        self._out.append(pack(commands))
        if self.is_idle and not is_held:
            self._send()
        elif not self.is_idle and len(self._out) == 1:  # what comes together is sent together
            self._loop.call_soon(self._send)
        timer = self._loop.call_at(end, self._expire, future)
        try:
            replies = await future
        finally:
            timer.cancel()
        return [replies] * len(commands) if replies.__class__ is Fault else replies

    def _send(self) -> None:
        self.is_idle = False
        if self._transport:
            self._transport.write(b"".join(self._out))
        self._out.clear()

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
                require_primary((await self.send(1.0, ("ROLE",)))[0])
        except Exception as error:
            self.close()
            return fault_of(error, sent=False)
        return None

    def data_received(self, data: bytes) -> None:
        """Gives the replies to the calls."""
        self._parser.feed(data)
        try:
            while self._calls and (replies := self._parser.replies(self._calls[0][0])):
                settle(self._calls.popleft()[1], replies)
        except ValueError as error:
            self.connection_lost(error)
        self.is_idle = not self._calls
        if self.is_over:
            self.retire()

    def connection_lost(self, exc: Optional[Exception]) -> None:
        """Ends the calls that wait for a reply."""
        for _, future in self._calls:
            settle(future, fault_of(exc or ConnectionError("the connection was closed"), sent=not self.is_idle))
        self.retire()

    def _expire(self, future: asyncio.Future[Any]) -> None:
        settle(future, Fault("no reply in time"))
        self.retire()

    def retire(self) -> None:
        """Takes no more calls. The connection is closed when all that were made have been answered."""
        self.is_over, self.is_idle = True, False
        if not all(future.done() for _, future in self._calls):
            return
        self._calls.clear()
        connection, self._connection, transport, self._transport = self._connection, None, self._transport, None
        if self._connecting and self._connecting is not asyncio.current_task():
            self._connecting.cancel()
        if transport:
            transport.abort()
        if connection:
            connection._reader = connection._writer = None

    def close(self) -> None:
        """Closes the connection."""
        self.connection_lost(None)

    def abandon(self) -> None:
        """Drops the connection without using its event loop, which is the parent's, or is closed."""
        connection, self._connection, self.is_over = self._connection, None, True
        with contextlib.suppress(Exception):
            own = connection._writer.get_extra_info("socket")
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, own.fileno())
            os.close(nothing)
            connection._reader = connection._writer = None


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
        await asyncio.wait({task}, timeout=seconds)

    async def pause(self) -> None:
        """Lets the callers run that have been woken."""
        await asyncio.sleep(0)
