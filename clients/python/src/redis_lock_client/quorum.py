"""One lock over several independent servers, with a fencing token that rises from holder to holder.

    servers = connect([f"redis://10.0.0.{i}:6379" for i in range(1, 6)], lease=30)
    with acquire(servers, "lock:report", lease=30, wait=10) as lock:
        ...  # fence with lock.token

The protocol, why it works and what it needs: docs/quorum.md of redis-lock. A thread renews the lock every third of its
lease. A server that does not answer costs each round its time-out, a twentieth of the lease, twice. A request that it
reads after that may still be granted there, and ends with the lease.
"""

from __future__ import annotations

import importlib
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

from .base import told_at_end
from .errors import LockBusy, LockError, LockLost, LockUnavailable, show
from .owners import new_owner
from .resp import Word

_LOST = ("NOTHELD", "NOTOWNER", "FENCED")
_pool = ThreadPoolExecutor(64, "lock-quorum")


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
    while True:
        lock = QuorumLock(servers, key, lease, service)
        try:
            lock.take()
            return lock
        except BaseException as error:
            lock.give_back()
            if not isinstance(error, (LockBusy, LockUnavailable)) or time.monotonic() >= until:
                raise
        time.sleep(random.uniform(0, 0.1))  # by chance, so that one of several comes first


class QuorumLock:
    """A lock that a majority of the servers has granted. Each is for one attempt."""

    def __init__(self, servers: Sequence[Any], key: str, lease: float, service: str) -> None:
        self.servers, self.key, self.lease = list(servers), key, lease
        self.owner = new_owner(service)  # for one attempt, and never used again
        self.replies: list[str] = []
        self._token, self._deadline = 0, 0.0
        self._lost: LockLost | None = None
        self._listeners: list[Callable[[], None]] = []
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
        return self._lost is None and self.remaining > 0

    @property
    def remaining(self) -> float:
        """For how many seconds it is known to be held."""
        return max(0.0, self._deadline - time.monotonic()) if self._lost is None else 0.0

    def on_lost(self, listener: Callable[[], None]) -> None:
        """Calls this when the lock is lost."""
        self._listeners.append(listener)
        if self._lost is not None:
            listener()

    def take(self) -> None:
        """The two rounds: grants, then one token for all."""
        words: tuple[Word, ...] = ("PX", round(self.lease * 1000), "HOLDS", 1)
        tokens = self._call("LOCK.ACQUIRE", dict.fromkeys(range(len(self.servers)), words))
        while len(tokens) >= self._majority:
            self._token = max(tokens.values())
            if self._renew_from(tokens):
                self._renewer = threading.Thread(target=self._renew_on, name="lock-quorum", daemon=True)
                self._renewer.start()
                return
            # Too far ahead for these. It may be the clock of the server that gave it: without it, then.
            ahead = [reply.startswith("AHEAD") for reply in self.replies]
            tokens = dict(it for it, is_ahead in zip(tokens.items(), ahead, strict=True) if is_ahead)
        taken = self.replies.count("None")
        told = f"{show(self.key)}: no majority: {self.replies}"
        raise LockBusy(told) if len(self.servers) - taken < self._majority or taken else LockUnavailable(told)

    def renew(self) -> None:
        """Renews it at once. Raises LockLost where a majority says so, LockUnavailable where none has answered."""
        self._must_stand()
        if self._renew_from(dict.fromkeys(range(len(self.servers)), self._token)):
            return
        if sum(reply.startswith(_LOST) for reply in self.replies) >= self._majority:
            self._lose(f"a majority says so: {self.replies}")
        self._must_stand()
        raise LockUnavailable(f"{show(self.key)}: no majority has renewed it: {self.replies}")

    def give_back(self) -> None:
        """Releases it on all servers; also where it has not been granted."""
        self._over.set()
        self._deadline = 0.0
        self._call("LOCK.RELEASE", dict.fromkeys(range(len(self.servers)), ("ALL",)))

    def release(self) -> None:
        """Gives it back. Raises LockLost where it was lost."""
        was_held = self.held
        self.give_back()
        if self._lost is not None:
            raise self._lost
        if not was_held or sum(reply.startswith(_LOST) for reply in self.replies) >= self._majority:
            raise LockLost(f"{show(self.key)}: lost before its release: {self.replies}")

    @property
    def _majority(self) -> int:
        return len(self.servers) // 2 + 1

    def _call(self, command: str, words: Mapping[int, tuple[Word, ...]]) -> dict[int, int]:
        """Calls these servers at once, with these words; gives the tokens of their grants."""
        def send(number: int) -> Any:
            try:
                return self.servers[number].execute_command(command, self.key, self.owner, *words[number])
            except Exception as error:
                return error

        futures = [_pool.submit(send, number) for number in words]
        replies = [future.result() for future in futures]
        self.replies = [str(reply) for reply in replies]
        return {number: int(reply[0]) for number, reply in zip(words, replies, strict=True) if isinstance(reply, list)}

    def _renew_from(self, tokens: Mapping[int, int]) -> bool:
        start, words = time.monotonic(), ("PX", round(self.lease * 1000), "RAISE", self._token, "TOKEN")
        renewed = self._call("LOCK.RENEW", {number: (*words, token) for number, token in tokens.items()})
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

    def _must_stand(self) -> None:
        if self._lost is None and not self._over.is_set() and self.remaining <= 0:
            self._lose("its lease has passed")
        if self._lost is not None:
            raise self._lost

    def _lose(self, why: str) -> None:
        if self._lost is None:
            self._lost = LockLost(f"{show(self.key)}: {why}")
            for listener in self._listeners:
                listener()

    def __enter__(self) -> QuorumLock:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        try:
            self.release()
        except LockError as failed:
            if told_at_end(error, failed):
                raise
