#!/usr/bin/env python3
"""Clients that contend for a few locks until a signal stops them, and judge their grants.

usage: load.py <port>...    on this machine: the servers of which one is the primary

Stops at the end of its input, prints one line, and fails when a lock had two holders, a token did not rise, or a
grant was gone before its lease had ended. Nothing but Python is needed.
"""

import collections
import random
import socket
import sys
import threading
import time

LOCKS = 3
CLIENTS = 8
LEASE = 30.0
PORTS = [int(port) for port in sys.argv[1:]]


class Reply(Exception):
    """An error that a server replied."""


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 2)
        self.socket.settimeout(5)
        self.input = self.socket.makefile("rb")

    def call(self, *words):
        words = [str(word).encode() for word in words]
        parts = [b"*%d\r\n" % len(words)] + [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
        self.socket.sendall(b"".join(parts))
        return self.read()

    def read(self):
        line = self.input.readline()
        if not line.endswith(b"\r\n"):
            raise OSError("closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise Reply(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"+":
            return rest
        length = int(rest)
        if length < 0:
            return None
        if kind == b"*":
            return [self.read() for _ in range(length)]
        return self.input.read(length + 2)[:-2]


class Judge:
    """What all clients together have seen."""

    def __init__(self):
        self.mutex = threading.Lock()
        self.holders = {}
        self.tokens = collections.Counter()
        self.errors = collections.Counter()
        self.violations = []
        self.grants = 0
        self.last_grant = time.monotonic()
        self.longest_gap = 0.0

    def granted(self, lock, owner, token):
        now = time.monotonic()
        with self.mutex:
            if lock in self.holders:
                self.violations.append(f"{lock}: {owner} beside {self.holders[lock]}")
            if token <= self.tokens[lock]:
                self.violations.append(f"{lock}: token {token} after {self.tokens[lock]}")
            self.holders[lock] = owner
            self.tokens[lock] = token
            self.grants += 1
            self.longest_gap = max(self.longest_gap, now - self.last_grant)
            self.last_grant = now

    def gives_back(self, lock):
        with self.mutex:
            del self.holders[lock]

    def lost(self, lock, owner, error):
        with self.mutex:
            self.violations.append(f"{lock}: {owner} lost it: {error}")

    def failed(self, error):
        word = str(error).split(" ")[0] if isinstance(error, Reply) else "connection"
        with self.mutex:
            self.errors[word] += 1


class Client(threading.Thread):
    def __init__(self, judge, stop, number):
        super().__init__()
        self.judge, self.stop, self.number = judge, stop, number
        self.connection = None
        self.ports = collections.deque(PORTS)

    def call(self, *words):
        """Continues until a primary has replied. Tells the reply, and whether the call may have been carried out twice."""
        repeated = False
        while True:
            try:
                if self.connection is None:
                    self.connection = Connection(self.ports[0])
                return self.connection.call(*words), repeated
            except (Reply, OSError) as error:
                # LOADING and the like are for the next try; the locks' own errors are for the caller.
                own = ("NOTHELD", "NOTOWNER", "FENCED", "ERR")
                if isinstance(error, Reply) and str(error).startswith(own):
                    if repeated:
                        return error, True
                    raise
                self.judge.failed(error)
                repeated = repeated or not isinstance(error, Reply)
                self.connection = None
                self.ports.rotate(-1)
                time.sleep(0.02)

    def run(self):
        turn = 0
        while not self.stop.is_set():
            turn += 1
            lock, owner = f"lock:load:{random.randrange(LOCKS)}", f"{self.number}:{turn}"
            grant, _ = self.call("LOCK.ACQUIRE", lock, owner, "EX", int(LEASE), "BLOCK", 1000, "HOLDS", 1)
            if grant is None:
                continue
            token = grant[0]
            self.judge.granted(lock, owner, token)
            time.sleep(random.random() / 200)
            self.judge.gives_back(lock)
            try:
                self.call("LOCK.RELEASE", lock, owner, "TOKEN", token)
            except Reply as error:
                self.judge.lost(lock, owner, error)


def main():
    judge, stop = Judge(), threading.Event()
    clients = [Client(judge, stop, number) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    sys.stdin.read()
    stop.set()
    for client in clients:
        client.join()
    errors = ", ".join(f"{count} {word}" for word, count in sorted(judge.errors.items())) or "none"
    print(
        f"{judge.grants} grants, the longest time without one {judge.longest_gap * 1000:.0f} ms, "
        f"errors that were ridden out: {errors}; violations: {len(judge.violations)}"
    )
    for violation in judge.violations[:10]:
        print(violation)
    sys.exit(bool(judge.violations) or not judge.grants)


main()
