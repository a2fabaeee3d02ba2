/** The stand-in for unit tests, and the API on it. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Grant, LockBusy, LockLost, LockMisuse, Locks, QuorumLocks } from "../src/index.ts";
import { TestServer } from "../src/testing.ts";

test("locks in memory: first come, first served, with rising tokens", async () => {
  const server = new TestServer();
  await using locks = new Locks(server);
  const lock = locks.lock("k");
  let held = await lock.acquire();
  assert(held.held);
  await held.check();
  await held.extend(20_000);
  assert.equal(await lock.tryAcquire(), undefined);
  await assert.rejects(lock.acquire({ wait: 30 }), LockBusy);
  const waits: Promise<Grant>[] = [];
  for (let i = 1; i <= 3; i += 1) {
    waits.push(lock.acquire());
    while (server.waiters("k").length < i) await new Promise(setImmediate);
  }
  for (const wait of waits) {
    await held.release();
    const next = await wait;
    assert(next.token > held.token);
    held = next;
    assert.deepEqual(server.holders("k"), [held.owner]);
  }
  await held.release();
  assert.deepEqual(server.holders("k"), []);
});

test("a lock is lost when the test says so", async () => {
  const server = new TestServer();
  await using locks = new Locks(server);
  const lock = locks.lock("k");
  const lost = lock.run((grant) => new Promise((_, reject) => {
    grant.signal.addEventListener("abort", () => reject(new Error("stopped")));
    assert(server.lose("k"));
  }));
  await assert.rejects(lost, (error) => error instanceof Error && error.message === "stopped" && error.cause instanceof LockLost);
  assert(!server.lose("k"));
  await assert.rejects(lock.run(() => server.lose("k")), LockLost);
  await lock.run((grant) => grant.check());
});

test("sharing, permits and tasks", async () => {
  const server = new TestServer();
  await using locks = new Locks(server);
  await locks.shared("k").run(() => locks.shared("k").run(async () => {
    assert.equal(server.holders("k").length, 2);
    assert.equal(await locks.lock("k").tryAcquire(), undefined);
  }));
  const task = locks.task();
  const permit = task.permit("p", { of: 2 });
  await permit.run(() => permit.run(async () => { // each permit has an owner of its own
    assert.equal(new Set(server.holders("p")).size, 2);
    assert.equal(await locks.permit("p", { of: 2 }).tryAcquire(), undefined);
  }));
  await task.lock("k").run(async (outer) => {
    await using inner = await task.lock("k").acquire();
    assert.equal(inner.token, outer.token);
    await inner.release(); // and not again at the end of the block
    await outer.check();
  });
  assert.deepEqual(server.holders("k"), []);
});

test("a cancelled wait leaves no place", async () => {
  const server = new TestServer();
  await using locks = new Locks(server);
  const lock = locks.lock("k");
  const held = await lock.acquire();
  for (const reason of [undefined, new Error("enough")]) {
    const abort = new AbortController();
    const cancelled = lock.acquire({ signal: abort.signal });
    while (server.waiters("k").length === 0) await new Promise(setImmediate);
    abort.abort(reason);
    await assert.rejects(cancelled, reason ?? { name: "AbortError" });
    assert.deepEqual(server.waiters("k"), []);
    await assert.rejects(lock.acquire({ signal: abort.signal }), reason ?? { name: "AbortError" });
  }
  await held.release();
});

test("fixed leases, adoption and closing", async () => {
  const server = new TestServer();
  const [locks, others] = [new Locks(server), new Locks(server)];
  const fixed = await locks.lock("k", { fixed: 30 }).acquire();
  await (await locks.lock("k").acquire()).release(); // when the fixed lease has ended
  while (!fixed.lost) await new Promise(setImmediate);
  assert.equal(fixed.lost.reason, "expired");
  const told: LockLost[] = [];
  const grant = await locks.lock("k").run(async (it) => { // nothing is left to release at its end
    it.onLost((loss) => told.push(loss));
    await it.detach(10_000);
    return it;
  });
  const adopted = await others.adopt("k", grant.owner, grant.token);
  assert.deepEqual([grant.held, adopted.held, adopted.token], [false, true, grant.token]);
  await assert.rejects(grant.release(), LockMisuse);
  await adopted.release();
  await assert.rejects(others.adopt("k", grant.owner, grant.token), LockLost);
  assert.deepEqual(told, []);
  const held = await locks.lock("k").acquire();
  await Promise.all([locks.close(), others.close()]);
  assert(!held.held);
  assert.deepEqual(server.holders("k"), []);
});

test("an immediate grant has no event", async () => {
  const server = new TestServer();
  const { send } = server.open();
  const session = Number(await send(["LOCK.SESSION", "OPEN"]));
  for (const owner of ["first", "next"]) await send(["LOCK.ACQUIRE", "k", owner, "PX", 10_000, "SESSION", session, "QUEUE", 0]);
  const events = async (): Promise<unknown[]> => {
    const reply = JSON.stringify(await send(["LOCK.SESSION", "POLL", session, "BLOCK", 0]));
    return reply.match(/granted/gu) ?? [];
  };
  assert.equal((await events()).length, 0);
  await send(["LOCK.RELEASE", "k", "first", "HOLDS", 0]);
  assert.equal((await events()).length, 1);
});

test("a quorum in memory", async () => {
  const servers = [new TestServer(), new TestServer(), new TestServer()];
  await using locks = new QuorumLocks(servers);
  await using grant = await locks.lock("k").acquire();
  assert.equal(await locks.lock("k").tryAcquire(), undefined);
  servers[0]?.lose("k");
  await grant.check();
  assert(grant.held);
  servers[1]?.lose("k");
  await assert.rejects(grant.check(), LockLost);
});
