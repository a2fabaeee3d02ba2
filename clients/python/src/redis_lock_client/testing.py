"""A stand-in for unit tests: a server that has its locks in memory, for the clients that your program uses anyway.

    >>> from redis_lock_client import LockLost, Locks
    >>> from redis_lock_client.testing import Server
    >>> with Server() as server, Locks(server.client()) as locks:  # asyncio: server.asyncio_client()
    ...     try:
    ...         with locks.lock("lock:orders:42"):
    ...             lost = server.lose("lock:orders:42")
    ...     except LockLost as error:
    ...         print("lost:", error.key)  # what does your program do then?
    lost: lock:orders:42

Waiting calls are served first come, first served, and tokens rise. Leases do not end by time: only `lose` ends a grant.
Deadlocks are not found. Its one port is on the loopback address.
"""

from __future__ import annotations

import contextlib
import random
import socketserver
import threading
import time
from types import TracebackType
from typing import Any

__all__ = ["Server"]


class _Error(Exception):
    """An error reply."""


class _Call:
    """A grant, or a call in line."""

    def __init__(self, key: bytes, owner: bytes, options: dict[bytes, bytes]) -> None:
        self.key, self.owner = key, owner
        self.limit = 0 if b"SHARED" in options else int(options.get(b"LIMIT", 1))
        self.lease = int(options.get(b"PX", 30_000))
        self.session, self.token, self.holds = int(options.get(b"SESSION", 0)), 0, 1
        queue = int(options.get(b"QUEUE", 0))
        self.end = time.monotonic() + queue / 1000 if queue else float("inf")

    def grant(self) -> list[Any]:
        return [self.token, self.owner, self.holds, self.lease, self.limit]


class _Session:
    def __init__(self) -> None:
        self.number, self.answered = 0, 0
        self.events: list[list[Any]] = []


