/** What `onEvent` and the diagnostics channel are told. */

import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { LockBusy, type LockEvent, LockLost, LockMisuse, LockUnavailable } from "../src/index.ts";
import { ends, eventually, startServer } from "./servers.ts";
import { KEY, newLocks, toldLocks } from "./support.ts";

/** The last one, of so many of this type. */
async function last(told: readonly LockEvent[], type: LockEvent["type"], number = 1): Promise<LockEvent> {
  const all = (): LockEvent[] => told.filter((event) => event.type === type);
  await eventually(() => all().length >= number, `${type}, ${number} times`);
  assert.equal(all().length, number, JSON.stringify(told));
  return all().at(-1) as LockEvent;
}

test("an acquire is told with its time, and a release with that of its last hold", async () => {
  const { locks, told } = toldLocks(await startServer());
  const task = locks.task();
  const grant = await task.lock(KEY).acquire();
  const acquired = await last(told, "acquired");
  assert(acquired.key === KEY && acquired.owner === task.owner && acquired.ms !== undefined && acquired.ms < 1000);
  const again = await task.lock(KEY).acquire();
  await last(told, "acquired", 2);
  await pause(300);
  await grant.release();
  assert.equal(told.length, 2);
  await again.release();
  const released = await last(told, "released");
  assert(released.key === KEY && released.ms !== undefined && released.ms > 250 && !("error" in released));
  assert.equal(told.length, 3);
});

test("each refusal is told with its time and its error", async () => {
  const server = await startServer();
  const { locks, told } = toldLocks(server);
  await server.redis.call("LOCK.ACQUIRE", KEY, "other", "PX", 60_000);
  await assert.rejects(locks.lock(KEY, { wait: 300 }).acquire(), LockBusy);
  const busy = await last(told, "busy");
  assert(busy.ms !== undefined && busy.ms >= 299 && busy.error instanceof LockBusy);
  const reason = new Error("not wanted any more");
  const stop = new AbortController();
  const waiting = locks.lock(KEY, { wait: 20_000 }).acquire({ signal: stop.signal });
  await server.waitForWaiters(KEY, 1);
  stop.abort(reason);
  await assert.rejects(waiting, (error) => error === reason);
  assert.equal((await last(told, "refused")).error, reason);
  await server.order("kill");
  await assert.rejects(locks.lock(KEY).acquire(), LockUnavailable);
  assert((await last(told, "refused", 2)).error instanceof LockUnavailable);
  await locks.close();
  await assert.rejects(locks.lock(KEY).acquire(), LockMisuse);
  assert((await last(told, "refused", 3)).error instanceof LockMisuse);
});

test("a loss that the release finds is told, and a release without an answer", async () => {
  const server = await startServer();
  const { locks, told } = toldLocks(server);
  const fixed = await locks.lock(KEY, { lease: 30_000, fixed: true }).acquire();
  await server.redis.del(KEY);
  const lost = await fixed.release().catch((error: unknown) => error);
  assert(lost instanceof LockLost);
  assert.equal((await last(told, "lost")).error, lost);
  assert.equal((await last(told, "released")).error, lost);
  const grant = await locks.lock(KEY).acquire();
  await server.order("pause");
  const failed = await grant.release().catch((error: unknown) => error);
  await server.order("resume");
  assert(failed instanceof LockUnavailable);
  const released = await last(told, "released", 2);
  assert(released.error === failed && released.ms !== undefined && released.ms > 1000 && released.ms < 5000);
});

test("a release of some holds that finds a loss tells that once", async () => {
  const server = await startServer();
  const { locks, told } = toldLocks(server);
  const task = locks.task(), lock = task.lock(KEY, { lease: 30_000, fixed: true });
  const first = await lock.acquire(), second = await lock.acquire();
  await server.redis.del(KEY);
  await assert.rejects(first.release(), LockLost);
  await assert.rejects(second.release(), LockLost);
  await last(told, "lost");
  assert(!told.some(({ type }) => type === "released"));
});

test("a close releases: that is no loss", async () => {
  const server = await startServer();
  const { locks, told } = toldLocks(server);
  const grant = await locks.lock(KEY).acquire();
  await locks.close();
  assert(grant.signal.aborted);
  assert.deepEqual(told.map(({ type }) => type), ["acquired", "released"]);
  const other = toldLocks(server);
  await other.locks.lock(KEY).acquire();
  await server.order("pause");
  await other.locks.close();
  await server.order("resume");
  assert((await last(other.told, "released")).error instanceof LockUnavailable);
  assert(!other.told.some(({ type }) => type === "lost"));
});

test("the connection that keeps locks is told once when it ends, and once when there is one again", async () => {
  const server = await startServer();
  const { locks, told } = toldLocks(server);
  await locks.lock(KEY).run(() => {});
  await server.order("kill"); // with nothing held
  const lost = await last(told, "keeper-lost");
  assert(lost.server === `localhost:${server.port}` && lost.error instanceof Error);
  await assert.rejects(locks.lock(KEY).acquire(), LockUnavailable);
  await last(told, "keeper-lost"); // each attempt fails, and is no event
  await server.order("restart");
  await locks.lock(KEY, { wait: 5000 }).run(() => {});
  assert.equal((await last(told, "keeper-back")).server, lost.server);
  await locks.close();
  await pause(100);
  await last(told, "keeper-lost");
});

test("a server that is down from the begin is told", async () => {
  const server = await startServer();
  await server.order("kill");
  const { locks, told } = toldLocks(server);
  await assert.rejects(locks.lock(KEY).acquire(), LockUnavailable);
  assert((await last(told, "keeper-lost")).error instanceof Error);
  assert(!told.some(({ type }) => type === "keeper-back"));
});

test("the channel is told the same", async () => {
  const told: unknown[] = [];
  const listener = (event: unknown): void => { told.push(event); };
  subscribe("redis-lock-client", listener);
  ends.push(() => unsubscribe("redis-lock-client", listener));
  await newLocks(await startServer()).lock("of the channel").run(() => {});
  const mine = (told as LockEvent[]).filter(({ key }) => key === "of the channel");
  assert.deepEqual(mine.map(({ type }) => type), ["acquired", "released"]);
});
