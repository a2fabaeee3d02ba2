"""The worker of the common trial, with threads."""

import json
import os
import sys
import threading
import time
import uuid

import redis
from protocol import Site, addresses, failed, in_child, options, say
from redis.cluster import ClusterNode, RedisCluster
from redis.sentinel import Sentinel
from redis_lock_client import LockBusy, LockMisuse, Locks


class Cancelled(Exception):
    pass


class Worker:
    def __init__(self):
        self.sites, self.tasks, self.grants, self.calls = {}, {}, {}, {}
        self.guard, self.number = threading.Lock(), 0

    def client(self, order):
        server, login = order["server"], {"password": order.get("password")}
        if "url" in server:
            return redis.Redis.from_url(server["url"], **{k: v for k, v in login.items() if v})
        if "sentinels" in server:
            return Sentinel(addresses(server["sentinels"]), socket_timeout=1).master_for(server["master"], **login)
        nodes = [ClusterNode(*address) for address in addresses(server["cluster"])]
        return RedisCluster(startup_nodes=nodes, **login)

    def open(self, order):
        self.sites[order["name"]] = Site(Locks, self.client(order), order)
        return {"ok": True}

    def acquire(self, order):
        stop = self.calls[order["id"]]
        locks, words = self.sites[order["locks"]].of(order), options(order)
        if order.get("task"):
            with self.guard:
                words["task"] = self.tasks.setdefault((order["locks"], order["task"]), locks.task())
        try:
            grant = locks.lock(order["key"], stop=stop, **words)
        except LockBusy:
            if stop.is_set():
                raise Cancelled from None
            raise
        with self.guard:
            self.number += 1
            number = self.number
            self.grants[number] = grant
        grant.on_lost(lambda _: say(event="lost", grant=number))
        return {"grant": number, "token": grant.token, "owner": grant.owner}

    def cancel(self, order):
        stop = self.calls.get(order["call"])
        if stop:
            stop.set()
        return {"ok": True}

    def grant(self, order):
        grant = self.grants.get(order["grant"])
        if grant is None:
            raise LockMisuse("no such grant")
        return grant

    def release(self, order):
        self.grant(order).release()
        return {"ok": True}

    def check(self, order):
        self.grant(order).check()
        return {"ok": True, "held": True}

    def stall(self, order):
        """Holds the interpreter: no other thread runs, as under a long call of an extension."""
        end, old = time.monotonic() + order["ms"] / 1000, sys.getswitchinterval()
        sys.setswitchinterval(order["ms"] / 1000 + 1)
        while time.monotonic() < end:
            pass
        sys.setswitchinterval(old)
        return {"ok": True}

    def fork(self, order):
        def work():
            for site in self.sites.values():
                for locks in site.all():
                    locks.lock(f"fork:{uuid.uuid4()}", wait=1).release()
            for grant in self.grants.values():
                assert not grant.held
                with grant:
                    pass  # nothing is released
                try:
                    grant.release()
                except LockMisuse:
                    continue
                raise AssertionError("a child released a lock of its parent")

        return {"ok": True} if in_child(work) == 0 else {"error": "misuse", "text": "the child failed"}

    def close(self, order):
        for locks in self.sites[order["locks"]].all():
            locks.close()
        return {"ok": True}

    def do(self, order):
        try:
            say(id=order["id"], **getattr(self, order["do"])(order))
        except Exception as error:
            failed(order["id"], error)
        finally:
            self.calls.pop(order["id"], None)


def main():
    worker = Worker()
    for line in sys.stdin:
        order = json.loads(line)
        worker.calls[order["id"]] = threading.Event()  # before the next line is read, which may cancel it
        threading.Thread(target=worker.do, args=(order,), daemon=True).start()
    os._exit(0)


if __name__ == "__main__":
    main()
