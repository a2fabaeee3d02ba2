"""Django's own cache and django-redis, on a real server, by the settings of a project."""

import doctest
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import django
import pytest
from django.conf import settings
from django.core.cache import caches
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from programs import at, blocks
from redis_lock_client import LockBusy, LockLost, LockMisuse, Observer
from redis_lock_client import django as ours
from servers import eventually

BACKENDS = {"own": "django.core.cache.backends.redis.RedisCache", "django-redis": "django_redis.cache.RedisCache"}
if not settings.configured:
    settings.configure()
    django.setup()


@pytest.fixture(params=BACKENDS)
def cache(request, server):
    url = f"redis://127.0.0.1:{server.port}/0"
    mine = {"BACKEND": BACKENDS[request.param], "LOCATION": url, "KEY_PREFIX": "shop", "VERSION": 3}
    with override_settings(CACHES={"default": mine}):
        yield caches["default"]
    ours.close()


def test_examples(cache):
    found = doctest.testmod(ours)
    assert found.attempted > 0
    assert found.failed == 0


def test_one_at_a_time(cache, server):
    begun, over = threading.Event(), threading.Event()

    @ours.alone("orders:{order_id}")
    def pay(order_id, times=1):
        begun.set()
        assert over.wait(20)
        ours.grant().check()
        return order_id * times

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(pay, 7, times=2)
        assert begun.wait(20)
        assert server.info("lock:shop:3:orders:7")["holds"] == 1
        with pytest.raises(LockBusy):
            pay(7)
        over.set()
        assert pay(8) == 8
        assert first.result(20) == 14
    assert pay(7) == 7
    with pytest.raises(LockMisuse):
        ours.grant()


def test_not_again_so_soon_and_its_end_is_no_expiration(cache, server):
    runs = []

    @ours.alone("report", at_least=0.5)
    def report():
        runs.append(time.monotonic())
        if len(runs) == 1:
            raise ZeroDivisionError  # which leaves no mark

    with pytest.raises(ZeroDivisionError):
        report()
    report()
    with pytest.raises(LockBusy):
        report()

    def again():
        try:
            report()
        except LockBusy:
            return False
        return True

    eventually(again, "another run")
    assert runs[2] - runs[1] > 0.45
    eventually(lambda: not server.redis.dbsize(), "the end of the last mark")
    assert server.redis.info("lock")["lock_expirations"] == 0


def test_a_lock_that_is_lost_with_the_cache_is_told(cache):
    @ours.alone("report")
    def report():
        caches["default"].clear()

    with pytest.raises(LockLost):
        report()


def test_a_value_is_computed_once(cache):
    made = []

    def compute():
        made.append(time.sleep(0.2))
        return {"rows": len(made)}

    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(lambda _: ours.get_or_compute("page", compute, timeout=60), range(20)))
    assert found == [{"rows": 1}] * 20
    assert cache.get("page") == {"rows": 1}
    cache.delete("page")
    assert ours.get_or_compute("page", compute, timeout=60) == {"rows": 2}


def test_a_computation_that_fails_is_not_repeated_by_those_that_wait(cache, server):
    made, over = [], threading.Event()

    def fail():
        made.append(over.wait(20))
        raise ZeroDivisionError

    def ask(_):
        try:
            return ours.get_or_compute("page", fail)
        except Exception as error:
            return type(error).__name__

    with ThreadPoolExecutor(20) as pool:
        found = pool.map(ask, range(20))
        server.wait_for_waiters(ours.lock_key("page"), 19)
        over.set()
        assert Counter(found) == {"ZeroDivisionError": 1, "ComputationFailed": 19}
    assert made == [True]
    assert ours.get_or_compute("page", lambda: 5) == 5  # who comes later computes


def test_none_is_a_value_and_an_error_is_not(cache):
    made = []
    for _ in range(3):
        assert ours.get_or_compute("nothing", lambda: made.append(1)) is None
    assert made == [1]

    def fail():
        raise ZeroDivisionError

    def busy():
        made.append(2)
        raise LockBusy("of the work itself")

    with pytest.raises(ZeroDivisionError):
        ours.get_or_compute("page", fail)
    with pytest.raises(LockBusy, match="itself"):
        ours.get_or_compute("page", busy)
    assert made == [1, 2]
    assert ours.get_or_compute("page", lambda: 5) == 5


def test_without_a_lock_the_cache_goes_on(cache, server):
    with ours.locks().lock(ours.lock_key("slow")):
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(ours.get_or_compute, "slow", lambda: 1, wait=0.1).result(20) == 1
    server.redis.set(ours.lock_key("odd"), "no lock")
    assert ours.get_or_compute("odd", lambda: 2) == 2
    lost = ours.get_or_compute("lost", lambda: server.redis.delete(ours.lock_key("lost")))
    assert lost == 1 == cache.get("lost")


def test_threads_share_one_session(cache, server):
    with ThreadPoolExecutor(8) as pool:  # each has a cache object of its own
        list(pool.map(lambda n: ours.alone(f"k{n}")(lambda: time.sleep(0.01))(), range(80)))
    assert server.redis.info("lock")["lock_sessions"] == 1


def test_other_caches_are_refused():
    with override_settings(CACHES={"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}):
        with pytest.raises(ImproperlyConfigured, match="LocMemCache"):
            ours.locks()


def test_the_programs_of_the_guide(server):
    project: dict = {}
    exec(at(server.port, blocks("Django")[0]), project)
    with override_settings(CACHES=project["CACHES"]):
        views: dict = {}
        exec(blocks("Django")[1], views)
        assert views["pay"](42) == "paid 42"
        assert views["front_page"]() == "<h1>Shop</h1>" == caches["default"].get("front-page")
        assert views["stock"]() > 10**15
    ours.close()
