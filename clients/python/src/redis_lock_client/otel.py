"""Measures locks with OpenTelemetry.

    from opentelemetry.metrics import get_meter
    from redis_lock_client.otel import Metrics

    locks = Locks(client, name="orders", observer=Metrics(get_meter("shop")))
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

__all__ = ["Metrics"]
_SECONDS = (.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300)
_OUTCOMES: dict[type[LockError], str] = {
    LockBusy: "busy", LockLost: "lost", LockDeadlock: "deadlock", LockNotAlone: "not-alone", LockRefused: "refused",
    LockUnavailable: "unavailable", LockMisuse: "misuse",
}


class Metrics(Observer):
    """The observer that measures, by this meter. docs/monitoring/README.md lists the metrics.

    `attributes` returns attributes that are derived from the key of a lock. Use few different values, because each one
    creates its own series. Without it, no metric depends on keys.

    >>> from opentelemetry.metrics import get_meter
    >>> from redis_lock_client import Locks
    >>> metrics = Metrics(get_meter("shop"), attributes=lambda key: {"kind": key.split(":")[1]})
    >>> with Locks(client, observer=metrics) as locks, locks.lock("lock:orders:42"):  # kind: orders
    ...     pass
    """

    def __init__(self, meter: Meter, *,
                 attributes: Callable[[str], Mapping[str, AttributeValue]] | None = None) -> None:
        self._attributes = attributes
        self._acquires = meter.create_histogram(
            "redis_lock.client.acquire.duration", "s", "How long acquires took, their wait included, by outcome.",
            explicit_bucket_boundaries_advisory=_SECONDS)
        self._held = meter.create_histogram(
            "redis_lock.client.hold.duration", "s", "How long locks were held until their release, by its outcome.",
            explicit_bucket_boundaries_advisory=_SECONDS)
        self._losses = meter.create_counter(
            "redis_lock.client.losses", "{lock}", "Locks that ended before their holder released them.")
        self._cuts = meter.create_counter(
            "redis_lock.client.session.disconnects", "{connection}", "Connections of sessions that were lost.")
        self._down = meter.create_up_down_counter(
            "redis_lock.client.session.detached", "{server}", "Servers without such a connection now.")

    def acquired(self, key: str, seconds: float, error: BaseException | None) -> None:
        self._acquires.record(seconds, self._of(key, _outcome(error)))

    def released(self, key: str, seconds: float, error: BaseException | None) -> None:
        self._held.record(seconds, self._of(key, _outcome(error)))

    def lost(self, key: str, error: LockLost) -> None:
        self._losses.add(1, self._of(key))

    def connection(self, server: str, error: BaseException | None) -> None:
        if error is not None:
            self._cuts.add(1, {"server": server})
        self._down.add(-1 if error is None else 1, {"server": server})

    def _of(self, key: str, outcome: str | None = None) -> dict[str, AttributeValue]:
        of_key = self._attributes(key) if self._attributes else {}
        return {**of_key, "outcome": outcome} if outcome else {**of_key}


def _outcome(error: BaseException | None) -> str:
    if error is None:
        return "done"
    return next((name for kind, name in _OUTCOMES.items() if isinstance(error, kind)), "cancelled")
