"""One lock over several independent servers, with a fencing token that rises from holder to holder.
The protocol, why it works and what it needs: docs/quorum.md. To read, or to copy. Python 3.11 or later.

    servers = connect([f"redis://10.0.0.{i}:6379" for i in range(1, 6)], lease=30)
    with acquire(servers, "lock:report", lease=30, wait=10) as lock:
        ...    # fence with lock.token (docs/fencing.md), and call lock.renew() every third of the lease

A server that does not answer costs each round its time-out, a twentieth of the lease, twice. A request
that it reads after that may still be granted there, and ends with the lease.
"""

import random
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

POOL = ThreadPoolExecutor(64, "quorum")


class NotHeld(Exception):
    """No majority of the servers says that the lock is held; with what they say."""


def connect(urls, lease):
    """Calls are repeated once: each has the same effect then."""
    settings = {"socket_timeout": lease / 20, "socket_connect_timeout": lease / 20}
    return [redis.Redis.from_url(url, retry=Retry(NoBackoff(), 1), **settings) for url in urls]


def acquire(servers, key, lease, wait=0.0):
    until = time.monotonic() + wait
    while True:
        lock = Lock(servers, key, lease)
        try:
            lock.take()
            return lock
        except BaseException as error:
            lock.release()
            if not isinstance(error, NotHeld) or time.monotonic() >= until:
                raise
        time.sleep(random.uniform(0, 0.1))  # by chance, so that one of several comes first


class Lock:
    def __init__(self, servers, key, lease):
        self.servers, self.key, self.lease = servers, key, lease
        self.owner = str(uuid.uuid4())  # for one attempt, and never used again
        self.token, self.deadline, self.replies = None, 0.0, []

    def call(self, command, words):
        """Calls all servers in `words` at once, with these; gives the tokens of their grants."""
        def send(server):
            try:
                return server.execute_command(command, self.key, self.owner, *words[server])
            except redis.RedisError as error:
                return error
        replies = list(POOL.map(send, words))
        self.replies = [str(reply) for reply in replies]
        return {server: reply[0] for server, reply in zip(words, replies) if isinstance(reply, list)}

    def take(self):
        words = ("PX", round(self.lease * 1000), "HOLDS", 1)
        tokens = self.call("LOCK.ACQUIRE", dict.fromkeys(self.servers, words))
        while len(tokens) > len(self.servers) // 2:
            self.token = max(tokens.values())
            if self.renew_from(tokens):
                return
            # Too far ahead for these. It may be the clock of the server that gave it: without it, then.
            ahead = [reply.startswith("AHEAD") for reply in self.replies]
            tokens = dict(it for it, is_ahead in zip(tokens.items(), ahead) if is_ahead)
        raise NotHeld(self.key, self.replies)

    def renew_from(self, tokens):
        start, words = time.monotonic(), ("PX", round(self.lease * 1000), "RAISE", self.token, "TOKEN")
        renewed = self.call("LOCK.RENEW", {server: (*words, tokens[server]) for server in tokens})
        if len(renewed) > len(self.servers) // 2:
            self.deadline = start + self.lease * 0.99 - 0.002  # clocks drift a little
        return len(renewed) > len(self.servers) // 2 and self.valid_for() > 0

    def renew(self):
        """Raises NotHeld when no majority has renewed it. Repeat it while `valid_for` is above 0."""
        if not self.renew_from(dict.fromkeys(self.servers, self.token)):
            raise NotHeld(self.key, self.replies)

    def valid_for(self):
        return max(0.0, self.deadline - time.monotonic())

    def release(self):
        self.deadline = 0.0
        self.call("LOCK.RELEASE", dict.fromkeys(self.servers, ("ALL",)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()
