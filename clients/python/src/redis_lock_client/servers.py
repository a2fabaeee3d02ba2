"""The servers that a client of redis-py is configured for, and connections with its settings.

The library opens a connection: address, TLS, login, Sentinel. This module alone knows its names.
"""

from __future__ import annotations

import random
import socket
import ssl
from collections.abc import Callable
from typing import Any, Optional

from .errors import LockMisuse
from .observer import log
from .state import Fault


# Settings that are not taken over: repetitions, health checks, decoding, messages of maintenance.
LEFT_OUT = ("cache", "client_name", "decode_responses", "health_check_interval", "retry_on_error", "retry_on_timeout")
LEFT_OUT_BEGINS = ("maint", "orig_", "oss_cluster_maint")
# The first words of error replies to what connects, which the library takes away.
WORDS = {
    "AuthenticationError": "NOAUTH", "AuthenticationWrongNumberOfArgsError": "ERR AUTH", "BusyLoadingError": "LOADING",
    "ClusterDownError": "CLUSTERDOWN", "MasterDownError": "MASTERDOWN", "NoPermissionError": "NOPERM",
}
# The operating system notices a peer that is gone.
ALIVE = {getattr(socket, name): value for name, value in
         (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)) if hasattr(socket, name)}


def fault_of(error: BaseException, sent: bool) -> Fault:
    """The meaning of an exception of the library or of the network."""
    kinds = [kind.__name__ for kind in type(error).__mro__]
    text = "timed out" if isinstance(error, BlockingIOError) else str(error) or kinds[0]
    status = getattr(error, "status_code", None)
    if isinstance(status, str):
        return Fault.reply(text if text.startswith(status) else f"{status} {text}", error)
    word = next((WORDS[kind] for kind in kinds if kind in WORDS), "")
    if word:
        return Fault.reply(f"{word} {text}", error)
    if "ResponseError" in kinds:
        return Fault.reply(text, error)
    origin: Optional[BaseException] = error
    while origin:
        if isinstance(origin, ssl.SSLCertVerificationError):
            return Fault(str(origin), error, "CERTIFICATE")
        origin = origin.__cause__ or origin.__context__
    return Fault(text, error, sent=sent)


def is_of_library(error: BaseException) -> bool:
    """Whether an exception is one of the library's own."""
    return any(kind.__name__ in ("RedisError", "ValkeyError") for kind in type(error).__mro__)


def require_primary(role: Any) -> None:
    """Refuses a server by its reply to ROLE, since a Sentinel may not know yet of a new primary."""
    if isinstance(role, list) and role[0] != "master":
        raise OSError("the Sentinels named a server that is not a primary")


class Server:
    """One server, and how a connection to it is made."""

    def __init__(self, address: str, make: Callable[[], Any], has_sentinels: bool = False,
                 most: Optional[int] = None) -> None:
        """most: how many connections the user's pool may have."""
        self.address, self.make, self.has_sentinels, self.most = address, make, has_sentinels, most or 2**31


class Servers:
    """The one server of a client, or the nodes of its cluster."""

    def __init__(self, client: Any, is_async: bool, reply: float) -> None:
        names = [kind.__module__ for kind in type(client).__mro__]
        library = next((name.split(".")[0] for name in names if name.split(".")[0] in ("redis", "valkey")), "")
        if not library:
            raise LockMisuse(f"a client of redis-py is needed, not {type(client).__name__}")
        if is_async != any(name.startswith(f"{library}.asyncio") for name in names):
            raise LockMisuse("redis_lock_client.asyncio takes a client of redis.asyncio, redis_lock_client one of redis")
        self._client, self._is_async, self._reply = client, is_async, reply
        self.is_cluster = hasattr(client, "nodes_manager")
        self._nodes: dict[tuple[str, int], Server] = {}
        self._is_reading = False
        self.only = None if self.is_cluster else self._single(client.connection_pool)

    def _single(self, pool: Any) -> Server:
        settings, kind = pool.connection_kwargs, pool.connection_class
        sentinels = getattr(pool, "service_name", None)
        address = sentinels or settings.get("path") or joined(settings.get("host", "localhost"), settings.get("port", 6379))
        return Server(str(address), lambda: self._connection(kind, settings), bool(sentinels), pool.max_connections)

    def _connection(self, kind: Any, settings: dict[str, Any]) -> Any:
        own = {name: value for name, value in settings.items()
               if name not in LEFT_OUT and not name.startswith(LEFT_OUT_BEGINS)}
        own.update(protocol=2, retry=None, socket_timeout=self._reply / 2, socket_connect_timeout=self._reply / 2)
        if not any("UnixDomainSocket" in base.__name__ for base in kind.__mro__):
            own.update(socket_keepalive=True, socket_keepalive_options=ALIVE)
        return kind(**own)

    async def find(self, key: str) -> Server:
        """The server that has the key. As long as the map does not tell, any: it answers who has it."""
        if self.only:
            return self.only
        nodes, node = self._client.nodes_manager, None
        try:
            if self._is_async and not nodes.slots_cache:
                await self._client.initialize()
            node = self._client.get_node_from_key(key.encode("utf-8", "surrogateescape"))
        except Exception as error:
            log.info("the cluster's slot map has no node for %s: %s", key, error)
        node = node or random.choice(list(nodes.startup_nodes.values()))
        return self._at(str(node.host), int(node.port))

    def _at(self, host: str, port: int) -> Server:
        server = Server(joined(host, port), lambda: self._of_node(host, port))
        return self._nodes.setdefault((host, port), server)

    def _of_node(self, host: str, port: int) -> Any:
        manager = self._client.nodes_manager
        nodes = [*manager.nodes_cache.values(), *manager.startup_nodes.values()]
        node = next((it for it in nodes if (it.host, it.port) == (host, port)), nodes[0])
        if not self._is_async:
            of_node = getattr(self._client, "get_redis_connection", None) or self._client.get_valkey_connection
            node = of_node(node).connection_pool
        return self._connection(node.connection_class, {**node.connection_kwargs, "host": host, "port": port})

    def redirected(self, origin: Server, reply: Fault) -> Optional[Server]:
        """Where a reply leads: to another node of the cluster."""
        words = reply.text.split()
        if not self.is_cluster or len(words) < 3 or words[0] not in ("MOVED", "ASK"):
            return None
        host, _, port = words[2].rpartition(":")
        host = host or origin.address.rpartition(":")[0].strip("[]")
        remap: Any = getattr(self._client.nodes_manager, "remap_host_port", None)
        where: tuple[str, int] = remap(host, int(port)) if remap else (host, int(port))
        return self._at(*where)

    async def refresh(self) -> None:
        """Reads the map of the cluster again, if nobody does so now. It may take as long as the user's limits say."""
        if self._is_reading:
            return
        self._is_reading = True
        try:
            reading = self._client.nodes_manager.initialize()
            if self._is_async:
                await reading
        except Exception as error:  # then the map stays as it is
            log.info("the cluster's slot map could not be read: %s", error)
        finally:
            self._is_reading = False


def joined(host: str, port: int) -> str:
    """An address as one text."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
