"""The part of RESP that a keeper and a wait need: calls as bytes, and replies out of bytes. No I/O.

The client library opens each connection (address, TLS, login, Sentinel). From then on this reads it, so that
error replies come as the server wrote them, and alike for all versions of the libraries.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .errors import ServerError

Word = str | bytes | int


def encode(words: Iterable[Word]) -> bytes:
    """A call, as the server reads it."""
    parts = [word if isinstance(word, bytes) else str(word).encode("utf-8", "surrogateescape") for word in words]
    return b"*%d\r\n%b" % (len(parts), b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts))


KEEPER = "lock-keeper"  # the name of the connection on which grants are kept


def opening(name: str) -> list[tuple[Word, ...]]:
    """What a new connection begins with: its name; of a keeper, the question by which id the server knows it. Each may be
    refused."""
    return [("CLIENT", "SETNAME", name), *([("CLIENT", "ID")] if name == KEEPER else [])]


class Incomplete(Exception):
    """More bytes are needed."""


class Garbage(Exception):
    """Not RESP: the connection cannot be used any more."""


class Replies:
    """Takes bytes as they come, and gives the replies that are complete."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        """Replies that are complete now. An error reply is a `ServerError`."""
        self._bytes += data
        replies, done = [], 0
        try:
            while done < len(self._bytes):
                is_push = self._bytes[done] == 0x3E
                reply, done = self._parse(done)
                if not is_push:
                    replies.append(reply)
        except Incomplete:
            pass
        del self._bytes[:done]
        return replies

    def _parse(self, start: int) -> tuple[Any, int]:
        end = self._bytes.find(b"\r\n", start)
        if end < 0:
            raise Incomplete
        kind, text, after = self._bytes[start], bytes(self._bytes[start + 1:end]), end + 2
        if kind == 0x3A:  # :
            return int(text), after
        if kind == 0x2B:  # +
            return text, after
        if kind == 0x2D:  # -
            return ServerError(text.decode("utf-8", "replace")), after
        if kind == 0x5F:  # _
            return None, after
        if kind in b"$=":
            length = int(text)
            if length < 0:
                return None, after
            if len(self._bytes) < after + length + 2:
                raise Incomplete
            return bytes(self._bytes[after:after + length]), after + length + 2
        if kind in b"*>~%":
            count = int(text) * (2 if kind == 0x25 else 1)
            if count < 0:
                return None, after
            items = []
            for _ in range(count):
                item, after = self._parse(after)
                items.append(item)
            return items, after
        if kind in b",#(":
            return text, after
        raise Garbage(f"not RESP: {bytes(self._bytes[start:start + 40])!r}")
