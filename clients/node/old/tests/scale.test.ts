/** Many locks, waits and tasks: what grows, and what does not. */

import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { LockBusy } from "../src/index.ts";
import { eventually, startServer } from "./servers.ts";
import { KEY, Pending, newLocks, newRedis, stall, toldLocks } from "./support.ts";

const isLong = process.env["LONG"] !== undefined;

test("ten thousand locks are held through a stall of the loop, on one connection", async () => {
  const server = await startServer();
  const { locks, told } = toldLocks(server);
  const before = await server.accepted();
  const grants = await Promise.all(Array.from({ length: 10_000 }, (_, number) =>
    locks.lock(`many:${number}`, { keep: 20_000 }).acquire({ wait: 20_000 })));
  const short = await locks.lock("short", { lease: 2000 }).acquire(); // less than the stall
  assert.equal(await server.accepted(), before + 1);
  stall(3000);
  await pause(500);
  assert(grants.every((grant) => grant.held));
  await short.check();
  await short.release();
  const used = process.cpuUsage();
  await pause(3000);
  const { user, system } = process.cpuUsage(used);
  assert((user + system) / 3_000_000 < (isLong ? 0.01 : 0.05), `${(user + system) / 30_000} % of a core`);
  await grants[77]?.check();
  // The connection is cut: all are kept again by one pipeline.
  await server.redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
  await eventually(() => told.some(({ type }) => type === "keeper-back"), "the keeper");
  const checked = (): Promise<boolean> => Promise.all(grants.map((grant) => grant.check())).then(() => true, () => false);
  await eventually(checked, "all to be kept again");
  await Promise.all(grants.map((grant) => grant.release()));
  assert.equal(await server.redis.dbsize(), 0);
  assert(!told.some(({ type }) => type === "lost"));
});

test("five hundred tasks on ten locks: one inside at a time, and no connection after warming up", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const inside = new Map<string, number>();
  const round = async (): Promise<void> => {
    await Promise.all(Array.from({ length: 500 }, async (_, number) => {
      const key = `hot:${number % 10}`;
      await locks.lock(key, { wait: Infinity }).run(async () => {
        assert.equal(inside.get(key) ?? 0, 0);
        inside.set(key, 1);
        await null;
        inside.set(key, 0);
      });
    }));
  };
  await round();
  await eventually(async () => (await server.named("lock-wait")).length <= 16, "idle connections to close");
  const small = Array.from({ length: 10 }, () => newRedis(server));
  await Promise.all(small.map((redis) => redis.ping()));
  const accepted = await server.accepted();
  for (let more = 0; more < 20; more += 1) {
    await Promise.all(Array.from({ length: 10 }, () => locks.lock("one", { wait: Infinity }).run(() => {})));
  }
  assert.equal(await server.accepted(), accepted);
  assert.equal((await server.named("lock-keeper")).length, 1);
});

test("locks and waits leave no listener, timer, connection or memory behind", async () => {
  const server = await startServer();
  const redis = newRedis(server);
  const locks = newLocks(redis);
  const { signal } = new AbortController();
  const rounds = isLong ? 50_000 : 3000;
  const listeners = (): number => getEventListeners(signal, "abort").length
    + redis.eventNames().reduce((sum, name) => sum + redis.listenerCount(name), 0);
  const timers = (): number => process.getActiveResourcesInfo().filter((it) => it === "Timeout").length;
  const round = async (number: number): Promise<void> => {
    const key = `key:${number}`;
    const task = locks.task();
    const [first, own] = await Promise.all([locks.lock(key).acquire({ signal }), task.lock(`own:${number}`, { fixed: true, lease: 1e9 }).acquire()]);
    const waiting = locks.lock(key, { wait: 60_000, atMost: 1e9 }).acquire({ signal });
    await first.release();
    const second = await waiting;
    assert(!second.signal.aborted);
    await assert.rejects(locks.lock(key).acquire({ signal }), LockBusy);
    await Promise.all([second.release(), own.release()]);
  };
  for (let number = 0; number < 500; number += 1) await round(number);
  globalThis.gc?.();
  const before = { listeners: listeners(), timers: timers(), heap: process.memoryUsage().heapUsed, accepted: await server.accepted() };
  for (let number = 0; number < rounds; number += 1) await round(number);
  globalThis.gc?.();
  assert.equal(listeners(), before.listeners);
  assert.equal(getEventListeners(signal, "abort").length, 0);
  await eventually(() => timers() <= before.timers + 3, "timers to end", 3000);
  assert.equal(await server.accepted(), before.accepted);
  const grown = process.memoryUsage().heapUsed - before.heap;
  assert(grown < (isLong ? 8_000_000 : 2_000_000), `${grown} bytes more`); // of a listener each it would be twice as much
});

test("a grant that is held for long remembers no work that has ended under it", async () => {
  const server = await startServer();
  const task = newLocks(server).task();
  const outer = await task.lock(KEY).acquire();
  const work = async (times: number): Promise<number> => {
    for (let time = 0; time < times; time += 1) await task.lock(KEY).run(({ signal }) => assert(!signal.aborted));
    globalThis.gc?.();
    return process.memoryUsage().heapUsed;
  };
  const before = await work(500);
  const grown = (await work(5000)) - before;
  assert(grown < 1_000_000, `${grown} bytes more`);
  await outer.release();
});

test("a thousand waits end together, by their time or by close", async () => {
  const server = await startServer();
  const locks = newLocks(server), waiting = newLocks(server);
  const grant = await locks.lock(KEY).acquire();
  const waits = Array.from({ length: isLong ? 1000 : 200 }, () => Pending.of(waiting.lock(KEY, { wait: 60_000 })));
  await server.waitForWaiters(KEY, waits.length);
  await waiting.close();
  for (const wait of waits) await assert.rejects(wait.over, { name: "AbortError" });
  assert.equal((await server.waiters(KEY)).length, 0);
  await eventually(async () => (await server.named("lock-wait")).length === 0, "no connection");
  await grant.release();
});
