"""The protocol of Redis, as far as the module uses it: a command as bytes, and replies in RESP2."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Optional

from .state import Fault
from .state.faults import Command

ENCODING = "utf-8", "surrogateescape"  # bytes that are no text return as they are


def pack(commands: Iterable[Command]) -> bytes:
    """Commands as they are sent."""
    parts = []
    for command in commands:
        parts.append(f"*{len(command)}\r\n")
        for word in map(str, command):
            size = len(word) if word.isascii() else len(word.encode(*ENCODING))
            parts.append(f"${size}\r\n{word}\r\n")
    return "".join(parts).encode(*ENCODING)


class Parser:
    """Takes what arrives, and gives the replies in it. Texts are str, error replies are a `Fault`."""

    def __init__(self) -> None:
        self._data, self._at = b"", 0

    def feed(self, data: bytes) -> None:
        """Adds what has arrived."""
        self._data, self._at = self._data[self._at:] + data, 0

    def replies(self, count: int) -> Optional[list[Any]]:
        """The next `count` replies. None: not all have arrived. Raises ValueError if one is not a valid reply."""
        begin = self._at
        try:
            return [self._next() for _ in range(count)]
        except EOFError:
            self._at = begin
            return None

    def _next(self) -> Any:
        data, begin = self._data, self._at
        end = data.find(b"\r\n", begin)
        if end < 0:
            raise EOFError
        kind, line = data[begin], data[begin + 1:end]
        self._at = end + 2
        if kind == 0x3A:  # :
            return int(line)
        if kind == 0x24:  # $
            begin, end = self._at, self._at + int(line)
            if end < begin:
                return None
            if len(data) < end + 2:
                raise EOFError
            self._at = end + 2
            return data[begin:end].decode(*ENCODING)
        if kind == 0x2A:  # *
            return [self._next() for _ in range(int(line))] if line != b"-1" else None
        if kind == 0x2D:  # -
            return Fault.reply(line.decode(*ENCODING))
        if kind == 0x2B:  # +
            return line.decode(*ENCODING)
        raise ValueError(f"not a reply of Redis: {data[begin:begin + 40]!r}")
