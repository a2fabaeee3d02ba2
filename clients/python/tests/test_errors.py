"""What an error reply means, and what the user is told of servers that do not serve."""

import json

import pathlib

import socket
import threading
import time

import pytest
import redis

from redis_lock_client import (LockBusy, LockDeadlock, LockError, LockLost, LockMisuse, LockNotAlone, LockRefused,
                               Locks, LockUnavailable)
from redis_lock_client.errors import meaning
from servers import Server, eventually

KEY = "lock:orders:42"
TABLE = json.loads((pathlib.Path(__file__).parents[2] / "protocol" / "errors.json").read_text())["errors"]


def connect(where, **settings):
    return redis.Redis(port=where.port, **settings)


@pytest.mark.parametrize("number, entry", list(enumerate(TABLE)), ids=[it["begins"] or "else" for it in TABLE])
def test_each_error_means_what_the_table_says(number, entry):
    text = entry["begins"] + " and more"
    first = next(it for it in TABLE if text.startswith(it["begins"]))
    for kind, name in enumerate(("acquire", "renew", "release")):
        assert meaning(text, kind) == first[name]


def test_all_errors_are_one_family():
    for kind in (LockBusy, LockLost, LockDeadlock, LockNotAlone, LockRefused, LockUnavailable, LockMisuse):
        assert issubclass(kind, LockError)


def told_within(seconds, kind, locks, **options):
    began = time.monotonic()
    with pytest.raises(kind) as told:
        locks.lock(KEY, **options).acquire()
    assert time.monotonic() - began < seconds
    return told.value


def test_now_or_not_at_all_ends_within_a_second_when_the_server_is_down_or_hangs(server):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with Locks(redis.Redis(port=nobody.getsockname()[1])) as locks:
            error = told_within(1.5, LockUnavailable, locks)
            assert error.__cause__ is not None
            told_within(3.5, LockUnavailable, locks, wait=1)
    with Locks(connect(server)) as locks:
        grant = locks.lock(KEY, lease=1.5).acquire()
        server.order("pause")
        told_within(1.5, LockUnavailable, locks)
        began = time.monotonic()
        with pytest.raises((LockUnavailable, LockLost)):
            grant.release()
        assert time.monotonic() - began < 2.5
        began = time.monotonic()
        locks.close()
        assert time.monotonic() - began < 3
        server.order("resume")
    eventually(lambda: server.info(KEY) is None, "what a hung server took to come free", 5)


@pytest.mark.parametrize("wait", [0, 1])
def test_what_replicas_have_to_acknowledge_ends_in_time_too(server, wait):
    with Locks(connect(server)) as locks:
        locks.lock(KEY).acquire().release()
        assert locks.holders(KEY) == []  # so that both connections are there, and wait for an answer
        server.order("pause")
        told_within(wait + 1.5, LockUnavailable, locks, replicas=1, wait=wait)
        server.order("resume")
        eventually(lambda: not locks._engine.undo.pending, "what was given up to be given back")
        told_within(wait + 1.5, LockUnavailable, locks, replicas=1, wait=wait)


def test_what_is_refused_is_told_at_once(server, start):
    server.redis.config_set("requirepass", "secret")
    with Locks(connect(server)) as locks, Locks(connect(server, password="wrong")) as wrong:
        told_within(1, LockRefused, locks)
        told_within(1, LockRefused, wrong, wait=30)
    server.redis = connect(server, password="secret", decode_responses=True)
    server.redis.execute_command("ACL", "SETUSER", "few", "on", ">few", "~*", "+ping")
    with Locks(connect(server, username="few", password="few")) as locks:
        told_within(1, LockRefused, locks, wait=30)
    bare = Server(start("server"))
    bare.redis.execute_command("ACL", "SETUSER", "default", "-lock.acquire")
    with Locks(connect(bare)) as locks:
        told_within(1, LockRefused, locks)


def test_a_key_of_another_type_is_misuse(server):
    server.redis.set(KEY, "7")
    with Locks(connect(server)) as locks:
        told_within(1, LockMisuse, locks, wait=5)


def test_what_passes_is_tried_again(server):
    server.redis.config_set("maxclients", 5)
    with Locks(connect(server)) as locks:
        others = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(8)]
        told_within(1.6, LockUnavailable, locks)
        threading.Timer(0.3, lambda: [other.close() for other in others]).start()
        locks.lock(KEY, wait=10).acquire().release()


