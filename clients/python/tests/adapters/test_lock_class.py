"""What redis-py's manual promises of `Lock`, of ours: for threads, and for asyncio by the same tests."""

import asyncio
import inspect
import threading
import time

import pytest
import redis
import redis.asyncio

from redis_lock_client import lock_class
from redis_lock_client.lock_class import KeptLock, Lock
from redis_lock_client.lock_class import asyncio as with_asyncio
from servers import eventually

KEY = "lock:orders:42"


class Blocking:
    """An asyncio lock, called as if it were the other: so that each promise is written once."""

    def __init__(self, loop, lock):
        self.loop, self.lock = loop, lock

    def __getattr__(self, name):
        found = getattr(self.lock, name)
        if not inspect.iscoroutinefunction(found):
            return found
        return lambda *args, **words: self.run(found(*args, **words))

    def run(self, what):
        return asyncio.run_coroutine_threadsafe(what, self.loop).result(60)

    def __enter__(self):
        self.run(self.lock.__aenter__())
        return self

    def __exit__(self, *error):
        self.run(self.lock.__aexit__(*error))


@pytest.fixture(params=["threads", "asyncio"])
def lock(request, server):
    """Makes a lock by the `lock` method of a client."""
    if request.param == "threads":
        client = redis.Redis(port=server.port)
        yield lambda name=KEY, kept=False, **words: client.lock(name, lock_class=KeptLock if kept else Lock, **words)
        lock_class.close()
        return
    loop = asyncio.new_event_loop()
    runs = threading.Thread(target=loop.run_forever)
    runs.start()
    client = redis.asyncio.Redis(port=server.port)
    kinds = {False: with_asyncio.Lock, True: with_asyncio.KeptLock}

    def make(name=KEY, kept=False, **words):  # whose token this thread is to see, too
        return Blocking(loop, client.lock(name, lock_class=kinds[kept], **{"thread_local": False, **words}))

    yield make
    asyncio.run_coroutine_threadsafe(with_asyncio.close(), loop).result(10)
    asyncio.run_coroutine_threadsafe(getattr(client, "aclose", client.close)(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    runs.join()
    loop.close()


def raises_lock_error():
    return pytest.raises(redis.exceptions.LockError)


def test_it_is_taken_and_given_back(lock, server):
    mine, other = lock(), lock()
    assert mine.acquire(blocking=False) is True
    assert mine.locked() and other.locked() and mine.owned() and not other.owned()
    assert server.info(KEY)["owner"] == mine.local.token.decode()
    assert other.acquire(blocking=False) is False
    assert mine.acquire(blocking=False) is False  # it is not re-entrant
    assert mine.release() is None
    assert not mine.locked() and not mine.owned()
    assert other.acquire(blocking=False)
    other.release()


def test_a_token_may_be_given(lock, server):
    mine = lock()
    assert mine.acquire(token="static")
    assert mine.local.token == b"static"
    assert server.info(KEY)["owner"] == "static"
    mine.release()


def test_it_has_a_fencing_token(lock, server):
    mine = lock()
    with raises_lock_error():
        mine.fencing_token
    with mine:
        assert mine.fencing_token == server.info(KEY)["token"]
        server.redis.delete(KEY)
        eventually(lambda: mine.local.grant.lost, "the loss")
        with pytest.raises(redis.exceptions.LockNotOwnedError):
            mine.fencing_token
        mine.local.token = None
        mine.acquire()


def test_without_a_timeout_it_lives_as_long_as_its_process(lock, server):
    with lock():
        [holder] = server.redis.execute_command("LOCK.HOLDERS", KEY)
        assert holder["session"] > 0


def test_a_timeout_is_the_longest_life(lock, server):
    mine = lock(timeout=0.3)
    mine.acquire()
    assert 0 < server.redis.pttl(KEY) <= 300
    eventually(lambda: not mine.locked(), "its end")
    assert not mine.owned()
    with pytest.raises(redis.exceptions.LockNotOwnedError):
        mine.release()
    with raises_lock_error():  # no more is it held here
        mine.release()


def test_how_long_it_waits(lock):
    with lock(timeout=10):
        begin = time.monotonic()
        assert lock(blocking_timeout=0.2).acquire() is False
        assert 0.15 < time.monotonic() - begin < 5
        assert lock().acquire(blocking_timeout=0.1) is False
        assert lock(blocking=False).acquire() is False
        assert lock(blocking_timeout=0).acquire() is False
        with raises_lock_error() as told, lock(blocking=False):
            pass
        assert not isinstance(told.value, redis.exceptions.LockNotOwnedError)


def test_a_block_gives_it_back_also_after_an_error(lock):
    with pytest.raises(ValueError, match="work"), lock():
        raise ValueError("work")
    assert not lock().locked()


def test_a_block_that_has_lost_it(lock, server, caplog):
    with pytest.raises(redis.exceptions.LockNotOwnedError), lock(timeout=10):
        server.redis.delete(KEY)
    if "raise_on_release_error" in inspect.signature(redis.Redis.lock).parameters:  # from redis-py 5.1
        with lock(timeout=10, raise_on_release_error=False):
            server.redis.delete(KEY)
        assert "no longer owned" in caplog.text


@pytest.mark.parametrize("fault", ["lost", "down"])
def test_an_error_of_the_block_is_not_replaced(lock, server, fault):
    with pytest.raises(ZeroDivisionError) as told, lock(timeout=10):
        if fault == "lost":
            server.redis.delete(KEY)
        else:
            server.order("kill")
        1 / 0
    if hasattr(told.value, "__notes__"):
        assert ("LockNotOwnedError" if fault == "lost" else "ConnectionError") in told.value.__notes__[0]


def test_another_holder_s_lock_is_not_given_back(lock, server):
    mine = lock(timeout=10)
    mine.acquire()
    server.redis.delete(KEY)
    server.redis.execute_command("LOCK.ACQUIRE", KEY, "another")
    with pytest.raises(redis.exceptions.LockNotOwnedError):
        mine.release()
    assert server.info(KEY)["owner"] == "another"


def test_to_extend_and_to_reacquire(lock, server):
    mine = lock(timeout=10)
    mine.acquire()
    assert mine.extend(10) is True
    assert 15_000 < server.redis.pttl(KEY) <= 20_000
    assert mine.extend(5, replace_ttl=True) is True
    assert 4_000 < server.redis.pttl(KEY) <= 5_000
    assert mine.reacquire() is True
    assert 9_000 < server.redis.pttl(KEY) <= 10_000
    server.redis.delete(KEY)
    for again in (lambda: mine.extend(1), mine.reacquire):
        with pytest.raises(redis.exceptions.LockNotOwnedError):
            again()


def test_what_cannot_be_extended(lock):
    free = lock(timeout=10)
    for call in (free.release, free.reacquire, lambda: free.extend(1)):
        with raises_lock_error() as told:
            call()
        assert not isinstance(told.value, redis.exceptions.LockNotOwnedError)
    with lock() as endless:
        for call in (endless.reacquire, lambda: endless.extend(1)):
            with raises_lock_error():
                call()


def test_a_token_gives_it_back_elsewhere(lock, server):
    mine = lock(timeout=10)
    mine.acquire()
    elsewhere = lock(timeout=20, thread_local=False)
    elsewhere.local.token = mine.local.token
    assert elsewhere.owned()
    assert elsewhere.reacquire()
    assert 15_000 < server.redis.pttl(KEY) <= 20_000
    elsewhere.release()
    assert server.info(KEY) is None
    with pytest.raises(redis.exceptions.LockNotOwnedError):
        elsewhere.do_release(b"nobody")


def test_a_token_gives_it_back_in_another_object_of_the_process(lock, server):
    for kept in (False, True):
        mine = lock(timeout=30, kept=kept)
        mine.acquire()
        elsewhere = lock(timeout=30, kept=kept)
        assert elsewhere.do_release(mine.local.token) is None
        assert server.info(KEY) is None
        with raises_lock_error():
            mine.release()


def test_a_kept_lock_that_hangs_is_lost_after_its_timeout(lock, server):
    mine = lock(kept=True, timeout=2.5)
    mine.acquire()
    mine.reacquire()
    begin = time.monotonic()
    eventually(lambda: not mine.locked(), "its end")
    assert 1.5 < time.monotonic() - begin < 10
    with pytest.raises(redis.exceptions.LockNotOwnedError):
        mine.extend(5, replace_ttl=True)


def test_a_kept_lock_may_be_extended_for_ever(lock, server):
    mine = lock(kept=True, timeout=2.2)
    mine.acquire()
    until = time.monotonic() + 3
    while time.monotonic() < until:
        assert mine.extend(2.2, replace_ttl=True)
        time.sleep(0.2)
    assert mine.owned()
    mine.release()
    assert server.info(KEY) is None


def test_errors_of_the_server_are_those_of_redis_py(lock, server):
    server.redis.set("text", "no lock")
    with pytest.raises(redis.exceptions.ResponseError, match="WRONGTYPE"):
        lock("text").acquire(blocking=False)
    mine = lock(timeout=30)
    mine.acquire()
    server.order("kill")
    begin = time.monotonic()
    for call in (lock("another").acquire, lambda **_: mine.owned(), lambda **_: mine.extend(1)):
        with pytest.raises(redis.exceptions.ConnectionError):
            call(blocking=False)
    assert time.monotonic() - begin < 15
    with pytest.raises(redis.exceptions.ConnectionError):
        mine.release()


def test_the_arguments_are_those_of_redis_py():
    from redis.asyncio.lock import Lock as Twin
    from redis.lock import Lock as Theirs
    for ours, theirs in ((Lock, Theirs), (with_asyncio.Lock, Twin)):
        for name in ("__init__", "acquire", "release", "do_release", "extend", "reacquire", "locked", "owned"):
            named = list(inspect.signature(getattr(theirs, name)).parameters)
            assert list(inspect.signature(getattr(ours, name)).parameters)[:len(named)] == named, name
