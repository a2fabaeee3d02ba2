/** What is built from locks. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { LockBusy, LockError, LockLost, LockUnavailable } from "../src/index.ts";
import { eventually, startProxy, startServer } from "./servers.ts";
import { KEY, newLocks, newNodeRedis, newRedis, toldLocks, took } from "./support.ts";

test("several locks at once, or none, and never a circle", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  await locks.all(["b", "a", "b"], {}, async (grants) => {
    assert.deepEqual(grants.map(({ key }) => key), ["a", "b"]);
    assert.equal((await server.info("a"))?.["owner"], (await server.info("b"))?.["owner"]);
    assert.equal((await server.info("b"))?.["holds"], 1);
  });
  assert.equal(await server.redis.dbsize(), 0);
  const held = await locks.lock("b").acquire();
  const ms = await took(() => assert.rejects(locks.all(["a", "b"], { wait: 400 }, () => {}), LockBusy));
  assert(ms >= 390 && ms < 1400, String(ms));
  assert.equal(await server.info("a"), undefined);
  await held.release();
  let inside = 0;
  await Promise.all(Array.from({ length: 30 }, (_, number) =>
    locks.all(number % 2 ? ["a", "b"] : ["b", "a"], { wait: 20_000 }, async () => {
      assert.equal(inside, 0);
      inside += 1;
      await null;
      inside -= 1;
    })));
});

test("what was lost while the rest was waited for does not begin the work", async () => {
  const server = await startServer();
  const { locks, told } = toldLocks(server);
  const b = await newLocks(server).lock("b").acquire();
  let begun = false;
  const all = locks.all(["a", "b"], { wait: 20_000 }, () => { begun = true; });
  await server.waitForWaiters("b", 1);
  await server.redis.del("a");
  await eventually(() => told.some(({ type }) => type === "lost"), "the loss");
  await b.release();
  await assert.rejects(all, LockLost);
  assert(!begun);
  assert.equal(await server.info("b"), undefined);
});

test("one leads at a time, and another goes on when it is deposed", async () => {
  const server = await startServer();
  const stop = new AbortController();
  const leaders: number[] = [];
  let leading = 0;
  const all = [0, 1, 2].map((number) => newLocks(server).lead(KEY, { signal: stop.signal }, async ({ signal }) => {
    leaders.push(number);
    leading += 1;
    await new Promise<void>((resolve) => {
      for (const it of [signal, stop.signal]) it.addEventListener("abort", () => resolve(), { once: true });
    });
    leading -= 1;
  }));
  await server.waitForWaiters(KEY, 2);
  await server.redis.del(KEY);
  await eventually(() => leaders.length === 2 && leading === 1, "another leader");
  assert.notEqual(leaders[0], leaders[1]);
  stop.abort();
  await Promise.all(all);
  assert.equal(await server.info(KEY), undefined);
  const failed = new Error("the work has failed");
  await assert.rejects(newLocks(server).lead(KEY, { signal: new AbortController().signal }, () => { throw failed; }), failed);
});

test("work is done once, and the others get what it found", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  let done = 0;
  const look = async (): Promise<string | undefined> => (await server.redis.get("cache")) ?? undefined;
  const work = async (): Promise<string> => {
    done += 1;
    await pause(200);
    await server.redis.set("cache", "found");
    return "found";
  };
  const all = await Promise.all(Array.from({ length: 50 }, () => locks.once(KEY, { wait: 20_000 }, look, work)));
  assert(all.every((it) => it === "found"));
  assert.equal(done, 1);
  assert.equal(await server.info(KEY), undefined);
  const held = await locks.lock("other").acquire();
  await assert.rejects(locks.once("other", { wait: 100 }, async () => undefined, work), LockBusy);
  await held.release();
});

test("work that is done once waits behind readers without asking again and again", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const reader = await newLocks(server).shared(KEY).acquire();
  let looks = 0;
  const look = async (): Promise<undefined> => { looks += 1; };
  await assert.rejects(locks.once(KEY, { wait: 500 }, look, async () => 1), LockBusy);
  assert(looks < 10, String(looks));
  const done = locks.once(KEY, { wait: 20_000 }, look, async () => 2);
  await server.waitForWaiters(KEY, 1);
  await reader.release();
  assert.equal(await done, 2);
  assert.equal(await server.info(KEY), undefined);
});

test("several locks are given back in the time of one", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const keys = ["a", "b", "c", "d"];
  const ms = await took(() => assert.rejects(locks.all(keys, {}, async () => { await server.order("pause"); }), LockUnavailable));
  assert(ms < 3000, String(ms));
  await server.order("resume");
  for (const key of keys) await server.waitUntilFree(key, 15_000);
  await server.redis.call("LOCK.ACQUIRE", "d", "other", "EX", 60);
  const all = locks.all(keys, { wait: 1000 }, () => {});
  await server.waitForWaiters("d", 1);
  await server.order("pause");
  const failed = await took(() => assert.rejects(all, LockError));
  assert(failed < 5000, String(failed));
  await server.order("resume");
});

test("a lock is freed by force once, however the answer is lost", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  for (const client of [newRedis(proxy), await newNodeRedis(proxy)]) {
    const locks = newLocks(client);
    await locks.lock("warm").run(() => {});
    await locks.holders(KEY);
    await proxy.inject("cut", "DEL");
    await assert.rejects(locks.forceUnlock(KEY), LockUnavailable);
    await proxy.order("swallow");
    await assert.rejects(locks.forceUnlock(KEY), LockUnavailable);
    await proxy.order("speak");
    const calls = await server.calls("del");
    const grant = await locks.lock(KEY, { wait: 5000 }).acquire();
    await locks.holders(KEY);
    await grant.check();
    assert.equal(await server.calls("del"), calls);
    assert(await locks.forceUnlock(KEY));
    assert(!(await locks.forceUnlock(KEY)));
  }
});
