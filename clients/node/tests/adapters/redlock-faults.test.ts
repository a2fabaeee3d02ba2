/** The API of node-redlock where servers fail, beside node-redlock itself, and at the end of clients and processes. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { Locks } from "redis-lock-client";
import { ExecutionError, Lock, Redlock, ResourceLockedError } from "redis-lock-client/redlock";
import { type Server, ends, eventually, startServer } from "../servers.ts";
import { newRedis } from "./five.ts";

async function start(count: number): Promise<{ all: Server[]; redlock: Redlock; errors: Error[] }> {
  const all = await Promise.all(Array.from({ length: count }, () => startServer()));
  const redlock = new Redlock(all.map((server) => newRedis(server)));
  const errors: Error[] = [];
  redlock.on("error", (error: Error) => { errors.push(error); });
  return { all, redlock, errors };
}

async function rejection(operation: Promise<unknown>): Promise<ExecutionError> {
  const error: unknown = await operation.then(() => undefined, (it: unknown) => it);
  assert(error instanceof ExecutionError, String(error));
  return error;
}

test("a server that cannot be reached is an ExecutionError with as many attempts as are set", async () => {
  const { all: [server], redlock, errors } = await start(1);
  await server?.order("kill");
  const error = await rejection(redlock.acquire(["a"], 60_000, { retryDelay: 50 }));
  assert.equal(error.attempts.length, 11);
  for (const { votesFor, votesAgainst, quorumSize } of await Promise.all(error.attempts)) {
    assert.deepEqual([votesFor.size, votesAgainst.size, quorumSize], [0, 1, 1]);
    assert([...votesAgainst.values()].every((it) => !(it instanceof ResourceLockedError)));
  }
  assert(errors.length > 0);
});

test("a minority may fail, and is told as an error; a majority may not", async () => {
  const { all, redlock, errors } = await start(3);
  const [a, b, c] = all as [Server, Server, Server];
  await c.redis.set("k", "other");
  let lock = await redlock.acquire(["k"], 60_000);
  lock = await lock.extend(120_000);
  assert.equal(await c.redis.get("k"), "other");
  await eventually(() => errors.some((it) => it instanceof ResourceLockedError), "the error event");
  const stats = (await Promise.all(lock.attempts)).at(-1);
  assert.deepEqual([stats?.membershipSize, stats?.quorumSize, stats?.votesFor.size, stats?.votesAgainst.size], [3, 2, 2, 1]);
  await lock.release();
  assert.equal(await c.redis.get("k"), "other");
  await b.redis.set("k", "another");
  const error = await rejection(redlock.acquire(["k"], 60_000, { retryDelay: 10, retryJitter: 5 }));
  assert.equal(error.attempts.length, 11);
  for (const { votesAgainst } of await Promise.all(error.attempts)) {
    for (const it of votesAgainst.values()) {
      assert(it instanceof ResourceLockedError);
      assert.equal(it.message, "The operation was applied to: 0 of the 1 requested resources.");
    }
  }
  assert.equal(await a.info("k"), undefined);
  assert.deepEqual([await b.redis.get("k"), await c.redis.get("k")], ["another", "other"]);
});

test("killed and hung servers of a minority matter to nobody", async () => {
  const { all, redlock } = await start(5);
  await all[0]?.order("kill");
  await all[1]?.order("pause");
  for (let round = 0; round < 3; round += 1) {
    let lock = await redlock.acquire(["a", "b"], 10_000);
    lock = await lock.extend(20_000);
    await lock.release();
  }
  await redlock.using(["a"], 1000, { automaticExtensionThreshold: 500 }, async (signal) => {
    await pause(2500);
    assert(!signal.aborted);
  });
  await all[1]?.order("resume");
});

test("two servers have to agree", async () => {
  const { all, redlock } = await start(2);
  await (await redlock.acquire(["a"], 10_000)).release();
  await all[0]?.order("kill");
  await rejection(redlock.acquire(["a"], 10_000, { retryCount: 0 }));
});

/** What node-redlock sends to take and to give back one resource. */
const TAKE = `if redis.call("exists", KEYS[1]) == 1 then return 0 end
  redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2]) return 1`;
