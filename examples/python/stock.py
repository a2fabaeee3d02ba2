"""Twenty buyers at once buy from a stock of ten: it is sold exactly to zero."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import redis
from redis_lock_client import Locks

client = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://127.0.0.1"))


def buy(locks: Locks, buyer: int) -> bool:
    with locks.lock("lock:stock"):
        left = int(client.get("stock"))
        if left == 0:
            return False
        time.sleep(0.01)  # without the lock, others would sell the same piece now
        client.set("stock", left - 1)
        client.rpush("sold", buyer)
        return True


client.set("stock", 10)
with Locks(client, name="stock") as locks, ThreadPoolExecutor(20) as buyers:
    sold = list(buyers.map(lambda buyer: buy(locks, buyer), range(20)))
print(f"{sold.count(True)} bought, {sold.count(False)} too late")
