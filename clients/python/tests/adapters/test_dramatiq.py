"""dramatiq with a worker on a real broker."""

import threading
import time

import dramatiq
import pytest
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.errors import RateLimitExceeded

from programs import at, blocks, running
from redis_lock_client import LockLost, Locks
from redis_lock_client.dramatiq import LockRateLimiter
from servers import eventually

KEY = "lock:stock"


@pytest.fixture
def locks(server):
    with Locks(redis.Redis(port=server.port), name="stock") as locks:
        yield locks


@pytest.mark.parametrize("limit", [1, 3])
def test_no_more_than_the_limit_work_at_a_time(locks, server, limit):
    broker = RedisBroker(url=f"redis://127.0.0.1:{server.port}/1")
    limiter = LockRateLimiter(locks, KEY, limit=limit)
    here, most, done = [], [], []

    @dramatiq.actor(broker=broker, min_backoff=50, max_backoff=100, max_retries=1000)
    def count(number):
        with limiter.acquire():
            here.append(number)
            most.append(len(here))
            time.sleep(0.05)
            here.remove(number)
            done.append(number)

    for number in range(12):
        count.send(number)
    worker = dramatiq.Worker(broker, worker_timeout=100, worker_threads=8)
    worker.start()
    eventually(lambda: len(done) == 12, "all messages", 60)
    worker.stop()
    broker.close()
    assert sorted(done) == list(range(12))
    assert max(most) <= limit and (limit == 1 or max(most) > 1)
    assert server.info(KEY) is None


def test_what_a_rate_limiter_answers(locks, server):
    limiter = LockRateLimiter(locks, KEY)
    with limiter.acquire() as first:
        assert first is True
        with limiter.acquire(raise_on_failure=False) as second:
            assert second is False
        with pytest.raises(RateLimitExceeded), limiter.acquire():
            pass
    waiting, told = LockRateLimiter(locks, KEY, wait=20), []

    def wait():
        with waiting.acquire(raise_on_failure=False) as is_in:
            told.append(is_in)

    with limiter.acquire():
        other = threading.Thread(target=wait)
        other.start()
        server.wait_for_waiters(KEY, 1)
    other.join(20)
    assert told == [True]


def test_an_error_of_the_work_is_not_replaced(locks, server):
    with pytest.raises(ZeroDivisionError) as told, LockRateLimiter(locks, KEY).acquire():
        server.redis.delete(KEY)
        1 / 0
    if hasattr(told.value, "__notes__"):
        assert "LockLost" in told.value.__notes__[0]


def test_a_place_is_lost_after_its_ttl(locks, server):
    limiter = LockRateLimiter(locks, KEY, ttl=400)
    with pytest.raises(LockLost), limiter.acquire():
        eventually(lambda: server.info(KEY) is None, "its end")


def test_the_program_of_the_guide(server, tmp_path):
    (tmp_path / "stock.py").write_text(at(server.port, blocks("dramatiq")[0]))
    (tmp_path / "send.py").write_text("import stock\nfor _ in range(5): stock.count.send()\n")
    with running(tmp_path, "send", log="sent") as sent:
        assert sent.wait(60) == 0, sent.log.read_text()
    with running(tmp_path, "dramatiq", "stock", "--processes=2", "--threads=2", log="worker") as worker:
        eventually(lambda: worker.log.read_text().count("counted") == 5, "all messages", 60)
