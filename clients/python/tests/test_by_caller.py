"""A grant that the keeper does not have yet is released on a wait connection, by the thread that releases it."""

import signal
import threading
import time
from contextlib import contextmanager

import pytest
import redis

from redis_lock_client import LockLost, Locks, LockUnavailable
from servers import eventually

KEY = "lock:orders:42"


@pytest.fixture
def locks(proxy):
    with Locks(redis.Redis(port=proxy.port), "test") as locks:
        yield locks


@pytest.fixture
def waited(server, locks):
    """Takes a lock that comes from a wait."""

    def waited(**options):
        return server.after_a_wait(KEY, locks.lock(KEY, wait=20, lease=30, **options).acquire)

    return waited


def last_calls(server, name):
    """The last command of each connection of that name."""
    return [client["cmd"] for client in server.redis.client_list() if client["name"] == name]


def test_it_is_released_on_the_connection_of_the_wait(server, waited):
    waited().release()
    assert server.info(KEY) is None
    assert last_calls(server, "lock-wait") == ["lock.release"]
    grant = waited()
    grant.check()  # from here on the keeper has it
    grant.release()
    assert server.info(KEY) is None
    assert last_calls(server, "lock-wait") == ["lock.acquire"]
    assert last_calls(server, "lock-keeper") == ["lock.release"]


@pytest.mark.parametrize("fault", ["cut", "reset", "reset-request", "keep"])
def test_a_release_that_is_not_answered_there_is_sent_on_the_keeper(server, proxy, waited, fault):
    grant = waited()
    proxy.order("inject", fault=fault, words="LOCK.RELEASE")
    begun = time.monotonic()
    grant.release()
    assert time.monotonic() - begun < 1.5
    assert server.info(KEY) is None
    assert last_calls(server, "lock-keeper") == ["lock.release"]
    eventually(lambda: not last_calls(server, "lock-wait"), "the wait's connection to be closed")


def test_where_the_connection_has_been_closed_it_is_sent_on_the_keeper(server, waited):
    for seconds in (0, 0.2):
        grant = waited()
        client = next(it for it in server.redis.client_list() if it["name"] == "lock-wait")
        server.redis.client_kill_filter(_id=client["id"])
        time.sleep(seconds)
        grant.release()
        assert server.info(KEY) is None


def test_a_loss_is_told(server, locks, waited):
    grant = waited()
    server.redis.delete(KEY)
    with pytest.raises(LockLost):
        grant.release()


def test_where_nothing_comes_through_it_ends_in_time(server, proxy, waited):
    grant = waited()
    proxy.order("swallow")
    begun = time.monotonic()
    with pytest.raises(LockUnavailable):
        grant.release()
    assert 1.9 < time.monotonic() - begun < 10  # not as long as TCP tries
    proxy.order("speak")
    eventually(lambda: server.info(KEY) is None, "the release to be carried out")


class Stop(Exception):
    """Of a signal."""


@contextmanager
def stopped_after(seconds):
    def stop(*_):
        raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with pytest.raises(Stop):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_signal_ends_it_at_once_and_it_is_carried_out_nevertheless(server, proxy, waited):
    grant = waited()
    proxy.order("swallow")
    begun = time.monotonic()
    with stopped_after(0.1):
        grant.release()
    assert time.monotonic() - begun < 1.5  # not the two seconds of a release
    assert not grant.held
    proxy.order("speak")
    eventually(lambda: server.info(KEY) is None, "the release to be carried out")


def test_a_close_meanwhile_ends_in_time(server, proxy, locks, waited):
    grant = waited()
    proxy.order("swallow")
    ends = []

    def release():
        try:
            grant.release()
        except LockUnavailable as error:
            ends.append(error)

    releasing = threading.Thread(target=release)
    releasing.start()
    time.sleep(0.1)
    begun = time.monotonic()
    locks.close()
    releasing.join(5)
    assert time.monotonic() - begun < 2.5 and len(ends) == 1
