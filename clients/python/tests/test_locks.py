"""Locks on a real server, with threads and with asyncio. What all languages do, the common trial shows."""

import time

import pytest
import redis
from redis_lock_client import LockBusy, LockLost, LockMisuse, LockRefused, Observer
from servers import eventually, in_thread

KEY = "lock:orders:42"


def test_a_grant(locks, server):
    with locks.lock(KEY, wait=1) as grant:
        info = server.info(KEY)
        assert (grant.key, grant.token, grant.owner) == (KEY, info["token"], info["owner"])
        assert grant.owner.startswith("test:") and grant.held and 0 < grant.remaining <= 2.0
        grant.check()
        time.sleep(2.5)  # longer than the lease
        assert grant.held
    assert not grant.held and grant.lost is None and server.info(KEY) is None
    with pytest.raises(LockMisuse):
        grant.release()


def test_owners_are_fresh(locks):
    first = locks.lock("a")
    assert first.owner != locks.lock("b").owner
    first.release()
    assert locks.lock("a").owner != first.owner


def test_permits_of_a_task(locks):
    task = locks.task()
    assert locks.lock(KEY, permits=2, task=task).owner != locks.lock(KEY, permits=2, task=task).owner


def test_several(locks, server):
    with locks.lock_all(["b", "a", "b"], wait=1) as grants:
        assert [grant.key for grant in grants] == ["a", "b"]
        assert len({grant.owner for grant in grants}) == 1
    assert server.info("a") is None and server.info("b") is None
    server.redis.execute_command("LOCK.ACQUIRE", "b", "other", "PX", 60_000)
    with pytest.raises(LockBusy):
        locks.lock_all(["a", "b"], wait=0.1)
    assert server.info("a") is None


def test_a_loss(locks, server):
    told = []
    held = locks.lock(KEY, on_lost=told.append)
    server.redis.delete(KEY)
    eventually(lambda: told, "the notice")
    assert held.lost == "deleted" and not held.held
    held.on_lost(told.append)
    eventually(lambda: len(told) == 2, "the notice of one that is lost already")
    for call in (held.check, held.release, lambda: held.extend(5)):
        with pytest.raises(LockLost, match="deleted"):
            call()
    assert len(told) == 2


def test_a_check_finds_a_loss(locks, server):
    held = locks.lock(KEY, lease=60)  # fixed: no session is told
    server.redis.delete(KEY)
    with pytest.raises(LockLost):
        held.check()
    assert held.lost


def test_a_fixed_lease(locks, server):
    told = []
    held = locks.lock(KEY, lease=40, wait=0, on_lost=told.append)
    assert server.session_of(KEY) == 0 and server.sessions() == []
    held.extend(60)
    assert held.remaining > 50
    held.extend(0.3)
    eventually(lambda: told, "the end of the lease")
    assert held.lost == "expired"
    other = locks.lock(KEY)
    wait = in_thread(lambda: locks.lock(KEY, lease=5))
    server.wait_for_waiters(KEY, 1)
    other.release()
    assert wait().remaining <= 5 and server.session_of(KEY) == 0


def test_a_maximum_time(locks, server):
    told = []
    held = locks.lock(KEY, max_hold=0.3, on_lost=told.append)
    eventually(lambda: told, "the end")
    assert "maximum" in held.lost
    eventually(lambda: server.info(KEY) is None, "the release")


def test_extending(locks, server):
    with locks.lock(KEY) as grant:
        grant.extend(60)
        assert server.info(KEY)["lease-ms"] == 60_000 and grant.remaining > 50
        grant.extend(1)
        assert grant.remaining <= 1
        with pytest.raises(LockMisuse):
            grant.extend(0.5)


def test_detach_and_adopt(locks, server, world):
    told = []
    with locks.lock(KEY, on_lost=told.append) as held:
        held.detach(30)  # nothing is left to release at the end of the block
    assert not held.held and server.session_of(KEY) == 0
    other = world.locks(world.client(server.port), name="other", lease=2.0)
    with other.adopt(KEY, held.owner, held.token) as grant:
        assert grant.held and grant.token == held.token and server.session_of(KEY)
        with pytest.raises(LockMisuse):
            held.release()
    assert server.info(KEY) is None and not told
    with pytest.raises(LockLost):
        other.adopt(KEY, held.owner, held.token)
    other.close()