def test_a_busy_server_costs_neither_the_lock_nor_the_wait(server):
    server.redis.config_set("busy-reply-threshold", 50)
    with Locks(connect(server)) as locks:
        grant = locks.lock(KEY, lease=10).acquire()
        script = threading.Thread(target=lambda: pytest.raises(
            redis.RedisError, connect(server, socket_timeout=30).eval, "while true do end", 0))
        script.start()
        time.sleep(0.4)
        told_within(1.6, LockUnavailable, locks, lease=3)  # answered BUSY, or not at all
        connect(server).script_kill()
        script.join()
        eventually(lambda: passes(grant.check), "the lock to be known")
        grant.release()


def passes(call):
    try:
        call()
        return True
    except LockUnavailable:
        return False


def test_a_server_that_restarts_with_nothing_loses_the_lock_and_is_used_again(server):
    server.redis.config_set("save", "")
    with Locks(connect(server)) as locks:
        told = threading.Event()
        grant = locks.lock(KEY).acquire()
        grant.on_lost(told.set)
        server.order("kill")
        server.order("restart")
        assert told.wait(5)
        with pytest.raises(LockLost):
            grant.release()
        locks.lock(KEY, wait=5).acquire().release()


def test_a_release_that_is_refused_at_the_login_is_told_so(server):
    acl = server.redis.acl_setuser
    acl("app", enabled=True, passwords=["+secret"], categories=["+@all"], keys=["*"])
    with Locks(connect(server, username="app", password="secret")) as locks:
        grant = locks.lock(KEY, lease=30).acquire()
        acl("app", reset_passwords=True, passwords=["+another"], enabled=True)
        server.redis.client_kill_filter(user="app")
        eventually(lambda: isinstance(grant._held.keeper.error, LockRefused), "a login that is refused")
        with pytest.raises(LockRefused):
            grant.release()


def test_an_error_of_the_work_is_not_replaced(server):
    with Locks(connect(server)) as locks:
        with pytest.raises(ZeroDivisionError) as told, locks.lock(KEY):
            server.redis.delete(KEY)
            1 / 0
        if hasattr(told.value, "__notes__"):
            assert "LockLost" in told.value.__notes__[0]


def test_wrong_arguments_and_wrong_use_are_misuse(server):
    locks = Locks(connect(server))
    for wrong in ({"lease": 0}, {"lease": 0.5}, {"wait": -1}, {"wait": "1"}, {"keep": 0.1}, {"owner": ""},
                  {"at_most": 5, "fixed": True}, {"lease": float("inf")}):
        with pytest.raises(LockMisuse):
            locks.lock(KEY, **wrong)
    with pytest.raises(LockMisuse):
        locks.all([KEY, 7])
    with locks.all(["\udcff", b"\xfe"]) as both:  # bytes that are no text
        assert [grant.key for grant in both] == [b"\xfe", "\udcff"]
    with pytest.raises(LockMisuse):
        locks.lock(None)
    with pytest.raises(LockMisuse):
        Locks("redis://")
    grant = locks.lock(KEY).acquire()
    grant.release()
    with pytest.raises(LockMisuse):
        grant.release()
    locks.close()
    locks.close()
    with pytest.raises(LockMisuse):
        locks.lock(KEY).acquire()


def test_a_circle_of_waits_is_told(server):
    with Locks(connect(server)) as locks:
        first, second = locks.task(), locks.task()
        a, b = locks.lock("a", task=first).acquire(), locks.lock("b", task=second).acquire()
        waiting = threading.Thread(target=lambda: locks.lock("b", task=first, wait=10).acquire().release())
        waiting.start()
        server.wait_for_waiters("b", 1)
        with pytest.raises(LockDeadlock):
            locks.lock("a", task=second, wait=10).acquire()
        b.release()
        waiting.join(10)
        a.release()


def test_two_that_share_do_not_get_it_alone(server):
    with Locks(connect(server)) as locks:
        first, second = locks.task(), locks.task()
        locks.shared(KEY, task=first).acquire()
        locks.shared(KEY, task=second).acquire()
        with pytest.raises(LockNotAlone):
            locks.lock(KEY, task=first).acquire()


