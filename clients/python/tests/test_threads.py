"""Locks of threads."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import pytest
import redis
from redis.cluster import RedisCluster
from redis.sentinel import Sentinel

from redis_lock_client import LockBusy, LockError, LockLost, LockMisuse, Locks
from servers import eventually, node_of

KEY = "lock:orders:42"
# A process that holds or waits for a lock and says so, and releases on SIGTERM.
PROCESS = """
import redis, signal, sys, time
sys.path.insert(0, sys.argv[1])
from redis_lock_client import Locks
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent in the background ignores it
with Locks(redis.Redis(port=int(sys.argv[2])), "test") as locks:
    with locks.lock("lock:orders:42", lease=float(sys.argv[3]), wait=60):
        print("held", flush=True)
        while True:
            time.sleep(0.1)  # Python looks for a signal that came just before it when it is over
"""


def connect(where, **settings):
    return redis.Redis(port=where.port, **settings)


@pytest.fixture
def locks(server):
    with Locks(connect(server), "test") as locks:
        yield locks


@pytest.fixture
def process(server):
    processes = []

    def start(lease):
        folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src")
        words = [sys.executable, "-c", PROCESS, folder, str(server.port), str(lease)]
        processes.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        return processes[-1]

    yield start
    for it in processes:
        it.kill()
        it.communicate()


class Other:
    """Another thread, which takes the lock, says so, and releases it when told."""

    def __init__(self, locks, lease=30, wait=60):
        self.grant, self.error, self.end = None, None, threading.Event()
        self.thread = threading.Thread(target=self._run, args=(locks, lease, wait), daemon=True)
        self.thread.start()

    def _run(self, locks, lease, wait):
        try:
            with locks.lock(KEY, lease=lease, wait=wait) as self.grant:
                self.end.wait(60)
        except (LockError, redis.RedisError) as error:
            self.error = error

    def holds(self):
        eventually(lambda: self.grant or self.error, "another thread to hold the lock")
        assert self.error is None
        return self.grant

    def ends(self):
        self.end.set()
        self.thread.join(20)
        assert not self.thread.is_alive()
        return self.error


def test_the_wait_is_one_call_on_its_own_connection_and_outlasts_the_read_timeout(server, locks):
    client = connect(server, socket_timeout=0.3, max_connections=1)
    with Locks(client, "waiter") as waiting:
        with locks.lock(KEY):
            other = Other(waiting, wait=9)
            server.wait_for_waiters(KEY, 1)
            first = server.waiters(KEY)[0]
            assert 8000 < first["left-ms"] <= 9000
            assert client.ping()  # the client's only connection is not taken
            time.sleep(2.5)  # longer than its read time-out, and that of other calls
            assert server.waiters(KEY)[0]["client-id"] == first["client-id"]
        assert other.holds().token
        assert server.calls("lock.acquire") == 3  # one attempt each, and one wait
        assert other.ends() is None
    assert server.info(KEY) is None


def test_a_wait_that_is_over_leaves_nothing(server, locks):
    with locks.lock(KEY):
        other = Other(locks, wait=0.2)
        other.thread.join(10)
        assert isinstance(other.error, LockBusy)
        assert server.waiters(KEY) == []


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_wait_leaves_the_line_at_once(server, locks, process, by):
    with locks.lock(KEY):
        waiter = process(30)
        server.wait_for_waiters(KEY, 1)
        waiter.send_signal(by)
        server.wait_for_waiters(KEY, 0, seconds=2)
        assert waiter.wait(10) != 0
    assert server.info(KEY) is None


def test_an_operator_cancels_a_wait_by_its_owner_and_not_by_its_connection(server, locks):
    with locks.lock(KEY):
        other = Other(locks)
        server.wait_for_waiters(KEY, 1)
        [before] = server.waiters(KEY)
        server.redis.client_kill_filter(_id=before["client-id"])
        eventually(lambda: [it["client-id"] for it in server.waiters(KEY)] not in
                   ([], [before["client-id"]]), "the waiter to come back")
        assert server.redis.execute_command("LOCK.RELEASE", KEY, before["owner"], "ALL") == 0
        eventually(lambda: other.error, "the end of the wait")
        assert isinstance(other.error, LockBusy)
        assert server.waiters(KEY) == []


def test_close_cancels_the_waits_of_all_threads(server, locks):
    waiting = Locks(connect(server), "waiter")
    with locks.lock(KEY):
        others = [Other(waiting), Other(waiting)]
        server.wait_for_waiters(KEY, 2)
        waiting.close()
        assert server.waiters(KEY) == []
        assert all(isinstance(other.ends(), LockMisuse) for other in others)


def test_a_grant_that_crosses_the_interrupt_is_released(server, locks, proxy):
    class Interrupt(Exception):
        pass

    def interrupt(*_):
        raise Interrupt

    signal.signal(signal.SIGALRM, interrupt)
    proxy.order("inject", fault="keep", words="BLOCK")
    holder = Other(locks)
    holder.holds()
    threading.Thread(target=lambda: (server.wait_for_waiters(KEY, 1), holder.ends(),
                                     eventually(lambda: server.info(KEY), "the grant"),
                                     os.kill(os.getpid(), signal.SIGALRM)), daemon=True).start()
    with pytest.raises(Interrupt):
        with Locks(connect(proxy), "waiter").lock(KEY, wait=60):
            pytest.fail("the reply was kept")
    assert server.info(KEY) is None


def test_the_lease_is_counted_from_the_sending_and_not_by_the_wall_clock(
        locks, server, proxy, monkeypatch):
    with Locks(connect(proxy), "slow") as slow:
        slow.lock("warm").acquire().release()
        proxy.order("inject", fault={"delay": 500}, words="LOCK.ACQUIRE")
        with slow.lock(KEY, lease=10) as grant:
            assert 9 < grant.remaining <= 9.5
            monkeypatch.setattr(time, "time", lambda: 0)
            assert 9 < grant.remaining <= 9.5


def test_after_a_wait_the_lease_is_counted_from_one_renewal(server, locks):
    with locks.lock(KEY):
        other = Other(locks, lease=3)
        server.wait_for_waiters(KEY, 1)
        time.sleep(1.5)
        renewals = server.calls("lock.renew")
    assert other.holds().remaining > 2.5  # of the lease from the sending of the wait, 1.5 are left
    assert server.calls("lock.renew") == renewals + 1
    other.ends()


def test_each_thread_is_an_owner_of_its_own(server, locks):
    form = rf"test:[^:]+:{os.getpid()}:[0-9a-f-]{{36}}"
    with locks.lock(KEY) as grant:
        assert re.fullmatch(form, grant.owner)
        assert server.info(KEY)["owner"] == grant.owner
        other = Other(locks, wait=0)
        assert isinstance(other.ends(), LockBusy)
    other = Other(locks)
    assert other.holds().owner != grant.owner
    other.ends()


def test_a_child_process_holds_nothing(server, locks):
    with locks.lock(KEY):
        child = os.fork()
        if child == 0:
            try:
                with locks.lock(KEY):
                    os._exit(1)
            except LockBusy:
                os._exit(0)
            os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        assert server.info(KEY)["holds"] == 1


@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
def test_nested_use_counts_and_ends_in_any_order(server, locks, order):
    holds = [locks.lock(KEY, lease=5), locks.lock(KEY, lease=30)]
    outer, inner = [hold.__enter__() for hold in holds]
    assert outer.token == inner.token == server.info(KEY)["token"] > 2**31
    assert (server.info(KEY)["holds"], server.info(KEY)["lease-ms"]) == (2, 30000)
    assert outer.remaining > 29
    holds[order[0]].__exit__(None, None, None)
    assert server.info(KEY)["holds"] == 1
    assert (outer, inner)[order[1]].token
    holds[order[1]].__exit__(None, None, None)
    assert server.info(KEY) is None
    with pytest.raises(LockMisuse):
        outer.token


def test_calls_whose_replies_are_lost_do_not_add_up(server, proxy):
    def lost(word):
        proxy.order("inject", fault="cut", words=word)
        return word

    with Locks(connect(proxy), "test") as locks, ExitStack() as holds:
        def holds_are(number, word):
            assert proxy.order("lost")["pending"] == 0, word
            info = server.info(KEY)
            assert (info["holds"] if info else 0) == number

        word = lost("LOCK.ACQUIRE")
        grant = holds.enter_context(locks.lock(KEY, lease=2))
        holds_are(1, word)
        word = lost("LOCK.ACQUIRE")
        inner = locks.lock(KEY, lease=2)
        inner.__enter__()
        holds_are(2, word)
        word = lost("LOCK.RENEW")
        server.redis.client_kill_filter(_type="normal", skipme=True)
        eventually(lambda: proxy.order("lost")["pending"] == 0, "a renewal without an answer")
        holds_are(2, word)
        assert grant.check() is None
        word = lost("LOCK.RELEASE")
        inner.__exit__(None, None, None)
        holds_are(1, word)
        word = lost("LOCK.RELEASE")
        holds.close()  # without LockLost
        holds_are(0, word)


def test_a_wait_whose_grant_was_lost_on_the_way_is_found_again(server, locks, proxy):
    holder = Other(locks)
    holder.holds()
    with Locks(connect(proxy), "waiter") as waiting:
        proxy.order("inject", fault="cut", words="BLOCK")
        other = Other(waiting)
        server.wait_for_waiters(KEY, 1)
        holder.ends()
        assert other.holds().holds == server.info(KEY)["holds"] == 1
        assert other.ends() is None
    assert server.info(KEY) is None


def test_the_server_renews_and_the_client_sends_pings_alone(server, locks):
    with ExitStack() as all_locks:
        for number in range(20):
            all_locks.enter_context(locks.lock(f"many:{number}", lease=1.5))
        threads, calls, pings = threading.active_count(), server.calls("lock.renew"), server.calls("ping")
        time.sleep(3)
        assert server.calls("lock.renew") == calls == 0
        assert 4 <= server.calls("ping") - pings <= 8  # every 0.5 s
        assert threading.active_count() <= threads
        assert all(server.info(f"many:{number}") for number in range(20))


@pytest.mark.parametrize("answer", ["NOTHELD", "NOTOWNER", "FENCED", "WRONGTYPE"])
def test_a_loss_is_told_at_once(server, locks, answer):
    told = threading.Event()
    with pytest.raises(LockLost, match=answer):
        with locks.lock(KEY, lease=10) as grant, locks.lock("other") as stays:
            grant.on_lost(told.set)
            transaction = server.redis.pipeline()
            transaction.delete(KEY)
            if answer == "WRONGTYPE":
                transaction.set(KEY, "text")
            elif answer != "NOTHELD":
                owner = grant.owner if answer == "FENCED" else "other"
                transaction.execute_command("LOCK.ACQUIRE", KEY, owner)
            transaction.execute()
            assert told.wait(2) and grant.lost and not grant.held  # of a lease of 10 s
            with pytest.raises(LockLost):
                grant.token
            assert grant.remaining == 0
            stays.check()
    assert server.redis.exists(KEY) == (answer != "NOTHELD")  # another's grant is not touched


def test_silence_past_the_lease_is_a_loss_at_its_end(server, proxy):
    locks, told = Locks(connect(proxy), "test"), threading.Event()
    with pytest.raises(LockLost):
        with locks.lock(KEY, lease=1) as grant:
            grant.on_lost(told.set)
            eventually(lambda: grant.remaining > 0.9, "a PONG")
            held_from = time.monotonic()
            proxy.order("silence")
            assert told.wait(5)
            assert 0.5 < time.monotonic() - held_from < 2
            with pytest.raises(LockLost):
                grant.token


def test_the_work_is_refused_also_when_nobody_was_there_to_tell(server):
    with pytest.raises(LockLost):
        with Locks(connect(server), "test").lock(KEY, lease=0.2, fixed=True) as grant:
            assert grant.token
            time.sleep(0.3)
            assert grant.remaining == 0
            eventually(lambda: grant.lost, "the end of the lease")
            grant.token


def test_a_lock_lost_before_its_release_is_told(server, locks):
    # A fixed lease: nobody hears of its loss before the release. With the loss of a lock that is kept its connection
    # closes, too; and a release that was sent there, and again, may have been carried out the first time.
    with pytest.raises(LockLost, match="NOTHELD"):
        with locks.lock(KEY, lease=30, fixed=True):
            server.redis.delete(KEY)


def test_sigterm_stops_renewing_and_releases(server, process):
    holder = process(30)
    assert holder.stdout.readline() == "held\n"
    holder.terminate()
    assert holder.wait(10) == 143
    assert server.info(KEY) is None


def test_after_a_kill_the_lease_ends_and_the_next_waiter_goes_on(server, locks, process):
    holder = process(1.5)
    assert holder.stdout.readline() == "held\n"
    other = Other(locks)
    server.wait_for_waiters(KEY, 1)
    time.sleep(2)  # longer than the lease: it is renewed
    assert other.grant is None
    holder.kill()
    killed = time.monotonic()
    other.holds()
    assert time.monotonic() - killed < 3
    other.ends()


def test_through_a_failover_the_grant_is_renewed_and_the_wait_goes_on(sentinels):
    # Inline: nothing else has the client.
    with Locks(Sentinel([("127.0.0.1", sentinels.sentinel.port)]).master_for("lock"), "test") as locks:
        holder = Other(locks)
        token = holder.holds().token
        waiter = Other(locks)
        sentinels.primary.wait_for_waiters(KEY, 1)
        eventually(lambda: sentinels.replica.info(KEY), "the grant to get to the replica")
        sentinels.primary.order("kill")
        sentinels.replica.wait_for_waiters(KEY, 1, seconds=60)
        assert holder.grant.token == token
        assert waiter.grant is None
        assert holder.ends() is None
        assert waiter.holds().token > token
        assert waiter.ends() is None
    assert sentinels.replica.info(KEY) is None


def test_in_a_cluster_each_call_goes_to_the_node_of_its_key(cluster):
    client = RedisCluster(host="127.0.0.1", port=cluster[0].port)
    with Locks(client, "test") as locks:
        for number in range(12):
            key = f"lock:orders:{number}"
            with locks.lock(key), locks.lock(key):
                assert node_of(cluster, key).info(key)["holds"] == 2
            assert node_of(cluster, key).info(key) is None
        holder = Other(locks)
        holder.holds()
        waiter = Other(locks)
        node_of(cluster, KEY).wait_for_waiters(KEY, 1)
        holder.ends()
        waiter.holds()
        waiter.ends()
    for node in cluster:
        assert "errorstat_MOVED" not in node.redis.info("errorstats")
