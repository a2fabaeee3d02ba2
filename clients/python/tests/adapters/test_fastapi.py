"""The program of the guide for FastAPI, by TestClient and under a real uvicorn."""

import importlib.util
import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from fastapi.testclient import TestClient

from programs import at, blocks, running
from servers import eventually


@pytest.fixture
def program(server, tmp_path):
    (tmp_path / "shop.py").write_text(at(server.port, blocks("FastAPI")[0]))
    return tmp_path / "shop.py"


@pytest.fixture(params=["TestClient", "uvicorn"])
def client(request, program):
    if request.param == "TestClient":
        spec = importlib.util.spec_from_file_location("shop", program)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with TestClient(module.app) as client:
            yield client
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with running(program.parent, "uvicorn", "shop:app", "--port", str(port)) as uvicorn, \
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
        eventually(lambda: "startup complete" in uvicorn.log.read_text(), "uvicorn", 30)
        yield client
    assert "Traceback" not in uvicorn.log.read_text()


@pytest.mark.parametrize("path", ["/seats/42", "/orders/42"])
def test_requests_at_once_are_inside_one_after_the_other(client, server, path):
    lock = f"lock:{path[1:].replace('/', ':')}"
    assert server.redis.execute_command("LOCK.ACQUIRE", lock, "other", "PX", 60_000)
    with ThreadPoolExecutor(6) as pool:
        replies = pool.map(lambda _: client.post(path), range(6))
        server.wait_for_waiters(lock, 6)
        assert len({waiter["owner"] for waiter in server.waiters(lock)}) == 6
        server.redis.execute_command("LOCK.RELEASE", lock, "other")
        replies = list(replies)
    assert [reply.status_code for reply in replies] == [200] * 6
    assert len({reply.json()["fence writes with"] for reply in replies}) == 6
    eventually(lambda: server.info(lock) is None, "the lock to be free")


def test_a_lock_that_others_keep_is_an_answer_to_the_client(client, server):
    for kind in ("orders", "seats"):
        assert server.redis.execute_command("LOCK.ACQUIRE", f"lock:{kind}:7", "other", "PX", 60_000)
        assert client.post(f"/{kind}/7").status_code == 409


def test_a_background_task_has_a_lock_of_its_own(client, server):
    lock = "lock:invoices:42"
    assert server.redis.execute_command("LOCK.ACQUIRE", lock, "other", "PX", 60_000)
    with ThreadPoolExecutor(2) as pool:
        replies = pool.map(lambda _: client.post("/orders/42/invoice"), range(2))
        server.wait_for_waiters(lock, 2)
        server.redis.execute_command("LOCK.RELEASE", lock, "other")
        assert [reply.status_code for reply in replies] == [200, 200]
    eventually(lambda: server.redis.info("commandstats")["cmdstat_lock.release"]["calls"] >= 3, "both tasks")
    eventually(lambda: server.info(lock) is None, "the lock to be free")
