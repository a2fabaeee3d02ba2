"""Which server serves a key, for both runtimes: by the user's client, and in a cluster by its map."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from .clients import Node, Source
from .engine import Engine
from .errors import LockError, LockUnavailable


class Places:
    """What a runtime knows of the places of keys. How the map is read again is its own."""

    source: Source
    engine: Engine
    mutex: AbstractContextManager[Any]

    async def place_of(self, name: bytes, until: float) -> Node:
        try:
            return self.source.node_of(name)
        except Exception as error:
            if isinstance(error, LockError) or not self.source.is_cluster:
                raise
            self._refresh()
            raise LockUnavailable(f"the cluster's map is not known: {error}") from error

    def moved(self, text: str) -> Node | None:
        return self.source.moved(text)

    def unreachable(self, place: Any) -> None:
        if self.source.is_cluster:
            self._refresh()

    def _refresh(self) -> None:
        """Begins to ask the cluster for its map: a node that hangs must hold up nobody."""
        raise NotImplementedError

    def _follow(self) -> None:
        """The map is new: grants whose slots another node serves by now are kept there."""
        self.source.forget_moves()
        for keeper in list(self.engine.keepers.values()):
            if not keeper.is_open:
                for held in list(keeper.grants):
                    node = self.source.node_of(held.name)
                    with self.mutex:
                        self.engine.follow(held, node)
