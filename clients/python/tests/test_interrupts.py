"""Signals whose handlers raise an exception, at random moments."""

import random
import signal
import threading
from collections import Counter

import pytest
import redis

from redis_lock_client import Locks
from servers import LONG, eventually

KEY = "lock:orders:42"
ROUNDS = 500 if LONG else 60


def names(server):
    """Of the connections."""
    return [client["name"] for client in server.redis.client_list()]


class Interrupt(Exception):
    """Of a signal."""


def interrupted(work):
    """Does it again and again, till a signal comes at a random moment."""
    came = threading.Event()

    def interrupt(*_):
        came.set()
        raise Interrupt

    signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.001, 0.02))
        while not came.is_set():  # Python drops what is raised inside of a __del__, and redis-py has some
            work()
    except Interrupt:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def is_left(locks, holds):
    """Whether the signal came before the first instruction of the release, or after the last of the acquire."""
    try:
        eventually(lambda: not holds(), "the lock to be free", 1)
        return False
    except AssertionError:
        info = holds()
        for held in [held for held in locks._engine.held if info and held.owner == info["owner"]]:
            locks._engine.abandon(held)
        return True


def enter(lock):
    with lock:
        pass


def test_interrupts_at_random_moments_leave_nothing_behind(server):
    with Locks(redis.Redis(port=server.port)) as locks:
        locks.lock(KEY).acquire().release()
        left = 0
        for _ in range(ROUNDS):
            interrupted(lambda: enter(locks.lock(KEY)))
            left += is_left(locks, lambda: server.info(KEY))
        assert names(server).count("lock-keeper") == 1, "a second thread for the same keeper mixes up its answers"
    assert left <= 1 + ROUNDS // 100


def test_interrupts_of_one_of_several_that_contend_leave_nothing_behind(server):
    count, turns, ends = 4, Counter(), threading.Event()
    client = redis.Redis(port=server.port)
    with Locks(client, "others") as of_others, Locks(client, "mine") as locks:
        def work():
            while not ends.is_set():
                enter(of_others.lock(KEY, wait=60))
                turns["others"] += 1

        def mine():
            enter(locks.lock(KEY, wait=60))
            turns["mine"] += 1

        def of_mine():
            """What tells that it holds the lock, or waits for it, after the interrupt."""
            told = [info for info in (server.info(KEY), *server.waiters(KEY)) if info and info["owner"].startswith("mine:")]
            return told[0] if told else None

        others = [threading.Thread(target=work) for _ in range(count)]
        for other in others:
            other.start()
        left = 0
        try:
            for _ in range(ROUNDS):
                interrupted(mine)
                left += is_left(locks, of_mine)
        finally:
            ends.set()
            for other in others:
                other.join(20)
        assert not any(other.is_alive() for other in others)
        assert turns["mine"] and turns["others"] > ROUNDS
        eventually(lambda: server.info(KEY) is None, "the lock to be free")
        assert not locks._engine.held and not of_others._engine.held
        assert names(server).count("lock-keeper") == 2
        eventually(lambda: names(server).count("lock-wait") <= count + 1, "what nobody uses any more to be closed")
    assert left <= 1 + ROUNDS // 100


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_interrupts_of_adoptions_leave_nothing_kept_for_nobody(server):
    token = server.redis.execute_command("LOCK.ACQUIRE", KEY, "other", "PX", 600_000)[0]

    with Locks(redis.Redis(port=server.port)) as locks:
        left = 0
        for _ in range(ROUNDS):
            interrupted(lambda: locks.adopt(KEY, "other", token, lease=600).detach())
            try:
                eventually(lambda: not server.kept_by(KEY), "the keeping to end", 1)
            except AssertionError:
                left += 1
                locks.adopt(KEY, "other", token, lease=600).detach()
        assert not locks._engine.held
    assert left <= 1 + ROUNDS // 100
