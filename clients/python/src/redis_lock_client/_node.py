"""One server: what is known of it, and the loop that polls its session. For threads and for asyncio."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Optional, TypeVar

from .observer import Observer, log
from .servers import Server, Servers
from .state import Claim, Fault, State

T = TypeVar("T")
PART = 500  # commands in one pipeline, so that each reply has its time


class Pauses:
    """The times between tries: none at first, then from 50 ms growing to 1 s, with jitter."""

    __slots__ = ("_tries",)

    def __init__(self) -> None:
        self._tries = 0

    def next(self) -> float:
        """The next one."""
        self._tries += 1
        if self._tries == 1:
            return 0.0
        longest: float = min(0.05 * 2 ** min(self._tries - 2, 10), 1.0)
        return longest * random.uniform(0.5, 1)


@dataclass
class Common:
    """What the nodes of one client have in common."""

    world: Any  # of threads, or of asyncio
    servers: Servers
    name: str
    lease: float
    silence: float
    reply: float
    observer: Optional[Observer]
    is_closed: bool = False
    nodes: dict[Server, Node] = field(default_factory=dict)

    def node(self, server: Server) -> Node:
        """What is known of a server."""
        node = self.nodes.get(server)
        if node is None:
            with self.world.mutex:
                node = self.nodes.get(server) or self.nodes.setdefault(server, Node(self, server))
        return node

    async def repeat(self, key: str, command: tuple[Any, ...], server: Optional[Server] = None,
                     end: Optional[float] = None) -> tuple[float, Any, bool]:
        """Sends a command about a key until it is answered, for two reply timeouts. Returns when it was sent last, the
        last reply, and whether an earlier try had none."""
        reply_limit = self.reply
        end = end or monotonic() + 2 * reply_limit
        pauses: Optional[Pauses] = None
        server, asking, was_open = server or self.servers.only, False, False
        while True:
            reply: Any = None
            if server is None:
                found = await self.servers.find(key)
                server, reply = (None, found) if isinstance(found, Fault) else (found, None)
            sent = monotonic()
            if server:
                reply = await self.node(server).wire.call(min(reply_limit, end - sent), command, asking)
            if reply.__class__ is not Fault or not reply.passing or reply.word == "NOSESSION":
                return sent, reply, was_open
            pauses = pauses or Pauses()
            rest = pauses.next()
            if monotonic() + rest >= end:
                return sent, reply, was_open
            was_open = was_open or reply.no_reply
            server, asking = self.redirected(server, reply)
            if server is None:
                await self.world.sleep(rest)
                server = self.servers.only

    def redirected(self, server: Optional[Server], reply: Any) -> tuple[Optional[Server], bool]:
        """Where a reply leads, and whether ASKING precedes the command there."""
        to = self.servers.redirected(server, reply) if server else None
        if to:
            self.world.spawn(self.servers.refresh())
        return to, bool(to) and reply.word == "ASK"


class Node:
    """A server, with what is known of it."""

    def __init__(self, common: Common, server: Server) -> None:
        self.common, self.world, self.server = common, common.world, server
        self.mutex = common.world.mutex
        self.state = State(server.address, common.lease, common.reply, common.servers.is_cluster)
        self.wire = self.world.wire(server)
        self.poller = self.world.poller(server)
        self.is_running = False  # its loop
        self._is_down = False  # its connection, to the observer
        self._loop: Any = None
        self._needed = self.world.signal()  # ends a pause of the loop
        self._clock: Any = None  # what ends grants by time
        self._clock_due = 0.0
        self._rewind = self.world.signal()

    def do(self, function: Callable[..., T], *args: Any) -> T:
        """Calls a function of the state, alone. Afterwards the callers of changed claims are woken."""
        state = self.state
        with self.mutex:
            state.at = monotonic()
            try:
                return function(*args)
            finally:
                if state.changed or state.elsewhere or state.misplaced:
                    self._flush(state)

    def _flush(self, state: State) -> None:
        changed, state.changed = state.changed, []
        elsewhere, state.elsewhere = state.elsewhere, []
        misplaced, state.misplaced = state.misplaced, []
        for claim in changed:
            claim.caller._wake()
        for claim in elsewhere:
            self.world.spawn(claim.caller._resolve())
        for command in misplaced:
            self.world.spawn(self.common.repeat(command[1], command))

    def run(self) -> None:
        """Starts the loop, if it is not running, and ends its pause. The mutex is held."""
        if self.common.is_closed:
            return
        self._needed.set()
        if not self.is_running:
            self.is_running = True
            self._loop = self.world.spawn(self.loop())

    async def loop(self) -> None:
        """Polls the session. It alone uses the session's connection, and runs no code of the user."""
        pauses, was_unknown = Pauses(), False
        try:
            while True:
                began = monotonic()
                is_unknown, fault = await self._round()
                if fault:
                    self.poller.close()
                is_unsure, is_over = self.do(self._after, began, fault)
                if is_over:
                    return
                if fault and self.common.servers.is_cluster:
                    await self._relocate()
                if not fault and not (is_unknown and was_unknown):
                    pauses, was_unknown = Pauses(), is_unknown
                    continue
                was_unknown = is_unknown
                pause = pauses.next()
                await self._rest(min(pause, 0.1) if is_unsure else pause)
        except BaseException:  # its event loop ends
            self.is_running = False
            self.poller.close()
            raise

    def _after(self, began: float, fault: Optional[Fault]) -> tuple[bool, bool]:
        """What follows a round: whether a grant is about to be judged, and whether the loop ends."""
        if fault:
            self.state.failed(began, fault)
        self._observe(fault)
        is_over = self.common.is_closed or bool(fault) and self.state.is_idle  # it starts again when it is needed
        if is_over:
            self._observe(None)
            self.poller.close()
            self.is_running = False
        return self.state.is_unsure(), is_over

    def _observe(self, fault: Optional[Fault]) -> None:
        """Reports that the connection has broken or is back. When nobody needs it any more, it counts as back."""
        is_down = bool(fault) and not self.common.is_closed
        if is_down == self._is_down:
            return
        self._is_down = is_down
        if fault and is_down:
            log.warning("%s: the connection that polls the session is lost: %s", self.server.address, fault.text)
        else:
            log.info("%s: the session is polled again", self.server.address)
        observer = self.common.observer
        if observer:
            error = (fault.cause or ConnectionError(fault.text)) if fault and is_down else None
            self.world.notify([lambda: observer.connection(self.server.address, error)])

    async def _rest(self, pause: float) -> None:
        """Pauses; but a call that needs a session is not kept waiting."""
        if self.common.is_closed or pause <= 0:
            return
        await self.world.sleep(min(pause, 0.05))
        if pause > 0.05 and not self.common.is_closed:
            await self._needed.wait(pause - 0.05)

    async def _round(self) -> tuple[bool, Optional[Fault]]:
        """Opens a session if there is none, sends what is due, and polls once. Returns whether the session has ended,
        and what failed."""
        state, common = self.state, self.common
        self.do(state.leave_session)
        if not state.session:
            command = ("LOCK.SESSION", "OPEN", "TIMEOUT", int(common.silence * 1000), "NAME", common.name)
            [opened] = await self.poller.send(common.reply, command)
            if not isinstance(opened, int):
                return False, opened if isinstance(opened, Fault) else Fault("OPEN answered no session")
            self.do(state.opened, opened)
            if common.is_closed:
                await self.poller.send(common.reply, ("LOCK.SESSION", "CLOSE", opened))
                return False, None
        fault = None
        due = self.do(state.due)
        for begin in range(0, len(due), PART):
            part = due[begin:begin + PART]
            sent = monotonic()
            replies = [fault] * len(part) if fault else await self.poller.send(common.reply, *(command for command, _ in part))
            self.do(lambda: [apply(sent, reply) for (_, apply), reply in zip(part, replies)])  # noqa: B023
            fault = next((it for it in replies if isinstance(it, Fault) and not it.word), fault)
            if fault:
                fault = Fault(fault.text, fault.cause, sent=False)
        if fault:
            return False, fault
        (poll, block), sent = self.do(lambda: (state.begin_poll(), state.at))
        [polled] = await self.poller.send(common.reply + block, state.poll_command(block))
        if not isinstance(polled, Fault):
            self.do(state.polled, poll, sent, polled)
            return False, None
        if polled.word == "NOSESSION":
            self.do(state.ended)
            return True, None
        return False, polled

    async def session(self, end: float) -> int:
        """The session, or 0 if there is none until then."""
        while True:
            with self.mutex:
                session = self.state.session
                if not session or not self.is_running:
                    self.run()
            if session or monotonic() >= end:
                return session
            await self.world.sleep(0.001)

    async def _relocate(self) -> None:
        """Sends on what a node that does not answer may have lost to another node."""
        claims = self.do(self.state.claims)
        self.world.spawn(self.common.servers.refresh())
        for claim in claims:
            server = await self.common.servers.find(claim.key)
            if isinstance(server, Server) and server is not self.server:
                self.do(self.state.relocate, claim)

    def time(self, claim: Claim, max_hold: Optional[float]) -> None:
        """A grant was handed over, which may end by time. The mutex is held."""
        due = self.state.time(claim, max_hold)
        if due < self._clock_due or due < 1e12 and not self._clock:
            self._clock_due = due
            self._rewind.set()
            self._clock = self._clock or self.world.spawn(self._tick())

    async def _tick(self) -> None:
        """Ends grants by time."""
        while not self.common.is_closed:
            releases = self.do(self._ripe)
            for claim, command in releases:
                self.world.spawn(self._cut(claim, command))
            await self._rewind.wait(min(self._clock_due - monotonic(), 3600.0))

    def _ripe(self) -> list[tuple[Claim, tuple[Any, ...]]]:
        self._clock_due, releases = self.state.ripe()
        return releases

    async def _cut(self, claim: Claim, command: tuple[Any, ...]) -> None:
        _, reply, _ = await self.common.repeat(claim.key, command)
        self.do(self.state.cut_answered, claim, reply)

    async def close(self) -> None:
        """Releases what the session holds, or else each grant, and ends the loop. The client is marked as closed."""
        end = monotonic() + 2 * self.common.reply
        sessions, grants = self.do(self.state.close)
        self._needed.set()
        self._rewind.set()
        closed = set()
        for session in sessions:
            _, reply, _ = await self.common.repeat("", ("LOCK.SESSION", "CLOSE", session), self.server, end)
            if not isinstance(reply, Fault):
                closed.add(session)
        for claim in grants:
            if claim.session not in closed:
                await self.wire.call(min(self.common.reply, end - monotonic()), claim.release_command())
        self.poller.close()
        if self._loop:
            await self.world.join(self._loop, max(0.1, end - monotonic()))
        self.wire.close()
