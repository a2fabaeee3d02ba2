"""Connections with the settings of the user's client: redis-py and valkey-py, for threads and for asyncio.

The library opens a connection: address, TLS, login, Sentinel, hooks. This is the only place that knows its names.
"""

from __future__ import annotations

import importlib
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .errors import LockError, LockMisuse, LockRefused, meaning
from .keeper import Unanswered
from .options import Limits

# Settings of the libraries that are not taken over: names, repetitions, health checks, messages of maintenance.
_LEFT_OUT = ("client_name", "retry_on_timeout", "retry_on_error", "health_check_interval", "decode_responses",
             "maint_notifications_config", "maint_notifications_pool_handler", "maintenance_state",
             "maintenance_notification_hash", "oss_cluster_maint_notifications_handler", "orig_host_address",
             "orig_socket_timeout", "orig_socket_connect_timeout")
# What names the error replies whose first word the libraries take away.
_WORDS = {"BusyLoadingError": "LOADING", "ReadOnlyError": "READONLY", "NoPermissionError": "NOPERM",
          "AuthenticationError": "NOAUTH", "OutOfMemoryError": "OOM", "ClusterDownError": "CLUSTERDOWN",
          "MasterDownError": "MASTERDOWN", "MovedError": "MOVED", "AskError": "ASK", "TryAgainError": "TRYAGAIN",
          "AuthenticationWrongNumberOfArgsError": "ERR AUTH", "MaxClientsError": "ERR max number of clients reached"}
# The operating system notices a peer that is gone, also where a call waits for ever.
_ALIVE = {getattr(socket, name): value for name, value in
          (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)) if hasattr(socket, name)}


@dataclass(frozen=True)
class Node:
    """A server, and how a connection to it is made."""

    address: object
    name: str = field(compare=False)  # as it is shown
    make: Callable[[], Any] = field(compare=False)


class Source:
    """The user's client, as where connections come from."""

    def __init__(self, client: Any, limits: Limits, is_async: bool) -> None:
        self.client, self.limits, self._is_async = client, limits, is_async
        names = [kind.__module__ for kind in type(client).__mro__]
        self.library = next((name.split(".")[0] for name in names if name.split(".")[0] in ("redis", "valkey")), "")
        if not self.library:
            raise LockMisuse(f"a client of redis-py or valkey-py is needed, not {type(client).__name__}")
        if is_async != any(name.startswith(f"{self.library}.asyncio") for name in names):
            raise LockMisuse("for a client of asyncio: redis_lock_client.asyncio; for others: redis_lock_client")
        self.is_cluster = hasattr(client, "nodes_manager")
        self._moves: dict[int, tuple[str, int]] = {}
        self._single = None if self.is_cluster else self._pooled(client.connection_pool)

    def _pooled(self, pool: Any) -> Node:
        settings, kind = pool.connection_kwargs, pool.connection_class
        name = getattr(pool, "service_name", None) or settings.get("path") or _joined(
            settings.get("host", "localhost"), settings.get("port", 6379))
        return Node("", str(name), lambda: self._connection(kind, settings))

    def _connection(self, kind: Any, settings: dict[str, Any]) -> Any:
        kept = {name: value for name, value in settings.items() if name not in _LEFT_OUT}
        own: dict[str, Any] = {"socket_timeout": self.limits.reply, "socket_connect_timeout": self.limits.reply,
                               "retry": self._no_retry()}
        if not any("UnixDomainSocket" in base.__name__ for base in kind.__mro__):
            own |= {"socket_keepalive": True, "socket_keepalive_options": _ALIVE}
        return kind(**{**kept, **own})

    def _no_retry(self) -> Any:
        name = f"{self.library}.asyncio.retry" if self._is_async else f"{self.library}.retry"
        backoff = importlib.import_module(f"{self.library}.backoff")
        return importlib.import_module(name).Retry(backoff.NoBackoff(), 0)

    def node_of(self, name: bytes) -> Node:
        """Where this key is. In a cluster that does not know, what it raises is the library's."""
        if self._single is not None:
            return self._single
        move = self._moves.get(int(self.client.keyslot(name)))
        if move is not None:
            return self._at(*move)
        node = self.client.get_node_from_key(name)
        if node is None:
            raise Unanswered("no node serves the slot of the key")
        return self._at(str(node.host), int(node.port))

    def moved(self, text: str) -> Node | None:
        """The node that a MOVED names, which counts until the map is asked for again."""
        words = text.split()
        if len(words) != 3 or words[0] != "MOVED" or not self.is_cluster:
            return None
        host, _, port = words[2].rpartition(":")
        if not host:
            return None
        remap = getattr(self.client.nodes_manager, "remap_host_port", None)
        to = remap(host, int(port)) if remap else (host, int(port))
        self._moves[int(words[1])] = (str(to[0]), int(to[1]))
        return self._at(str(to[0]), int(to[1]))

    def forget_moves(self) -> None:
        """The map of the library is new."""
        self._moves.clear()

    def _at(self, host: str, port: int) -> Node:
        return Node((host, port), _joined(host, port), lambda: self._of_node(host, port))

    def _of_node(self, host: str, port: int) -> Any:
        nodes = list(self.client.nodes_manager.nodes_cache.values())
        node = next((it for it in nodes if (it.host, it.port) == (host, port)), nodes[0])
        if self._is_async:
            kind, settings = node.connection_class, node.connection_kwargs
        else:
            of_node = getattr(self.client, f"get_{self.library}_connection", None)
            single = of_node(node) if of_node else getattr(node, f"{self.library}_connection")
            kind, settings = single.connection_pool.connection_class, single.connection_pool.connection_kwargs
        return self._connection(kind, {**settings, "host": host, "port": port})

    def failure(self, error: BaseException) -> Exception:
        """Why a connection could not be opened: `Unanswered` where that passes, else what is told."""
        text = self._text(error)
        told = meaning(text, 0) if text else "passing"
        if told == "passing" or isinstance(error, (OSError, Unanswered)):
            failed = Unanswered(str(error) or type(error).__name__)
            failed.__cause__ = error
            return failed
        refused: LockError = LockRefused(f"the server refuses the connection: {error}")
        refused.__cause__ = error
        return refused

    def _text(self, error: BaseException) -> str:
        """The error reply that the library has made this of; empty where it is none."""
        status = getattr(error, "status_code", None)
        if isinstance(status, str):
            return f"{status} {error}"
        if "max number of clients" in str(error):
            return f"ERR {error}"
        for kind in type(error).__mro__:
            if kind.__name__ in _WORDS:
                return f"{_WORDS[kind.__name__]} {error}"
        is_reply = any(kind.__name__ == "ResponseError" for kind in type(error).__mro__)
        return str(error) if is_reply else ""


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
