"""One lock on five servers."""

import os
import threading
import time
import traceback

import pytest

from redis_lock_client import LockBusy, LockLost, LockMisuse, LockUnavailable, quorum as quorums
from redis_lock_client.quorum import acquire
from servers import Place, Server, eventually

KEY = "lock:report"
LEASE = 4.0


@pytest.fixture
def five(start):
    return [Server(start("server")) for _ in range(5)]


def connect(servers):
    return quorums.connect([f"redis://127.0.0.1:{server.port}" for server in servers], LEASE)


@pytest.fixture
def quorum(five):
    return connect(five)


def grants(servers):
    infos = (server.info(KEY) for server in servers)
    return [(info["owner"], info["token"]) for info in infos if info]


def test_all_servers_have_one_token_and_it_rises(five, quorum):
    last = 0
    for _ in range(5):
        with acquire(quorum, KEY, LEASE) as lock:
            assert grants(five) == [(lock.owner, lock.token)] * 5
            assert lock.token > last
            assert LEASE / 2 < lock.remaining < LEASE
            last = lock.token
        assert grants(five) == []


@pytest.mark.parametrize("down", [1, 2])
def test_a_majority_is_enough(five, quorum, down):
    for server in five[:down]:
        server.order("kill")
    with acquire(quorum, KEY, LEASE) as lock:
        lock.renew()
        assert grants(five[down:]) == [(lock.owner, lock.token)] * (5 - down)
    assert grants(five[down:]) == []


def test_less_is_not(five, quorum):
    for server in five[:3]:
        server.order("kill")
    with pytest.raises(LockUnavailable, match="refused"):
        acquire(quorum, KEY, LEASE, wait=0.3)
    assert grants(five[3:]) == []


def test_servers_that_hang_are_not_needed(five, quorum):
    for server in five[:2]:
        server.order("pause")
    with acquire(quorum, KEY, LEASE) as lock:
        assert len(grants(five[2:])) == 3
        lock.renew()


def test_what_is_held_is_not_granted_again(five, quorum):
    with acquire(quorum, KEY, LEASE) as lock:
        with pytest.raises(LockBusy, match="None"):
            acquire(quorum, KEY, LEASE, wait=0.1)
        assert grants(five) == [(lock.owner, lock.token)] * 5


def test_what_a_minority_has_granted_is_released(five, quorum):
    for server in five[:3]:
        server.redis.execute_command("LOCK.ACQUIRE", KEY, "other")
    with pytest.raises(LockBusy):
        acquire(quorum, KEY, LEASE)
    assert grants(five[3:]) == []


def test_contenders_take_turns(quorum):
    held, tokens, errors = threading.Lock(), [], []

    def contend():
        try:
            with acquire(quorum, KEY, LEASE, wait=60) as lock:
                assert held.acquire(blocking=False), "two holders"
                tokens.append(lock.token)
                held.release()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=contend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert len(tokens) == 8 and tokens == sorted(set(tokens))


def test_a_holder_that_is_gone_is_waited_for_until_its_lease_ends(five, quorum):
    gone = acquire(quorum, KEY, lease=1.0)
    gone._over.set()  # nobody renews it: as after a kill
    start = time.monotonic()
    with acquire(quorum, KEY, LEASE, wait=10) as lock:
        assert time.monotonic() - start < 3
        assert gone.remaining == 0 and lock.token > gone.token
        with pytest.raises(LockLost):
            gone.renew()


def test_a_renewal_that_finds_no_majority_any_more_tells_the_loss(five, quorum):
    with pytest.raises(LockLost, match="a majority says so"), acquire(quorum, KEY, LEASE) as lock:
        for server in five[:3]:
            server.redis.delete(KEY)
        with pytest.raises(LockLost, match="a majority says so"):
            lock.renew()  # before the one in the background
        with pytest.raises(LockLost):
            lock.token


@pytest.mark.parametrize("word", ["LOCK.ACQUIRE", "LOCK.RENEW"])
def test_lost_replies(start, five, word):
    proxies = [Place(start("proxy", port=server.port)) for server in five]
    for proxy in proxies:
        proxy.order("inject", fault="cut", words=word)
    with acquire(connect(proxies), KEY, LEASE) as lock:
        assert all(proxy.order("lost")["pending"] == 0 for proxy in proxies)
        assert grants(five) == [(lock.owner, lock.token)] * 5
        assert [server.info(KEY)["holds"] for server in five] == [1] * 5
    assert grants(five) == []


def test_a_server_far_ahead_is_left_out(five, quorum):
    order = five[0].redis.execute_command
    order("CONFIG", "SET", "lock.max-token-lead-ms", 86_400_000)
    token = order("LOCK.ACQUIRE", "x", "me")[0]
    order("LOCK.RENEW", "x", "me", "TOKEN", token, "RAISE", token + 3_600_000_000)
    order("LOCK.RELEASE", "x", "me")
    with acquire(quorum, KEY, LEASE) as lock:
        assert lock.token < token + 1_800_000_000
        assert grants(five[1:]) == [(lock.owner, lock.token)] * 4
        lock.renew()
    eventually(lambda: grants(five) == [], "the lock to be free")


