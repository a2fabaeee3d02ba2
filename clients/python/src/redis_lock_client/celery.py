"""Celery tasks that run once at a time, also when several beats, or a redelivery, have sent them more than once.

    locks = Locks(redis.Redis(), service="reports")

    @app.task
    @alone(locks, "lock:reports:{day}", at_least=60)
    def report(day): ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from celery.exceptions import Ignore

from . import alone as _alone
from .alone import grant
from .locks import Locks

P = ParamSpec("P")
R = TypeVar("R")
__all__ = ["alone", "grant"]


def alone(locks: Locks | Callable[[], Locks], key: str, *, wait: float = 0.0, lease: float = 10.0, keep: float = 30.0,
          at_least: float = 0.0) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator, below `@app.task`: see `redis_lock_client.alone`. A run that finds another is ignored by Celery."""
    return _alone.alone(locks, key, wait=wait, lease=lease, keep=keep, at_least=at_least, busy=Ignore)
