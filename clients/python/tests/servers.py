"""Real servers with the module, and proxies: by `testbed serve` (crates/testing/testbed/src/bin/testbed/serve.rs)."""

import json
import os
import pathlib
import subprocess
import threading
import time

import redis

SERVE = [*os.environ.get("TESTBED", "cargo run --quiet --package testbed --").split(), "serve"]
LONG = bool(os.environ.get("LONG"))
testbed = subprocess.Popen(SERVE, cwd=pathlib.Path(__file__).parents[3], text=True,
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE)
one_at_a_time = threading.Lock()


def order(do, **words):
    with one_at_a_time:
        print(json.dumps({"do": do, **words}), file=testbed.stdin, flush=True)
        answer = json.loads(testbed.stdout.readline())
    assert "error" not in answer, answer["error"]
    return answer


def eventually(holds, what, seconds=20):
    end = time.monotonic() + seconds
    while not (value := holds()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.01)
    return value


def in_thread(work):
    """Runs it beside the test. The result waits for what it returned or raised."""
    outcome = []

    def run():
        try:
            outcome.append((work(), None))
        except BaseException as error:
            outcome.append((None, error))

    def result():
        result.thread.join(30)
        value, error = outcome[0]
        if error:
            raise error
        return value

    result.thread = threading.Thread(target=run, daemon=True)
    result.thread.start()
    return result


class Place:
    """A server or a proxy: where it is, by what the test bed answered."""

    def __init__(self, answer):
        self.port = answer["port"]

    def order(self, do, **words):
        return order(do, port=self.port, **words)


class Server(Place):
    def __init__(self, answer):
        super().__init__(answer)
        self.redis = redis.Redis(port=self.port, decode_responses=True, protocol=3)

    def info(self, key):
        return self.redis.execute_command("LOCK.INFO", key)

    def waiters(self, key):
        return self.redis.execute_command("LOCK.WAITERS", key)

    def wait_for_waiters(self, key, number, seconds=20):
        eventually(lambda: len(self.waiters(key)) == number, f"{number} to wait", seconds)

    def after_a_wait(self, key, take):
        """What `take` gets that waits for this lock: another owner has it, and gives it back when somebody waits."""
        assert self.redis.execute_command("LOCK.ACQUIRE", key, "other", "PX", 60_000)

        def free():
            self.wait_for_waiters(key, 1)
            self.redis.execute_command("LOCK.RELEASE", key, "other")

        freeing = threading.Thread(target=free)
        freeing.start()
        taken = take()
        freeing.join()
        return taken

    def session_of(self, key):
        """The session that renews it; 0: none."""
        return self.redis.execute_command("LOCK.HOLDERS", key)[0]["session"]

    def sessions(self):
        return self.redis.execute_command("LOCK.SESSION", "LIST")

    def calls(self, command):
        """How often a command has been called."""
        return self.redis.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"]

    def refused(self):
        """What the server has refused to users."""
        return [(entry["username"], entry["object"]) for entry in self.redis.acl_log()]


def node_of(cluster, key):
    slot = cluster[0].redis.execute_command("CLUSTER", "KEYSLOT", key)
    return next(node for number, node in enumerate(cluster, 1) if slot < 16384 * number // len(cluster))
