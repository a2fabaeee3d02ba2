"""A function that runs once at a time, whoever calls it: what the adapters for task queues have in common."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from .errors import LockBusy, LockMisuse
from .locks import Grant, Locks

P = ParamSpec("P")
R = TypeVar("R")
_running: ContextVar[Grant] = ContextVar("redis_lock_client.alone")


def alone(locks: Locks | Callable[[], Locks], key: str, *, wait: float = 0.0, lease: float = 10.0, keep: float = 30.0,
          at_least: float = 0.0, busy: type[Exception] = LockBusy,
          named: Callable[[str], str] = str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: the function runs under the lock `key`, in which ``{name}`` is the argument of that name.

    Where others hold the lock for all of `wait`, `busy` is raised. `at_least` is for work that is asked for by
    several at nearly the same time: for so many seconds from its begin it does not begin again, also when it ends
    sooner.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        if any(works_later(function) for works_later in
               (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)):
            raise LockMisuse(f"{function.__name__} works after its call has come back, without its lock")
        signature = inspect.signature(function)

        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            name = named(key.format_map(bound.arguments))
            here = locks if isinstance(locks, Locks) else locks()
            with ExitStack() as stack:
                try:
                    held = stack.enter_context(here.lock(name, wait=wait, lease=lease, keep=keep))
                    if at_least:
                        _mark(here, f"{name}:ran", at_least)
                except LockBusy as error:
                    raise (error if busy is LockBusy else busy(str(error))) from error.__cause__
                stack.enter_context(_known(held))
                return function(*args, **kwargs)
            raise AssertionError("not reached: a lock swallows no error")

        return run

    return decorate


def grant() -> Grant:
    """Inside of such a function: its grant, for `grant().token` and `grant().check()`."""
    try:
        return _running.get()
    except LookupError:
        raise LockMisuse("no function of `alone` runs here") from None


@contextmanager
def _known(held: Grant) -> Iterator[None]:
    before = _running.set(held)
    try:
        yield
    finally:
        _running.reset(before)


def _mark(locks: Locks, name: str, seconds: float) -> None:
    """Takes a lock that nobody gives back. Its end is no loss: from here on it is known to the server alone."""
    mark = locks.lock(name, lease=seconds, fixed=True, task=locks.task()).acquire()
    with locks._engine.rt.mutex:
        locks._engine.forget(mark._held, "released")


__all__ = ["LockBusy", "alone", "grant"]
