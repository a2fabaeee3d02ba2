"""A connection that asyncio uses."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from .clients import Node
from .keeper import Unanswered
from .resp import Garbage, Replies, encode, opening
from .runtime import LONGEST, drop_unsent


async def until_done(future: asyncio.Future[Any], until: float) -> bool:
    """Waits for it until then. It is neither cancelled nor are its errors raised."""
    left = until - time.monotonic()
    if future.done():
        return True
    await asyncio.wait({future}, timeout=max(0.0, min(left, LONGEST)))
    late = time.monotonic() - until
    if not future.done() and late > 0.05:  # the loop stood still: what has come is read first
        await asyncio.wait({future}, timeout=min(late, 1.0))
    return future.done()


class Wire:
    """An open connection."""

    def __init__(self, node: Node, connection: Any) -> None:
        self.node, self.idle_since, self.pid = node, 0.0, os.getpid()
        self._connection = connection
        self.reader: asyncio.StreamReader = connection._reader
        self.writer: asyncio.StreamWriter = connection._writer
        self.replies = Replies()
        self.ready: list[Any] = []
        self.id: int | None = None  # by which the server knows it
        self.reading: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, node: Node, name: str, seconds: float) -> Wire:
        """Opens one."""
        connection = node.make()
        try:
            await connection.connect()
            wire = cls(node, connection)
            calls, until = opening(name), time.monotonic() + seconds
            wire.send(b"".join(map(encode, calls)))
            replies = [await wire.reply(until) for _ in calls]
            wire.id = replies[-1] if isinstance(replies[-1], int) else None
        except BaseException:
            writer = connection._writer
            if writer is not None:
                writer.transport.abort()
            await connection.disconnect(nowait=True)
            raise
        return wire

    def send(self, data: bytes) -> None:
        """Sends it as soon as that goes."""
        if self.writer.is_closing():
            raise Unanswered("the connection is closed")
        self.writer.write(data)

    async def read(self) -> None:
        """Waits for more."""
        try:
            data = await self.reader.read(65536)
            if not data:
                raise Unanswered("the server has closed the connection")
            self.ready += self.replies.feed(data)
        except (OSError, Garbage) as error:
            raise Unanswered(str(error)) from error

    async def reply(self, until: float) -> Any:
        """The next reply."""
        while not self.ready:
            if self.reading is None:
                self.reading = asyncio.ensure_future(self.read())
            if not await until_done(self.reading, until):
                raise Unanswered("no answer in time")
            reading, self.reading = self.reading, None
            reading.result()
        return self.ready.pop(0)

    def is_fresh(self) -> bool:
        """Whether nothing has come on it, its end included, since it was used."""
        return not (self.ready or self.reading or self.reader.at_eof() or self.writer.is_closing()
                    or self.reader.exception())

    def forget(self) -> None:
        """Has its end drop what the server has not got yet, which would come behind what is sent elsewhere by then."""
        drop_unsent(self.writer.get_extra_info("socket"))

    def close(self) -> None:
        """Closes it. In a forked child the parent has it open still, and a loop goes by its number, which that of uvloop
        closes once more in the end: so the number stays in use there, and leads nowhere."""
        if self.pid != os.getpid():
            if not self.writer.is_closing():
                with open(os.devnull, "rb") as nothing:
                    os.dup2(nothing.fileno(), self.writer.get_extra_info("socket").fileno(), inheritable=False)
            return
        if self.reading is not None:
            self.reading.add_done_callback(lambda done: done.cancelled() or done.exception())
            self.reading.cancel()
            self.reading = None
        self.writer.transport.abort()
        self._connection._reader = self._connection._writer = None


def close_unused(opening: asyncio.Task[Wire]) -> None:
    """A connection that came when nobody waited for it any more."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
