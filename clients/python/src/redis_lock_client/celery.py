"""Celery tasks that run once at a time, even if several beats, or a redelivery, have sent them more than once.

    locks = Locks(redis.Redis(), name="reports")

    @app.task
    @alone(locks, "lock:reports:{day}", at_least=60)
    def report(day): ...
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar

from celery import current_task
from celery.exceptions import Ignore, Retry

from .alone import RanAlready, decorator, grant, turn
from .errors import LockBusy, LockMisuse
from .threads import Locks

F = TypeVar("F", bound=Callable[..., Any])
__all__ = ["alone", "grant"]


def alone(locks: Locks | Callable[[], Locks], key: str, *, if_busy: str = "skip",
          at_least: float = 0.0) -> Callable[[F], F]:
    """A decorator, below `@app.task`: see `redis_lock_client.alone`.

    `if_busy` says what happens to a message that finds another run: "skip" ignores it, "retry" sends it again after the
    task's `default_retry_delay`, without counting as one of its `max_retries`, "wait" waits in line on its worker. A
    message that was redelivered may find the lock of its own run, whose worker is dead. So "skip" first waits until the
    lease of a dead worker must be over. A call outside a worker gets LockBusy.

    >>> from celery import Celery
    >>> app = Celery("shop")
    >>> @app.task(default_retry_delay=5)
    ... @alone(locks, "lock:stock:{shop}", if_busy="retry")
    ... def count_stock(shop):
    ...     grant().check()  # before a step that matters
    ...     return f"{shop}: counted"
    >>> count_stock("north")
    'north: counted'
    """
    if if_busy not in ("skip", "retry", "wait"):
        raise LockMisuse(f"if_busy={if_busy!r}: it is 'skip', 'retry' or 'wait'")

    def enter(stack: ExitStack, name: str) -> None:
        here = locks() if callable(locks) else locks
        task: Any = current_task
        request = task.request if task else None
        wait: float | None = None if if_busy == "wait" else 0.0
        if if_busy == "skip" and request and (request.delivery_info or {}).get("redelivered"):
            wait = here.lease + 2.0
        try:
            stack.enter_context(turn(here, name, wait, at_least))
        except LockBusy as error:
            if not request or request.called_directly or request.is_eager:
                raise
            if if_busy == "retry" and not isinstance(error, RanAlready):
                raise _sent_again(task, str(error)) from error
            raise Ignore(str(error)) from error

    return decorator(key, enter)


def _sent_again(task: Any, why: str) -> Retry:
    delay = task.default_retry_delay
    again = task.signature_from_request(task.request, countdown=delay, retries=task.request.retries)
    again.apply_async()
    return Retry(why, when=delay, sig=again)
