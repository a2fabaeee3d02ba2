import os
import pathlib
import sys
from collections import namedtuple

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
if not os.environ.get("INSTALLED"):  # then the package is the one that is installed
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "src"))

from servers import Place, Server, order  # noqa: E402

Sentinels = namedtuple("Sentinels", "primary replica sentinel")


@pytest.fixture
def start():
    """Starts what ends with the test."""
    ports = []

    def start(do, **words):
        answer = order(do, **words)
        first = answer.get("nodes", answer.get("servers", [answer]))[0]
        ports.append(first["port"])
        return answer

    yield start
    for port in ports:
        order("end", port=port)


@pytest.fixture
def server(start):
    return Server(start("server"))


@pytest.fixture
def proxy(start, server):
    return Place(start("proxy", port=server.port))


@pytest.fixture
def cluster(start):
    """Three primaries."""
    return [Server(node) for node in start("cluster")["nodes"]]


@pytest.fixture
def sentinels(start):
    """A primary, a replica, and a Sentinel that watches over them."""
    all_of_them = start("sentinels")
    return Sentinels(*map(Server, all_of_them["servers"] + all_of_them["sentinels"]))
