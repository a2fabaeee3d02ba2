"""What concerns threads and processes alone."""

import ctypes
import os
import subprocess
import sys
import threading

import pytest
import redis
from redis_lock_client import LockBusy, Locks, LockUnavailable
from redis_lock_client._threads import Line
from redis_lock_client.servers import Server
from redis_lock_client.state import Fault
from servers import eventually, in_thread

KEY = "lock:orders:42"


@pytest.fixture
def locks(server):
    with Locks(redis.Redis(port=server.port), name="test", lease=10.0) as locks:
        yield locks


class Interrupted(Exception):
    pass


def test_an_exception_raised_in_a_waiting_thread_ends_the_wait(locks, server):
    held = locks.lock(KEY)
    result = in_thread(lambda: locks.lock(KEY))
    server.wait_for_waiters(KEY, 1)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(result.thread.ident), ctypes.py_object(Interrupted))
    with pytest.raises(Interrupted):
        result()
    server.wait_for_waiters(KEY, 0)
    assert held.held


def test_exceptions_at_any_moment_leave_nothing_behind(locks, server):
    """Exceptions that another thread raises, as time limits of task queues do."""
    # The loop runs already: CPython may raise an exception for a thread that starts another in the new one, which then
    # ends before it says that it has started, and the first waits in `Thread.start` forever.
    locks.lock(KEY).release()
    for number in range(100):
        outcome = []

        def work():
            try:
                for _ in range(1000):
                    locks.lock(KEY, wait=0).release()
            except BaseException as error:
                outcome.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        threading.Event().wait(0.002 + number * 0.00003)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Interrupted))
        thread.join(10)
        assert not thread.is_alive() and (not outcome or isinstance(outcome[0], Interrupted)), outcome
        for node in locks._nodes.values():  # interrupted between the grant and its release
            for claim in list(node.state.grants.values()):
                claim.caller.release()
            assert not node.state.waits
        eventually(lambda: server.info(KEY) is None, "the lock to be free", 6)
    locks.lock(KEY, wait=1).release()


def test_stop_ends_a_wait(locks, server):
    locks.lock(KEY)
    stop = threading.Event()
    result = in_thread(lambda: locks.lock(KEY, stop=stop))
    server.wait_for_waiters(KEY, 1)
    stop.set()
    with pytest.raises(LockBusy):
        result()
    server.wait_for_waiters(KEY, 0)


def test_a_cancel_without_a_reply_is_sent_again_without_a_session(proxy):
    with Locks(redis.Redis(port=proxy.port), reply=0.3) as locks:
        locks.lock("first", lease=60)  # connects
        proxy.order("swallow")
        with pytest.raises(LockUnavailable):
            locks.lock(KEY, wait=0, lease=60)
        (node,) = locks._nodes.values()
        assert node.state.unfinished
        proxy.order("speak")
        eventually(lambda: not node.state.unfinished, "the cancel to be answered", 8)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_connection_that_is_closed_while_it_opens_is_a_fault(server, when):
    class Closed(redis.Connection):
        def connect(self):
            if when == "before":
                line.close()
            super().connect()
            if when == "after":
                line.close()

    made = []

    def make():
        made.append(Closed(port=server.port))
        return made[0]

    line = Line(Server("server", make))
    (reply,) = line.exchange(1.0, (("PING",),))
    assert isinstance(reply, Fault) and made[0]._sock is None


def test_leading(locks, server):
    stop, turns = threading.Event(), []

    def work(grant):
        turns.append(grant)
        if len(turns) == 1:
            server.redis.delete(KEY)
            eventually(lambda: grant.lost, "the loss")
            grant.check()  # raises LockLost
        if len(turns) == 3:
            stop.set()

    locks.lead(KEY, work, stop=stop)
    assert len(turns) == 3 and turns[1].token > turns[0].token and server.info(KEY) is None
    with pytest.raises(ZeroDivisionError):
        locks.lead(KEY, lambda grant: 1 / 0)


def test_a_child_does_not_keep_the_connections_of_a_dead_parent(server):
    """Else the locks of the parent were kept for as long as the session's silence."""
    program = f"""if True:
        import os, sys, time, redis
        from redis_lock_client import Locks
        locks = Locks(redis.Redis(port={server.port}), lease=1.0)
        held = locks.lock({KEY!r})
        if os.fork() == 0:
            time.sleep(20)
        os._exit(0)
    """
    subprocess.run([sys.executable, "-c", program], env=with_source(), check=True, stdout=subprocess.DEVNULL)
    eventually(lambda: server.info(KEY) is None, "the lock to be free", 5)


def with_source():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def test_gevent(server):
    pytest.importorskip("gevent")
    program = f"""if True:
        import gevent.monkey
        gevent.monkey.patch_all()
        import gevent, time, redis
        from redis_lock_client import Locks
        ticks = []
        def tick():
            while True:
                ticks.append(1)
                gevent.sleep(0.01)
        gevent.spawn(tick)
        with Locks(redis.Redis(port={server.port}), lease=2.0) as locks:
            inside, order = [0], []
            def work(number):
                for _ in range(5):
                    with locks.lock({KEY!r}, wait=30):
                        inside[0] += 1
                        assert inside[0] == 1
                        gevent.sleep(0.001)
                        inside[0] -= 1
                        order.append(number)
            jobs = [gevent.spawn(work, number) for number in range(20)]
            gevent.joinall(jobs, raise_error=True)
            assert len(order) == 100 and len(ticks) > 5, (len(order), len(ticks))
            with locks.lock("short", lease=0.2) as grant:
                try:
                    with gevent.Timeout(0.3):
                        locks.lock("short2").release()
                        held = locks.lock("long")
                        locks.lock("long")
                except gevent.Timeout:
                    print("ok")
                held.release()
                gevent.sleep(0.1)
                assert grant.lost
    """
    run = subprocess.run([sys.executable, "-c", program], env=with_source(), capture_output=True, text=True, timeout=60)
    assert "ok" in run.stdout, run.stderr
