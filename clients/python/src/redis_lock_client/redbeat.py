"""celery-redbeat, whose one active beat is found by this module: for `beat_scheduler`.

    app.conf.beat_scheduler = "redis_lock_client.redbeat:Scheduler"
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from celery.utils.log import get_logger
from redbeat.schedulers import RedBeatScheduler, get_redis

from .errors import LockError, LockLost
from .shared import limit, locks_of
from .threads import Grant

__all__ = ["Scheduler"]
logger = get_logger("celery.beat")


class Scheduler(RedBeatScheduler):  # type: ignore[misc]
    """A beat whose process dies is followed by another within ten seconds, whatever `redbeat_lock_timeout` is.

    That setting is how long a beat may hang in one tick and stay the active one. A beat that has lost the lock waits
    in line for it again.
    """

    lock_key: str | None
    _grant: Grant | None = None
    _is_closed = False

    def __init__(self, app: Any, lock_key: str | None = None, lock_timeout: float | None = None, **rest: Any) -> None:
        super().__init__(app, lock_key=lock_key, lock_timeout=lock_timeout, **rest)
        # redbeat acquires a lock of its own if it finds a key here.
        self.beat_key, self.lock_key = self.lock_key, None

    def tick(self, min: Callable[[Iterable[float]], float] = min, **rest: Any) -> float:
        """Sends the tasks that are due, only if this beat is the active one."""
        if self._is_closed:
            raise SystemExit  # again: redis-py may turn the one of the signal into an error, which beat only logs
        if self.beat_key and not self._is_active():
            return min([1.0, self.max_interval])
        interval: float = super().tick(min=min, **rest)
        return interval

    def _is_active(self) -> bool:
        """Makes sure of the lock, or waits in line for it. False while its server does not answer."""
        try:
            if self._grant is not None:
                self._grant.check()
                limit(self._grant, self.lock_timeout)
                return True
        except LockLost as error:
            logger.warning("beat: %s", error)
        except LockError as error:
            logger.warning("beat: nothing is sent, because the lock may be lost: %s", error)
            return False
        client = get_redis(self.app)
        locks = locks_of(getattr(client, "wrapped_connection", client))
        logger.debug("beat: Acquiring lock...")
        self._grant = locks.lock(self.beat_key or "", max_hold=self.lock_timeout)
        logger.info("beat: Acquired lock")
        return True

    def close(self) -> None:
        """Gives the lock back.

        Beat calls it in a signal handler. So it is released on another thread, since this one may be inside the client;
        and an error is only logged, since beat would take it for an error of the code that the signal has interrupted.
        """
        self._is_closed, grant, self._grant = True, self._grant, None
        if grant is not None:
            releasing = threading.Thread(target=_release, args=(grant,), name="redbeat-release")
            releasing.start()
            releasing.join(3)
        super().close()

    @property
    def info(self) -> str:
        """The text that beat prints at its start."""
        return f"{super().info}\n       . lock -> `{self.beat_key}` {self.lock_timeout:g}s"


def _release(grant: Grant) -> None:
    logger.info("beat: Releasing lock")
    try:
        grant.release()
    except LockError as error:
        logger.warning("beat: %s", error)