class Server(contextlib.AbstractContextManager["Server"]):
    """A server in memory. Make one for each test: its locks stay until they are released. A context manager: the end of
    the block calls `close`. Its methods take the whole key, with the client's prefix.

    >>> from redis_lock_client import Locks
    >>> with Server() as server, Locks(server.client()) as locks, locks.lock("lock:orders:42") as grant:
    ...     print(server.holders("lock:orders:42") == [grant.owner], server.waiters("lock:orders:42"))
    True []
    """

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._token = 0  # the last one
        self._holders: dict[bytes, list[_Call]] = {}
        self._line: dict[bytes, list[_Call]] = {}
        self._sessions: dict[int, _Session] = {}
        self._values: dict[bytes, bytes] = {}
        tcp: Any = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Connection)
        tcp.stand_in, tcp.daemon_threads, self._tcp, self.port = self, True, tcp, tcp.server_address[1]
        threading.Thread(target=tcp.serve_forever, args=(0.05,), name="redis-lock-testing", daemon=True).start()

    def client(self, **options: Any) -> Any:
        """A client of redis-py for `redis_lock_client.Locks`, with these options of `redis.Redis`."""
        import redis
        return redis.Redis(port=self.port, protocol=2, **options)

    def asyncio_client(self, **options: Any) -> Any:
        """A client of redis-py for `redis_lock_client.asyncio.Locks`, with these options of `redis.asyncio.Redis`."""
        from redis.asyncio import Redis
        return Redis(port=self.port, protocol=2, **options)

    def lose(self, key: str) -> bool:
        """Ends the grants of a lock, as an operator's DEL would: its holders are notified, and the first in line gets
        it. False if the lock is free."""
        with self._news:
            lost = self._holders.pop(key.encode(), [])
            for call in lost:
                self._event(call, b"lost", call.token, b"deleted")
            self._serve(key.encode())
            return bool(lost)

    def holders(self, key: str) -> list[str]:
        """The owners that hold the lock."""
        with self._news:
            return [call.owner.decode() for call in self._holders.get(key.encode(), [])]

    def waiters(self, key: str) -> list[str]:
        """The owners that wait for the lock, in their order."""
        with self._news:
            return [call.owner.decode() for call in self._line.get(key.encode(), [])]

    def close(self) -> None:
        """Takes no more connections."""
        self._tcp.shutdown()
        self._tcp.socket.close()  # its connections end with their clients

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    # The locks.

    def _acquire(self, key: bytes, owner: bytes, options: dict[bytes, bytes]) -> Any:
        if b"SESSION" in options:
            self._session(options[b"SESSION"])
        if b"TOKEN" in options or any(call.owner == owner for call in self._holders.get(key, [])):
            mine = self._held(key, owner, options)
            mine.holds = max(mine.holds, int(options.get(b"HOLDS", mine.holds + 1)))
            return mine.grant()
        line = self._line.setdefault(key, [])
        owners = [call.owner for call in line]
        if owner in owners:
            return owners.index(owner)  # a repeated call
        call = _Call(key, owner, options)
        line.append(call)
        self._serve(key, call)
        if call.token:
            return call.grant()
        if b"QUEUE" in options:
            self._news.notify_all()  # a POLL that waits looks at its time
            return len(line) - 1
        line.remove(call)
        return None

    def _release(self, key: bytes, owner: bytes, options: dict[bytes, bytes]) -> int:
        if b"ALL" in options and b"TOKEN" not in options:
            for call in [call for call in self._line.get(key, []) if call.owner == owner]:
                self._end(call, b"cancelled")
        mine = self._held(key, owner, options)
        mine.holds = 0 if b"ALL" in options else min(mine.holds, int(options.get(b"HOLDS", mine.holds - 1)))
        if mine.holds == 0:
            self._holders[key].remove(mine)
            if int(options.get(b"SESSION", 0)) != mine.session:
                self._event(mine, b"lost", mine.token, b"released")
            self._serve(key)
        return mine.holds

    def _renew(self, key: bytes, owner: bytes, options: dict[bytes, bytes]) -> list[Any]:
        mine = self._held(key, owner, options)
        mine.lease = int(options.get(b"PX", mine.lease))
        mine.session = int(options.get(b"SESSION", mine.session))
        mine.token = int(options.get(b"RAISE", mine.token))
        self._token = max(self._token, mine.token)
        return mine.grant()

    def _held(self, key: bytes, owner: bytes, options: dict[bytes, bytes]) -> _Call:
        holders = self._holders.get(key, [])
        for call in holders:
            if call.owner == owner:
                if int(options.get(b"TOKEN", call.token)) == call.token:
                    return call
                raise _Error("FENCED the token is not that of the current grant")
        raise _Error("NOTOWNER another owner holds the lock" if holders else "NOTHELD nobody holds the lock")

    def _serve(self, key: bytes, newcomer: _Call | None = None) -> None:
        """Grants the lock to those at the front of the line who have room."""
        holders, line = self._holders.setdefault(key, []), self._line.setdefault(key, [])
        while line and all(call.limit == 0 or len(holders) < call.limit for call in (line[0], *holders)):
            call = line.pop(0)
            call.token = self._token = max(self._token + 1, time.time_ns() // 1000)
            holders.append(call)
            if call is not newcomer:
                self._event(call, b"granted", call.token, call.holds, call.lease, call.limit)

    def _end(self, call: _Call, why: bytes) -> None:
        self._line[call.key].remove(call)
        self._event(call, b"ended", why)
        self._serve(call.key)

    # The sessions.

    def _event(self, call: _Call, kind: bytes, *more: object) -> None:
        session = self._sessions.get(call.session)
        if session:
            session.number += 1
            session.events.append([session.number, kind, call.key, call.owner, *more])
            self._news.notify_all()

    def _session(self, number: bytes) -> _Session:
        session = self._sessions.get(int(number))
        if session is None:
            raise _Error("NOSESSION no such session")
        return session

    def _poll(self, number: bytes, block: float) -> list[Any]:
        session, end = self._session(number), time.monotonic() + block
        del session.events[:session.answered]
        session.answered = 0
        while True:
            now = time.monotonic()
            waits = [call for line in self._line.values() for call in line if call.session == int(number)]
            for call in [call for call in waits if call.end <= now]:
                self._end(call, b"timeout")
            if session.events or now >= end or int(number) not in self._sessions:
                break
            self._news.wait(min([end, *(call.end for call in waits)]) - now)
        self._session(number)
        session.answered = len(session.events)
        leases = [call.lease for call in self._grants(number)]
        return [b"sure-ms", min(leases, default=-1), b"grants", len(leases), b"events", [*session.events]]

    def _grants(self, number: bytes) -> list[_Call]:
        return [call for holders in self._holders.values() for call in holders if call.session == int(number)]

    def _close(self, number: bytes) -> int:
        self._session(number)
        del self._sessions[int(number)]
        grants = self._grants(number)
        for key, line in self._line.items():
            line[:] = [call for call in line if call.session != int(number)]
            self._holders[key] = [call for call in self._holders.get(key, []) if call not in grants]
            self._serve(key)
        self._news.notify_all()
        return len(grants)

    # The commands.

    def _do(self, words: list[bytes]) -> Any:
        name, rest = words[0].upper().decode(), words[1:]
        call: Any = {"LOCK.ACQUIRE": self._acquire, "LOCK.RELEASE": self._release, "LOCK.RENEW": self._renew}.get(name)
        if call:
            more = iter(rest[2:])
            return call(*rest[:2], {word: b"" if word in (b"SHARED", b"ALL") else next(more) for word in more})
        if name == "LOCK.SESSION":
            what = rest[0].upper()
            if what == b"OPEN":
                number = random.randrange(1, 2**53)
                self._sessions[number] = _Session()
                return number
            return self._poll(rest[1], int(rest[3]) / 1000) if what == b"POLL" else self._close(rest[1])
        if name == "LOCK.FENCE" and all(call.token != int(rest[1]) for call in self._holders.get(rest[0], [])):
            raise _Error("FENCED the token is not that of a current grant")
        if name == "GET":
            return self._values.get(rest[0])
        if name == "SET":
            self._values[rest[0]] = rest[1]
        elif name not in ("LOCK.FENCE", "PING", "CLIENT", "SELECT"):
            raise _Error(f"ERR unknown command '{name}': this is a stand-in for unit tests")
        return b"OK"


class _Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        server: Any = self.server
        with contextlib.suppress(OSError):
            while head := self.rfile.readline():
                words = [self.rfile.read(int(self.rfile.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:]))]
                try:
                    with server.stand_in._news:
                        reply = _packed(server.stand_in._do(words))
                except _Error as error:
                    reply = b"-%s\r\n" % str(error).encode()
                self.wfile.write(reply)


def _packed(reply: Any) -> bytes:
    if reply is None:
        return b"$-1\r\n"
    if isinstance(reply, int):
        return b":%d\r\n" % reply
    if isinstance(reply, list):
        return b"*%d\r\n%s" % (len(reply), b"".join(map(_packed, reply)))
    return b"$%d\r\n%s\r\n" % (len(reply), reply)
