import pathlib
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).parents[1]), str(pathlib.Path(__file__).parent)]

from servers import Cluster, Proxy, Sentinels, Server  # noqa: E402


def until_the_end(what):
    yield what
    what.stop()


@pytest.fixture
def server():
    yield from until_the_end(Server())


@pytest.fixture
def proxy(server):
    yield from until_the_end(Proxy(server))


@pytest.fixture
def cluster():
    yield from until_the_end(Cluster())


@pytest.fixture
def sentinels():
    yield from until_the_end(Sentinels())
