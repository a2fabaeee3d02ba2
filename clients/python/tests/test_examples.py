"""The examples of the doc comments, run on the stand-in."""

import doctest
import importlib

import pytest

from redis_lock_client import Locks
from redis_lock_client.testing import Server


@pytest.mark.parametrize("name", ["redis_lock_client.threads", "redis_lock_client.alone"])
def test_examples(name):
    with Server() as server, Locks(server.client(), name="test", reply=5) as locks:
        found = doctest.testmod(importlib.import_module(name), extraglobs={"locks": locks})
    assert found.attempted > 0
    assert found.failed == 0
