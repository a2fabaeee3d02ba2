"""The thread that has the connection of a keeper."""

from __future__ import annotations

import math
import selectors
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from .keeper import Keeper, Silent, Unanswered
from .resp import KEEPER
from .runtime import LONGEST, STILL, Pause
from .wires import Wire

if TYPE_CHECKING:
    from .threads import Threads


class KeeperThread:
    """Who has the connection of a keeper."""

    def __init__(self, runtime: Threads, keeper: Keeper) -> None:
        self._runtime, self._keeper = runtime, keeper
        self._woken, self._waker = socket.socketpair()
        for end in (self._woken, self._waker):
            end.setblocking(False)
        self._parked = selectors.DefaultSelector()
        self._parked.register(self._woken, selectors.EVENT_READ)
        self.is_over, self._sleeps, self._asked = False, False, False
        self.wire: Wire | None = None
        self.thread = threading.Thread(target=self._run, name="lock-keeper", daemon=True)

    def wake(self) -> None:
        """There is something to do."""
        self._asked = True
        if self._sleeps:
            try:
                self._waker.send(b"w")
            except OSError:
                pass

    def _run(self) -> None:
        pause = Pause()
        try:
            # Here, and not by the first call: until Python 3.12, an exception that another thread sets in a thread that starts
            # one may get into that one, which ends by it, and the start waits for ever.
            with suppress(RuntimeError):  # no thread can be started: the calls try it again
                self._runtime.watch(-math.inf)
            while not self.is_over:
                if not self._keeper.wanted():
                    self._sleep(None, math.inf)
                    continue
                begun = time.monotonic()
                try:
                    self.wire = wire = Wire(self._runtime.source, self._keeper.place, KEEPER)
                except Exception as error:
                    self._runtime.engine.not_opened(self._keeper, self._runtime.source.failure(error), begun)
                    self._runtime.unreachable(self._keeper.place)
                    until = time.monotonic() + pause.take()
                    while not self.is_over and time.monotonic() < until:
                        self._sleep(None, until - time.monotonic())
                    continue
                try:
                    self._serve(wire)
                except Unanswered as error:
                    if not self.is_over:
                        wire.forget()
                    if self._keeper.io is self:
                        self._runtime.engine.closed(self._keeper, error)
                finally:
                    self.wire = None
                    wire.close()
                if self._keeper.was_heard:
                    pause = Pause()
                if not self.is_over and not self._keeper.may_open_at_once(time.monotonic()):
                    time.sleep(pause.take())
        finally:
            if self._keeper.io is self:
                self._keeper.io = None
            self.close()

    def _serve(self, wire: Wire) -> None:
        keeper, mutex = self._keeper, self._runtime.mutex
        wire.poll.register(self._woken, selectors.EVENT_READ)
        with mutex:
            if self.is_over:
                raise Unanswered("another thread has the keeper")
            self._runtime.engine.opened(keeper, wire.id)
        while True:
            now = time.monotonic()
            with mutex:
                data = keeper.to_send(now)
            if data:
                wire.send(data)
            at = keeper.next_time()
            came = self._sleep(wire, at - time.monotonic())
            if came:
                wire.read()
            replies, wire.ready = wire.ready, []
            for reply in replies:
                with mutex:
                    keeper.received(reply)
            if keeper.must_close:
                raise Unanswered(keeper.must_close)
            if self.is_over:
                raise Unanswered("the locks were closed")
            now = time.monotonic()
            if now - at > STILL:
                with mutex:
                    keeper.stood_still(now)
            elif keeper.is_overdue(now) and not wire.poll.select(0):
                raise Silent("the server gives no answer")

    def _sleep(self, wire: Wire | None, seconds: float) -> bool:
        """Until something comes, or somebody wakes it. Whether something came from the server."""
        poll = wire.poll if wire else self._parked
        self._sleeps = True
        came = poll.select(0 if self._asked else max(0.0, min(seconds, LONGEST)))
        self._sleeps = self._asked = False
        from_server = False
        for key, _ in came:
            if key.fileobj is not self._woken:
                from_server = True
                continue
            try:
                self._woken.recv(4096)
            except OSError:
                pass
        return from_server

    def close(self) -> None:
        """Closes what wakes it."""
        self._parked.close()
        self._woken.close()
        self._waker.close()
