"""A holding: acquiring, holding and releasing a lock, for threads and for asyncio. The code is the same, and only the
awaited objects differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any, Optional

from ._node import Node, notify
from .errors import LockBusy, LockError, LockMisuse
from .observer import log, safely
from .servers import Server
from .state import Claim, Fault
from .state.claims import HELD, IN_LINE, LEAST_LEASE, LOST, RELEASED, milliseconds
from .state.faults import Command, made
from .state.grants import CHECK, DETACH, EXTEND, LEAVE, RELEASE, Call

INTERRUPTED = Fault("the call was interrupted")


class Holding:
    """A grant, in both worlds."""

    key: str
    """The key of the lock, with the client's prefix."""

    owner: str
    """The holder, to the server."""

    def __init__(self, locks: Any, node: Node, claim: Claim) -> None:
        self.key, self.owner = claim.name
        self._locks, self._node, self._claim = locks, node, claim
        self._signal = node.world.signal()  # wakes the caller of an acquire
        self._turn = node.world.turn()  # of the calls about the grant
        self._taken = 0.0
        self._calls = [claim.terms.on_lost] if claim.terms.on_lost else []
        self._is_reported = False
        self._at: Optional[Server] = None  # where the last reply to the acquire led

    def __repr__(self) -> str:
        return f"<Grant of {self.key}: {self._claim.phase}, token {self.token}>"

    @property
    def token(self) -> int:
        """The fencing token: later grants of the lock have higher ones."""
        return self._claim.token

    @property
    def held(self) -> bool:
        """Whether nobody else has the lock, by the clock alone. Also false while the server is silent."""
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
        return self._node.world is self._locks._world

    def _on_lost(self, call: Callable[[Any], object]) -> None:
        with self._node.mutex:
            if self._is_reported:
                self._node.world.spawn(notify(call, self))
            else:
                self._calls.append(call)

    def _wake(self) -> None:
        """Makes the caller of an acquire check again, and reports a loss once. The mutex is held."""
        self._signal.set()
        claim, observer = self._claim, self._locks._observer
        if claim.doubt:
            self._node.world.spawn(self._follow())
        if claim.phase is not LOST or not claim.handed_over or self._is_reported:
            return
        self._is_reported = True
        log.warning("%s: lost: %s", claim.key, claim.reason)
        for call in self._calls:
            self._node.world.spawn(notify(call, self))
        if observer:
            self._node.world.spawn(notify(observer.lost, claim.key, self._node.state.end_of(claim)))
        self._stop_work()

    def _begin_work(self) -> None:
        """A block works under the lock, in this task."""

    def _stop_work(self) -> None:
        """The lock was lost while its block works."""

    # The acquire.

    async def _acquire(self) -> None:
        """Acquires the lock, or leaves nothing behind."""
        claim = self._claim
        try:
            await self._ask()
            if claim.fixed and claim.session:
                await self._detach(claim.terms.lease, LEAVE)
            self._taken = monotonic()
            if claim.fixed or claim.terms.max_hold is not None:
                self._node.do(self._node.state.time, claim, claim.terms.max_hold)
        except GeneratorExit:
            raise
        except BaseException:
            cancel = self._node.do(self._node.state.give_up, claim)
            if cancel:
                await self._send(self._node, cancel)
            raise

    async def _ask(self) -> None:
        """Asks until there is a grant, or raises. The loop brings the events of a place in line."""
        claim, stop = self._claim, self._claim.terms.stop
        while True:
            if stop and claim.phase is not HELD and stop():
                raise made(LockBusy, claim.key, "the wait was stopped")
            if self._locks._servers.is_cluster and claim.phase is not HELD:
                await self._place()
            node = self._node
            step = node.do(node.state.step, claim)
            if step is None:
                return
            if claim.needs_session and (not node.polling or claim.phase is not IN_LINE and not isinstance(step, Call)):
                node.do(node.run)
            if not isinstance(step, Call):
                await self._signal.wait(step, stop)
                continue
            reply = await self._send(node, step)
            if reply.__class__ is Fault:
                self._at = self._locks._redirected(node, reply)

    async def _send(self, node: Node, call: Call) -> Any:
        """Sends a command once, and applies and returns the reply."""
        sent, reply = monotonic(), INTERRUPTED
        try:
            reply = await node.call(call.limit, call.command, asking=self._at is not None)
        finally:
            node.do(call.apply, sent, reply)
        return reply

    async def _follow(self) -> None:
        """Looks for a grant that another node of the cluster may have now."""
        claim, node, joined = self._claim, self._node, self._claim.joined
        sent, reply, _, to = await self._locks._repeat(self.key, claim.renew_command())
        async with self._turn:  # a call about the grant ends at the node where it began
            if node.do(node.state.found, claim, to.state, joined, sent, reply):
                self._node = to
                to.do(to.run)

    async def _place(self) -> None:
        """A wait without a place goes to the node of the cluster that has the key now."""
        to, old = await self._locks._locate(self.key, self._at), self._node
        if to is not old and old.do(old.state.move, self._claim, to.state):
            self._node = to

    # The grant.

    async def _exchange(self, what: str, command: Callable[[], Command], lease: float = 0.0) -> None:
        """Makes a call about the grant. lease: the new one."""
        if not self._is_ours:
            raise made(LockMisuse, self.key, "the grant belongs to the parent process, or to another event loop")
        async with self._turn:
            node, claim, sent, reply, was_open = self._node, self._claim, 0.0, INTERRUPTED, True
            call = node.do(node.state.begin, claim, what, lease)

            def end() -> Optional[LockError]:
                error = node.state.answered(claim, what, sent, reply, was_open)
                node.state.end_call(call)
                return error

            try:
                sent, reply, was_open, _ = await self._locks._repeat(self.key, command())
            finally:
                error = node.do(end)
        if error:
            raise error

    async def _check(self) -> None:
        await self._exchange(CHECK, lambda: ("LOCK.FENCE", self.key, self.token))

    async def _extend(self, lease: float) -> None:
        claim = self._claim
        if lease < 0.001 or lease < LEAST_LEASE and not claim.fixed:
            raise made(LockMisuse, claim.key, "a lease must be at least 1 second, or 1 millisecond if it is fixed")
        await self._exchange(EXTEND, lambda: claim.renew_command("PX", milliseconds(lease)), lease)

    async def _raise_token(self, token: int) -> None:
        """Lifts the token, for a quorum over several servers."""
        await self._exchange(CHECK, lambda: self._claim.renew_command("RAISE", token))

    async def _release(self) -> None:
        error: Optional[LockError] = None
        try:
            await self._exchange(RELEASE, self._claim.release_command)
        except LockError as failure:
            error = failure
        if self._locks._observer:
            safely(self._locks._observer.released, self.key, monotonic() - self._taken, error)
        if error:
            raise error

    async def _detach(self, lease: float, what: str = DETACH) -> None:
        """Makes the session stop renewing the grant."""
        if lease < 0.001:
            raise made(LockMisuse, self.key, "a lease must be at least 1 millisecond")
        await self._exchange(what, lambda: self._claim.renew_command("PX", milliseconds(lease), "SESSION", 0))

    async def _exit(self, error: Optional[BaseException]) -> None:
        """The end of a block. An error of the block is not replaced by one of the release."""
        if not self._is_ours or self._claim.phase is RELEASED:
            return  # the lock is the parent's, or the block has released or detached it
        try:
            await self._release()
        except LockError as failure:
            if error is None:
                raise
            attach(error, failure)


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
