"""A user clicks twice: the order is paid once, and the second request is told so."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import redis
from redis_lock_client import LockBusy, Locks

client = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://127.0.0.1"))


def submit(locks: Locks, order: int) -> str:
    try:
        with locks.lock(f"lock:order:{order}", wait=0):  # now or never
            if client.exists(f"order:{order}"):
                return "paid before"
            time.sleep(0.5)
            client.incr("payments")
            client.set(f"order:{order}", "paid")
            return "paid"
    except LockBusy:
        return "in progress"  # for example status 409


with Locks(client, name="shop") as locks, ThreadPoolExecutor(2) as requests:
    print(*requests.map(lambda order: submit(locks, order), [42, 42]), sep="\n")
    print(submit(locks, 42))
