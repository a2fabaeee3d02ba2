"""Several processes run, and one leads. When it is stopped, another one does at once; when it dies, a lease later."""

import os
import signal
import sys
import time

import redis
from redis_lock_client import Grant, Locks

client = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://127.0.0.1"))


def work(grant: Grant) -> None:
    print(f"leading, with token {grant.token}", flush=True)
    while grant.held:  # false when the lock is lost: stop, somebody else leads
        time.sleep(0.1)


signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
with Locks(client, name="worker", lease=3) as locks:
    locks.lead("lock:leader", work)
