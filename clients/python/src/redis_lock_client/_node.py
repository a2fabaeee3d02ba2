"""One server: what is known of it, and the loop that polls its session. For threads and for asyncio."""

from __future__ import annotations

import inspect
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Optional, TypeVar, Union

from .errors import LockMisuse
from .observer import Observer, log
from .servers import Server, Servers
from .state import Claim, Fault, State
from .state.claims import milliseconds
from .state.faults import Command
from .state.session import Plan

T = TypeVar("T")
PART = 500  # commands in one pipeline, so that each reply has its time
UNSENT = Fault("the connection was lost before", sent=False)
OLD_PRIMARY = ("READONLY", "UNBLOCKED", "MASTERDOWN")  # an address may lead to a new one


def pause(tries: int) -> float:
    """The time before the next try: none at first, then from 50 ms growing to 1 s, with jitter."""
    return min(0.05 * 2 ** min(tries - 1, 5), 1.0) * random.uniform(0.5, 1) if tries > 0 else 0.0


def pauses() -> Iterator[float]:
    """The times between tries."""
    return map(pause, itertools.count())


async def notify(call: Callable[..., object], *args: object) -> None:
    """Calls what the user gave."""
    result = call(*args)
    if inspect.isawaitable(result):
        await result


@dataclass
class Common:
    """The state that the nodes of one client share."""

    world: Any  # of threads, or of asyncio
    servers: Servers
    name: str
    lease: float
    silence: float
    reply: float
    observer: Optional[Observer]
    is_closed: bool = False
    nodes: dict[Server, Node] = field(default_factory=dict)

    async def locate(self, key: str, server: Optional[Server] = None) -> Node | Fault:
        """The node that has the key, or this server."""
        found = server or await self.servers.find(key)
        if isinstance(found, Fault):
            return found
        with self.world.mutex:
            if found not in self.nodes:
                if self.is_closed:
                    raise LockMisuse("the client is closed")
                self.nodes[found] = Node(self, found)
            return self.nodes[found]

    async def repeat(self, key: str, command: Command, server: Optional[Server] = None,
                     end: Optional[float] = None) -> tuple[float, Any, bool, Node | Fault]:
        """Sends a command about a key until it is answered, for two reply timeouts. Returns when it was sent last, the
        last reply, whether an earlier try had none, and the last node."""
        end = end or monotonic() + 2 * self.reply
        to, tries, asking, was_open = server, pauses(), False, False
        while True:
            sent, node = monotonic(), await self.locate(key, to)
            reply: Any = node
            if isinstance(node, Node):
                reply = await node.call(min(self.reply, end - sent), command, asking)
            is_final = reply.__class__ is not Fault or not reply.passing or reply.word == "NOSESSION"
            if is_final or monotonic() + (rest := next(tries)) >= end:
                return sent, reply, was_open, node
            was_open = was_open or reply.no_reply
            to, asking = self.redirected(node, reply)
            if to is None:
                await self.world.signal().wait(rest)
                to = server

    def redirected(self, node: Node | Fault, reply: Any) -> tuple[Optional[Server], bool]:
        """Where a reply leads, and whether ASKING precedes the command there."""
        to = self.servers.redirected(node.server, reply) if isinstance(node, Node) else None
        if to:
            self.world.spawn(self.servers.refresh())
        return to, bool(to) and reply.word == "ASK"


