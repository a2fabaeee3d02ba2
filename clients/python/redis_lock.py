"""Locks of redis-lock for threads, on redis-py. Copy this file. Python 3.11 or later.

    locks = Locks(redis.Redis(), service="orders")        # one for the process
    with locks.lock("lock:orders:42", lease=30, wait=10) as grant:
        # Claim the row, then read, then write under the claim: docs/fencing.md of redis-lock says why.
        t = {"t": grant.token}
        if db.execute("UPDATE orders SET fence = %(t)s WHERE id = 42 AND fence <= %(t)s", t).rowcount == 0:
            raise LockLost("a newer holder has claimed the order")
        if db.execute("SELECT state FROM orders WHERE id = 42").fetchone() == ("new",):
            db.execute("UPDATE orders SET state = 'paid' WHERE id = 42 AND fence = %(t)s", t)

The client may be a redis.Redis (from a Sentinel too) or a redis.cluster.RedisCluster.

- A lock belongs to a thread: a `with` inside another one of the same thread and key is one more hold
  of the same grant, and the holds may end in any order. Each thread is an owner of its own.
- A wait is one call on a connection of its own, first come, first served. Whatever ends it early
  (Ctrl-C, a signal handler that raises, `close`) cancels it: neither a wait nor a hold stays.
- A grant is renewed every third of its lease, by one scheduler for all locks.
- `grant.token` and `grant.check()` raise LockLost, and `grant.lost` is set, as soon as the lock is
  known to be lost or can no longer be trusted: when the lease, counted from the sending of the call
  that set it, has passed without an answer. The end of the `with` raises LockLost then, too.
- Calls whose replies were lost are repeated, and do not add up.
- `close` stops renewing, releases everything and cancels all waits. To release on SIGTERM, turn it
  into an exception (`signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))`) inside a
  `with Locks(...) as locks:`. After a kill -9 the leases end by themselves.

What no lock can do: stop work that goes on after its lease. So what is written to has to look at the
token, as above, and in Redis by LOCK.FENCE in the script that writes.
"""

import logging
import math
import os
import socket
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import redis
from redis import exceptions
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.retry import Retry

CALL_TIMEOUT = 2.0  # seconds until a call that does not wait is given up, to be repeated
PATIENCE = 5.0  # seconds of repeating where neither a wait nor a lease sets an end
PAUSE = 0.1  # seconds between two attempts
LOST = ("NOTHELD", "NOTOWNER", "FENCED")
NO_ANSWER = (exceptions.ConnectionError, exceptions.TimeoutError)
#: What passes: no answer, or that of a server which cannot serve now. The call is sent again.
PASSING = (*NO_ANSWER, exceptions.ReadOnlyError, exceptions.MovedError, exceptions.AskError,
           exceptions.TryAgainError, exceptions.ClusterError, exceptions.RedisClusterException)
PASSING_WORDS = ("UNBLOCKED", "NOREPLICAS", "MISCONF", "MASTERDOWN")
log = logging.getLogger("redis_lock")


class LockBusy(Exception):
    """Another owner has the lock, and the time to wait for it was up or the wait cancelled."""


class LockLost(Exception):
    """The lock is not this owner's any more, or that can no longer be known."""


class Refused(Exception):
    """NOTHELD, NOTOWNER or FENCED; `repeated` when an earlier attempt may have been carried out."""

    def __init__(self, error, repeated):
        super().__init__(str(error))
        self.repeated = repeated


def first_word(error):
    return str(error).split(" ", 1)[0]


def is_passing(error):
    return isinstance(error, PASSING) or first_word(error) in PASSING_WORDS


def new_owner(service):
    return f"{service}:{socket.gethostname()}:{os.getpid()}:{uuid.uuid4()}"


def settings_of_a_connection(pool, read_timeout):
    own = {"socket_timeout": read_timeout, "socket_connect_timeout": CALL_TIMEOUT,
           "socket_keepalive": True, "retry": Retry(NoBackoff(), 0)}
    return {**pool.connection_kwargs, **own}


def without_retries(client):
    """A client with the same settings that repeats nothing unseen: only the first NOTHELD to a
    release is a loss. And with connections of its own: an exhausted pool must not stop a renewal."""
    if isinstance(client, RedisCluster):
        return client
    pool = client.connection_pool
    settings = settings_of_a_connection(pool, CALL_TIMEOUT)
    return redis.Redis(connection_pool=redis.ConnectionPool(pool.connection_class, **settings))