const GIVE_BACK = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`;

test("beside processes that still use node-redlock the lock is one", async () => {
  const { all: [server], redlock } = await start(1);
  assert(server);
  assert.equal(await server.redis.eval(TAKE, 1, "k", "theirs", 60_000), 1);
  const { attempts } = await rejection(redlock.acquire(["k"], 10_000, { retryCount: 2, retryDelay: 20 }));
  assert.equal(attempts.length, 3);
  assert([...(await attempts[0])?.votesAgainst.values() ?? []].every((it) => it instanceof ResourceLockedError));
  const ours = redlock.acquire(["k"], 10_000);
  await pause(100);
  assert.equal(await server.redis.eval(GIVE_BACK, 1, "k", "theirs"), 1);
  const lock = await ours;
  assert.equal(await server.redis.eval(TAKE, 1, "k", "theirs", 60_000), 0);
  await lock.release();
  assert.equal(await server.redis.eval(TAKE, 1, "k", "theirs", 60_000), 1);
});

test("what was taken first outlasts the wait for the rest, and the lease begins when all are there", async () => {
  const { all: [server], redlock } = await start(1);
  assert(server);
  const other = await redlock.acquire(["b"], 60_000);
  const both = redlock.acquire(["b", "a"], 1200, { retryCount: 100 });
  await server.waitForWaiters("b", 1);
  await pause(2500);
  assert(await server.info("a"));
  await other.release();
  const lock = await both;
  for (const key of ["a", "b"]) {
    const left = await server.redis.pttl(key);
    assert(left > 300 && left <= 1200, String(left));
  }
  assert(lock.expiration > Date.now());
  await server.waitUntilFree("a", 3000); // and nobody renews it
});

test("two that want the same resources in another order never wait for each other", async () => {
  const { redlock } = await start(1);
  let inside = 0;
  await Promise.all(Array.from({ length: 20 }, (_, at) =>
    redlock.using(at % 2 ? ["a", "b", "c"] : ["c", "b", "a"], 5000, { retryCount: -1 }, async () => {
      inside += 1;
      assert.equal(inside, 1);
      await pause(2);
      inside -= 1;
    })));
});

test("a lock that another process tells of can be extended and given back", async () => {
  const { all: [server], redlock } = await start(1);
  const { resources, value, expiration } = await redlock.acquire(["a", "b"], 60_000);
  const other = new Redlock([newRedis(server as Server)]);
  const told = new Lock(other, resources, value, [], expiration);
  await (await told.extend(30_000)).release();
  assert.equal(await server?.info("a"), undefined);
  await rejection(new Lock(other, resources, value, [], expiration).release());
});

test("locks that are made by hand of one value are one lock", async () => {
  const { all: [server], redlock } = await start(1);
  const { resources, value, expiration } = await redlock.acquire(["a"], 60_000);
  const other = new Redlock([newRedis(server as Server)]);
  const byHand = (): Lock => new Lock(other, resources, value, [], expiration);
  const one = await byHand().extend(30_000);
  await Promise.all([byHand().extend(20_000), byHand().extend(20_000)]);
  await byHand().release();
  assert.equal(await server?.info("a"), undefined);
  await rejection(one.release());
  await rejection(byHand().release());
});

test("a lock that was made by hand is what the server says, not what was extended here", async () => {
  const { all: [server], redlock } = await start(1);
  const lock = await redlock.acquire(["a"], 60_000);
  const { resources, value, expiration } = lock;
  const other = new Redlock([newRedis(server as Server)]);
  const one = await new Lock(other, resources, value, [], expiration).extend(500);
  assert.equal(one.tokens.get("a"), lock.tokens.get("a"));
  const more = await lock.extend(60_000);
  await eventually(() => one.expiration < Date.now(), "its end as it was known there", 1000);
  await pause(200);
  await one.release();
  assert.equal(await server?.info("a"), undefined);
  await rejection(more.release());
});

test("what was made by hand is let go of after each call", async () => {
  const { all: [server], redlock } = await start(1);
  const { resources, value, expiration } = await redlock.acquire(["a"], 60_000);
  const other = new Redlock([newRedis(server as Server)]);
  await Promise.all(Array.from({ length: 5 }, () => new Lock(other, resources, value, [], expiration).extend(60_000)));
  await other.quit();
  assert.equal((await server?.info("a"))?.["owner"], value);
});

for (const count of [1, 3]) {
  test(`${count} servers that hang: an acquire that does not wait and a release tell it in time, and no error of the work is hidden`, async () => {
    const { all, redlock } = await start(count);
    const mine = new Error("mine");
    await assert.rejects(redlock.using(["a"], 5000, async () => {
      for (const server of all) await server.order("pause");
      throw mine;
    }), (error) => error === mine);
    const began = performance.now();
    await rejection(redlock.acquire(["b", "c"], 60_000, { retryCount: 0 }));
    assert(performance.now() - began < 1500);
    for (const server of all) await server.order("resume");
    const lock = await redlock.acquire(["d"], 60_000);
    for (const server of all) await server.order("pause");
    await rejection(lock.release());
    for (const server of all) await server.order("resume");
  });
}

test("a second release is an error", async () => {
  const { redlock } = await start(1);
  const lock = await redlock.acquire(["a"], 60_000);
  await lock.release();
  await rejection(lock.release());
});

test("many Redlocks on one client are one connection, and quit ends everything", async () => {
  const server = await startServer();
  const redis = newRedis(server);
  let last: Redlock | undefined;
  for (let number = 0; number < 50; number += 1) {
    last = new Redlock([redis]);
    await (await last.acquire([`k${number}`], 10_000)).release();
  }
  assert.equal((await server.named("lock-keeper")).length, 1);
  assert(redis.listenerCount("end") < 5);
  const held = await last?.acquire(["held"], 60_000);
  assert(held);
  await last?.quit();
  await eventually(() => redis.status === "end", "the end of the client");
  await server.waitUntilFree("held", 3000);
  await eventually(async () => (await server.named("lock-keeper")).length === 0, "no connection");
});

for (const down of [false, true]) {
  test(`a process ends when its own clients have, without quit${down ? ", while a server is down" : ""}`, { timeout: 30_000 }, async () => {
    const all = await Promise.all(Array.from({ length: 3 }, () => startServer()));
    if (down) await all[0]?.order("kill");
    const program = `
      import { Redis } from "ioredis";
      import Redlock from "redis-lock-client/redlock";
      const clients = [${all.map(({ port }) => port).join()}].map((port) => new Redis(port));
      for (const client of clients) client.on("error", () => {});
      for (const some of [clients.slice(2), clients]) {
        const redlock = new Redlock(some);
        await (await redlock.acquire(["a"], 60_000)).release();
        await redlock.acquire(["held " + some.length], 60_000);
      }
      for (const client of clients) client.disconnect();`;
    const child = spawn(process.execPath, ["--input-type=module", "--eval", program],
      { cwd: path.resolve(import.meta.dirname, "../.."), stdio: ["ignore", "pipe", "inherit"] });
    ends.push(() => child.kill("SIGKILL"));
    const [code] = (await once(child, "exit")) as [number];
    assert.equal(code, 0);
  });
}

test("they are locks of this package: seen, forced and fenced as such", async () => {
  const { all: [server], redlock } = await start(1);
  const locks = new Locks(newRedis(server as Server));
  ends.push(() => locks.close());
  const lock = await redlock.acquire(["a"], 60_000);
  const [holder] = await locks.holders("a");
  assert.equal(holder?.token, lock.tokens.get("a"));
  assert.match(holder?.owner ?? "", /^redlock:/);
  assert(await locks.forceUnlock("a"));
  await rejection(lock.extend(1000));
});