class Node:
    """A server, with what is known of it."""

    def __init__(self, common: Common, server: Server) -> None:
        self.common, self.world, self.server = common, common.world, server
        self.mutex = common.world.mutex
        opening = ("LOCK.SESSION", "OPEN", "TIMEOUT", milliseconds(common.silence), "NAME", common.name)
        self.state = State(server.address, common.lease, common.reply, common.servers.is_cluster, opening)
        self.wire = self.world.wire(server)
        self.poller = self.world.wire(server)  # the connection of the session
        self.is_running = False  # its loop
        self._loop: Any = None
        self._is_down = False  # the connection of the session, to the observer
        self._needed = self.world.signal()  # ends a pause of the loop
        self._clock: Any = None  # what ends grants by time
        self._rewind = self.world.signal()

    def do(self, function: Callable[..., T], *args: Any) -> T:
        """Calls a function of the state, alone. Afterwards the callers of changed claims are woken."""
        state = self.state
        with self.mutex:
            state.at = monotonic()
            try:
                return function(*args)
            finally:
                if state.changed or state.unfinished:
                    self._flush(state)

    def _flush(self, state: State) -> None:
        changed, state.changed = state.changed, []
        for claim in changed:
            claim.caller._wake()
        if state.unfinished and not self.is_running:
            self.run()

    async def call(self, limit: float, command: Command, asking: bool = False) -> Any:
        """Sends a command once. Returns the reply or a Fault. Between two POLLs it goes together with the next one, which
        spares the server most of its cost. For that both connections must be idle: then they are known to work."""
        is_held = self.poller.has_room and self.wire.has_room and not self.common.is_closed
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
        if not self.common.is_closed:
            self._needed.set()
            if not self.is_running:
                self.is_running = True
                self._loop = self.world.spawn(self.loop())

    async def loop(self) -> None:
        """Polls the session. Other calls go with its POLLs, or over another connection. It runs no code of the user."""
        try:
            fault: Optional[Fault] = None
            while plan := self.do(self._plan, fault):
                began = monotonic()
                if self.poller.is_over:
                    self.poller = self.world.wire(self.server)
                fault = await self._send(plan)
                if fault and self.do(self.state.failed, began, fault):
                    self.poller.close()
                    if not self._is_over(fault):
                        await self._pause(fault)
                else:
                    fault = None
                    self._observe(None)
                    await self.world.pause()  # what they send now goes together with the next POLL
        except BaseException:  # its event loop ends
            self.is_running = False
            self.poller.close()
            raise

    def _is_over(self, fault: Optional[Fault]) -> bool:
        """Whether the loop ends. One that has failed starts again when it is needed."""
        return self.common.is_closed or bool(fault) and self.state.is_idle

    def _plan(self, fault: Optional[Fault]) -> Optional[Plan]:
        """What to send next, if anything."""
        if not self._is_over(fault):
            return self.state.plan()
        self._observe(None)
        self.poller.close()
        self.is_running = False
        return None

    async def _send(self, plan: Plan) -> Optional[Fault]:
        """Sends commands, and applies the replies. Returns what failed; after that no more is sent."""
        fault: Optional[Fault] = None
        for begin in range(0, len(plan.commands), PART):
            part = plan.commands[begin:begin + PART]
            sent, replies = monotonic(), [UNSENT] * len(part)
            if not fault:
                replies = await self.poller.send(plan.limit, *(command for command, _ in part))
                fault = next((it for it in replies if it.__class__ is Fault and not (plan.is_due and it.word)), None)
            if plan.is_due or not fault:
                self.do(lambda: [apply(sent, reply) for (_, apply), reply in zip(part, replies)])  # noqa: B023
        return fault

    async def _pause(self, fault: Fault) -> None:
        self._observe(fault)
        if self.common.servers.is_cluster:
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
        self._is_down, address, observer = bool(fault), self.server.address, self.common.observer
        if fault:
            log.warning("%s: the connection that polls the session is lost: %s", address, fault.text)
        else:
            log.info("%s: the session is polled again, or not needed any more", address)
        if observer:
            error = (fault.cause or ConnectionError(fault.text)) if fault else None
            self.world.spawn(notify(observer.connection, address, error))

    async def _relocate(self) -> None:
        """Redirects the claims of a node that does not answer, if another node may have their keys now."""
        self.world.spawn(self.common.servers.refresh())
        for claim in self.do(self.state.claims):
            server = await self.common.servers.find(claim.key)
            if isinstance(server, Server) and server is not self.server:
                self.do(self.state.relocate, claim)

    # Grants that end by time.

    def time(self, claim: Claim, max_hold: Optional[float]) -> None:
        """A grant was handed over, which ends by time. The mutex is held."""
        if self.state.time(claim, max_hold):
            self.rewind()

    def rewind(self) -> None:
        """Looks again when the next grant ends by time. The mutex is held."""
        self._rewind.set()
        self._clock = self._clock or self.world.spawn(self._tick())

    async def _tick(self) -> None:
        """Ends grants by time."""
        while not self.common.is_closed:
            for claim in self.do(self.state.ripe):
                self.world.spawn(self.common.repeat(claim.key, claim.release_command()))
            await self._rewind.wait(self.state.next_end - monotonic())

    async def close(self) -> None:
        """Releases what the session holds, or else each grant, and ends the loop. The client is marked as closed."""
        end = monotonic() + 2 * self.common.reply
        sessions, grants = self.do(self.state.close)
        self._needed.set()
        self._rewind.set()
        closed = set()
        for session in sessions:
            _, reply, *_ = await self.common.repeat("", ("LOCK.SESSION", "CLOSE", session), self.server, end)
            if not isinstance(reply, Fault):
                closed.add(session)
        for claim in grants:
            if claim.session not in closed:
                await self.call(min(self.common.reply, end - monotonic()), claim.release_command())
        self.poller.close()
        if self._loop:
            await self.world.join(self._loop, max(0.1, end - monotonic()))
        self.wire.close()
