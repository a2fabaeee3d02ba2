"""Each kind of lock, and what can be done with a grant: with threads and with asyncio."""

import asyncio
import threading
import time

import pytest
import redis
from redis.asyncio import Redis

from redis_lock_client import LockBusy, LockLost, Locks, LockUnavailable
from redis_lock_client import asyncio as tasks
from servers import Server, eventually

KEY = "lock:orders:42"


@pytest.fixture
def locks(server):
    with Locks(redis.Redis(port=server.port), "test") as locks:
        yield locks


class Both:
    """The client of asyncio, called as that of threads: so each test runs with both."""

    def __init__(self, port):
        self.loop = asyncio.new_event_loop()
        self.client = Redis(port=port)

        async def make():
            return tasks.Locks(self.client, "test")

        self.locks = self.loop.run_until_complete(make())

    def call(self, thing, name, *words, **named):
        if isinstance(thing, Locks) or isinstance(self, Threaded):
            return getattr(thing, name)(*words, **named)

        async def done():
            result = getattr(thing, name)(*words, **named)
            return await result if asyncio.iscoroutine(result) else result

        return self.loop.run_until_complete(done())

    def end(self):
        self.loop.run_until_complete(self.locks.close())
        self.loop.run_until_complete(self.client.aclose())
        self.loop.close()


class Threaded(Both):
    def __init__(self, port):
        self.locks = Locks(redis.Redis(port=port), "test")

    def end(self):
        self.locks.close()


@pytest.fixture(params=[Threaded, Both], ids=["threads", "asyncio"])
def both(request, server):
    both = request.param(server.port)
    yield both
    both.end()


def test_shared_and_exclusive_and_downgrade(both, server):
    call, locks = both.call, both.locks
    writer = call(locks.lock(KEY, task=locks.task()), "acquire")
    reader = locks.shared(KEY, task=locks.task())
    assert call(reader, "try_acquire") is None
    call(writer, "downgrade")
    beside = call(reader, "acquire")
    assert len(call(locks, "holders", KEY)) == 2
    call(writer, "release")
    call(beside, "release")
    assert server.info(KEY) is None


def test_permits(both, server):
    call, permit = both.call, both.locks.permit(KEY, of=2)
    first, second = call(permit, "acquire"), call(permit, "acquire")
    assert first.owner != second.owner
    with pytest.raises(LockBusy):
        call(permit, "acquire")
    call(first, "release")
    call(call(permit, "acquire"), "release")
    call(second, "release")


def test_a_fixed_lease_ends_and_may_begin_anew(both, server):
    call = both.call
    grant = call(both.locks.lock(KEY, lease=0.6, fixed=True), "acquire")
    call(grant, "extend", 1.5)
    assert 1.3 < grant.remaining <= 1.5
    call(grant, "check")
    until = time.monotonic() + 1.6
    if isinstance(both, Threaded):
        eventually(lambda: grant.lost, "the end of the lease")
    else:
        both.loop.run_until_complete(asyncio.sleep(until - time.monotonic() + 0.2))
    assert grant.lost and server.info(KEY) is None
    with pytest.raises(LockLost):
        call(grant, "release")


def test_at_most_so_long(locks, server):
    began, told = time.monotonic(), threading.Event()
    grant = locks.lock(KEY, lease=1, at_most=2.5).acquire()
    grant.on_lost(told.set)
    assert told.wait(10) and 2.3 < time.monotonic() - began < 4
    eventually(lambda: server.info(KEY) is None, "the lock to be free", 1)
    grant = locks.lock(KEY, lease=1, at_most=1.5).acquire()
    time.sleep(1)
    grant.extend(3)
    time.sleep(1.2)
    grant.check()
    grant.release()


def test_an_own_owner_and_adoption(both, server):
    call, locks = both.call, both.locks
    lock = locks.lock(KEY, owner="user-7", lease=5, fixed=True)
    grant = call(lock, "acquire")
    assert server.info(KEY)["owner"] == "user-7"
    again = call(lock, "acquire")
    assert server.info(KEY)["holds"] == 2
    call(again, "release")
    adopted = call(locks, "adopt", KEY, "user-7", grant.token)
    assert server.kept_by(KEY)
    call(adopted, "release")
    with pytest.raises(LockLost):
        call(locks, "adopt", KEY, "user-7", adopted._held.token)


def test_who_holds_it_and_force(both, server):
    call, locks = both.call, both.locks
    assert call(locks, "holders", KEY) == []
    grant = call(locks.lock(KEY), "acquire")
    [holder] = call(locks, "holders", KEY)
    assert (holder.owner, holder.token, holder.limit) == (grant.owner, grant.token, 1)
    assert call(locks, "force_unlock", KEY) and not call(locks, "force_unlock", KEY)
    with pytest.raises(LockLost):
        call(grant, "check")


