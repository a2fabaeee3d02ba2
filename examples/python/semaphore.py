"""Ten exports, of which at most three run at the same time, in all processes together."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import redis
from redis_lock_client import Locks

client = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://127.0.0.1"))


def export(locks: Locks) -> int:
    with locks.lock("lock:exports", permits=3):
        running = client.incr("running")
        time.sleep(0.05)
        client.decr("running")
        return running


with Locks(client, name="exports") as locks, ThreadPoolExecutor(10) as pool:
    running = list(pool.map(lambda _: export(locks), range(10)))
print(f"{len(running)} exports, at most {max(running)} at a time")
