"""The errors of this package. Each names the lock, the server's or the network's words, and what to do."""

from __future__ import annotations


class LockError(Exception):
    """The base class of all errors of this package.

    >>> with locks.lock("lock:orders:42"):
    ...     try:
    ...         locks.lock("lock:orders:42", wait=0)
    ...     except LockBusy as error:
    ...         error.key
    'lock:orders:42'
    """

    key: str = ""
    """The key of the lock, with the client's prefix."""


class LockBusy(LockError):
    """Other owners hold the lock or wait for it, and the time to wait is over."""


class LockLost(LockError):
    """The grant ended before it was released: stop the work under the lock."""

    reason: str = ""
    """Why, in one word or a few: expired, deleted, silence, …"""


class LockDeadlock(LockError):
    """Waiting would create a deadlock cycle: release another lock of the task first."""


class LockNotAlone(LockError):
    """The lock has more holders than the call allows: release it first, then acquire it."""


class LockRefused(LockError):
    """The server refuses: no right, memory is full, a limit is reached, the module is not loaded."""


class LockUnavailable(LockError):
    """No answer, or only temporary errors, until the time was over. The cause is in `__cause__`."""


class LockMisuse(LockError):
    """Wrong arguments, a key of another type, a second release, a closed client, a grant of a parent process."""
