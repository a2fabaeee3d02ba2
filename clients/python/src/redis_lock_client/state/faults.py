"""Replies that are errors, and replies that did not come."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, TypeVar

from ..errors import LockDeadlock, LockError, LockLost, LockMisuse, LockNotAlone, LockRefused, LockUnavailable

Command = tuple[Any, ...]
E = TypeVar("E", bound=LockError)

PASSING = frozenset("NOSESSION LOADING BUSY READONLY MASTERDOWN NOREPLICAS MISCONF UNBLOCKED CLUSTERDOWN TRYAGAIN"
                    " MOVED ASK REDIRECT".split())
GONE = frozenset("NOTHELD NOTOWNER FENCED WRONGTYPE".split())
REFUSED = "NOPERM NOAUTH WRONGPASS OOM MAXWAITERS MAXSESSIONS DENIED NOPROTO AHEAD CERTIFICATE".split()
KINDS: dict[str, type[LockError]] = {
    "DEADLOCK": LockDeadlock, "NOTALONE": LockNotAlone, "NOTHELD": LockLost, "NOTOWNER": LockLost, "FENCED": LockLost,
    **dict.fromkeys(REFUSED, LockRefused),
}
# Error replies without a word of their own.
REFUSALS = ("ERR unknown command", "ERR unknown subcommand", "ERR invalid password", "ERR AUTH",
            "ERR Protocol error: unauthenticated", "ERR no fencing token is left", "ERR a fault inside the module")
FULL = "ERR max number of clients"
HINTS = (("WRONGTYPE", "this key is not a lock of the module: an old SET NX lock of this name?"),
         ("ERR unknown command", "is the module lock, 0.3 or later, loaded there?"),
         ("DEADLOCK", "release another lock of the task first"),
         ("NOTALONE", "release the lock first, then acquire it"))


class Fault(NamedTuple):
    """An error reply, or a reply that did not come. `word` is the first word of an error reply; empty without a reply.
    `sent`: the server may have received the call, or may yet."""

    text: str
    cause: Optional[BaseException] = None
    word: str = ""
    sent: bool = True

    @staticmethod
    def reply(text: str, cause: BaseException | None = None) -> Fault:
        """An error reply of the server."""
        if text.startswith(FULL):
            return Fault(text, cause, sent=False)
        return Fault(text, cause, text.split(" ", 1)[0])

    @property
    def no_reply(self) -> bool:
        """Whether the server may still carry out the call."""
        return not self.word and self.sent

    @property
    def passing(self) -> bool:
        """Whether the same call may succeed later."""
        return not self.word or self.word in PASSING

    @property
    def gone(self) -> bool:
        """Whether the grant that the call was about is over."""
        return self.word in GONE

    def error(self, key: str, server: str) -> LockError:
        """The error of a call that got this as its last reply. It names the server, if the call's time is over."""
        if self.passing:
            return made(LockUnavailable, key, f"no answer from {server}: {self.text}", self.cause)
        kind = KINDS.get(self.word, LockRefused if self.text.startswith(REFUSALS) else LockMisuse)
        hint = "".join(f" ({hint})" for begin, hint in HINTS if self.text.startswith(begin))
        return made(kind, key, self.text + hint, self.cause)


def made(kind: type[E], key: str, text: str, cause: BaseException | None = None) -> E:
    """An error that names the lock."""
    error = kind(f"{key}: {text}")
    error.key, error.__cause__ = key, cause
    return error
