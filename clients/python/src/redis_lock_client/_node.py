"""One server: what is known of it, and the loop that polls its session. For threads and for asyncio."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from time import monotonic
from typing import TYPE_CHECKING, Any, Optional, TypeVar

from .observer import log
from .servers import Server
from .state import Fault, State
from .state.claims import FAR, milliseconds, pause
from .state.faults import Command
from .state.grants import Call

if TYPE_CHECKING:
    from ._locking import Locking

T = TypeVar("T")
PART = 500  # commands in one pipeline, so that each reply has its time
UNSENT = Fault("the connection was lost before", sent=False)
OLD_PRIMARY = ("READONLY", "UNBLOCKED", "MASTERDOWN")  # an address may lead to a new one


def pauses() -> Iterator[float]:
    """The times between tries."""
    return map(pause, itertools.count())


async def notify(call: Callable[..., object], *args: object) -> None:
    """Calls what the user gave."""
    result = call(*args)
    if inspect.isawaitable(result):
        await result


class Node:
    """A server, with what is known of it."""

    def __init__(self, locks: Locking[Any], server: Server) -> None:
        self.locks, self.world, self.server = locks, locks._world, server
        self.mutex = self.world.mutex
        opening = ("LOCK.SESSION", "OPEN", "TIMEOUT", milliseconds(locks._silence), "NAME", locks._name)
        self.state = State(server.address, locks.lease, locks._reply, locks._servers.is_cluster, opening)
        self.wire = self.world.wire(server)
        self.poller = self.world.wire(server)  # the connection of the session
        self.polling: Any = None  # the loop, while it runs
        self._is_down = False  # the connection of the session, to the observer
        self._needed = self.world.signal()  # ends a pause of the loop
        self._clock: Any = None  # what ends grants by time
        self._alarm = FAR  # when it looks next
        self._rewind = self.world.signal()

    def do(self, function: Callable[..., T], *args: Any) -> T:
        """Calls a function of the state, alone. Afterwards the callers of changed claims are woken."""
        state = self.state
        with self.mutex:
            state.at = monotonic()
            try:
                return function(*args)
            finally:
                if state.changed:
                    changed, state.changed = state.changed, []
                    for claim in changed:
                        claim.caller._wake()
                if state.unfinished and not self.polling:
                    self.run()
                if state.next_end < self._alarm:
                    self._alarm = state.next_end
                    self._rewind.set()
                    self._clock = self._clock or self.world.spawn(self._tick())

    async def call(self, limit: float, command: Command, asking: bool = False) -> Any:
        """Sends a command once. Returns the reply or a Fault. Between two POLLs it goes together with the next one, which
        spares the server most of its cost. For that both connections must be idle: then they are known to work."""
        is_held = self.poller.is_idle and self.wire.is_idle and not self.locks._is_closed
        if self.wire.is_over:
            self.wire = self.world.wire(self.server)
        wire = self.poller if is_held else self.wire
        reply = (await wire.send(limit, *((("ASKING",), command) if asking else (command,)), is_held=is_held))[-1]
        if reply.__class__ is Fault and reply.word in OLD_PRIMARY:
            wire.retire()
        return reply

    # The loop.

    def run(self) -> None:
        """Starts the loop, if it is not running, and ends its pause. The mutex is held."""
        if not self.locks._is_closed:
            self._needed.set()
            self.polling = self.polling or self.world.spawn(self.loop())

    async def loop(self) -> None:
        """Polls the session. Other calls go with its POLLs, or over another connection. It runs no code of the user."""
        try:
            while calls := self.do(self._plan):
                began = monotonic()
                if self.poller.is_over:
                    self.poller = self.world.wire(self.server)
                fault = await self._send(calls)
                if fault and self.do(self.state.failed, began, fault):
                    self.poller.close()
                    if not self._is_over:
                        await self._pause(fault)
                else:
                    self._observe(None)
                    await self.world.pause()  # what they send now goes together with the next POLL
        except BaseException:  # its event loop ends
            self.polling = None
            self.poller.close()
            raise

    @property
    def _is_over(self) -> bool:
        """Whether the loop ends. One that has failed starts again when it is needed."""
        return self.locks._is_closed or self.state.failures > 0 and self.state.is_idle

    def _plan(self) -> list[Call]:
        """What to send next, if anything."""
        if not self._is_over:
            return self.state.plan()
        self._observe(None)
        self.poller.close()
        self.polling = None
        return []

    async def _send(self, calls: list[Call]) -> Optional[Fault]:
        """Sends commands, and applies the replies. Returns what failed; after that no more is sent."""
        fault: Optional[Fault] = None
        for begin in range(0, len(calls), PART):
            part = calls[begin:begin + PART]
            sent, replies = monotonic(), [UNSENT] * len(part)
            if not fault:
                replies = await self.poller.send(part[0].limit, *(call.command for call in part))
                if replies[-1].__class__ is Fault and (part[0].is_vital or not replies[-1].word):
                    fault = replies[-1]
            if not (fault and part[0].is_vital):
                self.do(lambda: [call.apply(sent, reply) for call, reply in zip(part, replies)])  # noqa: B023
        return fault

    async def _pause(self, fault: Fault) -> None:
        self._observe(fault)
        if self.locks._servers.is_cluster:
            await self._relocate()
        rest = pause(self.state.failures - 1)
        if self.do(self.state.is_unsure):  # a grant is about to be judged
            rest = min(rest, 0.1)
        await self.world.signal().wait(min(rest, 0.05))
        await self._needed.wait(rest - 0.05)  # a call that needs a session is not kept waiting

    def _observe(self, fault: Optional[Fault]) -> None:
        """Reports that the connection has broken or is back. When nobody needs it any longer, it counts as back."""
        if self._is_down == bool(fault):
            return
        self._is_down, address, observer = bool(fault), self.server.address, self.locks._observer
        if fault:
            log.warning("%s: the connection that polls the session is lost: %s", address, fault.text)
        else:
            log.info("%s: the session is polled again, or not needed any more", address)
        if observer:
            error = (fault.cause or ConnectionError(fault.text)) if fault else None
            self.world.spawn(notify(observer.connection, address, error))

    async def _relocate(self) -> None:
        """Redirects the claims of a node that does not answer, if another node may have their keys now."""
        self.world.spawn(self.locks._servers.refresh())
        for claim in self.do(lambda: [*self.state.grants.values(), *self.state.waits.values()]):
            server = await self.locks._servers.find(claim.key)
            if server is not self.server:
                self.do(self.state.relocate, claim)

    # Grants that end by time.

    async def _tick(self) -> None:
        """Ends grants by time."""
        while not self.locks._is_closed:
            for claim in self.do(self.state.ripe):
                self.world.spawn(self.locks._repeat(claim.key, claim.release_command()))
            self._alarm = self.state.next_end
            await self._rewind.wait(self._alarm - monotonic())

    async def close(self) -> None:
        """Releases what the session holds, or else each grant, and ends the loop. The client is marked as closed."""
        end = monotonic() + 2 * self.locks._reply
        sessions, grants = self.do(self.state.close)
        self._needed.set()
        self._rewind.set()
        for session in sessions:
            _, reply, *_ = await self.locks._repeat("", ("LOCK.SESSION", "CLOSE", session), self.server, end)
            if not isinstance(reply, Fault):
                grants = [claim for claim in grants if claim.session != session]
        for claim in grants:
            await self.call(min(self.locks._reply, end - monotonic()), claim.release_command())
        self.poller.close()
        if polling := self.polling:
            await self.world.join(polling, max(0.1, end - monotonic()))
        self.wire.close()
