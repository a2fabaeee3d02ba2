/** The ends of leases: what was held at most so long, and leases that change. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { LockLost, LockUnavailable } from "../src/index.ts";
import { eventually, startProxy, startServer } from "./servers.ts";
import { KEY, newLocks, newRedis } from "./support.ts";

for (const [what, at] of [["early", 100], ["in its last lease", 2600]] as const) {
  test(`what is held at most so long ends in time, though it is taken again, given back and extended ${what}`, async () => {
    const server = await startServer();
    const task = newLocks(server).task();
    const began = performance.now();
    const outer = await task.lock(KEY, { lease: 2000, atMost: 4000 }).acquire();
    const granted = performance.now(); // a first connection takes its time
    await pause(at);
    const inner = await task.lock(KEY, { lease: 30_000 }).acquire();
    const more = await task.lock(KEY, { lease: 30_000 }).acquire();
    await more.release();
    await inner.extend(60_000);
    assert(inner.remaining <= 4000 - at, String(inner.remaining));
    await server.waitUntilFree(KEY, 7000);
    const end = performance.now();
    assert(end - began > 3800 && end - granted < 4300, `${end - began}, ${end - granted}`);
    await eventually(() => !outer.held && !inner.held, "the loss", 500);
    await assert.rejects(inner.release(), LockLost);
  });
}

test("what is held at most for less than a lease ends in time, though it is taken again", async () => {
  const server = await startServer();
  const task = newLocks(server).task();
  const began = performance.now();
  const outer = await task.lock(KEY, { atMost: 1000 }).acquire();
  const granted = performance.now();
  await task.lock(KEY).acquire();
  await outer.extend(20_000);
  await server.waitUntilFree(KEY, 5000);
  const end = performance.now();
  assert(end - began > 900 && end - granted < 1300, `${end - began}, ${end - granted}`);
  const other = await task.lock("other", { atMost: 1000 }).acquire();
  const calls = await server.calls("lock.renew");
  await pause(200);
  await other.release();
  assert.equal(await server.calls("lock.renew"), calls); // it has its end already
});

test("PINGs are as many as the smallest lease needs, also after it has become shorter", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const grant = await locks.lock(KEY, { lease: 60_000 }).acquire();
  await grant.extend(1500);
  let least = Infinity;
  const end = performance.now() + 4000;
  while (performance.now() < end) {
    least = Math.min(least, grant.remaining);
    await pause(20);
  }
  assert(least > 500, String(least));
  await grant.check();
  await grant.release();
});

test("after a detachment that was answered too late the grant is kept as before", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const redis = newRedis(proxy);
  await redis.ping();
  const locks = newLocks(redis, { replyTimeout: 2000 });
  const grant = await locks.lock(KEY, { lease: 5000 }).acquire();
  await proxy.inject({ delay: 1500 }, "PING");
  const checking = grant.check(); // its answer tells that the connection works
  await eventually(async () => (await proxy.order("lost"))["pending"] === 0, "the PING");
  await proxy.inject({ delay: 1500 }, "LOCK.RENEW");
  await pause(400); // the answer to the PING is by itself by then
  await assert.rejects(grant.detach(), LockUnavailable);
  await checking;
  assert(grant.held);
  await eventually(async () => (await server.holders(KEY))[0]?.["kept-by"], "the keeping");
  await pause(6000); // longer than the lease
  await grant.check();
  assert.equal((await server.info(KEY))?.["token"], grant.token);
  await grant.release();
  assert.equal(await server.info(KEY), undefined);
});
