"""Owners that come back: tasks, and those that have a name. What gives back what one had never meets what it gets later."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from redis.asyncio import Redis

from both import OfTasks, OfThreads
from redis_lock_client import LockBusy, LockLost, LockUnavailable
from redis_lock_client import asyncio as tasks
from servers import Place, Server, eventually
from test_tasks import run

KEY = "lock:orders:42"
NAMED = {"owner": "user-7"}


@pytest.fixture(params=[OfThreads, OfTasks])
def client(request, proxy):
    client = request.param(proxy.port)
    client.release(client.acquire("warm"))  # so that there is a keeper
    yield client
    client.end()


def must_stand(server, client, grant):
    """Also when all that is sent in the background has been answered."""
    eventually(lambda: not client.locks._engine.undo.pending, "the last release to be answered")
    client.check(grant)
    info = server.info(KEY)
    assert info and info["token"] == grant.token and info["owner"] == grant.owner
    assert grant.held


@pytest.mark.parametrize("options", [{}, NAMED])
@pytest.mark.parametrize("fault", ["pause", "forget"])
def test_a_call_without_an_answer_does_not_end_the_next_one(server, proxy, client, fault, options):
    if fault == "pause":
        server.order("pause")
        threading.Timer(2.5, server.order, ["resume"]).start()
    else:
        proxy.order("forget")
    with pytest.raises(LockUnavailable):
        client.acquire(KEY, **options)
    must_stand(server, client, client.acquire(KEY, wait=20, **options))


@pytest.mark.parametrize("options", [{}, NAMED])
def test_a_release_without_an_answer_does_not_end_the_next_grant(server, proxy, client, options):
    grant = client.acquire(KEY, **options)
    proxy.order("swallow")
    with pytest.raises(LockUnavailable):
        client.release(grant)
    threading.Timer(0.5, proxy.order, ["speak"]).start()
    must_stand(server, client, client.acquire(KEY, wait=20, **options))


def test_a_release_without_an_answer_does_not_end_what_the_owner_has_elsewhere(server, proxy, client, other):
    grant = client.acquire(KEY, **NAMED)
    proxy.order("swallow")
    with pytest.raises(LockUnavailable):
        client.release(grant)
    taken = other.acquire(KEY, **NAMED)
    proxy.order("speak")
    client.release(client.acquire("warm", wait=20))  # whatever was to be sent before has been
    must_stand(server, other, taken)
    assert server.calls("lock.release") == 2


@pytest.mark.parametrize("options", [{}, NAMED])
@run
async def test_a_wait_that_was_called_off_does_not_end_the_next_grant(server, proxy, options):
    server.redis.execute_command("LOCK.ACQUIRE", KEY, "other", "EX", 60)
    async with Redis(port=proxy.port) as client, tasks.Locks(client) as locks:
        waiting = asyncio.create_task(locks.lock(KEY, wait=20, **options).acquire())
        while not server.waiters(KEY):
            await asyncio.sleep(0.01)
        [waiter] = server.waiters(KEY)
        proxy.order("inject", fault="reset-request", words="LOCK.RELEASE ALL")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        server.redis.delete(KEY)
        grant = await locks.lock(KEY, wait=20, **options).acquire()
        while locks._engine.undo.pending:
            await asyncio.sleep(0.01)
        await grant.check()
        assert server.info(KEY)["token"] == grant.token
        if not options:
            await grant.release()
            return
        assert waiter["owner"] == grant.owner == NAMED["owner"]
        assert server.calls("lock.release") == 0  # what was lost once is not sent again


@run
async def test_a_task_that_knows_the_end_of_its_call_keeps_its_owner(server):
    server.redis.execute_command("LOCK.ACQUIRE", KEY, "other", "EX", 60)
    async with Redis(port=server.port) as client, tasks.Locks(client) as locks:
        task = locks.task()
        owner = task.owner
        waiting = asyncio.create_task(locks.lock(KEY, wait=20, task=task).acquire())
        while not server.waiters(KEY):
            await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert task.owner == owner


@run
async def test_a_named_owner_tries_first_where_others_wait(server):
    server.redis.execute_command("LOCK.ACQUIRE", KEY, "other", "EX", 60)
    async with Redis(port=server.port) as client, tasks.Locks(client) as locks:
        waiting = [asyncio.create_task(locks.lock(KEY, wait=20, **options).acquire()) for options in ({}, NAMED)]
        while len(server.waiters(KEY)) < 2:
            await asyncio.sleep(0.01)
        assert server.calls("lock.acquire") == 1 + 2 * 2
        waiting[0].cancel()
        waiting[1].cancel()
        await asyncio.wait(waiting)


# Two grants of one owner.


@pytest.mark.parametrize("another", ["owner", "task", "adopt"])
def test_they_count_their_holds_whoever_has_them(server, client, another):
    first = client.acquire(KEY, **NAMED)
    if another == "adopt":
        first = client.adopt(KEY, first.owner, client.detach(first))
    options = {"task": client.locks.task("user-7")} if another == "task" else NAMED
    with ThreadPoolExecutor(1) as elsewhere:
        second = elsewhere.submit(client.acquire, KEY, **options).result()
    assert second.token == first.token and server.info(KEY)["holds"] == 2
    client.release(first)
    assert server.info(KEY)["holds"] == 1 and second.held and not first.held
    client.check(second)
    client.release(second)
    assert server.info(KEY) is None


def test_a_loss_is_told_to_both(server, client):
    told = []
    grants = [client.acquire(KEY, **NAMED) for _ in range(2)]
    for number, grant in enumerate(grants):
        grant.on_lost(lambda number=number: told.append(number))
    server.redis.delete(KEY)
    eventually(lambda: sorted(told) == [0, 1], "both to hear of it")
    for grant in grants:
        with pytest.raises(LockLost):
            client.release(grant)


def test_several_at_once_share_one_grant(server, client):
    def work(_):
        for _ in range(20):
            grant = client.acquire(KEY, wait=20, **NAMED)
            client.check(grant)
            client.release(grant)

    with ThreadPoolExecutor(4) as several:
        list(several.map(work, range(4)))
    eventually(lambda: server.info(KEY) is None, "the last to be released")
    assert not client.locks._engine.held


def test_one_that_waits_is_waited_for(server, client):
    server.redis.execute_command("LOCK.ACQUIRE", KEY, "other", "EX", 60)
    with ThreadPoolExecutor(2) as several:
        both = [several.submit(client.acquire, KEY, wait=20, **NAMED) for _ in range(2)]
        server.wait_for_waiters(KEY, 1)
        with pytest.raises(LockBusy):
            client.acquire(KEY, **NAMED)
        server.redis.execute_command("LOCK.RELEASE", KEY, "other")
        grants = [call.result(20) for call in both]
    assert [grant.token for grant in grants] == [grants[0].token] * 2 and server.info(KEY)["holds"] == 2


def test_a_hold_that_is_given_up_leaves_the_others(server, proxy, client):
    grant = client.acquire(KEY, **NAMED)
    proxy.order("inject", fault="silence", words="LOCK.ACQUIRE HOLDS 2")
    with pytest.raises(LockUnavailable):
        client.acquire(KEY, **NAMED)
    proxy.order("speak")
    eventually(lambda: server.info(KEY)["holds"] == 1, "that hold to be given back")
    must_stand(server, client, grant)
    client.release(grant)
    assert server.info(KEY) is None


# What others do in the name of an owner.


@pytest.mark.parametrize("adopted", [False, True])
def test_a_check_notices_a_release_by_others(server, client, adopted):
    grant = client.acquire(KEY, **NAMED)
    if adopted:
        grant = client.adopt(KEY, grant.owner, client.detach(grant))
    client.check(grant)
    lost = threading.Event()
    grant.on_lost(lost.set)
    server.redis.execute_command("LOCK.RELEASE", KEY, grant.owner, "ALL")
    server.redis.execute_command("LOCK.ACQUIRE", KEY, "other", "EX", 60)
    with pytest.raises(LockLost):
        client.check(grant)
    assert lost.wait(5) and not grant.held


@pytest.mark.parametrize("how", ["adopt", "owner"])
def test_what_another_connection_keeps_is_not_taken_back(server, client, other, how):
    beside = client.acquire("beside")
    grant = client.acquire(KEY, **NAMED)
    taken = other.adopt(KEY, grant.owner, grant.token) if how == "adopt" else other.acquire(KEY, **NAMED)
    keeper = server.kept_by(KEY)
    eventually(lambda: grant.lost, "the first to be told")
    assert "another connection" in grant._held.why
    with pytest.raises(LockLost):
        client.release(grant)
    other.check(taken)
    client.check(beside)
    assert server.kept_by(KEY) == keeper
    assert server.redis.info("lock")["lock_kept_closes"] == 1
    other.release(taken)
    assert server.info(KEY) is None


def test_what_was_kept_on_a_connection_of_its_own_is_kept_on_the_next(server, proxy, client):
    grants = [client.acquire(KEY, **NAMED), client.acquire("fresh")]
    first = server.kept_by(KEY)
    proxy.order("forget")  # the server does not hear of the end of that connection
    eventually(lambda: server.kept_by(KEY) not in (0, first), "it to be kept on another")
    for grant in grants:
        client.check(grant)
    second = server.kept_by(KEY)
    server.redis.client_kill_filter(_type="normal", skipme=True)
    eventually(lambda: server.kept_by(KEY) not in (0, second), "it to be kept on a third")
    for grant in grants:
        client.check(grant)
        client.release(grant)


@pytest.mark.parametrize("kind", [OfThreads, OfTasks])
def test_the_ids_of_a_server_mean_nothing_on_the_next(start, kind):
    server = Server(start("server", config={"appendonly": "yes", "appendfsync": "always"}))
    proxy = Place(start("proxy", port=server.port))
    for _ in range(20):
        redis.Redis(port=server.port).ping()
    client, others = kind(proxy.port), []
    grant = client.acquire(KEY, lease=60.0, **NAMED)
    for _ in range(10):  # so that it has had some connections
        former = server.kept_by(KEY)
        server.redis.client_kill_filter(_id=former)
        eventually(lambda former=former: server.kept_by(KEY) not in (0, former), "it to be kept on another")
    [keeper] = client.locks._engine.keepers.values()
    ids = set(keeper._ids)
    proxy.order("swallow")
    server.order("kill")
    server.order("restart")
    while server.redis.client_id() < min(ids) - 2:
        server.redis.connection_pool.disconnect()
    while server.kept_by(KEY) not in ids:
        others.append(kind(server.port))
        taken = others[-1].adopt(KEY, grant.owner, grant.token)
    proxy.order("speak")
    eventually(lambda: grant.lost, "the first to be told")
    others[-1].check(taken)
    for it in (client, *others):
        it.end()


def test_where_it_may_not_look_it_keeps_on(server, client):
    server.redis.execute_command("ACL", "SETUSER", "default", "-lock.holders")
    grant = client.acquire(KEY, **NAMED)
    calls = server.calls("lock.renew")
    server.redis.client_kill_filter(_type="normal", skipme=True)
    eventually(lambda: server.calls("lock.renew") > calls, "it to be kept on another connection")
    client.check(grant)


@pytest.mark.parametrize("options", [{}, NAMED])
def test_what_is_lost_by_the_clock_is_released(server, proxy, request, options):
    for kind in (OfThreads, OfTasks):
        client = kind(proxy.port, reply=8)  # so that silence does not close the keeper
        grant = client.acquire(KEY, lease=1.0, **options)
        proxy.order("silence")
        eventually(lambda grant=grant: grant.lost, "the loss to be told")
        if options:
            proxy.order("speak")
        eventually(lambda: server.info(KEY) is None, "it to be released", 5)
        proxy.order("speak")
        client.end()


@pytest.mark.parametrize("may_look", [True, False])
def test_what_is_lost_by_the_clock_and_adopted_meanwhile_is_not_released(server, proxy, client, other, may_look):
    if not may_look:
        server.redis.execute_command("ACL", "SETUSER", "default", "-lock.holders")
    client = type(client)(proxy.port, reply=8)
    grant = client.acquire(KEY, lease=1.0, **NAMED)
    proxy.order("silence")
    taken = other.adopt(KEY, grant.owner, grant.token)
    eventually(lambda: grant.lost, "the loss to be told")
    proxy.order("speak")
    eventually(lambda: not client.locks._engine.undo.pending, "the look at who keeps it")
    other.check(taken)
    client.end()


# Letting go.


@pytest.mark.parametrize("options", [{}, NAMED, {"lease": 30.0, "fixed": True}])
def test_what_is_let_go_of_stays_for_its_lease(server, client, other, options):
    grant = client.acquire(KEY, **options)
    token, owner = grant.token, grant.owner
    assert client.detach(grant) == token
    assert not grant.held and not grant.lost
    assert server.info(KEY)["token"] == token and server.kept_by(KEY) == 0
    taken = other.adopt(KEY, owner, token)
    time.sleep(0.2)
    other.check(taken)
    assert server.redis.info("lock")["lock_kept_closes"] == 0
    assert not client.locks._engine.held
    other.release(taken)


def test_letting_go_of_what_was_lost_tells_so(server, client):
    grant = client.acquire(KEY, lease=30.0, fixed=True)
    kept = client.acquire("kept")
    client.locks._engine.lose(grant._held, "a test says so", None)
    with pytest.raises(LockLost):
        client.detach(grant)
    server.redis.delete("kept")
    with pytest.raises(LockLost):
        client.detach(kept)


def test_letting_go_without_an_answer_is_told_and_nothing_is_kept(server, client):
    grant = client.acquire(KEY, lease=1.0)
    server.order("pause")
    with pytest.raises(LockUnavailable):
        client.detach(grant)
    server.order("resume")
    eventually(lambda: server.info(KEY) is None, "its lease to end", 5)
