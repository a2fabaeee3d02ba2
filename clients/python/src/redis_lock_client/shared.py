"""One `Locks` for each server of a process, however many clients of it the process makes; and what else only adapters
need."""

from __future__ import annotations

from typing import Any

from ._holding import Holding
from .observer import Observer
from .threads import Locks

_PLAIN = (str, bytes, int, float, bool, type(None))
_all: dict[object, Locks] = {}


def locks_of(client: Any, observer: Observer | None = None) -> Locks:
    """The locks on the server of this client. Clients with the same settings, and this observer, have the same ones.

    They stay until `close`. Frameworks make clients by the dozen, but one session is enough.
    """
    where = settings_of(client), id(observer)
    return _all.get(where) or _all.setdefault(where, Locks(client, observer=observer))


def close() -> None:
    """Releases what the locks of `locks_of` hold, and closes their connections."""
    while _all:
        _all.popitem()[1].close()


def settings_of(client: Any) -> object:
    """The identity of a client's server, and of the user there."""
    if hasattr(client, "nodes_manager"):
        nodes = client.nodes_manager
        return type(client), tuple(sorted(map(str, nodes.startup_nodes))), _plain(nodes.connection_kwargs)
    if not hasattr(client, "connection_pool"):
        return type(client), id(client)  # which is refused
    pool = client.connection_pool
    sentinels = [one.connection_pool for one in getattr(getattr(pool, "sentinel_manager", None), "sentinels", ())]
    return (pool.connection_class, _plain(pool.connection_kwargs), getattr(pool, "service_name", None),
            tuple(_plain(one.connection_kwargs) for one in sentinels))


def _plain(settings: dict[str, Any]) -> tuple[object, ...]:
    plain: dict[str, object] = {name: value for name, value in settings.items() if isinstance(value, _PLAIN)}
    if settings.get("credential_provider") is not None:
        plain["credential_provider"] = id(settings["credential_provider"])
    return tuple(sorted(plain.items()))


def limit(grant: Holding, seconds: float) -> None:
    """Makes the grant end this many seconds from now, whatever its maximum time was."""
    grant._node.do(grant._node.state.time, grant._claim, seconds)
