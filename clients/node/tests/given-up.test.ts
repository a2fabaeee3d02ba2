/** What was given up, or told as lost, does not stay with the server. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { LockBusy, LockMisuse } from "../src/index.ts";
import { eventually, startProxy, startServer } from "./servers.ts";
import { KEY, newLocks, took } from "./support.ts";

test("an adoption that was given up keeps nothing", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(proxy);
  const [token] = (await server.redis.call("LOCK.ACQUIRE", KEY, "other", "EX", 60)) as [number];
  await locks.lock("warm").run(() => {});
  await proxy.inject({ delay: 400 }, "LOCK.RENEW");
  await assert.rejects(locks.adopt(KEY, "other", token, { signal: AbortSignal.timeout(100) }), { name: "TimeoutError" });
  await eventually(async () => (await server.calls("lock.renew")) === 2, "two renewals");
  const [holder] = await server.holders(KEY);
  assert.equal(holder?.["owner"], "other");
  assert.equal(holder?.["kept-by"], 0);
});

test("a loss that no server told is given back", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(proxy, { replyTimeout: 4000 });
  const grant = await locks.lock(KEY, { lease: 1000 }).acquire();
  await proxy.inject({ delay: 3000 }, "LOCK.RENEW");
  const keptBy = (await server.holders(KEY))[0]?.["kept-by"] as number;
  await server.redis.call("CLIENT", "KILL", "ID", keptBy);
  await eventually(() => !grant.held, "a loss");
  await server.waitUntilFree(KEY);
});

test("a task waits no longer than its time", async () => {
  const server = await startServer();
  await server.redis.call("LOCK.ACQUIRE", KEY, "other", "EX", 60);
  const task = newLocks(server).task();
  const first = assert.rejects(task.lock(KEY, { wait: 1000 }).acquire(), LockBusy);
  await server.waitForWaiters(KEY, 1);
  const ms = await took(() => assert.rejects(task.lock(KEY, { wait: 1000 }).acquire(), LockBusy));
  assert(ms < 1500, String(ms));
  await first;
});

test("a leader whose release is not answered leads again", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(proxy);
  const stop = new AbortController();
  let terms = 0;
  const leading = locks.lead(KEY, { signal: stop.signal, lease: 2000 }, async () => {
    terms += 1;
    if (terms === 1) {
      await proxy.order("silence");
      setTimeout(() => void proxy.order("speak"), 4000);
    } else {
      await pause(10_000, undefined, { signal: stop.signal });
    }
  });
  await eventually(() => terms === 2, "another term", 20_000);
  stop.abort();
  await leading;
});

test("what a leader's work throws ends the leading, be it a loss of something else", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const other = await locks.lock("other").acquire();
  await server.redis.del("other");
  const loss: unknown = await new Promise((resolve) => void other.onLost(resolve));
  const leading = locks.lead(KEY, { signal: new AbortController().signal }, () => { throw loss; });
  await assert.rejects(leading, (error) => error === loss && !(error instanceof LockMisuse));
});
