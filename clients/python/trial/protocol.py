"""What both workers have in common: the lines to the trial, and how a lock is asked for."""

import json
import os
import sys
import threading

from redis_lock_client import (LockBusy, LockDeadlock, LockError, LockLost, LockMisuse, LockNotAlone, LockRefused,
                               LockUnavailable)

NAMES = {LockBusy: "busy", LockLost: "lost", LockDeadlock: "deadlock", LockNotAlone: "not-alone",
         LockRefused: "refused", LockUnavailable: "unavailable", LockMisuse: "misuse"}
one_line = threading.Lock()


def say(**words):
    with one_line:
        print(json.dumps(words), flush=True)


def failed(number, error):
    name = NAMES.get(type(error), "cancelled" if not isinstance(error, LockError) else "misuse")
    say(id=number, error=name, text=str(error) or type(error).__name__)


class Site:
    """A client with its locks. All locks of a session have one lease, so those of another lease are others."""

    def __init__(self, kind, client, order):
        self._kind, self._client, self._order = kind, client, order
        self._locks, self._guard = {}, threading.Lock()

    def of(self, order):
        lease, silence = order["lease_ms"] / 1000, order["keep_ms"] / 1000
        which = (max(lease, 1.0), silence) if silence else (10.0, 30.0)  # of a fixed lease: any
        with self._guard:
            if which not in self._locks:
                self._locks[which] = self._kind(
                    self._client, name=self._order["service"], lease=which[0], silence=which[1],
                    reply=self._order.get("reply_ms", 1000) / 1000)
            return self._locks[which]

    def all(self):
        with self._guard:
            return list(self._locks.values())


def options(order):
    """How to ask for the lock."""
    wait, mode = order["wait_ms"], order["mode"]
    words = {"wait": None if wait < 0 else wait / 1000, "shared": mode == "shared"}
    if isinstance(mode, dict):
        words["permits"] = mode["limit"]
    if not order["keep_ms"]:
        words["lease"] = order["lease_ms"] / 1000
    return words


def addresses(words):
    return [(host, int(port)) for host, port in (word.rsplit(":", 1) for word in words)]


def in_child(work):
    """Runs it in a forked child. Returns how that ended."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(f"child: {error!r}", file=sys.stderr, flush=True)
            os._exit(1)
    return os.waitpid(child, 0)[1]
