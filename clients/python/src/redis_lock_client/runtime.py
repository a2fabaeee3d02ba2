"""What the engine needs of threads, or of asyncio, and the times that both go by."""

from __future__ import annotations

import math
import random
import socket
import struct
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from .grants import Held
from .keeper import Call, Keeper
from .resp import Word

T = TypeVar("T")
STILL = 1.0  # seconds by which a timer is late when the process did not run
LONGEST = 86_400.0  # seconds that one sleep lasts at most: more overflows some platforms' clocks
IDLE_SECONDS = 60.0  # for which a wait connection stays open for the next wait


def drop_unsent(connection: socket.socket | None) -> None:
    """Has its end drop what the server has not got yet, which would come behind what is sent elsewhere by then."""
    try:
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        pass


class Stopped(Exception):
    """The caller does not want it any more."""


class Place(Protocol):
    """A server: where a keeper is."""

    @property
    def address(self) -> object:
        """Tells it from others."""
        ...

    @property
    def name(self) -> str:
        """As it is shown."""
        ...


class Runtime(Protocol):
    """What is done with threads, or with asyncio."""

    @property
    def mutex(self) -> AbstractContextManager[Any]:
        """Guards the state of keepers and grants."""
        ...

    def has_ended(self) -> bool:
        """Whether it can do nothing any more."""
        ...

    def gate(self) -> Any:
        """What a caller waits at."""
        ...

    async def wait(self, call: Call, until: float) -> bool:
        """Waits for its answer."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        ...

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Work that a cancellation of the caller does not stop."""
        ...

    def wake(self, keeper: Keeper) -> None:
        """There is something to send."""
        ...

    def watch(self, at: float) -> None:
        """There is a deadline at that time."""
        ...

    def tell(self, call: Callable[[], None]) -> None:
        """Calls it soon, in the order of these calls, where it may take its time and use the locks."""
        ...

    async def place_of(self, name: bytes, until: float) -> Place:
        """The server of this key."""
        ...

    def moved(self, text: str) -> Place | None:
        """What a MOVED tells."""
        ...

    def unreachable(self, place: Place) -> None:
        """A server that cannot be reached: in a cluster, others may serve its slots by now."""
        ...

    async def borrow(self, place: Place, until: float) -> Any:
        """A wait connection."""
        ...

    async def ask(self, wire: Any, calls: list[tuple[Word, ...]], until: float,
                  stop: Callable[[], bool] | None = None) -> list[Any]:
        """Sends calls there, and gives their replies. Raises `Unanswered`; `Stopped` soon after that is to stop."""
        ...

    def lend(self, wire: Any) -> Any:
        """The wait connection stays with what was granted on it, where that saves something. None: it was given back."""
        ...

    async def answer(self, held: Held, call: Call, until: float) -> bool:
        """Has the caller itself send this call on the connection of the grant's wait, read the answer there, and give
        it back. What is not answered there is sent again on the keeper. False: it has no such connection."""
        ...

    async def answer_of(self, wire: Any, until: float) -> Any:
        """The reply to a call that was sent before."""
        ...

    def give_back(self, wire: Any) -> None:
        """A wait connection on which nothing is under way."""
        ...

    def drop(self, wire: Any) -> None:
        """A wait connection that is to be closed."""
        ...

    def break_waits(self, place: Place) -> None:
        """What waits there would not be told anything any more: it lines up again."""
        ...

    def desert(self, wire: Any) -> None:
        """One that leads to a replica, as idle ones to that place may."""


class Pause:
    """Between two attempts: from 50 ms to 1 s, with jitter."""

    def __init__(self) -> None:
        self._next = 0.05

    def take(self, left: float = math.inf) -> float:
        """The next one, in seconds. Where so much is left to a limit, it is no longer, and half of that at most where that is
        not too short: the last try needs time for its answer."""
        now, self._next = self._next, min(self._next * 2, 1.0)
        return min(now * random.uniform(0.5, 1.0), max(0.02, left / 2), left)
