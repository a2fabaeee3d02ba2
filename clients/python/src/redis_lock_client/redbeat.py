"""celery-redbeat, whose one active beat is found by this module: for `beat_scheduler`.

    app.conf.beat_scheduler = "redis_lock_client.redbeat:Scheduler"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from celery.utils.log import get_logger
from redbeat.schedulers import RedBeatScheduler, get_redis

from .lock_class import KeptLock

__all__ = ["Scheduler"]
logger = get_logger("celery.beat")


class Scheduler(RedBeatScheduler):  # type: ignore[misc]
    """A beat whose process dies is followed by another within ten seconds, whatever `redbeat_lock_timeout` is.

    That setting is how long a beat may hang in one tick and stay the active one. A beat that has lost the lock gets
    in line for it again.
    """

    lock: KeptLock | None
    lock_key: str | None
    _is_closed = False

    def __init__(self, app: Any, lock_key: str | None = None, lock_timeout: float | None = None, **rest: Any) -> None:
        super().__init__(app, lock_key=lock_key, lock_timeout=lock_timeout, **rest)
        # redbeat takes a lock of its own where it finds a key here.
        self.beat_key, self.lock_key = self.lock_key, None

    def tick(self, min: Callable[[Iterable[float]], float] = min, **rest: Any) -> float:
        """Sends what is due, as the active beat alone."""
        if self._is_closed:
            raise SystemExit  # once more: that of the signal may end as an error of redis-py, which beat logs
        if self.beat_key and not self._is_active():
            return min([1.0, self.max_interval])
        interval: float = super().tick(min=min, **rest)
        return interval

    def _is_active(self) -> bool:
        """Makes sure of the lock, or gets it, in line. False while its server gives no answer."""
        if self.lock is not None and self.lock.local.token is not None:
            try:
                self.lock.reacquire()
                return True
            except self.lock._errors.LockNotOwnedError as error:
                logger.warning("beat: the lock was lost: %s", error)
            except self.lock._errors.ConnectionError as error:
                logger.warning("beat: nothing is sent, as nobody knows whether the lock is held: %s", error)
                return False
        client = get_redis(self.app)
        client = getattr(client, "wrapped_connection", client)
        lock: KeptLock = client.lock(self.beat_key, timeout=self.lock_timeout, lock_class=KeptLock)
        self.lock = lock  # from here on `close` finds it
        logger.debug("beat: Acquiring lock...")
        lock.acquire()
        logger.info("beat: Acquired lock")
        return True

    def close(self) -> None:
        """Gives the lock back.

        Beat calls it in the handler of a signal. What it raised there would be taken for an error of what the signal has
        interrupted, and beat would go on.
        """
        self._is_closed, lock, self.lock = True, self.lock, None
        if lock is not None and lock.local.token is not None:
            logger.info("beat: Releasing lock")
            try:
                lock.release()
            except lock._errors.RedisError as error:
                logger.warning("beat: the lock could not be released: %s", error)
        super().close()

    @property
    def info(self) -> str:
        """What beat prints at its start."""
        return f"{super().info}\n       . lock -> `{self.beat_key}` {self.lock_timeout:g}s"
