"""The example programs, with threads: see examples/README.md for what each does."""

import argparse
import json
import re
import signal
import sqlite3
import sys
import threading
import time
from contextlib import closing, contextmanager

import redis

from redis_lock_client import LockLost, Locks

BUY = """
redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], ARGV[2])
redis.call('RPUSH', KEYS[3], ARGV[3])
"""
PAY = WRITE = """
redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], ARGV[2])
"""
STEP = """
redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], ARGV[2])
redis.call('RPUSH', KEYS[3], ARGV[2] .. ' ' .. ARGV[3])
if ARGV[4] == '1' then redis.call('SET', KEYS[4], ARGV[3]) end
"""


def tell(**result):
    print(json.dumps(result), flush=True)


def is_fenced(error):
    return str(error).startswith("FENCED")


def written(client, script, keys, *arguments):
    """Runs a script that writes. False when the token is not that of the current grant."""
    try:
        client.eval(script, len(keys), *keys, *arguments)
        return True
    except redis.ResponseError as error:
        if is_fenced(error):
            return False
        raise


def stock(client, options):
    counts = {"sold": 0, "refused": 0, "stale_refused": 0}
    counting, failures = threading.Lock(), []

    def count(what):
        with counting:
            counts[what] += 1

    def buy(locks, buyer):
        keys = ["lock:{stock}", "{stock}:left", "{stock}:sold"]
        while True:
            try:
                with locks.lock(keys[0], wait=60) as grant:
                    left = int(client.get(keys[1]))
                    if left == 0:
                        return count("refused")
                    time.sleep(0.002)
                    if written(client, BUY, keys, grant.token, left - 1, buyer):
                        return count("sold")
                    count("stale_refused")
            except LockLost:
                continue

    def run(locks, buyer):
        try:
            buy(locks, buyer)
        except Exception as error:
            failures.append(error)

    with Locks(client, name="examples") as locks:
        buyers = [threading.Thread(target=run, args=(locks, f"{options.name}-{n}"), daemon=True)
                  for n in range(1, options.buyers + 1)]
        for buyer in buyers:
            buyer.start()
        for buyer in buyers:
            buyer.join()
    if failures:
        raise failures[0]
    tell(**counts)


def seat(client, options):
    lock, paid, owner = "lock:{seat}", "{seat}:paid", f"seat:{options.user}"
    if options.do == "hold":
        block = ("BLOCK", options.wait_ms) if options.wait_ms else ()
        # Its own connection, which reads for longer than the wait.
        with redis.Redis(port=options.port, socket_timeout=options.wait_ms / 1000 + 5) as waiting:
            grant = waiting.execute_command("LOCK.ACQUIRE", lock, owner, "HOLDS", 1,
                                            "PX", options.lease_ms, *block)
        if not grant:
            tell(seat="taken")
        elif client.exists(paid):
            client.execute_command("LOCK.RELEASE", lock, owner, "ALL", "TOKEN", grant[0])
            tell(seat="sold")
        else:
            tell(seat="held", token=grant[0])
    elif options.do == "extend":
        try:
            client.execute_command("LOCK.RENEW", lock, owner, "PX", options.lease_ms,
                                   "TOKEN", options.token)
            tell(seat="extended")
        except redis.ResponseError as error:
            if str(error).split()[0] not in ("NOTHELD", "NOTOWNER", "FENCED"):
                raise
            tell(seat="lapsed")
    elif written(client, PAY, [lock, paid], options.token, options.user):
        client.execute_command("LOCK.RELEASE", lock, owner, "ALL", "TOKEN", options.token)
        tell(seat="paid")
    else:
        tell(seat="lapsed")


def job(client, options):
    keys = ["lock:{job}"] + [f"{{job}}:{options.run}:{end}" for end in ("step", "log", "done")]
    steps = 0
    try:
        with Locks(client, name="examples", lease=options.lease_ms / 1000) as locks, \
                locks.lock(keys[0], wait=60) as grant:
            if client.exists(keys[3]):
                return tell(job="skipped")
            lost = threading.Event()
            grant.on_lost(lambda _: lost.set())
            for step in range(int(client.get(keys[1]) or 0) + 1, options.steps + 1):
                lost.wait(options.step_ms / 1000)  # works
                token, last = grant.token, int(step == options.steps)
                if not written(client, STEP, keys, token, step, f"{token} {options.name}", last):
                    return tell(job="lost", steps=steps)
                steps += 1
    except LockLost:
        return tell(job="lost", steps=steps)
    tell(job="completed", steps=steps)