def test_several_at_once_or_none(locks, server):
    with locks.all(["b", "a", "a"]) as grants:
        assert [grant.key for grant in grants] == ["a", "b"]
    other = locks.lock("b", task=locks.task()).acquire()
    with pytest.raises(LockBusy), locks.all(["a", "b"], wait=0.2):
        pass
    assert server.info("a") is None
    other.release()


def test_lead_and_once(locks, server):
    led, stop = [], threading.Event()

    def work(grant):
        led.append(grant.token)
        if len(led) == 1:
            locks.force_unlock(KEY)
            eventually(lambda: grant.lost, "the loss")

    locks.lead(KEY, work, stop=stop)
    assert len(led) == 2 and led == sorted(led)

    found, worked = [], []

    def make(grant):
        time.sleep(0.1)
        worked.append(1)
        server.redis.set("made", "7")
        return "7"

    callers = [threading.Thread(target=lambda: found.append(
        locks.once("lock:made", lambda: server.redis.get("made"), make))) for _ in range(5)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(10)
    assert found == ["7"] * 5 and worked == [1]


def test_the_only_permit_is_not_given_twice(both):
    permit = both.locks.permit(KEY, of=1)
    grant = both.call(permit, "acquire")
    with pytest.raises(LockBusy):
        both.call(permit, "acquire")
    both.call(grant, "release")


def test_an_error_of_the_work_of_once_is_not_taken_for_a_busy_lock(both):
    begun = []

    def fail(grant):
        begun.append(grant.token)
        raise LockBusy("of the work")

    async def fail_there(grant):
        fail(grant)

    async def nothing():
        return None

    is_async = both.locks.__class__ is tasks.Locks
    with pytest.raises(LockBusy, match="of the work"):
        both.call(both.locks, "once", KEY, nothing if is_async else lambda: None, fail_there if is_async else fail)
    assert len(begun) == 1


def test_acknowledged_by_replicas(locks, server, sentinels):
    with pytest.raises(LockUnavailable):
        locks.lock(KEY, replicas=1).acquire()
    eventually(lambda: server.info(KEY) is None, "the grant to be given back", 2)
    with Locks(redis.Redis(port=sentinels.primary.port)) as replicated:
        with replicated.lock(KEY, replicas=1, wait=2) as grant:
            assert sentinels.replica.info(KEY)["token"] == grant.token
            assert sentinels.primary.kept_by(KEY)


def test_what_is_entered_again_has_its_replicas_and_its_longer_silence(both, server, sentinels):
    task = both.locks.task()
    outer = both.call(both.locks.lock(KEY, task=task), "acquire")
    with pytest.raises(LockUnavailable):
        both.call(both.locks.lock(KEY, task=task, replicas=1), "acquire")
    both.call(outer, "check")
    [holder] = server.redis.execute_command("LOCK.HOLDERS", KEY)
    assert holder["holds"] == outer.holds == 1 and holder["kept-by"]
    both.call(both.locks.lock(KEY, task=task, keep=600), "acquire")
    server.redis.client_kill_filter(_id=holder["kept-by"])

    def silence():
        both.call(outer, "check")  # asyncio's loop runs meanwhile
        [now] = server.redis.execute_command("LOCK.HOLDERS", KEY)
        return now["kept-by"] not in (0, holder["kept-by"]) and now["keep-ms"]

    assert eventually(silence, "it to be kept on another connection") == 600_000
    with Locks(redis.Redis(port=sentinels.primary.port)) as replicated:
        with replicated.lock(KEY) as grant, replicated.lock(KEY, replicas=1) as again:
            assert sentinels.replica.info(KEY)["holds"] == again.holds == 2
            grant.check()
            assert sentinels.primary.kept_by(KEY)


def test_for_ever(both, server):
    other = Server({"port": server.port})
    token = other.redis.execute_command("LOCK.ACQUIRE", KEY, "other", "PX", 300)[0]
    grant = both.call(both.locks.lock(KEY, wait=float("inf")), "acquire")
    assert grant.token > token
    both.call(grant, "release")


def test_on_valkey_py(server):
    valkey = pytest.importorskip("valkey")
    with Locks(valkey.Valkey(port=server.port)) as locks, locks.lock(KEY) as grant:
        grant.check()

    async def with_tasks():
        from valkey.asyncio import Valkey
        async with tasks.Locks(Valkey(port=server.port)) as locks, locks.lock(KEY) as grant:
            await grant.check()

    asyncio.run(with_tasks())
