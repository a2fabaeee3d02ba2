"""Tasks, and what a caller holds: acquiring, holding and releasing, for threads and for asyncio. The code is the same,
and what it awaits differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from time import monotonic
from typing import Any, NamedTuple, Optional, Union

from ._node import Node, Pauses
from .errors import LockBusy, LockError, LockMisuse
from .observer import log
from .servers import Server
from .state import Claim, Fault, Owner
from .state.claims import HELD, IN_LINE, LOST, milliseconds
from .state.faults import made
from .state.waits import Ask

LEAST_LEASE = 1.0  # the shortest that the server renews
INTERRUPTED = Fault("the call was interrupted")


class Terms(NamedTuple):
    """How a lock is acquired. A fixed lease is not renewed."""

    mode: tuple[Any, ...]
    lease: float
    fixed: bool
    wait: Optional[float]
    max_hold: Optional[float]
    on_lost: Optional[Callable[[Any], object]]
    stop: Optional[Callable[[], bool]]


class Task:
    """One owner for all locks of one piece of work, made by `Locks.task`: it enters a lock again that it holds, and
    the server finds a deadlock among tasks. Pass it along with the work; never share it between two."""

    def __init__(self) -> None:
        self._owner = Owner()
        self._held: dict[str, Any] = {}

    def _grant(self, key: str) -> Any:
        held = self._held.get(key)
        return held if held is not None and held._claim.phase is HELD and held._is_ours else None

    def _remember(self, grant: Any) -> None:
        self._held = {key: it for key, it in self._held.items() if it._claim.phase is HELD}
        self._held[grant.key] = grant


class Holding:
    """A grant, in both worlds."""

    def __init__(self, locks: Any, node: Node, terms: Terms) -> None:
        self._locks, self._common, self._node, self._terms = locks, locks._common, node, terms
        self._claim: Claim
        self._signal: Any = None  # wakes the caller of an acquire
        self._turn = node.world.turn()  # of the calls about the grant
        self._taken = 0.0
        self._calls = [terms.on_lost] if terms.on_lost else []
        self._is_reported = False
        # Of the acquire: where the last reply led.
        self._at: Optional[Server] = None
        self._asking = False

    def __repr__(self) -> str:
        return f"<Grant of {self.key}: {self._claim.phase}, token {self.token}>"

    @property
    def key(self) -> str:
        """The key of the lock, with the client's prefix."""
        return self._claim.key

    @property
    def owner(self) -> str:
        """The holder, to the server."""
        return self._claim.owner

    @property
    def token(self) -> int:
        """The fencing token: later grants of the lock have higher ones."""
        return self._claim.token

    @property
    def held(self) -> bool:
        """Whether nobody else has the lock, by the clock alone. False also while the server is silent."""
        return self.remaining > 0

    @property
    def remaining(self) -> float:
        """The seconds for which `held` stays true without another reply of the server."""
        return self._node.do(self._node.state.remaining, self._claim) if self._is_ours else 0.0

    @property
    def lost(self) -> Optional[str]:
        """The reason of the loss, or None: the grant is not lost."""
        return self._claim.reason or None

    @property
    def _is_ours(self) -> bool:
        """Whether it was acquired in this process, and this event loop."""
        return self._common is self._locks._common

    def _require_ours(self) -> None:
        if not self._is_ours:
            raise made(LockMisuse, self.key, "the grant belongs to the parent process, or to another event loop")

    def _on_lost(self, call: Callable[[Any], object]) -> None:
        with self._node.mutex:
            if not self._is_reported:
                self._calls.append(call)
                return
        self._node.world.notify([partial(call, self)])

    def _wake(self) -> None:
        """Has the caller of an acquire look again, and reports a loss, once. The mutex is held."""
        if self._signal:
            self._signal.set()
        claim = self._claim
        if claim.phase is not LOST or not claim.handed_over or self._is_reported:
            return
        self._is_reported = True
        log.warning("%s: lost: %s", claim.key, claim.reason)
        calls: list[Callable[[], object]] = [partial(call, self) for call in self._calls]
        if self._common.observer:
            error = self._node.state.lost_error(claim)
            calls.append(partial(self._common.observer.lost, claim.key, error))
        if calls:
            self._node.world.notify(calls)
        self._stop_work()

    def _begin_work(self) -> None:
        """A block works under the lock, in this task."""

    def _stop_work(self) -> None:
        """The lock was lost while its block works."""

    # The acquire.

    async def _ask(self) -> None:
        """Asks until there is a grant, or raises. The loop brings the events of a place in line."""
        claim, pauses = self._claim, Pauses()
        while True:
            unplaced = await self._place() if self._common.servers.is_cluster else None
            node = self._node
            step = node.do(self._step, node)
            if step is None:
                return
            if not isinstance(step, Ask):
                await self._signal.wait(step, self._terms.stop)
                continue
            sent, reply = monotonic(), INTERRUPTED
            try:
                reply = unplaced or await node.wire.call(step.limit, step.command, self._asking)
            finally:
                node.do(node.state.answer, claim, step, sent, reply)
            if isinstance(reply, Fault) and reply.passing:
                self._at, self._asking = self._common.redirected(node.server, reply)
                if not self._at:
                    await self._pause(node, pauses.next())

    def _step(self, node: Node) -> Union[None, float, Ask]:
        claim = self._claim
        step = node.state.step(claim)
        if step is None:
            return None
        if self._terms.stop and self._terms.stop():
            if isinstance(step, Ask):
                node.state.answer(claim, step, 0.0, Fault("it was not sent", sent=False))
            raise made(LockBusy, claim.key, "the wait was stopped")
        if claim.needs_session and (not node.is_running or claim.phase is not IN_LINE and not isinstance(step, Ask)):
            node.run()
        if not isinstance(step, Ask):
            self._signal = self._signal or node.world.signal()
        return step

    async def _pause(self, node: Node, seconds: float) -> None:
        """Pauses; a change of the claim ends it."""
        if seconds > 0:
            self._signal = self._signal or node.world.signal()
            await self._signal.wait(seconds, self._terms.stop)

    async def _place(self) -> Optional[Fault]:
        """A wait without a place goes to the node of the cluster that has the key now."""
        server = self._at
        if server is None:
            found = await self._common.servers.find(self.key)
            if isinstance(found, Fault):
                return found
            server = found
        if server is not self._node.server:
            to = self._common.node(server)
            old = self._node
            self._node = to if old.do(old.state.move, self._claim, to.state) else old
        return None

    async def _give_up(self) -> None:
        """Makes sure that the owner neither holds the lock nor waits for it."""
        node, claim = self._node, self._claim
        call = node.do(node.state.give_up, claim)
        if call is None:
            return
        reply: Any = INTERRUPTED
        try:
            limit = min(self._common.reply, claim.last - monotonic())
            reply = await node.wire.call(limit, claim.cancel_command(), self._asking)
        finally:
            node.do(node.state.cancel_answered, claim, call, reply)

    def _start(self) -> None:
        """The grant was handed over."""
        self._taken = monotonic()
        if self._claim.fixed or self._terms.max_hold is not None:
            self._node.do(self._node.time, self._claim, self._terms.max_hold)

    async def _take_out(self) -> None:
        """Takes a grant with a fixed lease out of the session in which it waited."""
        claim = self._claim
        call = self._node.do(self._node.state.begin, claim)
        command = claim.renew_command("PX", milliseconds(claim.lease), "SESSION", 0)
        await self._call(call, command, lambda state, sent, reply, _: state.taken_out(claim, sent, reply))

    # The grant.

    async def _call(self, call: int, command: tuple[Any, ...], apply: Callable[..., Any]) -> Any:
        """Makes a call about the grant, which `begin` has registered, and applies its last reply."""
        sent, reply, was_open = monotonic(), INTERRUPTED, True

        def end() -> Any:
            try:
                return apply(self._node.state, sent, reply, was_open)
            finally:
                self._node.state.end_call(call)

        try:
            sent, reply, was_open = await self._common.repeat(self._claim.key, command)
        except BaseException:
            try:
                self._node.do(end)
            except LockError:
                pass  # the interruption is raised
            raise
        return self._node.do(end)

    async def _confirm(self, command: Callable[[], tuple[Any, ...]], begin: Any = None, **how: bool) -> None:
        """Makes a call that shows whether the grant stands."""
        self._require_ours()
        claim, state = self._claim, self._node.state
        async with self._turn:
            call = self._node.do(begin or partial(state.begin, claim))
            await self._call(call, command(), lambda state, sent, reply, _: state.confirmed(claim, sent, reply, **how))

    async def _check(self) -> None:
        await self._confirm(lambda: ("LOCK.FENCE", self.key, self.token))

    async def _extend(self, lease: float) -> None:
        claim, state = self._claim, self._node.state
        if lease < 0.001 or lease < LEAST_LEASE and not claim.fixed:
            raise made(LockMisuse, claim.key, "a lease is at least 1 second, or 1 millisecond if it is fixed")
        await self._confirm(lambda: claim.renew_command("PX", milliseconds(lease)),
                            partial(state.begin_extend, claim, lease), renewal=True)

    async def _raise_token(self, token: int) -> None:
        """Lifts the token, for a quorum over several servers."""
        await self._confirm(lambda: self._claim.renew_command("RAISE", token))

    async def _enter_again(self, mode: tuple[Any, ...]) -> None:
        """Adds a hold."""
        claim = self._claim
        await self._confirm(lambda: ("LOCK.ACQUIRE", claim.key, claim.owner, *mode, "PX", milliseconds(claim.lease),
                                     "HOLDS", claim.holds + 1, "TOKEN", claim.token), entry=True)

    async def _release(self) -> None:
        self._require_ours()
        claim, node, error = self._claim, self._node, None
        try:
            async with self._turn:
                call, command = node.do(node.state.begin_release, claim)
                error = await self._call(
                    call, command, lambda state, _, reply, was_open: state.released(claim, reply, was_open))
        except LockError as failure:
            error = failure
        if self._common.observer:
            safely(self._common.observer.released, claim.key, monotonic() - self._taken, error)
        if error:
            raise error

    async def _detach(self, lease: float) -> None:
        self._require_ours()
        claim = self._claim
        if lease < 0.001:
            raise made(LockMisuse, claim.key, "a lease is at least 1 millisecond")
        async with self._turn:
            call = self._node.do(self._node.state.begin_detach, claim)
            error = await self._call(call, claim.renew_command("PX", milliseconds(lease), "SESSION", 0),
                                     lambda state, _, reply, __: state.detached(claim, reply))
        if error:
            raise error

    async def _exit(self, error: Optional[BaseException]) -> None:
        """The end of a block. An error of the block is not replaced by one of the release."""
        if not self._is_ours:
            return  # the lock is the parent's
        try:
            await self._release()
        except LockError as failure:
            if error is None:
                raise
            attach(error, failure)

    async def _resolve(self) -> None:
        """Asks for a grant where its key is now: a node of the cluster has deleted or redirected it."""
        claim, common, pauses = self._claim, self._common, Pauses()
        end = monotonic() + 2 * common.reply
        server: Optional[Server] = None
        asking = False
        while True:
            reply: Any = None
            node, session, sent, call = self._node, 0, monotonic(), 0
            if server is None:
                found = await common.servers.find(claim.key)
                server, reply = (None, found) if isinstance(found, Fault) else (found, None)
            if server:
                node = common.node(server)
                session = await node.session(end)
                sent = monotonic()
                call = node.do(node.state.begin_call, claim.name)
                command = claim.renew_command("SESSION", session)
                reply = await node.wire.call(min(common.reply, end - sent), command, asking)
            rest = pauses.next()
            passing = isinstance(reply, Fault) and reply.passing
            if not passing or monotonic() + rest >= end:
                if self._node.do(self._node.state.resolve, claim, node.state, session, sent, reply):
                    self._node = node
                node.do(node.state.end_call, call)
                return
            node.do(node.state.end_call, call)
            server, asking = common.redirected(server, reply)
            if not server:
                await node.world.sleep(rest)


def safely(call: Callable[..., object], *args: object) -> None:
    """Calls what the user has given."""
    try:
        call(*args)
    except Exception:
        log.exception("an observer failed")


def attach(error: BaseException, failure: BaseException) -> None:
    """Adds the error of a release to that of the work."""
    add_note = getattr(error, "add_note", None)
    if add_note:
        add_note(f"The release failed, too: {failure!r}")
    else:
        log.warning("the release failed, too: %r", failure)


async def release_all(grants: Iterable[Any], error: Optional[BaseException]) -> None:
    """Releases several grants, the last one first. The first error is raised at the end, unless there is one already."""
    raised: Optional[LockError] = None
    for grant in reversed(list(grants)):
        try:
            await grant._exit(raised or error)
        except LockError as failure:
            raised = failure
    if raised:
        raise raised