def fence(client, options):
    told = {True: "written", False: "refused"}
    lock, state = "lock:{order}", "{order}:state"
    outcome = {}
    try:
        with Locks(client, name="examples", lease=options.lease_ms / 1000) as locks, \
                connected(options.sql) as database, locks.lock(lock, wait=60) as grant:
            token = grant.token
            given = {"token": token, "name": options.name, "lock": lock}
            free = {way: claimed(database, way, given) for way in WAYS}
            tell(event="held", token=token)
            time.sleep(options.work_ms / 1000)
            # The writes are to be late, and to be refused: so nobody asks whether the grant is held.
            outcome["redis"] = told[written(client, WRITE, [lock, state], token, options.name)]
            for way in WAYS:
                if free[way] == 0:
                    outcome[way] = "sold"
                else:
                    outcome[way] = told[free[way] is not None and sold(database, way, given)]
    except LockLost:
        pass  # as it should be where the writes were refused
    tell(**outcome)


# The last seat, kept in one row that is there, in one that is not there yet, and in several tables.
# Each way to sell it: the claim, which changes no row for a stale token; what tells how many are free;
# and the sale, whose first statement changes no row when the claim does not stand any more.
# See docs/fencing.md.
WAYS = {
    "row": (
        "UPDATE seats SET fence = :token WHERE id = 42 AND fence <= :token",
        "SELECT count(*) FROM seats WHERE id = 42 AND buyer IS NULL",
        ["UPDATE seats SET buyer = :name WHERE id = 42 AND fence = :token"]),
    "new_row": (
        "INSERT INTO bookings (id, fence) VALUES (42, :token) ON CONFLICT (id)"
        " DO UPDATE SET fence = excluded.fence WHERE bookings.fence <= excluded.fence",
        "SELECT count(*) FROM bookings WHERE id = 42 AND buyer IS NULL",
        ["UPDATE bookings SET buyer = :name WHERE id = 42 AND fence = :token"]),
    "tables": (
        "INSERT INTO fences (name, fence) VALUES (:lock, :token) ON CONFLICT (name)"
        " DO UPDATE SET fence = excluded.fence WHERE fences.fence <= excluded.fence",
        "SELECT free FROM stock WHERE id = 42",
        ["UPDATE fences SET fence = :token WHERE name = :lock AND fence = :token",
         "UPDATE stock SET free = free - 1 WHERE id = 42",
         "INSERT INTO sales (buyer, token) VALUES (:name, :token)"]),
}


def claimed(database, way, given):
    """Claims, and only then looks how many are free. None when the token is stale."""
    claim, free, _ = WAYS[way]
    if database(claim, given).rowcount == 0:
        return None
    return database(free, {}).fetchone()[0]


def sold(database, way, given):
    """False when somebody has claimed it since."""
    check, *others = WAYS[way][2]
    database("BEGIN", {})
    if database(check, given).rowcount == 0:
        database("ROLLBACK", {})
        return False
    for statement in others:
        database(statement, given)
    database("COMMIT", {})
    return True


@contextmanager
def connected(url):
    """Gives a function that executes a statement, in a transaction of its own unless one was begun."""
    if url.startswith("sqlite:"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:"), 30, isolation_level=None)) as database:
            yield database.execute
    else:
        import psycopg
        with psycopg.connect(url, autocommit=True) as database:
            yield lambda statement, given: database.execute(re.sub(r":(\w+)", r"%(\1)s", statement), given)


def main():
    parser = argparse.ArgumentParser()
    programs = parser.add_subparsers(dest="program", required=True)
    for run, words, numbers in (
            (stock, ["name"], ["buyers"]),
            (seat, ["user"], []),
            (job, ["name", "run"], ["steps", "step-ms", "lease-ms"]),
            (fence, ["name", "sql"], ["lease-ms", "work-ms"])):
        program = programs.add_parser(run.__name__)
        program.set_defaults(call=run)
        for word in words:
            program.add_argument(f"--{word}", required=True)
        for number in ["port", *numbers]:
            program.add_argument(f"--{number}", type=int, required=True)
    seats = programs.choices["seat"]
    seats.add_argument("--do", choices=["hold", "extend", "pay"], required=True)
    needed = {"hold": ["lease_ms", "wait_ms"], "extend": ["token", "lease_ms"], "pay": ["token"]}
    for number in ("token", "lease-ms", "wait-ms"):
        seats.add_argument(f"--{number}", type=int)
    options = parser.parse_args()
    if options.call is seat and None in [getattr(options, it) for it in needed[options.do]]:
        seats.error(f"--do {options.do} takes {' '.join(needed[options.do])}")
    # As an exception it ends waits, and unwinds each `with`, which releases.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with redis.Redis(port=options.port) as client:
        options.call(client, options)


if __name__ == "__main__":
    main()
