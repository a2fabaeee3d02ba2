"""The worker of the common trial, with asyncio."""

import asyncio
import json
import os
import sys
import threading
import time
import uuid

from protocol import Site, addresses, failed, in_child, options, say
from redis.asyncio import Redis
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.sentinel import Sentinel
from redis_lock_client import LockMisuse
from redis_lock_client.asyncio import Locks


class Worker:
    def __init__(self):
        self.sites, self.tasks, self.grants, self.calls = {}, {}, {}, {}
        self.number = 0

    def client(self, order):
        server, login = order["server"], {"password": order.get("password")}
        if "url" in server:
            return Redis.from_url(server["url"], **{k: v for k, v in login.items() if v})
        if "sentinels" in server:
            return Sentinel(addresses(server["sentinels"]), socket_timeout=1).master_for(server["master"], **login)
        return RedisCluster(startup_nodes=[ClusterNode(*it) for it in addresses(server["cluster"])], **login)

    async def open(self, order):
        self.sites[order["name"]] = Site(Locks, self.client(order), order)
        return {"ok": True}

    async def acquire(self, order):
        locks, words = self.sites[order["locks"]].of(order), options(order)
        if order.get("task"):
            words["task"] = self.tasks.setdefault((order["locks"], order["task"]), locks.task())
        grant = await locks.lock(order["key"], **words)
        self.number += 1
        number = self.number
        self.grants[number] = grant
        grant.on_lost(lambda _: say(event="lost", grant=number))
        return {"grant": number, "token": grant.token, "owner": grant.owner}

    async def cancel(self, order):
        task = self.calls.get(order["call"])
        if task is not None:
            task.cancel()
        return {"ok": True}

    def grant(self, order):
        grant = self.grants.get(order["grant"])
        if grant is None:
            raise LockMisuse("no such grant")
        return grant

    async def release(self, order):
        await self.grant(order).release()
        return {"ok": True}

    async def check(self, order):
        await self.grant(order).check()
        return {"ok": True, "held": True}

    async def stall(self, order):
        time.sleep(order["ms"] / 1000)
        return {"ok": True}

    async def fork(self, order):
        async def alone():
            for site in self.sites.values():
                for locks in site.all():
                    grant = await locks.lock(f"fork:{uuid.uuid4()}", wait=1)
                    await grant.release()
            for grant in self.grants.values():
                assert not grant.held
                async with grant:
                    pass  # nothing is released
                try:
                    await grant.release()
                except LockMisuse:
                    continue
                raise AssertionError("a child released a lock of its parent")

        def work():
            asyncio.events._set_running_loop(None)  # the loop is the parent's
            asyncio.run(alone())

        return {"ok": True} if in_child(work) == 0 else {"error": "misuse", "text": "the child failed"}

    async def close(self, order):
        await asyncio.gather(*(locks.close() for locks in self.sites[order["locks"]].all()))
        return {"ok": True}

    async def do(self, order):
        try:
            say(id=order["id"], **await getattr(self, order["do"])(order))
        except (Exception, asyncio.CancelledError) as error:
            failed(order["id"], error)
        finally:
            del self.calls[order["id"]]


async def main():
    worker, loop = Worker(), asyncio.get_running_loop()

    def start(line):
        order = json.loads(line)
        worker.calls[order["id"]] = loop.create_task(worker.do(order))

    def read():
        for line in sys.stdin:
            loop.call_soon_threadsafe(start, line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    await loop.create_future()


if __name__ == "__main__":
    asyncio.run(main())
