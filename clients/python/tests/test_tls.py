"""Locks on connections with TLS: by a proxy that ends it, as the test bed's servers have none."""

import asyncio
import shutil
import ssl
import subprocess
import threading
import time
from contextlib import suppress

import pytest
import redis
from redis.asyncio import Redis

from redis_lock_client import LockLost, Locks
from redis_lock_client import asyncio as tasks
from servers import eventually
from test_tasks import run, until

KEY = "lock:orders:42"
pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificate")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
                   cwd=folder, check=True, capture_output=True)
    return folder


async def pass_on(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
    except OSError:
        pass
    finally:
        writer.close()


@pytest.fixture
def settings(server, certificate):
    """Of a client that asks for TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    loop = asyncio.new_event_loop()

    async def both_ways(reader, writer):
        from_server, to_server = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.gather(pass_on(reader, to_server), pass_on(from_server, writer))

    listening = loop.run_until_complete(asyncio.start_server(both_ways, "127.0.0.1", 0, ssl=context))
    runs = threading.Thread(target=loop.run_forever)
    runs.start()
    yield {"host": "127.0.0.1", "port": listening.sockets[0].getsockname()[1], "ssl": True,
           "ssl_ca_certs": str(certificate / "cert.pem")}

    async def end():
        listening.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    asyncio.run_coroutine_threadsafe(end(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    runs.join(10)
    loop.close()


def test_of_threads(server, settings):
    with Locks(redis.Redis(**settings), reply=10) as locks:  # one process does the work of both ends
        for _ in range(20):
            with locks.lock(KEY) as grant:
                grant.check()
        grant = server.after_a_wait(KEY, locks.lock(KEY, wait=20).acquire)
        grant.check()
        grant.release()
        grant, waiting = locks.lock(KEY).acquire(), []
        for _ in range(10):
            waiting.append(threading.Thread(target=lambda: locks.lock(KEY, wait=20).acquire().release()))
            waiting[-1].start()
        server.wait_for_waiters(KEY, 10)
        grant.release()
        for thread in waiting:
            thread.join(20)
        assert server.info(KEY) is None
        grant = locks.lock(KEY).acquire()
        server.redis.delete(KEY)
        eventually(lambda: grant.lost, "the loss", 5)


def test_a_read_that_another_thread_ends_fails_as_others_do(server, settings):
    with Locks(redis.Redis(**settings), reply=10) as locks:
        locks.lock(KEY).acquire().release()
        [keeper] = locks._engine.keepers.values()
        wire = locks._threads._pool.open(keeper.place, time.monotonic() + 10)
        wire.shut()
        with suppress(OSError):
            assert wire.socket.read(1) == b""  # that of TLS
        locks._threads.drop(wire)


@run
async def test_of_tasks(server, settings):
    async with Redis(**settings) as client, tasks.Locks(client, reply=10) as locks:
        for _ in range(20):
            async with locks.lock(KEY) as grant:
                await grant.check()
        grant = await locks.lock(KEY).acquire()

        async def take():
            async with locks.lock(KEY, wait=20):
                pass

        waiting = [asyncio.create_task(take()) for _ in range(10)]
        await until(lambda: len(server.waiters(KEY)) == 10, "ten to wait")
        await grant.release()
        await asyncio.gather(*waiting)
        with pytest.raises(LockLost):
            async with locks.lock(KEY):
                server.redis.delete(KEY)
                await asyncio.sleep(20)
