/** Grants that go from hand to hand: let go of, and adopted. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { type Lock, LockBusy } from "../src/index.ts";
import { eventually, startProxy, startServer } from "./servers.ts";
import { KEY, NAMED, Pending, keptBy, newLocks } from "./support.ts";

test("a task does not enter again what it has let go of", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const task = locks.task();
  const other = await task.lock("other").acquire();
  const grant = await task.lock(KEY).acquire();
  await grant.detach();
  const adopted = await newLocks(server).adopt(KEY, grant.owner, grant.token);
  await assert.rejects(task.lock(KEY).acquire(), LockBusy);
  await adopted.check();
  await adopted.release();
  await (await task.lock(KEY).acquire()).release();
  await other.release();
});

for (const who of ["a fresh owner", "a task", "a permit"]) {
  test(`what ${who} has here is adopted as one more hold`, async () => {
    const server = await startServer();
    const locks = newLocks(server);
    const lock = who === "a task" ? locks.task().lock(KEY) : who === "a permit" ? locks.permit(KEY, { of: 2 }) : locks.lock(KEY);
    const first = await lock.acquire();
    const adopted = await locks.adopt(KEY, first.owner, first.token);
    assert.equal((await server.info(KEY))?.["holds"], 2);
    await adopted.release();
    assert(first.held);
    await first.check();
    const again = await locks.adopt(KEY, first.owner, first.token);
    await first.release();
    assert(again.held);
    await again.check();
    await again.release();
    assert.equal(await server.info(KEY), undefined);
  });
}

test("an adoption waits for the detachment of what it adopts", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(proxy);
  const grant = await locks.lock(KEY).acquire();
  await proxy.inject({ delay: 300 }, "KEEP 0");
  const detaching = grant.detach();
  await eventually(async () => (await keptBy(server)) === 0, "the detachment");
  const adopted = await locks.adopt(KEY, grant.owner, grant.token);
  await detaching;
  assert(adopted.held && !grant.held);
  assert.notEqual(await keptBy(server), 0);
  await adopted.release();
  assert.equal(await server.info(KEY), undefined);
});

test("a takeover takes no grant from whoever asked for it later", async () => {
  const server = await startServer();
  const first = await newLocks(server).lock(KEY).acquire();
  const locks = newLocks(server), others = newLocks(server);
  await others.lock("warm").run(() => {});
  const waiting = Pending.of(locks.lock(KEY, { owner: NAMED, wait: 20_000 }));
  await server.waitForWaiters(KEY, 1);
  await first.release();
  const before = await waiting.granted();
  const grant = await others.lock(KEY, { owner: NAMED }).acquire(); // before the keeper has it
  await eventually(() => !before.held, "the loss", 5000);
  await grant.check();
  await grant.release();
});

test("a named owner's release that was called off is not sent behind that", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(proxy);
  const beside = await locks.lock("beside").acquire();
  const grant = await locks.lock(KEY, { owner: NAMED }).acquire();
  await proxy.order("inject", { fault: "reset-request", words: "LOCK.RELEASE", times: 2 });
  await assert.rejects(grant.release({ signal: AbortSignal.timeout(20) }), { name: "TimeoutError" });
  const next = await newLocks(server).lock(KEY, { owner: NAMED }).acquire();
  await beside.check();
  await pause(1000); // it would come by then
  assert.equal(await server.calls("lock.release"), 0);
  await next.check();
  await next.release();
  await beside.release();
});

test("an adopted grant is taken again, and an adoption of what is fixed is kept", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const [token] = (await server.redis.call("LOCK.ACQUIRE", KEY, NAMED, "EX", 60)) as [number];
  const fixed = await locks.adopt(KEY, NAMED, token, { fixed: true });
  assert.equal(await keptBy(server), 0);
  const kept = await locks.adopt(KEY, NAMED, token);
  assert.notEqual(await keptBy(server), 0);
  const more = await locks.lock(KEY, { owner: NAMED }).acquire();
  await fixed.release();
  await kept.release();
  assert(more.held);
  await more.release();
  assert.equal(await server.info(KEY), undefined);
});

test("a named owner that lets go of a lock while it takes it again has it", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const lock = locks.lock(KEY, { owner: NAMED });
  const before = await lock.acquire();
  const detaching = before.detach();
  await new Promise(setImmediate);
  const grant = await lock.acquire();
  await detaching.catch(() => {});
  assert(grant.held);
  assert.notEqual(await keptBy(server), 0);
  await grant.check();
  if (before.held) await before.release();
  await grant.release();
  assert.equal(await server.info(KEY), undefined);
});

for (const mode of ["shared", "permit"] as const) {
  test(`an adoption of what is held already leaves a ${mode} grant as it is`, async () => {
    const server = await startServer();
    const [before, locks] = [newLocks(server), newLocks(server)];
    const take = (): Lock => (mode === "shared" ? before.shared(KEY) : before.permit(KEY, { of: 2 }));
    const [grant, beside] = [await take().acquire(), await take().acquire()];
    await grant.detach();
    const adopted = await locks.adopt(KEY, grant.owner, grant.token);
    const again = await locks.adopt(KEY, grant.owner, grant.token);
    await beside.release();
    await (await take().acquire()).release();
    await adopted.release();
    await again.release();
    assert.equal(await server.info(KEY), undefined);
  });
}
