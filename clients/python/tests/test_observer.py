"""What an observer and the logger are told: with threads and with asyncio."""

import asyncio
import logging
import signal
import threading
import time

import pytest
import redis
from redis.asyncio import Redis
from redis.cluster import RedisCluster
from redis.sentinel import Sentinel

from redis_lock_client import LockBusy, LockLost, LockMisuse, Locks, LockUnavailable, Observer
from redis_lock_client import asyncio as tasks
from servers import eventually, node_of
from test_moments import OfTasks, OfThreads
from test_tasks import run

KEY = "lock:orders:42"


class Seen(Observer):
    """Keeps all that it is told, by the name of the method."""

    def __init__(self):
        self.all = []

    def of(self, name):
        return [told for told, *_ in self.all if told == name]

    def last(self, name, number=1):
        """What was told last, of so many."""
        eventually(lambda: len(self.of(name)) >= number, f"{name}, {number} times")
        assert len(self.of(name)) == number, self.all
        return [words for told, *words in self.all if told == name][-1]

    def acquired(self, key, seconds):
        self.all.append(("acquired", key, seconds))

    def refused(self, key, seconds, error):
        self.all.append(("refused", key, seconds, error))

    def released(self, key, seconds, error):
        self.all.append(("released", key, seconds, error))

    def lost(self, key, error):
        self.all.append(("lost", key, error))

    def keeper_down(self, server, error):
        self.all.append(("keeper_down", server, error))

    def keeper_up(self, server):
        self.all.append(("keeper_up", server))


class Raises(Observer):
    """Fails, whatever it is told."""

    def _fail(self, *_):
        raise ZeroDivisionError

    acquired = refused = released = lost = keeper_down = keeper_up = _fail


@pytest.fixture(params=[OfThreads, OfTasks])
def make(request, server):
    """Makes a client with this observer."""
    clients = []

    def make(observer, port=server.port):
        clients.append(request.param(port, observer=observer))
        return clients[-1]

    yield make
    for client in clients:
        client.end()


@pytest.fixture
def seen():
    return Seen()


@pytest.fixture
def client(make, seen):
    return make(seen)


def close_connections(server):
    server.redis.client_kill_filter(_type="normal", skipme=True)


def test_acquires_and_the_release_of_the_last_hold_are_told_with_their_times(client, seen):
    grant = client.acquire(KEY, owner="me")
    key, seconds = seen.last("acquired")
    assert key == KEY and 0 < seconds < 1
    again = client.acquire(KEY, owner="me")
    assert seen.last("acquired", 2)[0] == KEY
    time.sleep(0.3)
    client.release(grant)
    assert seen.of("released") == []
    client.release(again)
    key, seconds, error = seen.last("released")
    assert (key, error) == (KEY, None) and 0.3 < seconds < 3
    assert len(seen.all) == 3


def test_a_wait_is_told_with_its_time(server, client, seen):
    server.redis.execute_command("LOCK.ACQUIRE", KEY, "other", "PX", 60_000)
    with pytest.raises(LockBusy):
        client.acquire(KEY)
    key, seconds, error = seen.last("refused")
    assert key == KEY and seconds < 1 and isinstance(error, LockBusy)
    with pytest.raises(LockBusy) as told:
        client.acquire(KEY, wait=0.3)
    assert seen.last("refused", 2)[1] >= 0.3
    assert seen.last("refused", 2)[2] is told.value
    server.redis.execute_command("LOCK.RENEW", KEY, "other", "PX", 300)
    client.release(client.acquire(KEY, wait=20))
    assert 0.1 < seen.last("acquired")[1] < 20
    assert seen.last("released")[2] is None


def test_other_refusals_are_told_with_their_error(server, client, seen):
    server.order("kill")
    with pytest.raises(LockUnavailable):
        client.acquire(KEY)
    assert isinstance(seen.last("refused")[2], LockUnavailable)
    client.close()
    with pytest.raises(LockMisuse):
        client.acquire(KEY)
    assert isinstance(seen.last("refused", 2)[2], LockMisuse)


def test_a_loss_is_told_once_and_its_release_is_none(server, client, seen, caplog):
    grant, listened = client.acquire(KEY), threading.Event()
    grant.on_lost(listened.set)
    server.redis.delete(KEY)
    key, error = seen.last("lost")
    assert key == KEY and isinstance(error, LockLost) and "NOTHELD" in str(error)
    assert listened.is_set() and grant.lost
    with pytest.raises(LockLost):
        client.release(grant)
    seen.last("lost")
    assert seen.of("released") == []
    assert [it.levelname for it in caplog.records if it.message.startswith(f"{KEY}: lost: ")] == ["WARNING"]


def test_a_loss_that_the_release_finds_is_told(server, client, seen):
    grant = client.acquire(KEY, lease=30, fixed=True)
    server.redis.delete(KEY)
    with pytest.raises(LockLost) as told:
        client.release(grant)
    assert seen.last("lost")[1] is seen.last("released")[2] is told.value


def test_a_release_without_an_answer_is_told(server, client, seen):
    grant = client.acquire(KEY)
    server.order("pause")
    with pytest.raises(LockUnavailable) as told:
        client.release(grant)
    server.order("resume")
    key, seconds, error = seen.last("released")
    assert error is told.value and 1 < seconds < 5


def test_a_close_releases(client, seen):
    grant, told = client.acquire(KEY), threading.Event()
    grant.on_lost(told.set)
    client.close()
    assert told.wait(5)
    assert seen.last("released")[::2] == [KEY, None]
    assert [name for name, *_ in seen.all] == ["acquired", "released"]


