"""The worker of the common trial, with threads."""

import ctypes
import json
import os
import sys
import threading
import uuid

import redis
from protocol import addresses, failed, in_child, options, say, stall
from redis.cluster import ClusterNode, RedisCluster
from redis.sentinel import Sentinel
from redis_lock_client import LockMisuse, Locks


class Cancelled(Exception):
    pass


class Worker:
    def __init__(self):
        self.locks, self.tasks, self.grants, self.calls = {}, {}, {}, {}
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
        reply = order.get("reply_ms", 1000) / 1000
        self.locks[order["name"]] = Locks(self.client(order), order["service"], reply=reply)
        return {"ok": True}

    def acquire(self, order):
        with self.guard:
            self.calls[order["id"]] = threading.get_ident()
        try:
            locks = self.locks[order["locks"]]
            method, words, named = options(order)
            if method != "permit":
                name = order.get("task")
                with self.guard:
                    task = self.tasks.setdefault((order["locks"], name), locks.task()) if name else locks.task()
                named["task"] = task
            grant = getattr(locks, method)(*words, **named).acquire()
        finally:
            with self.guard:
                del self.calls[order["id"]]
        with self.guard:
            self.number += 1
            number = self.number
            self.grants[number] = grant
        grant.on_lost(lambda: say(event="lost", grant=number))
        return {"grant": number, "token": grant._held.token, "owner": grant.owner}

    def cancel(self, order):
        with self.guard:
            thread = self.calls.get(order["call"])
            if thread is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Cancelled))
        return {"ok": True}

    def release(self, order):
        with self.guard:
            grant = self.grants.pop(order["grant"], None)
        if grant is None:
            raise LockMisuse("no such grant")
        grant.release()
        return {"ok": True}

    def check(self, order):
        grant = self.grants[order["grant"]]
        grant.check()
        return {"ok": True, "held": grant.held}

    def stall(self, order):
        stall(order)
        return {"ok": True}

    def fork(self, order):
        def work():
            for locks in self.locks.values():
                locks.lock(f"fork:{uuid.uuid4()}", fixed=True, lease=1).acquire().release()
            for grant in self.grants.values():
                with grant:
                    pass

        return {"ok": True} if in_child(work) == 0 else {"error": "misuse", "text": "the child failed"}

    def close(self, order):
        self.locks[order["locks"]].close()
        return {"ok": True}

    def do(self, order):
        try:
            say(id=order["id"], **getattr(self, order["do"])(order))
        except Exception as error:
            failed(order["id"], error)


def main():
    worker = Worker()
    for line in sys.stdin:
        threading.Thread(target=worker.do, args=(json.loads(line),), daemon=True).start()
    os._exit(0)


if __name__ == "__main__":
    main()
