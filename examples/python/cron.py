"""A job that cron starts on several machines at the same minute: one of them does it."""

import os
import sys

import redis
from redis_lock_client import LockBusy, Locks

client = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://127.0.0.1"))

with Locks(client, name="report") as locks:
    try:
        with locks.lock("lock:report", wait=0) as grant:
            client.incr("reports")
            # The clocks of the machines differ. So the lock stays for half a minute, after which all have started.
            grant.detach(30)
    except LockBusy:
        sys.exit("another machine does it")
print("done")
