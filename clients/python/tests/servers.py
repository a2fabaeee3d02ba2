"""Real servers with the module on free loopback ports, and a proxy that loses replies."""

import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
import time

import redis

ROOT = pathlib.Path(__file__).parents[3]
MODULE = os.environ.get("REDIS_LOCK_MODULE") or ROOT / "target/release/libredis_lock.so"
SERVER = os.environ.get("REDIS_SERVER") or "redis-server"
MANUAL = ROOT / "docs/operations.md"


def eventually(holds, what, seconds=20):
    end = time.monotonic() + seconds
    while not (value := holds()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.01)
    return value


def free_port():
    # Below 55536, because a cluster node also listens on its port + 10000.
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            if (port := probe.getsockname()[1]) < 55536:
                return port


class Server:
    def __init__(self, *settings, sentinel=False):
        self.port, self.folder = free_port(), tempfile.mkdtemp(prefix="redis-lock-")
        conf = pathlib.Path(self.folder, "redis.conf")
        lines = [f"port {self.port}", "bind 127.0.0.1", f"dir {self.folder}", *settings]
        if not sentinel:
            lines += ['save ""', f"loadmodule {MODULE}", "repl-diskless-sync-delay 0"]
        conf.write_text("\n".join(lines) + "\n")
        words = [SERVER, str(conf)] + (["--sentinel"] if sentinel else [])
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        self.redis = redis.Redis(port=self.port, decode_responses=True, protocol=3)
        eventually(self.is_up, "a server to start")

    def is_up(self):
        try:
            return self.redis.ping()
        except redis.RedisError:
            return False

    def info(self, key):
        return self.redis.execute_command("LOCK.INFO", key)

    def waiters(self, key):
        return self.redis.execute_command("LOCK.WAITERS", key)

    def wait_for_waiters(self, key, number, seconds=20):
        eventually(lambda: len(self.waiters(key)) == number, f"{number} to wait", seconds)

    def calls(self, command):
        """How often a command has been called."""
        stats = self.redis.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})
        return stats["calls"]

    def add_user(self, name):
        """Runs the lines `ACL SETUSER name ...` of the manual."""
        lines = MANUAL.read_text().splitlines()
        rules = [line for line in lines if line.startswith(f"ACL SETUSER {name} ")]
        assert rules, name
        for rule in rules:
            self.redis.execute_command(*rule.split())

    def refused(self):
        """What the server has refused to users."""
        return [(entry["username"], entry["object"]) for entry in self.redis.acl_log()]

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.redis.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Cluster:
    """Three primaries."""

    def __init__(self):
        settings = ("cluster-enabled yes", "cluster-node-timeout 3000")
        self.nodes = [Server(*settings) for _ in range(3)]
        for number, node in enumerate(self.nodes):
            order = node.redis.execute_command
            first, last = 16384 * number // 3, 16384 * (number + 1) // 3 - 1
            order("CLUSTER", "ADDSLOTSRANGE", first, last)
            order("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            order("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
        for node in self.nodes:
            eventually(lambda: self.is_whole(node), "the cluster to form")

    def is_whole(self, node):
        info = node.redis.execute_command("CLUSTER", "INFO")
        return "cluster_state:ok" in info and "cluster_known_nodes:3" in info

    def node_of(self, key):
        slot = self.nodes[0].redis.execute_command("CLUSTER", "KEYSLOT", key)
        return next(node for number, node in enumerate(self.nodes)
                    if slot <= 16384 * (number + 1) // 3 - 1)

    def stop(self):
        for node in self.nodes:
            node.stop()


class Sentinels:
    """A primary, a replica, and a Sentinel that watches over them."""

    def __init__(self):
        self.primary = Server()
        self.replica = Server(f"replicaof 127.0.0.1 {self.primary.port}")
        eventually(lambda: self.replica.redis.info()["master_link_status"] == "up", "a replica")
        self.sentinel = Server(f"sentinel monitor lock 127.0.0.1 {self.primary.port} 1",
                               "sentinel down-after-milliseconds lock 1000",
                               "sentinel failover-timeout lock 5000", sentinel=True)
        knows = self.sentinel.redis.execute_command
        eventually(lambda: knows("SENTINEL", "REPLICAS", "lock"), "the Sentinel to know a replica")

    def stop(self):
        for server in (self.sentinel, self.replica, self.primary):
            server.stop()


class Proxy:
    """Passes everything on, but does as told with the next request that has a word in it."""

    def __init__(self, server):
        self.server, self.orders, self.seen, self.silent = server.port, {}, [], False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def cut_after(self, word):
        """The next such request reaches the server, but its connection ends before the reply."""
        self.orders[word] = "cut"

    def keep_reply_to(self, word):
        """The next such request reaches the server, but its reply never comes."""
        self.orders[word] = "keep"

    def delay_reply_to(self, word, seconds):
        self.orders[word] = seconds

    def done(self, word):
        return word not in self.orders

    def _listen(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client):
        with client, socket.create_connection(("127.0.0.1", self.server)) as server:
            order = []
            threading.Thread(target=self._replies, args=(server, client, order), daemon=True).start()
            try:
                while request := client.recv(65536):
                    for word in list(self.orders):
                        if word.encode() in request:
                            order.append(self.orders.pop(word))
                    if not self.silent:
                        server.sendall(request)
            except OSError:
                pass

    def _replies(self, server, client, order):
        try:
            while reply := server.recv(65536):
                what = order.pop() if order else None
                if what == "cut":
                    break
                if what == "keep" or self.silent:
                    continue
                time.sleep(what or 0)
                client.sendall(reply)
        except OSError:
            pass
        for end in (client, server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def stop(self):
        self.listener.close()
