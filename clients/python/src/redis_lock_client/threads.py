"""The locks of a program with threads. `redis_lock_client.asyncio` has the same names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from ._holding import Holding, release_all
from ._locking import Locking
from ._threads import Threads, run
from .state import Task

__all__ = ["Grant", "Grants", "Locks", "Task"]


class Grant(Holding, AbstractContextManager["Grant"]):
    """A lock that is held, until its release or its loss. A context manager: the end of the block releases it.

    If the block raises, its error is raised as it is, even if the release fails.

    >>> grant = locks.lock("lock:orders:42")
    >>> grant.check()  # before a step that matters
    >>> grant.extend(30)
    >>> grant.release()
    """

    def on_lost(self, call: Callable[[Grant], object]) -> None:
        """Calls this, on a thread of its own, when the grant is lost, not when it is released; at once if it is lost
        already. The reason is in `lost`.

        >>> grant, stop = locks.lock("lock:orders:42"), threading.Event()
        >>> grant.on_lost(lambda grant: stop.set())
        >>> server.lose("lock:orders:42")  # as an operator's DEL
        True
        >>> stop.wait(20), grant.lost
        (True, 'deleted')
        """
        self._on_lost(call)

    def check(self) -> None:
        """Asks the server whether the grant still exists; use it before a step that matters. Raises LockLost if it does
        not, LockUnavailable without an answer."""
        run(self._check())

    def extend(self, lease: float) -> None:
        """Gives the grant another lease, in seconds from now on: at least 1, or 0.001 if fixed. The server then renews
        it with that lease, unless it is fixed. Raises LockLost, LockUnavailable, LockMisuse."""
        run(self._extend(lease))

    def release(self) -> None:
        """Gives the lock back, or one hold of it. Raises LockLost if it was lost before, LockUnavailable without an
        answer within two replies (then the session repeats the release), LockMisuse if it was released already."""
        run(self._release())

    def detach(self, lease: float) -> None:
        """Lets go of the lock without releasing it: nobody renews it, and it lasts for this lease, in seconds, during
        which `Locks.adopt` can take it over by its key, owner and token. Not a loss; `held` is false from now on.
        Raises LockLost, LockUnavailable; LockMisuse for a lease below 0.001."""
        run(self._detach(lease))

    def __exit__(self, *error: Any) -> None:
        run(self._exit(error[1]))


class Grants(list[Grant], AbstractContextManager["Grants"]):
    """Several locks that were acquired together, sorted by key. A context manager: the end of the block releases
    them."""

    def release(self) -> None:
        """Gives all back, the last one first. Raises the first error, after all have been tried."""
        run(release_all(self, None))

    def __exit__(self, *error: Any) -> None:
        run(release_all(self, error[1]))


class Locks(Locking[Grant], AbstractContextManager["Locks"]):
    """The locks of one program on one server or cluster, for any number of threads. It opens no connection yet, and
    closes no client. After a fork the child has no grants, and can acquire locks of its own. A context manager: the end
    of the block calls `close`.

    >>> with Locks(client, name="orders", prefix="lock:") as locks, locks.lock("orders:42") as grant:
    ...     grant.key
    'lock:orders:42'
    """

    _grant = Grant
    _make_world = Threads

    def lock(self, key: str | bytes, *, wait: float | None = None, shared: bool = False, permits: int | None = None,
             lease: float | None = None, max_hold: float | None = None, task: Task | None = None,
             on_lost: Callable[[Grant], object] | None = None, stop: threading.Event | None = None) -> Grant:
        """Acquires a lock and returns its Grant: `with locks.lock("orders:42", wait=10) as grant`.

        - `wait`: seconds to wait in line; 0: now or never; None: without a limit.
        - `shared`: together with other shared holders.
        - `permits`: one of this many, if all callers give the same number.
        - `lease`: a fixed lease in seconds. It is the whole life of the grant: only `Grant.extend` renews it.
        - `max_hold`: the grant ends after this many seconds: then it is lost.
        - `task`: the owner; without one each acquire is an owner of its own. If the task holds the lock already, that
          grant is returned with another hold, and takes one more release. With permits the task is not used.
        - `on_lost`: as `Grant.on_lost`.
        - `stop`: ends the wait when it is set, within 10 ms (LockBusy).

        Raises LockBusy, LockUnavailable, LockRefused, LockDeadlock, LockNotAlone, LockMisuse, LockLost.

        >>> with locks.lock("lock:orders:42", wait=10) as grant:
        ...     grant.held
        True
        >>> with locks.lock("lock:exports", permits=3, wait=0):  # one of three
        ...     pass
        """
        terms = self._terms(wait, shared, permits, lease, max_hold, on_lost, stop.is_set if stop else None)
        return run(self._acquire(self._full(key), terms, task))

    def lock_all(self, keys: Iterable[str | bytes], *, wait: float | None = None, shared: bool = False,
                 permits: int | None = None, lease: float | None = None, max_hold: float | None = None,
                 on_lost: Callable[[Grant], object] | None = None, stop: threading.Event | None = None) -> Grants:
        """Acquires the locks of several keys, or none, in the order of their names, so that two callers never wait
        for each other. They have one owner (unless they are permits) and one time to wait. The rest, and what it
        raises: as `lock`. If one of them is not granted, none is held.

        >>> with locks.lock_all(["lock:seat:2", "lock:seat:1"], wait=10) as grants:
        ...     [grant.key for grant in grants]
        ['lock:seat:1', 'lock:seat:2']
        """
        terms = self._terms(wait, shared, permits, lease, max_hold, on_lost, stop.is_set if stop else None)
        return Grants(run(self._acquire_all(keys, terms)))

    def adopt(self, key: str | bytes, owner: str, token: int, *, lease: float | None = None,
              max_hold: float | None = None, on_lost: Callable[[Grant], object] | None = None) -> Grant:
        """Takes over a grant that another process has detached. Without a fixed lease the server renews it from now
        on. One release gives back all its holds. The key is without the prefix; the rest: as in `lock`. Raises LockLost
        if it is gone, LockUnavailable, LockRefused.

        >>> grant = locks.lock("lock:upload:7")
        >>> grant.detach(60)
        >>> with Locks(client, name="uploads") as other:  # in another process
        ...     with other.adopt("lock:upload:7", grant.owner, grant.token) as adopted:
        ...         adopted.token == grant.token
        True
        """
        terms = self._terms(0, False, None, lease, max_hold, on_lost)
        return run(self._acquire(self._full(key), terms, None, owner, token))

    def lead(self, key: str | bytes, work: Callable[[Grant], object], *, stop: threading.Event | None = None,
             shared: bool = False, permits: int | None = None, lease: float | None = None,
             max_hold: float | None = None) -> None:
        """Elects a leader: waits for the lock as long as it takes, calls `work` with the grant, and begins again when
        the work has returned or the lock was lost. It ends when `stop` is set, when the work fails for another reason
        than the loss, and when the lock fails with an error that is not temporary. The work should look at `grant.held`
        and `stop`. The rest: as in `lock`. Raises LockRefused, LockDeadlock, LockNotAlone, LockMisuse, and what the
        work raises.

        >>> stop = threading.Event()
        >>> locks.lead("lock:leader", lambda grant: stop.set(), stop=stop)
        """
        terms = self._terms(None, shared, permits, lease, max_hold, None, stop.is_set if stop else None)

        run(self._lead(self._full(key), work, terms))

    def close(self) -> None:
        """Ends all waits, releases all locks and closes the connections, but not the client. Call it when the work
        under the locks has stopped. It takes at most two replies; a lock that could not be released is free a lease
        later. It raises nothing, and a second call does nothing."""
        run(self._close())

    def __exit__(self, *error: Any) -> None:
        self.close()
