"""The locks of one program: what threads and asyncio have in common."""

from __future__ import annotations

import itertools
import os
import re
import socket
import sys
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from time import monotonic
from typing import Any, Generic, Optional, TypeVar, Union

from ._holding import Holding, release_all
from ._node import Node, notify, pauses
from .errors import LockBusy, LockLost, LockMisuse, LockUnavailable
from .observer import Observer, safely
from .servers import Server, Servers
from .state import Claim, Fault, Task, Terms
from .state.claims import HELD, LEAST_LEASE
from .state.faults import Command
from .state.grants import ENTER

Key = Union[str, bytes]
G = TypeVar("G", bound=Holding)


class Locking(Generic[G]):
    """The locks of one program, in both worlds."""

    _make_world: Callable[[], Any]
    _grant: type[G]
    _is_async = False

    def __init__(self, client: Any, *, name: Optional[str] = None, lease: float = 10.0, silence: float = 30.0,
                 reply: float = 1.0, prefix: str = "", observer: Optional[Observer] = None) -> None:
        """- `client`: a Redis (also of `Sentinel.master_for`) or a RedisCluster of redis-py, for its settings.
        - `name`: begins each owner and names the session; by default the name of the program.
        - `lease`: how long others wait for a lock when this process has died; seconds, at least 1.
        - `silence`: how long the process may be suspended and keep its locks; seconds, at least 1.
        - `reply`: how long one reply of the server may take, connecting included; seconds.
        - `prefix`: begins the key of each lock.
        - `observer`: is notified of what happens, for metrics.

        Raises LockMisuse for another kind of client, or a time that is too short."""
        if lease < LEAST_LEASE or silence < LEAST_LEASE:
            raise LockMisuse("lease and silence must be at least 1 second")
        if reply <= 0:
            raise LockMisuse("reply must be more than 0 seconds")
        self.client, self.lease = client, lease  # as they were given
        self._servers = Servers(client, self._is_async, reply)
        self._name = printable(name or os.path.basename(sys.argv[0] if sys.argv else "") or "python")
        self._silence, self._reply, self._prefix, self._observer = silence, reply, prefix, observer
        self._nodes: dict[Server, Node] = {}
        self._reset()
        _all.add(self)

    def _reset(self) -> None:
        """Starts again: nothing is held. In a child it lets go of the connections of the parent."""
        self._world, self._is_closed = self._make_world(), False
        nodes, self._nodes = self._nodes, {}
        self._process = f"{self._name}:{printable(socket.gethostname())}:{os.getpid()}:{os.urandom(9).hex()}-"
        self._number = itertools.count(1)
        for node in nodes.values():
            node.wire.abandon()
            node.poller.abandon()

    def task(self) -> Task:
        """Makes an owner for several locks of one piece of work: for re-entry, and so that deadlocks are found.

        >>> task = locks.task()
        >>> with locks.lock("lock:orders:42", task=task), locks.lock("lock:orders:42", task=task) as again:
        ...     again.held
        True
        """
        return Task()

    def _bind(self) -> None:
        """Called before each acquire."""

    def _terms(self, wait: Optional[float], shared: bool, permits: Optional[int], lease: Optional[float],
               max_hold: Optional[float], on_lost: Any, stop: Any = None) -> Terms:
        if shared and permits is not None:
            raise LockMisuse("a lock cannot both be shared and have permits")
        if permits is not None and not 1 <= permits < 2**31:
            raise LockMisuse("a semaphore must have 1 to 2^31 - 1 permits")
        if lease is not None and lease < 0.001 or max_hold is not None and max_hold <= 0:
            raise LockMisuse("a lease must be at least 1 millisecond, and max_hold more than 0")
        self._bind()
        mode = ("SHARED",) if shared else () if permits is None else ("LIMIT", permits)
        wait = None if wait is None else max(0.0, wait)
        fixed = lease is not None
        return Terms(mode, self.lease if lease is None else lease, fixed, wait, max_hold, on_lost, stop)

    def _full(self, key: Key) -> str:
        """The key with the prefix."""
        text = key.decode("utf-8", "surrogateescape") if isinstance(key, bytes) else key
        if not isinstance(text, str):
            raise LockMisuse(f"a key must be a str or bytes, not {type(key).__name__}")
        return self._prefix + text

    # Commands about a key.

    async def _locate(self, key: str, server: Optional[Server] = None) -> Node:
        """The node that has the key, or this server."""
        found = server or await self._servers.find(key)
        with self._world.mutex:
            if found not in self._nodes:
                if self._is_closed:
                    raise LockMisuse("the client is closed")
                self._nodes[found] = Node(self, found)
            return self._nodes[found]

    async def _repeat(self, key: str, command: Command, server: Optional[Server] = None,
                      end: Optional[float] = None) -> tuple[float, Any, bool, Node]:
        """Sends a command about a key until it is answered, for two reply timeouts. Returns when it was sent last, the
        last reply, whether an earlier try had none, and the last node."""
        end = end or monotonic() + 2 * self._reply
        to, tries, was_open = server, pauses(), False
        while True:
            sent, node = monotonic(), await self._locate(key, to)
            reply = await node.call(min(self._reply, end - sent), command, asking=to is not server)
            is_final = reply.__class__ is not Fault or not reply.passing or reply.word == "NOSESSION"
            if is_final or monotonic() + (rest := next(tries)) >= end:
                return sent, reply, was_open, node
            was_open = was_open or reply.no_reply
            to = self._redirected(node, reply) or server
            if to is server:
                await self._world.signal().wait(rest)

    def _redirected(self, node: Node, reply: Fault) -> Optional[Server]:
        """Where a reply leads. ASKING precedes each command there, as the node may not have the key yet."""
        to = self._servers.redirected(node.server, reply)
        if to:
            self._world.spawn(self._servers.refresh())
        return to

    # Acquires.

    async def _acquire(self, key: str, terms: Terms, task: Optional[Task] = None, owner: str = "", token: int = 0) -> G:
        """Acquires a lock. Without an owner it uses the task's, or a fresh one. token: of a grant to take over."""
        error: Optional[BaseException] = None
        begun = monotonic()
        if terms.mode[:1] == ("LIMIT",):
            task = None  # each permit is an owner of its own
        grant: Optional[G] = task.grants.get(key) if task else None
        try:
            if grant is not None and grant._claim.phase is HELD and grant._is_ours:
                await grant._exchange(ENTER, partial(grant._claim.enter_command, terms.mode))
            else:
                node = await self._locate(key)
                grant = node.do(self._register, node, key, terms, task, owner, token)
                await grant._acquire()
        except BaseException as raised:
            error = raised
            raise
        finally:
            if self._observer:
                safely(self._observer.acquired, key, monotonic() - begun, error)
        if task:
            task.grants[key] = grant
        return grant

    def _register(self, node: Node, key: str, terms: Terms, task: Optional[Task], owner: str, token: int) -> G:
        owner = owner or task and node.state.usable_owner(task) or f"{self._process}{next(self._number):x}"
        claim = Claim((key, owner), terms, node.state.at, task=task, adopts=token)
        grant = claim.caller = self._grant(self, node, claim)
        node.state.ask(claim)
        return grant

    async def _acquire_all(self, keys: Iterable[Key], terms: Terms) -> list[G]:
        task, grants = Task(), list[G]()
        end = None if terms.wait is None else monotonic() + terms.wait
        try:
            for key in sorted({self._full(key) for key in keys}):
                left = terms if end is None else terms._replace(wait=max(0.0, end - monotonic()))
                grants.append(await self._acquire(key, left, task))
            for grant in grants:  # while the others were waited for
                grant._node.do(grant._node.state.require_held, grant._claim)
        except BaseException as error:
            await release_all(grants, error)
            raise
        return grants

    async def _lead(self, key: str, work: Callable[[G], object], terms: Terms) -> None:
        tries, stopped = pauses(), terms.stop or (lambda: False)
        while not stopped():
            failed: Optional[BaseException] = None  # the work did, by itself
            try:
                grant = await self._acquire(key, terms)
                tries = pauses()
                try:
                    grant._begin_work()
                    await notify(work, grant)
                except BaseException as error:
                    failed = None if isinstance(error, LockLost) and grant.lost else error
                await grant._exit(failed)
            except (LockLost, LockUnavailable):
                failed = None
            except LockBusy:
                if not stopped():
                    raise
            if failed:
                raise failed
            await self._world.signal().wait(next(tries), terms.stop)

    async def _close(self) -> None:
        with self._world.mutex:
            nodes = [] if self._is_closed else list(self._nodes.values())
            self._is_closed = True
        if len(nodes) == 1:
            return await nodes[0].close()
        for closing in [self._world.spawn(node.close()) for node in nodes]:
            await self._world.join(closing, 2 * self._reply)


def printable(text: str) -> str:
    """A part of an owner."""
    return re.sub(r"[^!-~]", "_", text)[:80]


_all: weakref.WeakSet[Locking[Any]] = weakref.WeakSet()


def _after_fork() -> None:
    for locks in list(_all):
        locks._reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
