"""One lock over several independent servers, with a fencing token that rises from holder to holder.

    servers = connect([f"redis://10.0.0.{i}:6379" for i in range(1, 6)], lease=30)
    with acquire(servers, "lock:report", lease=30, wait=10) as lock:
        ...  # fence with lock.token

The protocol, why it works and what it needs: docs/quorum.md of redis-lock. A thread renews the lock every third of its
lease. A server that does not answer costs each round its time-out, a twentieth of the lease, twice; an acquire takes no
longer than its `wait` and a second, and a release two. A request that a server reads after that may still be granted
there, and ends with the lease. A forked child holds nothing.
"""

from __future__ import annotations

import importlib
import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait as wait_for
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

from .base import told_at_end
from .errors import LockBusy, LockError, LockLost, LockMisuse, LockUnavailable, show
from .observer import safely
from .owners import new_owner
from .resp import Word

_LOST = ("NOTHELD", "NOTOWNER", "FENCED")
NOW, RELEASE = 1.0, 2.0  # seconds: what does not wait takes no longer, and what releases
# For each server one, so that one that hangs holds up no call to another, however many locks there are.
_pools: WeakKeyDictionary[Any, ThreadPoolExecutor] = WeakKeyDictionary()
_of_pools = threading.RLock()


def _pool(server: Any) -> ThreadPoolExecutor:
    with _of_pools:
        found = _pools.get(server)
        if found is None:
            found = _pools[server] = ThreadPoolExecutor(64, "lock-quorum")
        return found


def _in_child() -> None:
    """The threads of the pools are the parent's."""
    global _pools, _of_pools
    _pools, _of_pools = WeakKeyDictionary(), threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def connect(urls: Sequence[str], lease: float) -> list[Any]:
    """A client of redis-py for each server. Calls are repeated once: each has the same effect then."""
    redis: Any = importlib.import_module("redis")
    retry: Any = importlib.import_module("redis.retry")
    backoff: Any = importlib.import_module("redis.backoff")
    settings = {"socket_timeout": lease / 20, "socket_connect_timeout": lease / 20}
    return [redis.Redis.from_url(url, retry=retry.Retry(backoff.NoBackoff(), 1), **settings) for url in urls]


def acquire(servers: Sequence[Any], key: str, lease: float, wait: float = 0.0, service: str = "quorum") -> QuorumLock:
    """The lock. Raises LockBusy, or LockUnavailable where no majority of the servers has answered."""
    until = time.monotonic() + wait
    end = until + NOW
    while True:
        lock = QuorumLock(servers, key, lease, service)
        try:
            lock.take(end)
            return lock
        except BaseException as error:
            lock.give_back(end)
            if not isinstance(error, (LockBusy, LockUnavailable)) or time.monotonic() >= until:
                raise
        time.sleep(random.uniform(0, 0.1))  # by chance, so that one of several comes first


