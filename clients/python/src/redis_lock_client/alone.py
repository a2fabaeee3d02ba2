"""A function that runs once at a time, whoever calls it: what the adapters for frameworks have in common."""

from __future__ import annotations

import functools
import inspect
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from .errors import LockBusy, LockMisuse
from .threads import Grant, Locks

F = TypeVar("F", bound=Callable[..., Any])
log = logging.getLogger("redis_lock_client")
_running: ContextVar[Grant] = ContextVar("redis_lock_client.alone")
__all__ = ["LockBusy", "RanAlready", "alone", "grant"]


class RanAlready(LockBusy):
    """The function has run successfully less than `at_least` ago."""


def alone(locks: Locks | Callable[[], Locks], key: str, *, wait: float = 0.0, at_least: float = 0.0,
          named: Callable[[str], str] = str) -> Callable[[F], F]:
    """A decorator: the function runs under the lock `key`, in which ``{name}`` is the argument of that name.

    If others hold the lock for all of `wait` seconds, LockBusy is raised. `at_least` is for work that several callers
    request at nearly the same time: after a run that succeeded, the function does not run again until that many seconds
    have passed since that run began (RanAlready). A run that failed leaves no such mark. Other errors: as `Locks.lock`,
    and LockMisuse, when it decorates a coroutine or a generator.

    >>> @alone(locks, "lock:reports:{day}", wait=10)
    ... def report(day):
    ...     return f"{day}: fenced" if grant().token else day
    >>> report("monday")
    'monday: fenced'
    """

    def enter(stack: ExitStack, name: str) -> None:
        stack.enter_context(turn(locks() if callable(locks) else locks, named(name), wait, at_least))

    return decorator(key, enter)


def grant() -> Grant:
    """Inside such a function: its grant, for `grant().token` and `grant().check()`. Elsewhere it raises LockMisuse."""
    try:
        return _running.get()
    except LookupError:
        raise LockMisuse("this works only in a function that `alone` runs") from None


def decorator(key: str, enter: Callable[[ExitStack, str], None]) -> Callable[[F], F]:
    """Runs a function inside what `enter` enters for the name that its arguments give."""

    def decorate(function: F) -> F:
        if any(works_later(function) for works_later in
               (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)):
            raise LockMisuse(f"{function.__name__} is a coroutine or generator: it would work after its call has "
                             "returned, without the lock")
        signature = inspect.signature(function)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            with ExitStack() as stack:
                enter(stack, key.format_map(bound.arguments))
                return function(*args, **kwargs)

        return run  # type: ignore[return-value]

    return decorate


@contextmanager
def turn(locks: Locks, name: str, wait: float | None, at_least: float) -> Iterator[None]:
    """One run under the lock. Raises RanAlready if the mark of an earlier run exists.

    The mark is a plain key of the server, separate from the lock. (A lock that ended by its lease would count as an
    expiration.)
    """
    with locks.lock(name, wait=wait) as held:
        begun, mark = time.monotonic(), f"{held.key}:ran"
        if at_least and locks.client.get(mark) is not None:
            raise RanAlready(f"{name}: ran less than {at_least:g} s ago ({mark})")
        before = _running.set(held)
        try:
            yield
        finally:
            _running.reset(before)
        left = round((begun + at_least - time.monotonic()) * 1000)
        if left > 0 and held.held:
            try:
                locks.client.set(mark, held.token, px=left)
            except Exception as error:  # the work is done all the same
                log.warning("%s: this run leaves no mark, so it may be repeated: %r", name, error)
