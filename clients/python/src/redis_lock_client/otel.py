"""Measures locks with OpenTelemetry.

    from opentelemetry.metrics import get_meter
    from redis_lock_client.otel import Metrics

    locks = Locks(client, service="orders", observer=Metrics(get_meter("shop")))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opentelemetry.metrics import Meter
from opentelemetry.util.types import AttributeValue

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
from .options import Key

__all__ = ["Metrics"]
_SECONDS = (.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300)
_OUTCOMES: dict[type[LockError], str] = {
    LockBusy: "busy", LockLost: "lost", LockDeadlock: "deadlock", LockNotAlone: "not-alone", LockRefused: "refused",
    LockUnavailable: "unavailable", LockMisuse: "misuse",
}


class Metrics(Observer):
    """The observer that measures, by this meter. The metrics are listed in README.md.

    `attributes` gives some that tell of the key of a lock. Give few different ones: each makes series of its own.
    Without it, no metric tells of keys.
    """

    def __init__(self, meter: Meter, *,
                 attributes: Callable[[Key], Mapping[str, AttributeValue]] | None = None) -> None:
        self._attributes = attributes
        self._acquires = meter.create_histogram(
            "redislock.acquire.duration", "s", "How long acquires took, their wait included, by outcome.",
            explicit_bucket_boundaries_advisory=_SECONDS)
        self._held = meter.create_histogram(
            "redislock.held.duration", "s", "How long locks were held until their release, by its outcome.",
            explicit_bucket_boundaries_advisory=_SECONDS)
        self._losses = meter.create_counter(
            "redislock.losses", "{lock}", "Locks that ended otherwise than by their release.")
        self._ends = meter.create_counter(
            "redislock.keeper.ends", "{connection}", "Connections that kept locks, and were lost.")
        self._down = meter.create_up_down_counter(
            "redislock.keeper.down", "{server}", "Servers without such a connection now.")

    def acquired(self, key: Key, seconds: float) -> None:
        self._acquires.record(seconds, self._of(key, "done"))

    def refused(self, key: Key, seconds: float, error: BaseException) -> None:
        self._acquires.record(seconds, self._of(key, _outcome(error)))

    def released(self, key: Key, seconds: float, error: BaseException | None) -> None:
        self._held.record(seconds, self._of(key, _outcome(error)))

    def lost(self, key: Key, error: LockLost) -> None:
        self._losses.add(1, self._of(key))

    def keeper_down(self, server: str, error: LockError) -> None:
        self._ends.add(1, {"server.address": server})
        self._down.add(1, {"server.address": server})

    def keeper_up(self, server: str) -> None:
        self._down.add(-1, {"server.address": server})

    def _of(self, key: Key, outcome: str | None = None) -> dict[str, AttributeValue]:
        of_key = self._attributes(key) if self._attributes else {}
        return {**of_key, "outcome": outcome} if outcome else {**of_key}


def _outcome(error: BaseException | None) -> str:
    if error is None:
        return "done"
    return next((name for kind, name in _OUTCOMES.items() if isinstance(error, kind)), "cancelled")
