"""The task that has the connection of a keeper."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from .keeper import Keeper, Silent, Unanswered
from .resp import KEEPER
from .runtime import LONGEST, STILL, Pause
from .streams import Wire, until_done

if TYPE_CHECKING:
    from .loop import Loop


class KeeperTask:
    """Who has the connection of a keeper."""

    def __init__(self, runtime: Loop, keeper: Keeper) -> None:
        self._runtime, self._keeper = runtime, keeper
        self.wire: Wire | None = None
        self._woken = asyncio.Event()
        self.task = asyncio.get_running_loop().create_task(self._run(), name="lock-keeper")

    def wake(self) -> None:
        """There is something to do: what is to be sent is sent at once."""
        if self.wire is not None:
            self._flush(self.wire)
        self._woken.set()

    def _flush(self, wire: Wire) -> None:
        data = self._keeper.to_send(time.monotonic())
        if data:
            try:
                wire.send(data)
            except Unanswered:
                pass  # its reader tells

    async def _run(self) -> None:
        pause = Pause()
        while True:
            if not self._keeper.wanted():
                self._woken.clear()
                await self._woken.wait()
                continue
            begun = time.monotonic()
            try:
                wire = await self._open()
            except Exception as error:
                self._runtime.engine.not_opened(self._keeper, self._runtime.source.failure(error), begun)
                self._runtime.unreachable(self._keeper.place)
                await asyncio.sleep(pause.take())
                continue
            try:
                await self._serve(wire)
            except Unanswered as error:
                self.wire = None
                wire.forget()
                self._runtime.engine.closed(self._keeper, error)
            finally:
                self.wire = None
                wire.close()
            if self._keeper.was_heard:
                pause = Pause()
            if not self._keeper.may_open_at_once(time.monotonic()):
                await asyncio.sleep(pause.take())

    async def _open(self) -> Wire:
        opening = asyncio.ensure_future(Wire.open(self._keeper.place, KEEPER, self._runtime.limits.reply))
        try:
            if await until_done(opening, time.monotonic() + 5 * self._runtime.limits.reply):
                return opening.result()
        finally:
            if not opening.done():
                opening.cancel()
        raise Unanswered("no connection in time")

    async def _serve(self, wire: Wire) -> None:
        keeper = self._keeper
        self._runtime.engine.opened(keeper, wire.id)
        self.wire = wire
        reading: asyncio.Task[None] | None = None
        try:
            while True:
                self._woken.clear()
                self._flush(wire)
                if reading is None:
                    reading = asyncio.ensure_future(wire.read())
                    reading.add_done_callback(lambda _: self._woken.set())
                at = keeper.next_time()
                timer = asyncio.get_running_loop().call_later(
                    max(0.0, min(at - time.monotonic(), LONGEST)), self._woken.set)
                try:
                    await self._woken.wait()
                finally:
                    timer.cancel()
                if not reading.done() and time.monotonic() - at > 0.05:
                    await until_done(reading, time.monotonic() + 0.05)  # the loop stood still
                if reading.done():
                    done, reading = reading, None
                    done.result()
                    replies, wire.ready = wire.ready, []
                    for reply in replies:
                        keeper.received(reply)
                if keeper.must_close:
                    raise Unanswered(keeper.must_close)
                now = time.monotonic()
                if now - at > STILL:
                    keeper.stood_still(now)
                elif keeper.is_overdue(now):
                    raise Silent("the server gives no answer")
        finally:
            if reading is not None:
                reading.add_done_callback(lambda done: done.cancelled() or done.exception())
                reading.cancel()
