/** What ends the keeping of a grant, beside what begins it. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { LockMisuse, LockUnavailable } from "../src/index.ts";
import { eventually, startProxy, startServer } from "./servers.ts";
import { KEY, NAMED, Pending, cut, keptBy, newLocks, toldLocks, took, waitUntilKept } from "./support.ts";

test("an extension to a fixed lease beside an acquire of its task is what the lock has", async () => {
  const server = await startServer();
  const task = newLocks(server).task();
  const grant = await task.lock(KEY, { lease: 2000 }).acquire();
  const [, again] = await Promise.all([grant.extend(2000, { fixed: true }), task.lock(KEY, { lease: 2000 }).acquire()]);
  await server.waitUntilFree(KEY, 5000);
  await eventually(() => !grant.held && !again.held, "the loss", 500);
});

test("an extension and a detachment wait for no more than their time behind another call of the task", async () => {
  const server = await startServer();
  const task = newLocks(server).task();
  const grant = await task.lock(KEY, { fixed: true, lease: 60_000 }).acquire();
  await server.order("pause");
  const again = Pending.of(task.lock(KEY, { wait: 10_000 }));
  const ms = await took(() => Promise.all([grant.extend(30_000), grant.detach()].map((it) => assert.rejects(it, LockUnavailable))));
  assert(ms < 1500, String(ms));
  assert(grant.held);
  await server.order("resume");
  await (await again.granted()).release();
  assert.equal((await server.info(KEY))?.["lease-ms"], 60_000);
  await grant.release();
});

for (const [how, options] of Object.entries({ fixed: { fixed: true }, kept: {} })) {
  test(`a shorter lease whose answer is lost is what is known of a ${how} lock`, async () => {
    const server = await startServer();
    const proxy = await startProxy(server);
    const grant = await newLocks(proxy).lock(KEY, { lease: 60_000, ...options }).acquire();
    await proxy.order("silence");
    await assert.rejects(grant.extend(1500), LockUnavailable);
    await eventually(() => !grant.held, "the loss", 1000);
    await server.waitUntilFree(KEY, 5000);
  });
}

test("a shorter lease that never was leaves no lock behind", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const grant = await newLocks(proxy).lock(KEY, { fixed: true, lease: 60_000 }).acquire();
  await proxy.order("swallow");
  await assert.rejects(grant.extend(1500), LockUnavailable);
  await proxy.order("speak");
  await eventually(() => !grant.held, "the loss", 1000);
  await server.waitUntilFree(KEY, 3000);
});

test("a shorter lease that is answered late, or refused, is all that changes", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(proxy);
  const grant = await locks.lock(KEY, { lease: 60_000 }).acquire();
  await assert.rejects(grant.extend(500), LockMisuse); // too short to be kept
  assert(grant.remaining > 50_000);
  await proxy.inject("cut", "LOCK.RENEW");
  await grant.extend(2000);
  assert(grant.remaining <= 2000);
  await pause(2500);
  await grant.check();
  await grant.release();
});

for (const end of ["detach", "extend"] as const) {
  test(`what is not to be kept any more (${end}) while the keeper looks who keeps it is not kept`, async () => {
    const server = await startServer();
    const proxy = await startProxy(server);
    const grant = await newLocks(proxy).lock(KEY, { owner: NAMED, lease: 1500 }).acquire();
    const looks = await server.calls("lock.holders");
    await proxy.inject({ delay: 200 }, "LOCK.HOLDERS");
    await cut(server);
    await eventually(async () => (await server.calls("lock.holders")) > looks + 1, "a look");
    await (end === "detach" ? grant.detach() : grant.extend(1500, { fixed: true }));
    await server.waitUntilFree(KEY, 5000);
  });
}

test("the longer silence of what is taken again goes on with another keeper", async () => {
  const server = await startServer();
  const task = newLocks(server).task();
  const outer = await task.lock(KEY, { keep: 20_000 }).acquire();
  const inner = await task.lock(KEY, { keep: 50_000 }).acquire();
  await (await task.lock(KEY, { keep: 10_000 }).acquire()).release();
  const before = await keptBy(server);
  await cut(server);
  await waitUntilKept(server, before);
  assert.equal((await server.holders(KEY))[0]?.["keep-ms"], 50_000);
  await inner.release();
  await outer.release();
});

test("who waits hears that the server has fallen silent, also after the end of a keeper that kept nothing", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const { locks, told } = toldLocks(proxy);
  const first = await newLocks(server).lock(KEY).acquire();
  await locks.lock("warm").run(() => {});
  const waiting = Pending.of(locks.lock(KEY, { wait: 60_000 }));
  await server.waitForWaiters(KEY, 1);
  for (const line of await server.named("lock-keeper")) {
    if (!line.includes(`id=${await keptBy(server)} `)) {
      await server.redis.call("CLIENT", "KILL", "ID", /\bid=(\d+)/.exec(line)?.[1] ?? "");
    }
  }
  await eventually(() => told.some(({ type }) => type === "keeper-back"), "the keeper", 5000);
  await first.release();
  await (await waiting.granted()).release();
});