class Grant:
    """One unbroken ownership of a lock: what `with` gives."""

    def __init__(self, key, owner, reply, sent, lost):
        self.key, self.owner, self.lost = key, owner, lost
        self.holds, self.why_lost, self.deadline = 1, None, -math.inf
        self._token = int(reply[0])
        self.lengthen(int(reply[3]) / 1000, sent)

    @property
    def token(self):
        """The fencing token, to be sent with each write. Raises LockLost once it is in doubt."""
        self.check()
        return self._token

    def valid_for(self):
        """For how many seconds the lock can be trusted without another renewal."""
        over = self.why_lost or not self.holds
        return 0.0 if over else max(0.0, self.deadline - time.monotonic())

    def check(self):
        """Raises LockLost unless the lock is still this owner's, as far as can be known."""
        if not self.valid_for():
            why = self.why_lost or ("the lease has passed" if self.holds else "released")
            raise LockLost(f"{self.key}: {why}")

    def lengthen(self, lease, sent):
        self.lease, self.deadline = lease, max(self.deadline, sent + lease)
        self.renew_at = sent + lease / 3

    def lose(self, why):
        if not self.why_lost:
            self.why_lost = why
            self.lost.set()


class Locks:
    """The locks of a process. `service` is the first part of each owner's name."""

    def __init__(self, client, service="app"):
        self._client, self._service = without_retries(client), service
        self._start_afresh()
        os.register_at_fork(after_in_child=self._start_afresh)  # a child holds nothing

    def _start_afresh(self):
        self._changed = threading.Condition()  # guards what follows
        self._grants, self._waits, self._closed = {}, set(), False
        self._scheduler = None
        self._mine = threading.local()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @contextmanager
    def lock(self, key, lease=30.0, wait=0.0):
        """Holds the lock. Waits in line for up to `wait` seconds, then raises LockBusy."""
        grant = self._acquire(key, lease, wait)
        try:
            yield grant
        except BaseException:
            self._release(grant)
            raise
        self._release(grant)
        if grant.why_lost:
            raise LockLost(f"{key}: {grant.why_lost}")

    def close(self):
        """Stops renewing, releases all locks and cancels all waits."""
        with self._changed:
            self._closed = True
            held, self._grants = self._grants, {}
            for grant in held.values():
                grant.lose("the locks were closed")
            ends = set(held) | self._waits
            self._changed.notify_all()
        for key, owner in ends:
            self._cancel(key, owner)

    def _acquire(self, key, lease, wait):
        if not hasattr(self._mine, "owner"):
            self._mine.owner = f"{new_owner(self._service)}:{threading.get_ident()}"
        owner, px = self._mine.owner, max(1, round(lease * 1000))
        grant = self._grants.get((key, owner))
        if grant:
            return self._enter_again(grant, px)
        self._waits.add((key, owner))
        try:
            reply, sent = self._first_hold(key, owner, px, time.monotonic() + wait)
            grant = Grant(key, owner, reply, sent, threading.Event())
            with self._changed:
                if self._closed:
                    raise LockBusy(f"{key}: the locks are closed")
                self._grants[key, owner] = grant
                if not self._scheduler:
                    self._scheduler = threading.Thread(target=self._schedule, daemon=True)
                    self._scheduler.start()
                self._changed.notify_all()
            return grant
        except BaseException as error:
            if not isinstance(error, LockBusy) or self._closed:
                self._cancel(key, owner)
            raise
        finally:
            self._waits.discard((key, owner))

    def _first_hold(self, key, owner, px, until):
        acquire = ("LOCK.ACQUIRE", key, owner, "PX", px, "HOLDS", 1)
        while not self._closed:
            reply, sent = self._repeat(max(until, time.monotonic() + PATIENCE), *acquire)
            left = until - time.monotonic()
            if reply or left <= 0:
                break
            try:
                reply = self._wait(left, *acquire, "BLOCK", math.ceil(left * 1000))
                if not reply:
                    break
                # When the grant was made cannot be known, so the lease is counted from a renewal.
                return self._repeat(time.monotonic() + px / 1000,
                                    "LOCK.RENEW", key, owner, "TOKEN", reply[0])
            except Refused:
                continue  # the grant has ended already: back in line
            except exceptions.RedisError as error:
                if not is_passing(error):
                    raise
                time.sleep(PAUSE)
        if self._closed or not reply:
            raise LockBusy(f"{key}: another owner has it")
        return reply, sent

    def _enter_again(self, grant, px):
        grant.check()
        try:
            reply, sent = self._repeat(grant.deadline, "LOCK.ACQUIRE", grant.key, grant.owner,
                                       "PX", px, "HOLDS", grant.holds + 1, "TOKEN", grant._token)
        except Refused as refusal:
            grant.lose(str(refusal))
            grant.check()
        with self._changed:
            grant.holds += 1
            grant.lengthen(int(reply[3]) / 1000, sent)
        return grant

    def _release(self, grant):
        with self._changed:
            if not grant.valid_for():
                grant.lose("the lease has passed")
            grant.holds -= 1
            holds = grant.holds
            if not holds:
                self._grants.pop((grant.key, grant.owner), None)  # from here on nothing renews it
        if grant.why_lost:
            return
        try:
            _, sent = self._repeat(min(grant.deadline, time.monotonic() + PATIENCE), "LOCK.RELEASE",
                                   grant.key, grant.owner, "HOLDS", holds, "TOKEN", grant._token)
            grant.lengthen(grant.lease, sent)
        except Refused as refusal:
            if holds or not refusal.repeated:  # else an earlier attempt has released it
                grant.lose(str(refusal))
        except exceptions.RedisError as error:
            log.warning("%s: not released, its lease will end: %s", grant.key, error)

    def _schedule(self):
        """Tells of leases that have passed, and has the others renewed. Never waits for a server."""
        with ThreadPoolExecutor(8, "redis-lock") as renewals, self._changed:
            while not self._closed:
                now, next_look = time.monotonic(), math.inf
                for grant in self._grants.values():
                    if grant.why_lost:
                        continue
                    if now >= grant.deadline:
                        grant.lose("the lease has passed without an answer")
                        continue
                    if now >= grant.renew_at:
                        grant.renew_at = math.inf  # until the answer is there
                        renewals.submit(self._renew, grant)
                    next_look = min(next_look, grant.renew_at, grant.deadline)
                self._changed.wait(None if next_look == math.inf else next_look - now)

    def _renew(self, grant):
        sent, error = time.monotonic(), None
        try:
            reply = self._call("LOCK.RENEW", grant.key, grant.owner, "TOKEN", grant._token)
        except exceptions.RedisError as it:
            error = it
            log.warning("%s: not renewed: %s", grant.key, error)
        with self._changed:
            if not error:
                grant.lengthen(int(reply[3]) / 1000, sent)
            else:
                if first_word(error) in LOST and grant.holds:
                    grant.lose(f"a renewal was answered {first_word(error)}")
                grant.renew_at = time.monotonic() + min(PAUSE, grant.lease / 30)
            self._changed.notify_all()

    def _cancel(self, key, owner):
        """Sees to it that the owner neither holds nor waits."""
        try:
            self._repeat(time.monotonic() + CALL_TIMEOUT, "LOCK.RELEASE", key, owner, "ALL")
        except Refused:
            pass
        except exceptions.RedisError as error:
            log.warning("%s: not cancelled, a lease may have to end: %s", key, error)

    def _wait(self, left, *words):
        """One waiting call on a connection of its own, which reads for longer than the wait."""
        client = self._client
        if isinstance(client, RedisCluster):
            client = client.get_redis_connection(client.get_node_from_key(words[1]))
        pool = client.connection_pool
        connection = pool.connection_class(**settings_of_a_connection(pool, left + PATIENCE))
        connection.connect()
        try:
            connection.send_command(*words)
            return connection.read_response(disconnect_on_error=False)
        except exceptions.RedisError:
            raise  # answered, or the connection is gone: nobody waits on it
        except BaseException:
            self._cancel(words[1], words[2])
            if connection.can_read(CALL_TIMEOUT):
                connection.read_response()  # the end of the wait; a grant is released by the caller
            raise
        finally:
            connection.disconnect()

    def _repeat(self, until, *words):
        """Sends a call until it is answered. Gives the reply, and when the answered call was sent."""
        repeated = False
        while True:
            sent = time.monotonic()
            try:
                return self._call(*words), sent
            except exceptions.RedisError as error:
                if first_word(error) in LOST:
                    raise Refused(error, repeated) from None
                if not is_passing(error) or time.monotonic() + PAUSE > until:
                    raise
                repeated = repeated or isinstance(error, NO_ANSWER)
            time.sleep(PAUSE)

    def _call(self, *words):
        if isinstance(self._client, RedisCluster):  # a node named: else it would repeat calls itself
            node = self._client.get_node_from_key(words[1])
            return self._client.execute_command(*words, target_nodes=node)
        return self._client.execute_command(*words)