def test_the_end_of_the_keeper_s_connection_and_its_return_are_told_and_logged(server, client, seen, caplog):
    caplog.set_level(logging.INFO, "redis_lock_client")
    grant = client.acquire(KEY)
    close_connections(server)
    assert seen.last("keeper_up") == [f"localhost:{server.port}"]
    name, error = seen.last("keeper_down")
    assert name == f"localhost:{server.port}" and isinstance(error, LockUnavailable)
    client.check(grant)
    server.order("kill")
    seen.last("keeper_down", 2)
    time.sleep(0.5)
    seen.last("keeper_down", 2)  # each attempt fails, and is no event
    server.order("restart")
    seen.last("keeper_up", 2)
    lines = [(it.levelname, it.message.split(": ")[1]) for it in caplog.records if "that keeps locks" in it.message]
    assert lines == [("WARNING", "the connection that keeps locks is lost"),
                     ("INFO", "there is a connection that keeps locks again")] * 2


def test_a_server_that_is_down_from_the_begin_is_told(server, client, seen):
    server.order("kill")
    with pytest.raises(LockUnavailable):
        client.acquire(KEY)
    seen.last("keeper_down")
    client.close()
    assert seen.of("keeper_up") == []


def test_what_it_raises_is_logged_and_disturbs_nothing(server, make, caplog):
    client = make(Raises())
    grant, lost = client.acquire(KEY), client.acquire("lost")
    with pytest.raises(LockBusy):
        client.acquire(KEY, owner="other")
    told = threading.Event()
    lost.on_lost(told.set)
    server.redis.delete("lost")
    assert told.wait(5)
    client.check(grant)
    assert grant.held
    client.release(grant)
    assert server.info(KEY) is None
    fails = [it for it in caplog.records if it.exc_info and it.exc_info[0] is ZeroDivisionError]
    assert len(fails) >= 6  # two acquires, a refusal, a loss, the connection that it closed, a release


def test_it_may_use_the_locks(server, make):
    done, errors, uses = [], [], []

    class Uses(Seen):
        def _use(self, *_):
            try:
                if isinstance(client, OfTasks):
                    uses.append(asyncio.get_running_loop().create_task(self._used()))
                else:
                    grant = client.locks.lock("inner", wait=5, task=client.locks.task()).acquire()
                    grant.check()
                    grant.release()
                    done.append(1)
            except Exception as error:
                errors.append(error)

        async def _used(self):
            async with client.locks.lock("inner", wait=5) as grant:
                await grant.check()
            done.append(1)

        def acquired(self, key, seconds):
            if key != "inner":
                self._use()

        def released(self, key, seconds, error):
            if key != "inner":
                self._use()

        lost = keeper_down = keeper_up = _use

    client = make(Uses())
    began = time.monotonic()
    client.release(client.acquire(KEY))
    eventually(lambda: len(done) == 2, "the uses of both")
    lost = client.acquire(KEY)
    server.redis.delete(KEY)
    eventually(lambda: lost.lost and len(done) == 6, "the uses of the loss and of the connection")
    assert errors == [] and time.monotonic() - began < 5


def test_an_interrupted_acquire_is_told_with_what_has_interrupted_it(server, seen):
    class Interrupt(Exception):
        pass

    def interrupt(*_):
        raise Interrupt

    server.redis.execute_command("LOCK.ACQUIRE", KEY, "other", "PX", 60_000)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with Locks(redis.Redis(port=server.port), observer=seen) as locks:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(Interrupt):
                locks.lock(KEY, wait=20).acquire()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert isinstance(seen.last("refused")[2], Interrupt)


@run
async def test_a_cancelled_acquire_is_told(server, seen):
    server.redis.execute_command("LOCK.ACQUIRE", KEY, "other", "PX", 60_000)
    async with tasks.Locks(Redis(port=server.port), observer=seen) as locks:
        waiting = asyncio.create_task(locks.lock(KEY, wait=20).acquire())
        await asyncio.sleep(0.2)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert isinstance(seen.last("refused")[2], asyncio.CancelledError)


def test_a_block_that_an_exception_ends_releases(server, seen):
    with Locks(redis.Redis(port=server.port), observer=seen) as locks:
        with pytest.raises(ZeroDivisionError), locks.lock(KEY):
            1 / 0
    assert seen.last("released")[::2] == [KEY, None]


def test_each_server_of_a_cluster_has_its_name(cluster, seen):
    home = node_of(cluster, KEY)
    with Locks(RedisCluster(host="127.0.0.1", port=cluster[0].port), observer=seen) as locks, locks.lock(KEY) as grant:
        close_connections(home)
        assert seen.last("keeper_up") == [f"127.0.0.1:{home.port}"]
        grant.check()


def test_the_primary_of_a_sentinel_has_the_name_that_sentinel_knows(sentinels, seen):
    client = Sentinel([("127.0.0.1", sentinels.sentinel.port)]).master_for("lock")
    with Locks(client, observer=seen) as locks, locks.lock(KEY) as grant:
        close_connections(sentinels.primary)
        assert seen.last("keeper_up") == ["lock"]
        grant.check()


def test_without_an_observer_nothing_more_runs(server):
    with Locks(redis.Redis(port=server.port)) as locks:
        for _ in range(3):
            with locks.lock(KEY):
                pass
        assert not [it for it in threading.enumerate() if it.name == "lock-teller"]