class QuorumLock:
    """A lock that a majority of the servers has granted. Each is for one attempt."""

    def __init__(self, servers: Sequence[Any], key: str, lease: float, service: str) -> None:
        self.servers, self.key, self.lease = list(servers), key, lease
        self.owner = new_owner(service)  # for one attempt, and never used again
        self.replies: list[str] = []
        self._pid = os.getpid()
        self._under_way: dict[int, Future[Any]] = {}  # calls for whose answers nobody waits any more
        self._token, self._deadline = 0, 0.0
        self._lost: LockLost | None = None
        self._listeners: list[Callable[[], None]] = []
        self._guard, self._is_released = threading.RLock(), False
        self._over = threading.Event()
        self._renewer: threading.Thread | None = None

    @property
    def token(self) -> int:
        """The fencing token. Raises LockLost where the lock is known to be lost, or not known to be held."""
        self._must_stand()
        return self._token

    @property
    def held(self) -> bool:
        """Whether it is held, as far as is known."""
        return self._lost is None and self.remaining > 0 and self._pid == os.getpid()

    @property
    def remaining(self) -> float:
        """For how many seconds it is known to be held."""
        return max(0.0, self._deadline - time.monotonic()) if self._lost is None else 0.0

    def on_lost(self, listener: Callable[[], None]) -> None:
        """Calls this, once, when the lock is lost; at once when it has been."""
        with self._guard:
            if self._lost is None:
                self._listeners.append(listener)
                return
        listener()

    def take(self, end: float) -> None:
        """The two rounds: grants, then one token for all. They are over by then."""
        words: tuple[Word, ...] = ("PX", round(self.lease * 1000), "HOLDS", 1)
        half = (time.monotonic() + end) / 2  # which leaves as long for the second round
        tokens = self._call("LOCK.ACQUIRE", dict.fromkeys(range(len(self.servers)), words), half)
        taken = self.replies.count("None")
        is_busy = len(tokens) < self._majority <= len(tokens) + taken  # where a majority has answered
        while len(tokens) >= self._majority:
            self._token = max(tokens.values())
            if self._renew_from(tokens, end):
                self._renewer = threading.Thread(target=self._renew_on, name="lock-quorum", daemon=True)
                self._renewer.start()
                return
            # Too far ahead for these. It may be the clock of the server that gave it: without it, then.
            ahead = [reply.startswith("AHEAD") for reply in self.replies]
            tokens = dict(it for it, is_ahead in zip(tokens.items(), ahead, strict=True) if is_ahead)
        told = f"{show(self.key)}: no majority: {self.replies}"
        raise LockBusy(told) if is_busy else LockUnavailable(told)

    def renew(self) -> None:
        """Renews it at once. Raises LockLost where a majority says so, LockUnavailable where none has answered."""
        self._must_stand()
        if self._renew_from(dict.fromkeys(range(len(self.servers)), self._token), time.monotonic() + self.lease):
            return
        if sum(reply.startswith(_LOST) for reply in self.replies) >= self._majority:
            self._lose(f"a majority says so: {self.replies}")
        self._must_stand()
        raise LockUnavailable(f"{show(self.key)}: no majority has renewed it: {self.replies}")

    def give_back(self, end: float) -> None:
        """Releases it on all servers; also where it has not been granted. What is not answered by then is carried on."""
        with self._guard:  # what a renewal that is under way finds from here on is no loss
            self._is_released = True
        self._over.set()
        self._deadline = 0.0
        self._call("LOCK.RELEASE", dict.fromkeys(range(len(self.servers)), ("ALL",)), end)

    def release(self) -> None:
        """Gives it back. Raises LockLost where it was lost, LockUnavailable where no majority of the servers has answered:
        then it ends with its lease."""
        self._must_be_ours()
        was_held = self.held
        self.give_back(time.monotonic() + RELEASE)
        if self._lost is not None:
            raise self._lost
        lost = sum(reply.startswith(_LOST) for reply in self.replies)
        if not was_held or lost >= self._majority:
            raise LockLost(f"{show(self.key)}: lost before its release: {self.replies}")
        if lost + sum(reply.isdigit() for reply in self.replies) < self._majority:
            raise LockUnavailable(f"{show(self.key)}: no majority has answered the release: {self.replies}")

    @property
    def _majority(self) -> int:
        return len(self.servers) // 2 + 1

    def _call(self, command: str, words: Mapping[int, tuple[Word, ...]], end: float) -> dict[int, int]:
        """Calls these servers at once, with these words; gives the tokens of the grants that came by then."""
        earlier = {number: call for number, call in self._under_way.items() if not call.done()}
        self._under_way = dict(earlier)

        def send(number: int) -> Any:
            try:
                if number in earlier:  # which this must not overtake
                    wait_for([earlier[number]])
                return self.servers[number].execute_command(command, self.key, self.owner, *words[number])
            except Exception as error:
                return error

        futures = {number: _pool(self.servers[number]).submit(send, number) for number in words}
        wait_for(futures.values(), max(0.0, min(end - time.monotonic(), self.lease / 5)))
        replies: list[Any] = []
        for number, future in futures.items():
            if future.done() or (command != "LOCK.RELEASE" and future.cancel()):  # a release is always sent
                replies.append(TimeoutError("not sent in time") if future.cancelled() else future.result(0))
            else:
                replies.append(TimeoutError("no answer in time"))
                self._under_way[number] = future
        self.replies = [str(reply) for reply in replies]
        return {number: int(reply[0]) for number, reply in zip(words, replies, strict=True) if isinstance(reply, list)}

    def _renew_from(self, tokens: Mapping[int, int], end: float) -> bool:
        start, words = time.monotonic(), ("PX", round(self.lease * 1000), "RAISE", self._token, "TOKEN")
        renewed = self._call("LOCK.RENEW", {number: (*words, token) for number, token in tokens.items()}, end)
        if len(renewed) >= self._majority and not self._over.is_set():
            self._deadline = start + self.lease * 0.99 - 0.002  # clocks drift a little
        return len(renewed) >= self._majority and self.remaining > 0

    def _renew_on(self) -> None:
        pause = self.lease / 3
        while not self._over.wait(pause):
            try:
                self.renew()
                pause = self.lease / 3
            except LockLost:
                return
            except LockError:
                pause = min(self.lease / 30, 0.5)
            except RuntimeError:
                return  # the interpreter ends

    def _must_be_ours(self) -> None:
        if self._pid != os.getpid():
            raise LockMisuse(f"{show(self.key)}: held by the parent process, not by this one")

    def _must_stand(self) -> None:
        self._must_be_ours()
        if not self._over.is_set() and self.remaining <= 0:
            self._lose("its lease has passed")
        if self._lost is not None:
            raise self._lost
        if self._is_released:
            raise LockMisuse(f"{show(self.key)}: released")

    def _lose(self, why: str) -> None:
        with self._guard:
            if self._lost is not None or self._is_released:
                return
            self._lost = LockLost(f"{show(self.key)}: {why}")
        for listener in self._listeners:
            safely(listener)

    def __enter__(self) -> QuorumLock:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._pid != os.getpid():
            return  # this is a forked child, which holds nothing
        try:
            self.release()
        except LockError as failed:
            if told_at_end(error, failed):
                raise
