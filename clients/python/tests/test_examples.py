"""The examples of the doc comments, run on the stand-in."""

import doctest
import importlib
from contextlib import ExitStack

import pytest

import redis_lock_client
from redis_lock_client import LockBusy, LockLost
from redis_lock_client.testing import Server

MODULES = ["threads", "asyncio", "_locking", "errors", "observer", "quorum.locks", "testing", "alone", "otel"]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(f"redis_lock_client.{name}")
    with ExitStack() as stack:
        servers = [stack.enter_context(Server()) for _ in range(3)]
        if name == "asyncio":
            client = servers[0].asyncio_client()
            locks = module.Locks(client, name="test", reply=5)
        else:
            client = servers[0].client()
            locks = stack.enter_context(redis_lock_client.Locks(client, name="test", reply=5))
        found = doctest.testmod(module, extraglobs={
            "server": servers[0], "client": client, "locks": locks, "clients": [it.client() for it in servers],
            "LockBusy": LockBusy, "LockLost": LockLost})
    assert found.attempted > 0
    assert found.failed == 0
