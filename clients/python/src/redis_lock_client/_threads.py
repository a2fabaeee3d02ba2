"""The client's part for threads: connections, signals, and code in the background."""

from __future__ import annotations

import contextlib
import struct
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine
from queue import Empty, SimpleQueue
from socket import SO_RCVTIMEO, SO_SNDTIMEO, SOL_SOCKET
from time import monotonic
from typing import Any, Optional, TypeVar

from .observer import safely
from .resp import Parser, pack
from .servers import Server, fault_of, is_of_library, require_primary
from .state import Fault
from .state.faults import Command

T = TypeVar("T")
STOP_SLICE = 0.01  # how soon a waiting thread notices that its wait is stopped
SLICE = 1.0  # how soon a waiting thread notices an exception that another thread has raised in it
HAS_LIMITS = sys.platform == "linux" and sys.maxsize > 2**32  # setsockopt takes two longs
MOST = 64  # connections for calls, which take milliseconds


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs code that is written for both worlds. With threads, nothing in it suspends: it blocks."""
    try:
        coroutine.send(None)
    except StopIteration as result:
        return result.value  # type: ignore[no-any-return]
    raise RuntimeError("code for threads was suspended")


class Signal:
    """Wakes one waiting thread. Set while nobody waits, it ends the next wait at once."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        """Wakes the thread."""
        try:
            self._lock.release()
        except (RuntimeError, ValueError):
            pass  # it is set already

    async def wait(self, seconds: float, stopped: Optional[Callable[[], bool]] = None) -> None:
        """Waits for the signal, for no longer than this, and until it is stopped."""
        end = monotonic() + seconds
        most = STOP_SLICE if stopped else SLICE
        while seconds > 0 and not (stopped and stopped()):
            if self._lock.acquire(True, min(seconds, most)):
                return
            seconds = end - monotonic()


class Turn:
    """One thread at a time."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


def _limit(socket: Any, seconds: float) -> None:
    """Limits each send and receipt. A limit of the kernel spares one system call for each, and so a turn of the threads;
    it is not for TLS, nor for the sockets of gevent."""
    if HAS_LIMITS and type(socket).__module__ == "socket":
        socket.settimeout(None)
        for which in (SO_RCVTIMEO, SO_SNDTIMEO):
            socket.setsockopt(SOL_SOCKET, which, struct.pack("ll", int(seconds), int(seconds % 1 * 1e6)))
    else:
        socket.settimeout(seconds)


class Line:
    """A connection of the library, used directly."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection: Any = None
        self._parser = Parser()
        self._timeout = 0.0

    def exchange(self, limit: float, commands: tuple[Command, ...]) -> list[Any]:
        """Sends commands in one piece, and returns the reply to each, or a Fault. The limit is that of each receipt."""
        sent = False
        try:
            connection = self._connection  # `close` sets it to None at any moment
            socket = connection._sock if connection else None
            if not socket:
                end = monotonic() + limit
                socket = self._connect()
                limit = end - monotonic()
            if limit != self._timeout:
                _limit(socket, max(limit, 0.001))
                self._timeout = limit
            data = pack(commands)
            sent = True
            return self._replies(socket, data, len(commands))
        except BaseException as error:
            self.close()
            if not isinstance(error, (OSError, ValueError)) and not is_of_library(error):
                raise
            return [fault_of(error, sent)] * len(commands)

    def _replies(self, socket: Any, data: bytes, count: int) -> list[Any]:
        socket.sendall(data)
        while True:
            received = socket.recv(65536)
            if not received:
                raise OSError("the connection was closed")
            self._parser.feed(received)
            replies = self._parser.replies(count)
            if replies is not None:
                return replies

    def _connect(self) -> Any:
        connection = self._connection = self._server.make()
        connection.connect()
        self._parser, self._timeout = Parser(), 0.0
        socket = connection._sock
        if self._connection is not connection or not socket:
            connection.disconnect()
            raise OSError("the connection was closed")
        if self._server.has_sentinels:
            require_primary(self._replies(socket, pack([("ROLE",)]), 1)[0])
        return socket

    def close(self) -> None:
        """Closes the connection. The next exchange opens another."""
        connection, self._connection = self._connection, None
        if connection:
            with contextlib.suppress(Exception):
                connection.disconnect()


class Wire:
    """Connections to one server. A call takes milliseconds, so few connections serve many threads."""

    is_idle = False  # see asyncio

    def __init__(self, server: Server) -> None:
        self._server = server
        self._free: SimpleQueue[Line] = SimpleQueue()
        self._all: weakref.WeakSet[Line] = weakref.WeakSet()
        self._adding = threading.Lock()
        self.is_over = False  # it takes no more calls

    async def send(self, limit: float, *commands: Command, is_held: bool = False) -> list[Any]:
        """Sends commands in a pipeline, each of whose replies has this time. Returns the reply to each, or a Fault."""
        line = self._take(limit)
        if line is None:
            return [Fault("no time was left for a connection", sent=False)] * len(commands)
        try:
            replies = line.exchange(limit, commands)
        finally:
            self._free.put(line)
        if replies[-1].__class__ is Fault and not replies[-1].word:
            self.retire()  # the other connections may be dead, too
        return replies

    def _take(self, limit: float) -> Optional[Line]:
        """A connection that no other thread uses."""
        if limit <= 0:
            return None
        with contextlib.suppress(Empty):
            return self._free.get_nowait()
        with self._adding:
            if len(self._all) < min(self._server.most, MOST):
                line = Line(self._server)
                self._all.add(line)
                return line
        with contextlib.suppress(Empty):
            return self._free.get(timeout=limit)
        return None

    def retire(self) -> None:
        """Takes no more calls. Each connection ends with its last one."""
        self.is_over = True

    def close(self) -> None:
        """Closes all connections, even while another thread reads from one."""
        for line in list(self._all):
            line.close()

    abandon = close  # in a child: the library does not end the parent's connection


class Threads:
    """The world of threads, to the code that is written for both."""

    signal, turn, wire = Signal, Turn, Wire

    def __init__(self) -> None:
        self.mutex = threading.RLock()

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Runs code in the background. Returns what `join` takes."""
        thread = threading.Thread(target=safely, args=(run, coroutine), name="redis-lock", daemon=True)
        thread.start()
        return thread

    async def join(self, thread: Any, seconds: float) -> None:
        """Waits until code in the background has ended, for no longer than this."""
        thread.join(seconds)

    async def pause(self) -> None:
        """Nothing to do: the callers that have been woken run on their own threads."""
