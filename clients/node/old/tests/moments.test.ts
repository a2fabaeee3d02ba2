/** Locks that came from a wait: held for a moment they cost two commands, held for longer they are kept. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { type Grant, LockLost, type Locks, type LockOptions } from "../src/index.ts";
import { type Server, eventually, startServer } from "./servers.ts";
import { KEY, Pending, newNodeRedis, newRedis, stall, toldLocks, took } from "./support.ts";

const clients = {
  ioredis: async (server: Server) => newRedis(server),
  "node-redis": (server: Server) => newNodeRedis(server),
};

const kept = async (server: Server): Promise<boolean> => Boolean((await server.holders(KEY))[0]?.["kept-by"]);

/** A grant that came from a wait, and nothing more of it was asked yet. */
async function waitedFor(server: Server, locks: Locks, options: LockOptions = {}, hold = 0): Promise<Grant> {
  const first = await locks.lock(KEY).acquire();
  const other = Pending.of(locks.lock(KEY, { wait: 60_000, ...options }));
  await server.waitForWaiters(KEY, 1);
  await pause(hold);
  await first.release();
  return other.over;
}

for (const [library, newClient] of Object.entries(clients)) {
  const start = async (): Promise<{ server: Server; renewals: () => Promise<number> } & ReturnType<typeof toldLocks>> => {
    const server = await startServer();
    return { server, renewals: () => server.calls("lock.renew"), ...toldLocks(await newClient(server)) };
  };

  test(`${library}: a contended lock that is held for a moment costs two commands`, async () => {
    const { server, renewals, locks } = await start();
    let inside = 0;
    await Promise.all(Array.from({ length: 10 }, async () => {
      for (let round = 0; round < 20; round += 1) {
        await locks.lock(KEY, { wait: Infinity }).run(async ({ held, remaining }) => {
          assert(held && remaining > 5000 && remaining <= 10_000);
          assert.equal(inside, 0);
          inside += 1;
          await null;
          inside -= 1;
        });
      }
    }));
    assert.equal(await server.calls("lock.release"), 200);
    assert.equal(await renewals(), 0);
  });

  test(`${library}: a waited-for lock that is held for longer is kept`, async () => {
    const { server, renewals, locks } = await start();
    const grant = await waitedFor(server, locks, { lease: 1000, keep: 5000 });
    assert(grant.held && grant.remaining > 0 && grant.remaining <= 1000);
    assert.equal(await renewals(), 0);
    await eventually(() => kept(server), "the keeping", 500);
    await pause(1500);
    await grant.check();
    assert.equal((await server.info(KEY))?.["token"], grant.token);
    assert.equal(await renewals(), 1);
    await grant.release();
    assert.equal(await server.info(KEY), undefined);
  });

  test(`${library}: a lock that is lost in its first moment is told soon, or by a check at once`, async () => {
    const { server, renewals, locks } = await start();
    const grant = await waitedFor(server, locks, { lease: 60_000 });
    await server.redis.del(KEY);
    const ms = await took(() => pause(60_000, undefined, { signal: grant.signal }));
    assert(ms < 1000, String(ms));
    assert(String(grant.signal.reason).includes("NOTHELD"), String(grant.signal.reason));
    await assert.rejects(grant.release(), LockLost);
    const other = await waitedFor(server, locks, { lease: 60_000 });
    const before = await renewals();
    await server.redis.del(KEY);
    await assert.rejects(other.check(), LockLost);
    assert.equal(await renewals(), before + 1);
    const released = await waitedFor(server, locks);
    await server.redis.del(KEY);
    await assert.rejects(released.release(), LockLost);
  });

  test(`${library}: a check takes over what stands, once`, async () => {
    const { server, renewals, locks } = await start();
    const grant = await waitedFor(server, locks);
    await Promise.all([grant.check(), grant.check()]);
    assert(await kept(server));
    await pause(300);
    assert.equal(await renewals(), 1);
    await grant.release();
  });

  test(`${library}: a release at the takeover leaves nothing held, and nothing is renewed after it`, async () => {
    const { server, renewals, locks, told } = await start();
    const keys = Array.from({ length: 40 }, (_, number) => `${KEY}:${number}`);
    const rounds = process.env["LONG"] ? 100 : 6;
    await Promise.all(keys.map(async (key) => {
      for (let round = 0; round < rounds; round += 1) {
        const first = await locks.lock(key).acquire();
        const other = locks.lock(key, { wait: 60_000 }).acquire();
        await server.waitForWaiters(key, 1);
        await first.release();
        const grant = await other;
        await pause(95 + 10 * Math.random());
        await grant.release();
        assert(!grant.held);
      }
    }));
    await pause(200);
    assert.equal(await server.redis.dbsize(), 0);
    assert((await renewals()) > 0, "none was held until its takeover");
    assert(!(await server.redis.info("errorstats")).includes("NOTHELD"));
    assert(!told.some(({ type }) => type === "lost"));
  });

  test(`${library}: what came late, or is fixed, is renewed before it is told`, async () => {
    const { server, renewals, locks } = await start();
    const late = await waitedFor(server, locks, { lease: 1500 }, 700);
    assert.equal(await renewals(), 1);
    assert(await kept(server));
    await pause(200);
    await late.release();
    const fixed = await waitedFor(server, locks, { lease: 5000, fixed: true });
    assert.equal(await renewals(), 2);
    await pause(200);
    assert(!(await kept(server)));
    await fixed.release();
    assert.equal(await renewals(), 2);
  });

  test(`${library}: in its first moment a grant is let go of, closed, given an end, another lease or mode`, async () => {
    const { server, renewals, locks } = await start();
    const detached = await waitedFor(server, locks);
    await detached.detach();
    await pause(200);
    assert(!(await kept(server)));
    assert.equal(await renewals(), 1);
    await server.redis.del(KEY);
    const ended = await waitedFor(server, locks);
    await ended.extend(30_000, { fixed: true });
    await pause(200);
    assert(!(await kept(server)));
    assert(ended.remaining > 28_000);
    await ended.release();
    const most = await waitedFor(server, locks, { lease: 1000, atMost: 1050 });
    const ms = await took(() => pause(5000, undefined, { signal: most.signal }));
    assert(ms > 900 && ms < 1500, String(ms));
    await server.waitUntilFree(KEY, 500);
    const before = await renewals();
    const longer = await waitedFor(server, locks);
    await longer.extend(20_000);
    assert(await kept(server));
    assert(longer.remaining > 18_000);
    await longer.release();
    const reader = await waitedFor(server, locks);
    await reader.downgrade();
    assert(await kept(server));
    await pause(200);
    assert.equal(await renewals(), before + 2);
    await reader.release();
    const closed = await waitedFor(server, locks);
    await locks.close();
    assert(!closed.held);
    await pause(200);
    assert.equal(await renewals(), before + 2);
    assert.equal(await server.info(KEY), undefined);
  });

  test(`${library}: a task takes a lock again in its first moment`, async () => {
    const { server, renewals, locks } = await start();
    const first = await locks.lock(KEY).acquire();
    const task = locks.task();
    const outer = task.lock(KEY, { wait: 60_000 }).acquire();
    await server.waitForWaiters(KEY, 1);
    await first.release();
    await outer;
    const inner = await task.lock(KEY).acquire();
    assert.equal(inner.holds, 2);
    assert(await kept(server));
    await pause(200);
    assert.equal(await renewals(), 0);
    await inner.release();
    await (await outer).release();
    assert.equal(await server.info(KEY), undefined);
  });

  test(`${library}: cuts and stalls in its first moment`, async () => {
    const { server, locks, told } = await start();
    const cut = await waitedFor(server, locks);
    await server.redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    await eventually(() => kept(server), "the keeping");
    await cut.release();
    const held = await waitedFor(server, locks, { lease: 3000 });
    stall(1500);
    await eventually(() => kept(server), "the keeping");
    await held.release();
    assert(!told.some(({ type }) => type === "lost"));
    const lost = await waitedFor(server, locks, { lease: 1000 });
    stall(1500);
    assert((await took(() => pause(5000, undefined, { signal: lost.signal }))) < 1000);
    assert.equal(await server.info(KEY), undefined);
  });
}
