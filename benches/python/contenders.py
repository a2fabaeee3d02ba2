"""Contenders for locks on one server, through redis-py. Arguments: the server's port, and the way of
locking (module, lock).

Each line "contenders keys seconds" is a contest: everything is connected, "ready" is printed, and
the next line starts it. Its outcome is a line of JSON. So one process can run many, and whoever
drives it can measure the server around each.
"""

import json
import math
import sys
import threading
import time
import uuid

import redis

LEASE_MS = 30_000


class Module:
    """LOCK.ACQUIRE and LOCK.RELEASE."""

    def __init__(self, client, key):
        self.client = client
        self.key = key
        self.owner = str(uuid.uuid4())

    def acquire(self):
        grant = self.client.execute_command(
            "LOCK.ACQUIRE", self.key, self.owner, "PX", LEASE_MS, "BLOCK", 0
        )
        if grant is None:
            raise RuntimeError("no grant")

    def release(self):
        self.client.execute_command("LOCK.RELEASE", self.key, self.owner)


class Lock:
    """redis-py's Lock with its defaults: while the lock is taken it asks again every 0.1 s."""

    def __init__(self, client, key):
        self.lock = client.lock(key, timeout=LEASE_MS / 1000)

    def acquire(self):
        if not self.lock.acquire():
            raise RuntimeError("no grant")

    def release(self):
        self.lock.release()


WAYS = {"module": Module, "lock": Lock}


class Contest:
    """Contenders that take a lock and give it back, over and over, until time is up."""

    def __init__(self, client, way, contenders, locks):
        self.keys = [f"contest:{way.__name__}:{number}" for number in range(locks)]
        client.delete(*self.keys)
        # When the last release of each lock was sent. Only the holder reads or sets it.
        self.releases = [None] * locks
        self.over = False
        self.ready = threading.Barrier(contenders + 1)
        self.grants = [0] * contenders
        # Grants after the time was up: each contender that still waits gets one.
        self.late = [0] * contenders
        self.latencies = [[] for _ in range(contenders)]
        self.errors = []
        self.threads = [
            threading.Thread(target=self.contend, args=(client, way, number))
            for number in range(contenders)
        ]
        for thread in self.threads:
            thread.start()

    def run(self, seconds):
        self.ready.wait()
        began = time.perf_counter()
        time.sleep(seconds)
        self.over = True
        lasted = time.perf_counter() - began
        for thread in self.threads:
            thread.join()
        return self.outcome(lasted)

    def contend(self, client, way, number):
        key = number % len(self.keys)
        handle = way(client, self.keys[key])
        client.ping()
        self.ready.wait()
        while not self.over:
            try:
                handle.acquire()
                self.granted(number, key, time.perf_counter())
                self.releases[key] = time.perf_counter()
                handle.release()
            except (redis.RedisError, RuntimeError) as error:
                self.errors.append(repr(error))

    def granted(self, number, key, now):
        if self.over:
            self.late[number] += 1
            return
        self.grants[number] += 1
        if self.releases[key] is not None:
            self.latencies[number].append(now - self.releases[key])

    def outcome(self, seconds):
        if self.errors:
            print(self.errors[0], file=sys.stderr)
        latencies = sorted(latency for of in self.latencies for latency in of)
        return {
            "grants": sum(self.grants),
            "late": sum(self.late),
            "seconds": seconds,
            "least": min(self.grants),
            "most": max(self.grants),
            "median_us": percentile(latencies, 0.5),
            "p99_us": percentile(latencies, 0.99),
            "worst_us": percentile(latencies, 1.0),
            "errors": len(self.errors),
        }


def percentile(ordered, part):
    """In microseconds."""
    if not ordered:
        return 0.0
    return ordered[max(math.ceil(part * len(ordered)) - 1, 0)] * 1e6


def main():
    port, name = int(sys.argv[1]), sys.argv[2]
    for line in sys.stdin:
        contenders, keys, seconds = line.split()
        # A call that waits in the server has its connection to itself: one for each contender.
        pool = redis.ConnectionPool(
            host="127.0.0.1", port=port, max_connections=int(contenders) + 1, socket_timeout=None
        )
        client = redis.Redis(connection_pool=pool)
        contest = Contest(client, WAYS[name], int(contenders), int(keys))
        print("ready", flush=True)
        sys.stdin.readline()
        print(json.dumps(contest.run(float(seconds))), flush=True)
        pool.disconnect()


if __name__ == "__main__":
    main()
