"""One lock on five servers."""

import threading
import time

import pytest

from redis_lock_client import LockBusy, LockLost, LockUnavailable, quorum as quorums
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
