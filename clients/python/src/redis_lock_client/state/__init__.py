"""A client's state of one server, and the rules by which it changes. No I/O, threads, timers or clock:
replies and events go in with the time, and the commands to send come out. Its callers hold a mutex."""

from .claims import Claim, Task, Terms
from .faults import Fault
from .session import State

__all__ = ["Claim", "Fault", "State", "Task", "Terms"]