def test_names_of_keys(world, server):
    locks = world.locks(world.client(server.port), prefix="app:")
    with locks.lock("k") as grant:
        assert grant.key == "app:k" and server.info("app:k")
    with locks.lock(b"\xff\xfe") as grant:
        assert redis.Redis(port=server.port).exists(b"app:\xff\xfe")
    locks.close()


@pytest.mark.parametrize("words", [{"permits": 0}, {"permits": 2, "shared": True}, {"lease": 0}, {"max_hold": 0}])
def test_misuse(locks, words):
    with pytest.raises(LockMisuse):
        locks.lock(KEY, **words)


def test_another_kind_of_key(locks, server):
    server.redis.set(KEY, "1")
    with pytest.raises(LockMisuse, match="SET NX"):
        locks.lock(KEY, wait=1)


def test_a_session_that_was_refused_is_asked_for_again(world, server):
    server.redis.execute_command("ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all", "-lock.session")
    locks = world.locks(world.client(server.port, username="app", password="secret"))
    for _ in range(2):
        with pytest.raises(LockRefused, match="NOPERM"):
            locks.lock(KEY, wait=5)
    server.redis.execute_command("ACL", "SETUSER", "app", "+lock.session")
    locks.lock(KEY, wait=5).release()
    locks.close()


def test_clients_of_the_other_kind_are_refused(world, server):
    import redis.asyncio

    other = redis.asyncio.Redis() if world.name == "threads" else redis.Redis()
    with pytest.raises(LockMisuse):
        world.locks(other)
    with pytest.raises(LockMisuse, match="redis-py"):
        world.locks(object())


def test_errors_of_the_work_are_raised_as_they_are(locks, server):
    with pytest.raises(ZeroDivisionError), locks.lock(KEY):
        server.redis.delete(KEY)
        1 / 0


def test_the_observer(world, server):
    seen = []

    class All(Observer):
        def acquired(self, key, seconds, error):
            seen.append(("acquired", key, type(error)))

        def released(self, key, seconds, error):
            seen.append(("released", key, type(error)))

        def lost(self, key, error):
            seen.append(("lost", key, error.reason))

        def connection(self, server, error):
            seen.append(("connection", server, error is None))

    locks = world.locks(world.client(server.port), observer=All())
    with pytest.raises(LockLost), locks.lock("k"):
        with pytest.raises(LockBusy):
            locks.lock("k", wait=0)
        server.redis.delete("k")
        eventually(lambda: ("lost", "k", "deleted") in seen, "the loss")
    assert ("acquired", "k", type(None)) in seen and ("acquired", "k", LockBusy) in seen
    assert ("released", "k", LockLost) in seen
    held = locks.lock("k")
    server.redis.client_kill_filter(_id=server.sessions()[0]["client-id"])
    eventually(lambda: [it for it in seen if it[0] == "connection"][-1:] == [
        ("connection", f"localhost:{server.port}", True)], "the connection to be back")
    held.release()
    locks.close()
    assert [is_back for what, _, is_back in seen if what == "connection"] == [False, True]  # the end is no failure


def test_many_waits_need_two_connections(world, server):
    before = len(server.redis.client_list())
    client = world.client(server.port, max_connections=4)
    locks = world.locks(client)
    held = locks.lock(KEY)
    waits = [in_thread(lambda: locks.lock(KEY, wait=60)) for _ in range(60)]
    server.wait_for_waiters(KEY, 60)
    assert len(server.redis.client_list()) - before <= 5
    held.release()
    for _ in waits:
        eventually(lambda: server.info(KEY), "the next")
        owner = server.info(KEY)["owner"]
        server.redis.execute_command("LOCK.RELEASE", KEY, owner)
        eventually(lambda: (server.info(KEY) or {}).get("owner") != owner, "the next")
    locks.close()
