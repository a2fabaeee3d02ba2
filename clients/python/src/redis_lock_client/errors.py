"""The errors of this package, and what an error reply of the server means."""

from __future__ import annotations

__all__ = [
    "LockBusy", "LockDeadlock", "LockError", "LockLost", "LockMisuse", "LockNotAlone", "LockRefused",
    "LockUnavailable",
]


class LockError(Exception):
    """What all errors of this package are. What caused one is its ``__cause__``."""


class LockBusy(LockError):
    """Others hold the lock, or are in line for it, and the time to wait is over."""


class LockLost(LockError):
    """The grant has ended otherwise than by its release, or nothing has been heard of it for a lease."""

    of: object = None  # the ownership that was lost


class LockDeadlock(LockError):
    """To wait would close a circle of waits. Release what the task holds, then begin again."""


class LockNotAlone(LockError):
    """A hold was asked for that bears fewer holders than the lock has now. Release first, then acquire."""


class LockRefused(LockError):
    """The server refuses: no right, a wrong password, memory full, or the module is not loaded."""


class LockUnavailable(LockError):
    """The server could not be reached, or gave no answer, in time."""


class LockMisuse(LockError):
    """Wrong arguments, another type of key, a closed client, a release without a hold."""


class ServerError(Exception):
    """An error reply, as the server wrote it."""


# What an error reply means, by the words that it begins with: the first that fit count. Where it differs, for
# acquire, renew and release. It says what clients/protocol/errors.json says; a test compares the two.
_LOST = ("lost", "lost", "lost")
_REFUSED = ("refused", "refused", "refused")
_REFUSED_BUT_KEPT = ("refused", "passing", "refused")  # while a grant stands, what refuses its renewal may pass
_PASSING = ("passing", "passing", "passing")
_MISUSE = ("misuse", "misuse", "misuse")
MEANINGS: dict[str, tuple[str, str, str]] = {
    **dict.fromkeys(("NOTHELD", "NOTOWNER", "FENCED"), _LOST),
    "WRONGTYPE": ("misuse", "lost", "lost"),
    "NOTALONE": ("not-alone", "not-alone", "misuse"),
    "DEADLOCK": ("deadlock", "misuse", "misuse"),
    **dict.fromkeys(
        ("MAXWAITERS", "OOM", "AHEAD", "ERR unknown command", "ERR KEEP needs the command CLIENT",
         "ERR no fencing token is left"), _REFUSED),
    **dict.fromkeys(
        ("NOPERM", "NOAUTH", "WRONGPASS", "DENIED", "NOPROTO", "ERR invalid password", "ERR AUTH",
         "ERR Protocol error: unauthenticated", "ERR a fault inside the module"), _REFUSED_BUT_KEPT),
    "ERR max number of clients": _PASSING,
    **dict.fromkeys(("ERR", "CROSSSLOT"), _MISUSE),
    **dict.fromkeys(
        ("LOADING", "BUSY", "NOREPLICAS", "MISCONF", "READONLY", "MASTERDOWN", "UNBLOCKED", "CLUSTERDOWN",
         "TRYAGAIN", "MOVED", "ASK", "REDIRECT"), _PASSING),
    "": _MISUSE,
}
ACQUIRE, RENEW, RELEASE = range(3)
_TOLD: dict[str, type[LockError]] = {
    "lost": LockLost, "deadlock": LockDeadlock, "not-alone": LockNotAlone, "refused": LockRefused,
    "misuse": LockMisuse, "passing": LockUnavailable,
}


def meaning(text: str, kind: int) -> str:
    """The class of an error reply, for a call of this kind."""
    return next(classes[kind] for begins, classes in MEANINGS.items() if text.startswith(begins))


def is_of_replica(reply: object) -> bool:
    """Whether a server says that it is not the primary any more, or was none at that moment."""
    return isinstance(reply, ServerError) and str(reply).startswith(("READONLY", "MASTERDOWN", "UNBLOCKED"))


def error_of(key: object, cause: Exception, kind: int) -> LockError:
    """What the user is told of an error reply."""
    text = str(cause)
    told = _TOLD[meaning(text, kind)](f"{show(key)}: {text}")
    if text.startswith("ERR unknown command"):
        told = LockRefused(f"{show(key)}: {text} (is the module lock loaded?)")
    told.__cause__ = cause
    return told


def show(key: object) -> str:
    """A key as it stands in messages."""
    return key.decode(errors="backslashreplace") if isinstance(key, bytes) else str(key)


def closed(key: object) -> LockMisuse:
    """What is told once the locks are closed."""
    return LockMisuse(f"{show(key)}: the locks are closed")


def caused(error: LockError, cause: BaseException | None) -> LockError:
    """The error, with its cause."""
    error.__cause__ = cause
    return error
