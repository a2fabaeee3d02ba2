"""What the client does with threads: connections, signals, and code in the background."""

from __future__ import annotations

import _thread
import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, Optional, TypeVar

from .observer import log
from .resp import INCOMPLETE, Parser, pack
from .servers import Server, fault_of
from .state import Fault

T = TypeVar("T")
STOP_SLICE = 0.01  # how soon a waiting thread notices that its wait is stopped
SLICE = 0.25  # how soon a waiting thread notices an exception that another thread has raised in it
IDLE = 5.0  # a connection that was not used for so long is looked at before it is used
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


class Line:
    """A connection of the library, used directly."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection: Any = None
        self._parser = Parser()
        self._timeout = 0.0
        self._used = 0.0
        self.age = 0  # of the wire, when it was connected

    def exchange(self, limit: float, commands: tuple[tuple[Any, ...], ...]) -> list[Any]:
        """Sends commands in one piece, and returns the reply to each, or a Fault. The limit is that of each reply."""
        replies: list[Any] = []
        sent = False
        try:
            socket = self._connection._sock if self._connection else None
            if not socket or self._used + IDLE < monotonic():
                end = monotonic() + limit
                socket = self._fresh(socket)
                limit = end - monotonic()
            if limit != self._timeout:
                socket.settimeout(max(limit, 0.001))
                self._timeout = limit
            data = pack(commands[0]) if len(commands) == 1 else b"".join(map(pack, commands))
            sent = True
            socket.sendall(data)
            while len(replies) < len(commands):
                reply = self._parser.reply()
                if reply is not INCOMPLETE:
                    replies.append(reply)
                    continue
                data = socket.recv(65536)
                if not data:
                    raise OSError("the connection was closed")
                self._parser.feed(data)
            self._used = monotonic()
        except BaseException as error:
            self.close()
            if not isinstance(error, (OSError, ValueError)) and not _is_of_library(error):
                raise
            replies += [fault_of(error, sent)] * (len(commands) - len(replies))
        return replies

    def _fresh(self, socket: Any) -> Any:
        """The socket, if the server has not closed it; else that of a new connection."""
        if socket and not self._has_ended():
            return socket
        self.close()
        self._connection = self._server.make()
        self._connection.connect()
        self._parser, self._timeout = Parser(), 0.0
        socket = self._connection._sock
        if self._server.has_sentinels:
            socket.sendall(pack(("ROLE",)))
            while (role := self._parser.reply()) is INCOMPLETE:
                self._parser.feed(socket.recv(65536) or b"-ERR closed\r\n")
            if isinstance(role, list) and role[0] != "master":
                raise OSError("the Sentinels named a server that is no primary")
        return socket

    def _has_ended(self) -> bool:
        try:
            return bool(self._connection.can_read(0))
        except Exception:
            return True

    def close(self) -> None:
        """Closes the connection. The next exchange opens another."""
        connection, self._connection = self._connection, None
        if connection:
            with contextlib.suppress(Exception):
                connection.disconnect()


def _is_of_library(error: BaseException) -> bool:
    return any(kind.__name__ in ("RedisError", "ValkeyError") for kind in type(error).__mro__)


class Wire:
    """The connections to one server for calls. They take milliseconds, so few connections serve many threads."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._most = min(server.most, MOST)
        self._free: list[Line] = []
        self._all: weakref.WeakSet[Line] = weakref.WeakSet()
        self._adding = threading.Lock()
        self._age = 0

    async def call(self, limit: float, command: tuple[Any, ...], asking: bool = False) -> Any:
        """Sends a command once. Returns the reply or a Fault."""
        line = None
        try:
            line = self._take(monotonic() + limit)
            if line is None:
                return Fault("no time was left for a connection", sent=False)
            reply = line.exchange(limit, (("ASKING",), command) if asking else (command,))[-1]
        finally:
            if line is not None:
                self._free.append(line)
        if reply.__class__ is Fault and (not reply.word or reply.word in ("READONLY", "UNBLOCKED", "MASTERDOWN")):
            self._age += 1  # the other connections may be dead, too, or lead to an old primary
        return reply

    def _take(self, end: float) -> Optional[Line]:
        """A connection that no other thread uses. All are busy for milliseconds only."""
        while monotonic() < end:
            try:
                line = self._free.pop()
            except IndexError:
                with self._adding:
                    is_full = len(self._all) >= self._most
                    if not is_full:
                        line = Line(self._server)
                        self._all.add(line)
                if is_full:
                    time.sleep(0.001)
                    continue
            if line.age != self._age:
                line.close()
                line.age = self._age
            return line
        return None

    def close(self) -> None:
        """Closes all connections."""
        for line in list(self._all):
            line.close()

    abandon = close  # in a child: the library does not end the parent's connection


class Poller:
    """The connection of a session: no other call uses it."""

    def __init__(self, server: Server) -> None:
        self._line = Line(server)

    async def send(self, limit: float, *commands: tuple[Any, ...]) -> list[Any]:
        """Sends commands in a pipeline, each of whose replies has this time."""
        return self._line.exchange(limit, commands)

    def close(self) -> None:
        """Closes the connection, also while another thread reads from it."""
        self._line.close()

    abandon = close


class Threads:
    """The world of threads, to the code that is written for both."""

    signal, turn, wire, poller = Signal, Turn, Wire, Poller

    def __init__(self) -> None:
        self.mutex = threading.RLock()

    async def sleep(self, seconds: float) -> None:
        """Pauses."""
        if seconds > 0:
            time.sleep(seconds)

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Runs code in the background. Returns what `join` takes."""
        thread = threading.Thread(target=_safely, args=(lambda: run(coroutine),), name="redis-lock", daemon=True)
        thread.start()
        return thread

    async def join(self, thread: Any, seconds: float) -> None:
        """Waits until code in the background has ended, for no longer than this."""
        if thread.ident != _thread.get_ident():
            thread.join(seconds)

    def notify(self, calls: list[Callable[[], object]]) -> None:
        """Calls what the user gave, on a thread of its own."""

        def work() -> None:
            for call in calls:
                _safely(call)

        threading.Thread(target=work, name="redis-lock-notify", daemon=True).start()


def _safely(call: Callable[[], object]) -> None:
    try:
        call()
    except Exception:
        log.exception("a function of the redis-lock client failed")
