"""A connection that threads use."""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Callable
from typing import Any

from .clients import Node, Source
from .keeper import Unanswered
from .resp import Garbage, Replies, encode, opening
from .runtime import Stopped, drop_unsent

STOP = 0.1  # seconds between two looks at whether a wait is to stop
SLICE = 0.5  # seconds: after so long an exception that another thread has set is raised here


class Wire:
    """An open connection."""

    def __init__(self, source: Source, node: Node, name: str) -> None:
        self.node, self.idle_since, self.pid = node, 0.0, os.getpid()
        self._connection = node.make()
        try:
            self._connection.connect()
        except BaseException:
            self._connection.disconnect()
            raise
        self.socket: socket.socket = self._connection._sock
        self._limit = source.limits.reply
        # With a time-out, Python asks the system before each call whether it would block. TLS needs one.
        self.socket.settimeout(self._limit if hasattr(self.socket, "pending") else 0)
        self.replies = Replies()
        self.ready: list[Any] = []
        self.poll = selectors.DefaultSelector()
        self.poll.register(self.socket, selectors.EVENT_READ)
        try:
            calls, until = opening(name), time.monotonic() + source.limits.reply
            self.send(b"".join(map(encode, calls)))
            replies = [self.reply(until) for _ in calls]
            self.id = replies[-1] if isinstance(replies[-1], int) else None  # by which the server knows it
        except BaseException:
            self.close()
            raise

    def send(self, data: bytes) -> None:
        """Sends all of it, within a reply's time."""
        try:
            if hasattr(self.socket, "pending"):
                self.socket.sendall(data)
                return
            left = memoryview(data)
            until = time.monotonic() + self._limit
            while left:
                try:
                    left = left[self.socket.send(left):]
                except BlockingIOError:
                    self._wait_for_room(until)
        except OSError as error:
            raise Unanswered(str(error)) from error

    def _wait_for_room(self, until: float) -> None:
        with selectors.DefaultSelector() as poll:
            poll.register(self.socket, selectors.EVENT_WRITE)
            if not poll.select(max(0.0, until - time.monotonic())):
                raise TimeoutError("the server takes nothing")

    def read(self) -> None:
        """Reads what is there; at once, where something is."""
        try:
            while True:
                data = self.socket.recv(65536)
                if not data:
                    raise Unanswered("the server has closed the connection")
                self.ready += self.replies.feed(data)
                pending = getattr(self.socket, "pending", None)
                if pending is None or not pending():
                    return
        except (TimeoutError, BlockingIOError):
            return
        except (OSError, Garbage) as error:
            raise Unanswered(str(error)) from error

    def reply(self, until: float, stop: Callable[[], bool] | None = None) -> Any:
        """The next reply."""
        while not self.ready:
            left = until - time.monotonic()
            came = self.poll.select(max(0.0, min(left, SLICE if stop is None else STOP)))
            if came:
                self.read()
            elif stop is not None and stop():
                raise Stopped
            elif left <= 0 and not self.poll.select(0.05 if left < -0.05 else 0):
                raise Unanswered("no answer in time")
        return self.ready.pop(0)

    def is_fresh(self) -> bool:
        """Whether nothing has come on it, its end included, since it was used."""
        return not self.ready and not self.poll.select(0)

    def shut(self) -> None:
        """Ends a read in another thread."""
        try:  # below TLS, whose own would make of that read a ValueError, or one of what is encrypted
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)
        except OSError:
            pass

    def forget(self) -> None:
        """Has its end drop what the server has not got yet, which would come behind what is sent elsewhere by then."""
        drop_unsent(self.socket)

    def close(self) -> None:
        """Closes it. In a forked child it stays open in the parent."""
        self.poll.close()
        if self.pid == os.getpid():
            self._connection.disconnect()
        else:
            self.socket.close()
