import os
import pathlib
import sys
from collections import namedtuple

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
if not os.environ.get("INSTALLED"):  # then the package is the one that is installed
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "src"))

Sentinels = namedtuple("Sentinels", "primary replica sentinel")


@pytest.fixture
def start():
    """Starts what ends with the test."""
    from servers import order

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
    from servers import Server

    return Server(start("server"))


@pytest.fixture
def proxy(start, server):
    from servers import Place

    return Place(start("proxy", port=server.port))


@pytest.fixture
def cluster(start):
    """Three primaries."""
    from servers import Server

    return [Server(node) for node in start("cluster")["nodes"]]


@pytest.fixture
def sentinels(start):
    """A primary, a replica, and a Sentinel that watches over them."""
    from servers import Server

    all_of_them = start("sentinels")
    return Sentinels(*map(Server, all_of_them["servers"] + all_of_them["sentinels"]))


@pytest.fixture(params=["threads", "asyncio"])
def world(request):
    """Threads or asyncio, under one face."""
    import worlds

    world = worlds.Threads() if request.param == "threads" else worlds.Tasks()
    yield world
    world.end()


@pytest.fixture
def locks(world, server):
    """Locks on one server, with a lease of 2 s."""
    client = world.client(server.port)
    locks = world.locks(client, name="test", lease=2.0)
    yield locks
    locks.close()


@pytest.fixture(autouse=sys.version_info < (3, 10))
def event_loop_of_this_thread():
    """Python 3.9 makes the parts of redis-py's clients for an event loop, which is there before."""
    import asyncio

    asyncio.set_event_loop(asyncio.new_event_loop())


@pytest.fixture
def s():
    """The state of a server."""
    from state_rig import Rig
    return Rig()
