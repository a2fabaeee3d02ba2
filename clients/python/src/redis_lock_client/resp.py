"""The protocol of Redis, as far as the module uses it: a command as bytes, and replies in RESP2 or RESP3."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .state import Fault
from .state.faults import Command

INCOMPLETE = object()  # there is no whole reply yet
ENCODING = "utf-8", "surrogateescape"  # bytes that are no text come back as they are


def pack(commands: Iterable[Command]) -> bytes:
    """Commands as they are sent."""
    parts = []
    for command in commands:
        parts.append(b"*%d\r\n" % len(command))
        for word in command:
            data = str(word).encode(*ENCODING)
            parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


class _NeedsMore(Exception):
    """A reply has not arrived as a whole."""


class Parser:
    """Takes what arrives, and gives the replies in it. Texts are str, error replies are a `Fault`."""

    def __init__(self) -> None:
        self._data, self._at = b"", 0

    def feed(self, data: bytes) -> None:
        """Adds what has arrived."""
        self._data, self._at = self._data[self._at:] + data, 0

    def reply(self) -> Any:
        """The next reply, or INCOMPLETE. Raises ValueError if it is none."""
        begin = self._at
        try:
            while True:
                is_push = self._data[self._at:self._at + 1] == b">"
                reply = self._next()
                if not is_push:
                    return reply
                begin = self._at
        except _NeedsMore:
            self._at = begin
            return INCOMPLETE

    def _next(self) -> Any:
        data, at = self._data, self._at
        end = data.find(b"\r\n", at)
        if end < 0:
            raise _NeedsMore
        kind, line = data[at], data[at + 1:end]
        self._at = end + 2
        if kind == 0x3A:  # :
            return int(line)
        if kind in b"$=!":
            size = int(line)
            if size < 0:
                return None
            begin, end = self._at, self._at + size
            if len(data) < end + 2:
                raise _NeedsMore
            self._at = end + 2
            text = data[begin:end].decode(*ENCODING)
            return text[4:] if kind == 0x3D else Fault.reply(text) if kind == 0x21 else text
        if kind in b"*~>":
            count = int(line)
            return None if count < 0 else [self._next() for _ in range(count)]
        if kind == 0x25:  # %
            return {self._next(): self._next() for _ in range(int(line))}
        text = line.decode(*ENCODING)
        if kind == 0x2D:  # -
            return Fault.reply(text)
        if kind in b"+(":
            return text if kind == 0x2B else int(text)
        if kind == 0x5F:  # _
            return None
        if kind in b"#,":
            return text == "t" if kind == 0x23 else float(text)
        raise ValueError(f"no reply of Redis: {data[at:at + 40]!r}")
