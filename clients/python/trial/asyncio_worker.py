"""The worker of the common trial, with asyncio."""

import asyncio
import json
import os
import sys
import threading
import time

from protocol import addresses, failed, in_child, options, say
from redis.asyncio import Redis
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.sentinel import Sentinel
from redis_lock_client import LockMisuse
from redis_lock_client.asyncio import Locks


class Worker:
    def __init__(self):
        self.locks, self.clients, self.tasks, self.grants, self.calls = {}, {}, {}, {}, {}
        self.number = 0

    def client(self, order):
        server, login = order["server"], {"password": order.get("password")}
        if "url" in server:
            return Redis.from_url(server["url"], **{k: v for k, v in login.items() if v})
        if "sentinels" in server:
            return Sentinel(addresses(server["sentinels"]), socket_timeout=1).master_for(server["master"], **login)
        return RedisCluster(startup_nodes=[ClusterNode(*it) for it in addresses(server["cluster"])], **login)

    async def open(self, order):
        reply = order.get("reply_ms", 1000) / 1000
        self.locks[order["name"]] = Locks(self.client(order), order["service"], reply=reply)
        return {"ok": True}

    async def acquire(self, order):
        self.calls[order["id"]] = asyncio.current_task()
        try:
            locks = self.locks[order["locks"]]
            method, words, named = options(order)
            if method != "permit":
                name = order.get("task")
                named["task"] = self.tasks.setdefault((order["locks"], name), locks.task()) if name else locks.task()
            grant = await getattr(locks, method)(*words, **named).acquire()
        finally:
            del self.calls[order["id"]]
        self.number += 1
        number = self.number
        self.grants[number] = grant
        grant.on_lost(lambda: say(event="lost", grant=number))
        return {"grant": number, "token": grant._held.token, "owner": grant.owner}

    async def cancel(self, order):
        task = self.calls.get(order["call"])
        if task is not None:
            task.cancel()
        return {"ok": True}

    async def release(self, order):
        grant = self.grants.pop(order["grant"], None)
        if grant is None:
            raise LockMisuse("no such grant")
        await grant.release()
        return {"ok": True}

    async def check(self, order):
        grant = self.grants[order["grant"]]
        await grant.check()
        return {"ok": True, "held": grant.held}

    async def stall(self, order):
        time.sleep(order["ms"] / 1000)
        return {"ok": True}

    async def fork(self, order):
        held = list(self.grants.values())

        def work():
            asyncio.events._set_running_loop(None)  # the loop is the parent's

            async def alone():
                for number, locks in enumerate(self.locks.values()):
                    grant = await locks.lock(f"fork:{os.getpid()}:{number}", fixed=True, lease=1).acquire()
                    await grant.release()
                for grant in held:
                    await grant.__aexit__(None, None, None)

            asyncio.run(alone())

        return {"ok": True} if in_child(work) == 0 else {"error": "misuse", "text": "the child failed"}

    async def close(self, order):
        await self.locks[order["locks"]].close()
        return {"ok": True}

    async def do(self, order):
        try:
            say(id=order["id"], **await getattr(self, order["do"])(order))
        except (Exception, asyncio.CancelledError) as error:
            failed(order["id"], error)


async def main():
    worker, loop, running = Worker(), asyncio.get_running_loop(), set()

    def start(line):
        task = loop.create_task(worker.do(json.loads(line)))
        running.add(task)
        task.add_done_callback(running.discard)

    def read():
        for line in sys.stdin:
            loop.call_soon_threadsafe(start, line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    await loop.create_future()


if __name__ == "__main__":
    asyncio.run(main())