def test_it_is_renewed_in_the_background_and_a_lost_majority_is_told_at_once(five, quorum):
    told = threading.Event()
    with pytest.raises(LockLost, match="NOTHELD"):
        with acquire(quorum, KEY, lease=1.2) as lock:
            lock.on_lost(told.set)
            until = time.monotonic() + 2
            eventually(lambda: time.monotonic() > until, "longer than the lease")
            assert lock.token and lock.held
            for server in five[:3]:
                server.redis.delete(KEY)
            assert told.wait(1) and not lock.held
            with pytest.raises(LockLost):
                lock.token


class Late:
    """A client whose renewals arrive when they may."""

    def __init__(self, client):
        self.client, self.came, self.may = client, threading.Event(), threading.Event()
        self.may.set()

    def execute_command(self, *words):
        if words[0] == "LOCK.RENEW":
            self.came.set()
            self.may.wait(20)
        return self.client.execute_command(*words)


def test_a_renewal_that_is_overtaken_by_the_release_tells_no_loss(five, quorum):
    late, told = [Late(client) for client in quorum], []
    lock = acquire(late, KEY, LEASE)
    lock.on_lost(lambda: told.append("lost"))
    for client in late:
        client.may.clear()
        client.came.clear()
    for client in late:
        assert client.came.wait(20)
    lock.release()
    for client in late:
        client.may.set()
    lock._renewer.join(20)
    assert told == [] and grants(five) == []
    with pytest.raises(LockMisuse):
        lock.token


def test_a_loss_is_told_to_all_also_where_one_fails(five, quorum):
    lock, told = acquire(quorum, KEY, LEASE), []
    lock.on_lost(lambda: 1 / 0)
    lock.on_lost(lambda: told.append("lost"))
    for server in five:
        server.redis.delete(KEY)
    with pytest.raises(LockLost):
        lock.renew()
    assert told == ["lost"]
    lock.on_lost(lambda: told.append("late"))
    assert told == ["lost", "late"]


def test_a_forked_child_has_servers_of_its_own_calls_and_holds_nothing(five, quorum):
    with acquire(quorum, KEY, LEASE) as lock:
        child = os.fork()
        if child == 0:
            try:
                assert not lock.held
                with pytest.raises(LockMisuse):
                    lock.release()
                with acquire(connect(five), "another", LEASE):
                    pass
                with pytest.raises(LockBusy):
                    acquire(connect(five), KEY, LEASE)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        ended = eventually(lambda: (told := os.waitpid(child, os.WNOHANG))[0] and told, "the child to end")
        assert ended[1] == 0
        assert grants(five) == [(lock.owner, lock.token)] * 5


def test_a_release_that_no_majority_answers_is_told_in_time(five, quorum):
    lock = acquire(quorum, KEY, lease=20)
    for server in five[:3]:
        server.order("pause")
    begun = time.monotonic()
    with pytest.raises(LockUnavailable, match="answered the release"):
        lock.release()
    assert time.monotonic() - begun < 3
    for server in five[:3]:
        server.order("resume")


@pytest.mark.parametrize("wait", [0, 1])
@pytest.mark.parametrize("fault", ["pause", "kill"])
def test_an_acquire_of_servers_that_are_gone_takes_no_longer_than_it_may(five, fault, wait):
    servers = quorums.connect([f"redis://127.0.0.1:{server.port}" for server in five], lease=20)
    acquire(servers, KEY, lease=20).release()
    for server in five:
        server.order(fault)
    begun = time.monotonic()
    with pytest.raises(LockUnavailable):
        acquire(servers, KEY, lease=20, wait=wait)
    assert time.monotonic() - begun < wait + 1.5
    if fault == "pause":
        for server in five:
            server.order("resume")
        # Before the lease ends.
        eventually(lambda: grants(five) == [], "what was granted late to be released", seconds=10)


def test_it_is_busy_only_where_a_majority_has_answered(five, quorum):
    five[0].redis.execute_command("LOCK.ACQUIRE", KEY, "other", "PX", 60_000)
    for server in five[1:4]:
        server.order("kill")
    with pytest.raises(LockUnavailable):
        acquire(quorum, KEY, LEASE)


def test_a_server_that_hangs_holds_up_no_call_to_another_however_many_there_are(five, quorum):
    five[4].order("pause")
    taken = []
    threads = [threading.Thread(target=lambda key=f"{KEY}:{number}": taken.append(acquire(quorum, key, LEASE, wait=10)))
               for number in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(LEASE * 1.5)
    assert len(taken) == 100 and all(lock.held for lock in taken)
    five[4].order("resume")
    for lock in taken:
        lock.release()


def test_a_server_that_hangs_for_longer_than_an_acquire_leaves_time_for_the_second_round(five):
    five[4].order("pause")
    lock = acquire(quorums.connect([f"redis://127.0.0.1:{server.port}" for server in five], 60), KEY, 60)
    assert lock.held
    five[4].order("resume")
    lock.release()
