"""The users of docs/operations.md: what redis-py sends by itself is allowed to them."""

import threading

import redis
from redis.cluster import RedisCluster
from redis.sentinel import Sentinel

from redis_lock_client import Locks
from servers import eventually, node_of

KEY = "lock:orders:42"
USER = {"username": "application", "password": "secret"}
# Besides, a name and health checks: those of connections that were idle for a second, as renewals leave them.
SETTINGS = {**USER, "health_check_interval": 1, "client_name": "orders"}


def hold_wait_renew_release(client, nodes, home):
    """Also when all connections are closed meanwhile. `home` is the node that has the lock."""
    done = threading.Event()

    def other():
        with locks.lock(KEY, wait=60) as grant:
            grant.check()
            done.set()

    with Locks(client, "test") as locks:
        with locks.lock(KEY, lease=3.0) as grant:
            waiting = threading.Thread(target=other, daemon=True)
            waiting.start()
            home.wait_for_waiters(KEY, 1)
            for node in nodes:
                node.redis.client_kill_filter(_type="normal", skipme=True)
            eventually(lambda: home.calls("lock.renew") > 0, "the grant to be kept on another connection")
            pings = home.calls("ping")
            eventually(lambda: home.calls("ping") > pings, "a PING of the keeper")
            home.wait_for_waiters(KEY, 1)
            grant.check()
        waiting.join(60)
        assert done.is_set()
    assert home.info(KEY) is None


def test_on_one_server_in_another_database(server):
    server.order("user", name="application")
    client = redis.Redis(port=server.port, db=2, **SETTINGS)
    server.redis = redis.Redis(port=server.port, db=2, decode_responses=True, protocol=3)
    hold_wait_renew_release(client, [server], server)
    assert server.refused() == []


def test_in_a_cluster(cluster):
    for node in cluster:
        node.order("user", name="application")
    client = RedisCluster(host="127.0.0.1", port=cluster[0].port, **SETTINGS)
    hold_wait_renew_release(client, cluster, node_of(cluster, KEY))
    assert [node.refused() for node in cluster] == [[], [], []]


def test_by_a_sentinel(sentinels):
    servers = [sentinels.primary, sentinels.replica]
    for server in servers:
        server.order("user", name="application")
    sentinels.sentinel.order("user", name="discovery")
    asking = {"username": "discovery", "password": "secret", "health_check_interval": 1}
    address = ("127.0.0.1", sentinels.sentinel.port)
    client = Sentinel([address], sentinel_kwargs=asking).master_for("lock", **SETTINGS)
    hold_wait_renew_release(client, servers, sentinels.primary)
    assert [server.refused() for server in (*servers, sentinels.sentinel)] == [[], [], []]


def test_a_script_that_fences(server):
    server.order("user", name="application")
    client = redis.Redis(port=server.port, **USER)
    write = client.register_script("""
        redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
        return redis.call('SET', KEYS[2], ARGV[2])""")
    with Locks(client, "test") as locks, locks.lock(KEY) as grant:
        assert write([KEY, "stock:apples"], [grant.token, 7])
    assert server.redis.get("stock:apples") == "7"
    assert server.refused() == []
