/** The API of node-redlock when servers fail, beside node-redlock itself, and at the end of clients and processes. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { Lock, Redlock } from "redis-lock-client/redlock";
import { type Server, ends, eventually, startServer } from "../servers.ts";
import { failsWith, newRedis } from "./support.ts";

interface Setup {
  readonly all: Server[];
  readonly one: Server;
  readonly redlock: Redlock;
  readonly errors: Error[];
}

async function start(count: number): Promise<Setup> {
  const all = await Promise.all(Array.from({ length: count }, () => startServer()));
  const redlock = new Redlock(all.map((server) => newRedis(server)));
  ends.push(() => redlock.quit());
  const errors: Error[] = [];
  redlock.on("error", (error: Error) => { errors.push(error); });
  return { all, one: all[0] as Server, redlock, errors };
}

test("a server that cannot be reached is an ExecutionError with as many attempts as are set", async () => {
  const { one, redlock, errors } = await start(1);
  await one.order("kill");
  await failsWith(redlock.acquire(["a"], 60_000, { retryDelay: 50 }), 11, false);
  assert(errors.length > 0);
});

test("a minority may fail, a majority may not", async () => {
  const { all, redlock, errors } = await start(3);
  const [a, b, c] = all as [Server, Server, Server];
  await c.redis.set("k", "other");
  await (await (await redlock.acquire(["k"], 60_000)).extend(120_000)).release();
  await b.redis.set("k", "another");
  await failsWith(redlock.acquire(["k"], 60_000, { retryDelay: 10, retryJitter: 5 }), 11);
  assert.equal(errors.at(-1)?.message, "The operation was applied to: 0 of the 1 requested resources.");
  await a.waitUntilFree("k");
  assert.deepEqual([await b.redis.get("k"), await c.redis.get("k")], ["another", "other"]);
});

/** What node-redlock sends to acquire and to release one resource. */
const TAKE = `if redis.call("exists", KEYS[1]) == 1 then return 0 end
  redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2]) return 1`;
const GIVE_BACK = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`;

test("processes that still use node-redlock, and this one, exclude each other", async () => {
  const { one: { redis }, redlock } = await start(1);
  assert.equal(await redis.eval(TAKE, 1, "k", "theirs", 60_000), 1);
  await failsWith(redlock.acquire(["k"], 10_000, { retryCount: 2, retryDelay: 20 }), 3);
  const ours = redlock.acquire(["k"], 10_000);
  await pause(100);
  assert.equal(await redis.eval(GIVE_BACK, 1, "k", "theirs"), 1);
  const lock = await ours;
  assert.equal(await redis.eval(TAKE, 1, "k", "theirs", 60_000), 0);
  await lock.release();
  assert.equal(await redis.eval(TAKE, 1, "k", "theirs", 60_000), 1);
});

test("the first of several resources outlasts the wait for the rest, and the duration begins when all are there", async () => {
  const { one, redlock } = await start(1);
  const other = await redlock.acquire(["b"], 60_000);
  const both = redlock.acquire(["b", "a"], 3000, { retryCount: 100 });
  await one.waitForWaiters("b", 1);
  await pause(3500);
  assert(await one.info("a"));
  await other.release();
  const lock = await both;
  for (const key of ["a", "b"]) {
    const left = await one.redis.pttl(key);
    assert(left > 0 && left <= 3000, String(left));
  }
  assert(lock.expiration > Date.now());
  await one.waitUntilFree("a", 6000); // and nobody renews it
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

test("another process that knows value and tokens extends and releases a lock", async () => {
  const { one, redlock } = await start(1);
  const { resources, value, expiration, tokens } = await redlock.acquire(["b", "a"], 60_000);
  const other = new Redlock([newRedis(one)]);
  await failsWith(new Lock(other, resources, value, [], expiration).release(), 1, false); // without the tokens
  await (await new Lock(other, resources, value, [], expiration, tokens).extend(30_000)).release();
  assert.equal(await one.info("a"), undefined);
  assert.equal(await one.info("b"), undefined);
  await failsWith(new Lock(other, resources, value, [], expiration, tokens).release(), 1);
});

for (const count of [1, 3]) {
  test(`${count} servers that hang: calls end in time, and no error of the work is hidden`, async () => {
    const { all, redlock } = await start(count);
    const order = (what: string): Promise<unknown> => Promise.all(all.map((server) => server.order(what)));
    const lock = await redlock.acquire(["d"], 60_000);
    const mine = new Error("mine");
    await assert.rejects(redlock.using(["a"], 5000, async () => {
      await order("pause");
      throw mine;
    }), (error) => error === mine);
    const began = performance.now();
    await failsWith(redlock.acquire(["b", "c"], 60_000, { retryCount: 0 }), 1, false);
    await failsWith(lock.release(), 1, false);
    assert(performance.now() - began < 8000, `${performance.now() - began} ms`);
    await order("resume");
    for (const server of all) await server.waitUntilFree("d"); // the release is repeated
  });
}

test("many Redlocks on one client share a session, and quit ends everything", async () => {
  const { one, redlock: first } = await start(1);
  const client = [...first.clients][0] as ReturnType<typeof newRedis>;
  const all = Array.from({ length: 50 }, () => new Redlock([client]));
  for (const [at, it] of all.entries()) await it.acquire([`k${at}`], 10_000);
  assert.equal(((await one.redis.call("LOCK.SESSION", "LIST")) as unknown[]).length, 1);
  assert(client.listenerCount("end") < 5);
  await all[7]?.quit();
  await eventually(() => client.status === "end", "the end of the client");
  for (let at = 0; at < 50; at += 1) await one.waitUntilFree(`k${at}`, 5000);
});

for (const isDown of [false, true]) {
  test(`a process ends when its own clients have, without quit${isDown ? ", while a server is down" : ""}`, { timeout: 30_000 }, async () => {
    const all = await Promise.all(Array.from({ length: 3 }, () => startServer()));
    if (isDown) await all[0]?.order("kill");
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
