"""What a call asks for: its arguments, checked."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from .errors import LockMisuse
from .resp import Word

Key = str | bytes
TEN_YEARS = 10 * 365 * 86_400.0
FOR_EVER = math.inf


@dataclass(frozen=True)
class Limits:
    """How long calls may take, in seconds."""

    reply: float = 1.0
    now: float = 1.0
    release: float = 2.0
    close: float = 2.0


@dataclass(frozen=True)
class Request:
    """One lock, as it is asked for. All times are in seconds."""

    key: Key
    limit: int = 1  # how many holders it bears; 0: any number
    wait: float = 0.0
    lease: float = 10.0
    keep: float = 30.0  # 0: nobody renews the lease
    at_most: float = FOR_EVER
    owner: str | None = None
    replicas: int = 0
    is_permit: bool = False  # each hold is a place of its own
    name: bytes = field(init=False, repr=False, compare=False)  # the key as the server knows it

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", key_bytes(self.key))

    def mode(self) -> tuple[Word, ...]:
        """The words of the call that say how many holders it bears."""
        return () if self.limit == 1 else ("SHARED",) if self.limit == 0 else ("LIMIT", self.limit)


def key_bytes(key: Key) -> bytes:
    """A key as the server knows it."""
    return key if isinstance(key, bytes) else key.encode("utf-8", "surrogateescape")


def milliseconds(seconds: float) -> int:
    """At least one, for 0 has a meaning of its own."""
    return max(1, math.ceil(seconds * 1000))


def request(
    key: Key, *, limit: int = 1, wait: float = 0.0, lease: float = 10.0, keep: float = 30.0, fixed: bool = False,
    at_most: float | None = None, owner: str | None = None, replicas: int = 0, permit: bool = False,
) -> Request:
    """A request out of the user's arguments."""
    if not isinstance(key, (str, bytes)):
        raise LockMisuse(f"a key is str or bytes, not {type(key).__name__}")
    seconds("wait", wait, 0.0, FOR_EVER)
    seconds("lease", lease, 0.001 if fixed else 1.0, TEN_YEARS)
    seconds("keep", keep, 1.0, TEN_YEARS)
    if at_most is not None:
        seconds("at_most", at_most, 0.001, FOR_EVER)
        if fixed:
            raise LockMisuse("at_most is for a lock that is kept: a fixed lease is its own end")
        if at_most <= lease:
            lease, fixed, at_most = at_most, True, None
    if limit < 0 or limit > 2**31 - 1:
        raise LockMisuse(f"a limit is from 1 to 2^31 - 1, not {limit}")
    if owner is not None and not 1 <= len(owner.encode("utf-8", "surrogateescape")) <= 256:
        raise LockMisuse("an owner has 1 to 256 bytes")
    if replicas < 0:
        raise LockMisuse(f"replicas is 0 or more, not {replicas}")
    end = FOR_EVER if at_most is None else at_most
    return Request(key, limit, float(wait), lease, 0.0 if fixed else keep, end, owner, replicas, permit)


def seconds(name: str, value: float, least: float, most: float) -> None:
    """Refuses what is no time of this range."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        told = "for ever (math.inf)" if most == FOR_EVER else f"{most:.0f}"
        raise LockMisuse(f"{name} is from {least:g} s to {told}, not {value!r}")
