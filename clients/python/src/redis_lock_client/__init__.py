"""Distributed locks by the module redis-lock for Redis and Valkey, for threads. `redis_lock_client.asyncio` is the same
for asyncio.

    import redis
    from redis_lock_client import Locks

    locks = Locks(redis.Redis(), name="orders")  # one for the process
    with locks.lock("lock:orders:42", wait=10) as grant:
        print("fence writes with", grant.token)
    locks.close()
"""

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
from .observer import Observer
from .threads import Grant, Grants, Locks, Task

__version__ = "0.3.0"
__all__ = ["Grant", "Grants", "LockBusy", "LockDeadlock", "LockError", "LockLost", "LockMisuse", "LockNotAlone",
           "LockRefused", "LockUnavailable", "Locks", "Observer", "Task"]
