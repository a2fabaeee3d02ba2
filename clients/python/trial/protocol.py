"""What both workers say to the trial."""

import json
import os
import sys
import threading
import time

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


def options(order):
    """How to make the lock: the method's name, its arguments, and its options."""
    wait, keep, mode = order["wait_ms"], order["keep_ms"], order["mode"]
    words = {"wait": float("inf") if wait < 0 else wait / 1000, "lease": order["lease_ms"] / 1000}
    words.update({"keep": keep / 1000} if keep else {"fixed": True})
    if isinstance(mode, dict):
        return "permit", (order["key"], mode["limit"]), words
    return ("shared" if mode == "shared" else "lock"), (order["key"],), words


def addresses(words):
    return [(host, int(port)) for host, port in (word.rsplit(":", 1) for word in words)]


def stall(order):
    """Holds the interpreter: no other thread runs, as under a long call of an extension."""
    until = time.monotonic() + order["ms"] / 1000
    old = sys.getswitchinterval()
    sys.setswitchinterval(order["ms"] / 1000 + 1)
    while time.monotonic() < until:
        pass
    sys.setswitchinterval(old)


def in_child(work):
    """Runs it in a forked child. How that ended."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(f"child: {error!r}", file=sys.stderr, flush=True)
            os._exit(1)
    return os.waitpid(child, 0)[1]
