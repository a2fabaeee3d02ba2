"""What gives back what was taken, also where nobody waits for it: sent until it is answered, or once."""

from __future__ import annotations

import logging
import time
import weakref
from typing import TYPE_CHECKING

from .errors import RELEASE, LockLost, ServerError, meaning
from .grants import Held, Last
from .keeper import AGAIN, Call, Keeper, Unanswered
from .owners import Task
from .resp import Word

if TYPE_CHECKING:
    from .engine import Engine

log = logging.getLogger("redis_lock_client")


class Undo:
    """The releases of an engine, and what else ends what the server does for a grant."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.pending: weakref.WeakSet[Call] = weakref.WeakSet()  # what has not been answered
        self._by_owner: weakref.WeakValueDictionary[tuple[object, object], Call] = weakref.WeakValueDictionary()

    def of(self, task: Task, name: bytes) -> Call | None:
        """What is under way of that key for this task; for one that is named, also in its name for another."""
        found = task.undoing.get(name)
        if found is None and task.is_named:
            found = self._by_owner.get((name, task.owner))
        return None if found is None or found.done else found

    def repeat(self, keeper: Keeper, words: tuple[Word, ...], seconds: float, task: Task | None, last: Last | None) -> Call:
        """A call that is sent until it is answered, whether somebody waits for it or not. Where others may keep the grant by
        now, `last` tells which connection did so here."""
        return self._engine.put(keeper, self.repeated(keeper, words, seconds, task, last), last)

    def repeated(self, keeper: Keeper, words: tuple[Word, ...], seconds: float, task: Task | None, last: Last | None) -> Call:
        """The call, which is sent again on the keeper where it is not answered."""
        engine, until = self._engine, time.monotonic() + seconds

        def answered(call: Call) -> None:
            nonlocal keeper
            reply = call.reply
            passes = isinstance(reply, Unanswered) or (
                isinstance(reply, ServerError) and meaning(str(reply), RELEASE) == "passing")
            now = time.monotonic()
            if not passes or now > until:
                if self._is_left(keeper, reply):
                    engine.rt.tell(lambda: log.warning(
                        "a release could not be carried out: a lease may have to end: %s", reply))
                self.is_settled(call, task)
                return
            place = engine.rt.moved(str(reply)) if isinstance(reply, ServerError) else None
            keeper = engine.keeper(place) if place is not None else keeper
            with engine.rt.mutex:
                keeper.put_again(call, last, now if isinstance(reply, Unanswered) or place else now + AGAIN)
            engine.rt.wake(keeper)

        return self._settles(Call(words, answered, engine.rt.gate()), task)

    def give_back(self, keeper: Keeper, words: tuple[Word, ...], seconds: float, task: Task | None, last: Last) -> Call:
        """A release that nobody, or nobody any more, waits for. A named owner comes back, here or elsewhere, and this must
        not meet what it gets then: so it is sent once, on the connection that is open now, or not at all."""
        if task is None or not task.is_named:
            return self.repeat(keeper, words, seconds, task, None)
        engine = self._engine

        def answered(call: Call) -> None:
            self._is_left(keeper, call.reply)
            self.is_settled(call, task)

        call = self._settles(Call(words, answered, engine.rt.gate()), task)
        with engine.rt.mutex:
            if keeper.is_open:
                keeper.put(call, last, now_only=True)
            else:
                call.answer(Unanswered("the connection has closed"))
        engine.rt.wake(keeper)
        return call

    def _is_left(self, keeper: Keeper, reply: object) -> bool:
        """Whether this last answer leaves what was to end. The connection must not keep that on, for nobody."""
        if not isinstance(reply, ServerError):
            return isinstance(reply, Exception) and not isinstance(reply, LockLost)
        if meaning(str(reply), RELEASE) == "lost":
            return False
        self._engine.reset(keeper)
        return True

    def give_back_all(self, keeper: Keeper, seconds: float, task: Task | None, last: Last) -> Call:
        """Ends whatever an owner has of a lock, and its waits."""
        return self.give_back(keeper, ("LOCK.RELEASE", last.name, last.owner, "ALL"), seconds, task, last)

    def give_back_unheard(self, held: Held) -> None:
        """One that is lost, as nothing was heard of it. That of a named owner may be kept by others by now."""
        engine, keeper, seconds = self._engine, held.keeper, max(self._engine.limits.release, held.lease)
        if not held.is_named:
            self.repeat(keeper, held.less(0), seconds, held.task, None)
            return
        until = time.monotonic() + seconds

        def looked(call: Call) -> None:
            if isinstance(call.reply, Unanswered) and time.monotonic() < until:
                with engine.rt.mutex:
                    keeper.put_later(call, time.monotonic())
                engine.rt.wake(keeper)
                return
            if keeper.is_elsewhere(held.last(), call.reply) is False:
                last = held.last()._replace(keeper=keeper, epoch=call.epoch)
                self.give_back(keeper, held.less(0), seconds, held.task, last)
            self.is_settled(call, held.task)

        look = Call(("LOCK.HOLDERS", held.name), looked, engine.rt.gate())
        engine.put(keeper, self._settles(look, held.task))

    def keep_no_more(self, keeper: Keeper, held: Held) -> Call:
        """Has the server end the keeping of a grant that stays."""
        words = ("LOCK.RENEW", held.name, held.owner, "TOKEN", held.token, "KEEP", 0)
        return self.repeat(keeper, words, self._engine.limits.release, held.task, held.last())

    def _settles(self, call: Call, task: Task | None) -> Call:
        """Until this is answered, it is not known what its task has of that key."""
        self.pending.add(call)
        if len(call.words) > 2:
            self._by_owner[call.words[1], call.words[2]] = call
        if task is not None:
            task.undoing[call.key] = call
        return call

    def is_settled(self, call: Call, task: Task | None) -> None:
        """It has been answered, or is not to be sent any more."""
        self.pending.discard(call)
        if task is not None and task.undoing.get(call.key) is call:
            del task.undoing[call.key]
        call.finish(call.reply)
