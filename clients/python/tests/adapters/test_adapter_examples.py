"""The examples of the doc comments of the adapters."""

import doctest
import importlib
import re

import pytest
import redis
import redis.asyncio
from celery.utils.imports import symbol_by_name

from redis_lock_client import Locks, lock_class, redbeat


@pytest.mark.parametrize("name", ["celery", "dramatiq", "lock_class", "lock_class.asyncio"])
def test_examples(server, name):
    module = importlib.import_module(f"redis_lock_client.{name}")
    client = (redis.asyncio if name.endswith("asyncio") else redis).Redis(port=server.port)
    with Locks(redis.Redis(port=server.port), name="test") as locks:
        found = doctest.testmod(module, extraglobs={"client": client, "locks": locks})
    lock_class.close()
    assert found.attempted > 0
    assert found.failed == 0


def test_the_setting_of_redbeat():
    [setting] = re.findall('"(redis_lock_client.*)"', redbeat.__doc__)
    assert symbol_by_name(setting) is redbeat.Scheduler
