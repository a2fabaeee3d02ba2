"""Distributed locks of redis-lock, for threads. With asyncio: `redis_lock_client.asyncio`.

    import redis
    from redis_lock_client import Locks

    locks = Locks(redis.Redis(), service="orders")  # one for the process
    with locks.lock("lock:orders:42", wait=10) as grant:
        print("fence writes with", grant.token)
    locks.close()
"""

from .base import Holder
from .errors import (
    LockBusy,
    LockDeadlock,
    LockError,
    LockLost,
    LockMisuse,
    LockNotAlone,
    LockRefused,
    LockUnavailable,
)
from .locks import AllLocks, Grant, Lock, Locks
from .observer import Observer
from .owners import Task

__version__ = "0.2.0"
__all__ = ["AllLocks", "Grant", "Holder", "Lock", "LockBusy", "LockDeadlock", "LockError", "LockLost", "LockMisuse",
           "LockNotAlone", "LockRefused", "LockUnavailable", "Locks", "Observer", "Task"]
