"""A close meets calls that are under way: when it is over, nothing is held or waited for by them."""

import threading
import time

import pytest
import redis

from both import OfTasks, OfThreads
from redis_lock_client import LockError, LockLost, LockMisuse, Locks
from servers import eventually

KEY = "lock:orders:42"


@pytest.mark.parametrize("is_warm", [False, True])
def test_a_close_leaves_neither_waits_nor_locks_behind(server, is_warm):
    for run in range(15):
        locks = Locks(redis.Redis(port=server.port), "closing")

        def contend():
            try:
                while True:
                    with locks.lock(KEY, wait=60, lease=30):
                        pass
            except LockError:
                pass

        threads = [threading.Thread(target=contend) for _ in range(4)]
        for thread in threads:
            thread.start()
        if is_warm:
            before = server.calls("lock.release")
            eventually(lambda: server.calls("lock.release") > before + 8, "turns")
        time.sleep(run * 0.0007)
        locks.close()
        for thread in threads:
            thread.join(2)
        assert not any(thread.is_alive() for thread in threads), "a thread waits on"
        eventually(lambda: server.info(KEY) is None and not server.waiters(KEY), "nothing to be left", 1)


@pytest.mark.parametrize("fault", [{"delay": 300}, "reset-request"])
@pytest.mark.parametrize("is_waited_for", [True, False])
def test_a_release_that_is_under_way_is_carried_out(server, proxy, is_waited_for, fault):
    locks = Locks(redis.Redis(port=proxy.port), "closing")
    take = locks.lock(KEY, wait=20, lease=30).acquire
    grant = server.after_a_wait(KEY, take) if is_waited_for else take()
    proxy.order("inject", fault=fault, words="LOCK.RELEASE")
    told = []

    def release():
        try:
            grant.release()
            told.append("done")
        except LockError as error:
            told.append(error)

    releasing = threading.Thread(target=release)
    releasing.start()
    eventually(lambda: proxy.order("lost")["pending"] == 0, "the release to be on its way")
    locks.close()
    releasing.join(5)
    assert told == ["done"]
    assert server.info(KEY) is None


def test_a_loss_is_told_also_where_the_connection_of_the_wait_has_ended(server):
    with Locks(redis.Redis(port=server.port), "closing") as locks:
        grant = server.after_a_wait(KEY, locks.lock(KEY, wait=20, lease=30).acquire)
        for client in server.redis.client_list():
            if client["name"] == "lock-wait":
                server.redis.client_kill_filter(_id=client["id"])
        server.redis.delete(KEY)
        assert server.redis.execute_command("LOCK.ACQUIRE", KEY, "another", "PX", 60_000)
        with pytest.raises(LockLost):
            grant.release()


@pytest.mark.parametrize("kind", [OfThreads, OfTasks])
def test_what_is_adopted_while_it_closes_is_not_held(server, proxy, kind):
    client = kind(proxy.port)
    token = server.redis.execute_command("LOCK.ACQUIRE", KEY, "other", "PX", 60_000)[0]
    client.acquire("warm")
    told = []
    adopting = threading.Thread(target=lambda: told.append(pytest.raises(LockError, client.adopt, KEY, "other", token)))
    closing = threading.Thread(target=client.close)
    server.order("pause")  # it answers the adoption when the close has begun
    proxy.order("inject", fault={"delay": 0}, words="LOCK.RENEW")
    adopting.start()
    eventually(lambda: proxy.order("lost")["pending"] == 0, "the adoption to be on its way")
    closing.start()
    eventually(lambda: client.locks._engine.is_closed, "the close to begin")
    server.order("resume")
    closing.join(5)
    adopting.join(5)
    assert told and not client.locks._engine.held
    eventually(lambda: server.kept_by(KEY) == 0, "nobody to keep it", 5)
    begun = time.monotonic()
    with pytest.raises(LockMisuse):
        client.adopt(KEY, "other", token)
    with pytest.raises(LockMisuse):
        client.call(client.locks.holders(KEY))
    assert time.monotonic() - begun < 5
    client.end()
