/** Readers, permits, tasks, and owners of one's own. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { LockBusy, LockDeadlock, LockLost, LockMisuse, LockNotAlone, LockUnavailable } from "../src/index.ts";
import { eventually, startProxy, startServer } from "./servers.ts";
import { KEY, Pending, newLocks, took } from "./support.ts";

test("readers share, and a writer is alone", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const readers = [await locks.shared(KEY).acquire(), await locks.shared(KEY).acquire()];
  assert.equal((await locks.holders(KEY)).length, 2);
  const writer = Pending.of(locks.lock(KEY, { wait: 20_000 }));
  await server.waitForWaiters(KEY, 1);
  assert.equal(await locks.shared(KEY).tryAcquire(), undefined); // behind the writer
  for (const reader of readers) await reader.release();
  const grant = await writer.granted();
  const late = Pending.of(locks.shared(KEY, { wait: 20_000 }));
  await server.waitForWaiters(KEY, 1);
  await grant.downgrade();
  const reader = await late.granted();
  assert(grant.held);
  assert.equal((await locks.holders(KEY)).length, 2);
  await reader.release();
  await grant.release();
});

test("permits are owners of their own, in a task too", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const task = locks.task();
  const permits = [await task.permit(KEY, { of: 2 }).acquire(), await task.permit(KEY, { of: 2 }).acquire()];
  assert.equal(new Set(permits.map(({ owner }) => owner)).size, 2);
  await assert.rejects(locks.permit(KEY, { of: 2 }).acquire(), LockBusy);
  const next = Pending.of(locks.permit(KEY, { of: 2, wait: 20_000 }));
  await server.waitForWaiters(KEY, 1);
  await permits[0]?.release();
  await (await next.granted()).release();
  await permits[1]?.release();
});

test("a task takes a lock again, and the holds end in any order", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const task = locks.task();
  const outer = await task.lock(KEY, { lease: 5000 }).acquire();
  const inner = await task.lock(KEY, { lease: 30_000 }).acquire();
  assert.equal(inner.token, outer.token);
  assert.equal((await server.info(KEY))?.["holds"], 2);
  assert.equal((await server.info(KEY))?.["lease-ms"], 30_000);
  await outer.release();
  assert(!outer.held && inner.held);
  await inner.check();
  assert.equal((await server.info(KEY))?.["holds"], 1);
  const [again] = await Promise.all([task.lock(KEY).acquire(), inner.release()]);
  assert.equal((await server.info(KEY))?.["holds"], 1);
  await again.release();
  assert.equal(await server.info(KEY), undefined);
  const other = await task.lock(KEY).acquire();
  assert(other.token > again.token);
  await server.redis.del(KEY);
  await eventually(() => !other.held, "the loss");
  await (await task.lock(KEY).acquire()).release(); // usable after a loss
});

test("a hold that was given back hears no more of its grant", async () => {
  const server = await startServer();
  const task = newLocks(server).task();
  const outer = await task.lock(KEY).acquire(), inner = await task.lock(KEY).acquire();
  const heard: string[] = [];
  outer.onLost(() => { heard.push("outer"); });
  inner.onLost(() => { heard.push("inner"); });
  const { signal } = inner;
  await inner.release();
  await server.redis.del(KEY);
  await eventually(() => !outer.held, "the loss");
  assert.deepEqual(heard, ["outer"]);
  assert(outer.signal.aborted && !signal.aborted);
});

test("many holds of a task that come and go at the same time are counted right", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(proxy);
  const task = locks.task();
  const outer = await task.lock(KEY).acquire();
  await proxy.inject("cut", "HOLDS");
  const all = await Promise.all(Array.from({ length: 20 }, () => task.lock(KEY).acquire()));
  assert.equal((await server.info(KEY))?.["holds"], 21);
  await proxy.inject("cut", "LOCK.RELEASE");
  await Promise.all(all.map((grant) => grant.release()));
  assert.equal((await server.info(KEY))?.["holds"], 1);
  await outer.release();
  assert.equal(await server.info(KEY), undefined);
});

test("two tasks that wait for each other are told", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const [one, two] = [locks.task(), locks.task()];
  const a = await one.lock("a").acquire(), b = await two.lock("b").acquire();
  const first = Pending.of(one.lock("b", { wait: 20_000 }));
  await server.waitForWaiters("b", 1);
  await assert.rejects(two.lock("a", { wait: 20_000 }).acquire(), LockDeadlock);
  await b.release();
  await (await first.granted()).release();
  await a.release();
});

test("two readers of a lock cannot both have it alone", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const task = locks.task();
  const mine = await task.shared(KEY).acquire(), others = await locks.shared(KEY).acquire();
  await assert.rejects(task.lock(KEY, { wait: 20_000 }).acquire(), LockNotAlone);
  assert(mine.held);
  await others.release();
  await (await task.lock(KEY).acquire()).release();
  await mine.release();
  assert.equal(await server.info(KEY), undefined);
});

test("a second call of a task for a lock waits its turn within its own time", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const first = await locks.lock(KEY).acquire();
  const task = locks.task();
  const waiting = Pending.of(task.lock(KEY, { wait: 20_000 }));
  await server.waitForWaiters(KEY, 1);
  const ms = await took(() => assert.rejects(task.lock(KEY).acquire(), LockBusy));
  assert(ms < 1500, String(ms));
  await first.release();
  await (await waiting.granted()).release();
  assert.equal(await server.info(KEY), undefined);
});

test("an own owner may ask twice, and a grant changes hands", async () => {
  const server = await startServer();
  const locks = newLocks(server), others = newLocks(server);
  const grant = await locks.lock(KEY, { owner: "user:7", lease: 5000 }).acquire();
  const again = await others.lock(KEY, { owner: "user:7", lease: 5000, fixed: true }).acquire();
  assert.equal(again.token, grant.token);
  assert.equal((await server.info(KEY))?.["holds"], 1);
  await grant.detach();
  assert(!grant.held);
  const adopted = await others.adopt(KEY, "user:7", grant.token, { lease: 5000 });
  assert.equal((await server.holders(KEY))[0]?.["keep-ms"], 30_000);
  await adopted.extend(20_000);
  assert(adopted.remaining > 15_000);
  assert.equal((await server.info(KEY))?.["lease-ms"], 20_000);
  await adopted.release();
  assert(again.held);
  await again.release();
  assert.equal(await server.info(KEY), undefined);
  await assert.rejects(others.adopt(KEY, "user:7", grant.token), LockLost);
});

test("a fixed lease is extended, and may be cut short", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const grant = await locks.lock(KEY, { fixed: true, lease: 600 }).acquire();
  await grant.extend(5000);
  await pause(800);
  assert(grant.held);
  await grant.extend(200);
  await eventually(() => !grant.held, "its end", 1000);
});

test("replicas have to acknowledge", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  await assert.rejects(locks.lock(KEY, { replicas: 1 }).acquire(), LockUnavailable);
  assert.equal(await server.info(KEY), undefined);
});

test("the key's prefix is the client's", async () => {
  const server = await startServer();
  const locks = newLocks(server, { redis: { keyPrefix: "shop:" } });
  const grant = await locks.lock("a").acquire();
  assert.equal(grant.key, "a");
  assert.equal((await server.info("shop:a"))?.["owner"], grant.owner);
  assert.equal((await locks.holders("a"))[0]?.owner, grant.owner);
  assert(await locks.forceUnlock("a"));
  await eventually(() => !grant.held, "the loss");
});

test("wrong arguments are misuse", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  for (const options of [{ lease: 0 }, { lease: NaN }, { lease: 500 }, { keep: 10 }, { wait: -1 }, { owner: "" }, { owner: "*" },
    { lease: 1e15 }, { fixed: true, atMost: 3 }, { replicas: 0.5 }]) {
    assert.throws(() => locks.lock(KEY, options), LockMisuse, JSON.stringify(options));
  }
  assert.throws(() => locks.lock(""), LockMisuse);
  assert.throws(() => locks.permit(KEY, { of: 0 }), LockMisuse);
  await assert.rejects(locks.adopt(KEY, "me", 0.5), LockMisuse);
  for (const taker of [locks, locks.task()]) {
    assert.throws(() => taker.permit(KEY, { of: 2, owner: "user:7" }), LockMisuse);
    await assert.rejects(taker.permit(KEY, { of: 2 }).acquire({ owner: "user:7" }), LockMisuse);
  }
  await server.redis.set(KEY, "a string");
  await assert.rejects(locks.lock(KEY, { wait: 9000 }).acquire(), LockMisuse);
});

test("calls of a task that begin at the same time are holds of one grant", async () => {
  const server = await startServer();
  const task = newLocks(server).task();
  const all = await Promise.all([1, 2, 3].map(() => task.lock(KEY).acquire()));
  assert.equal((await server.info(KEY))?.["holds"], 3);
  for (const grant of all) await grant.release();
  assert.equal(await server.info(KEY), undefined);
});
