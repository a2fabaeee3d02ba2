/**
 * The API on a real server, beyond what the stand-in shows (testing.test.ts). The common trial has waits, sharing, permits,
 * tasks, cancelling, refusals and losses, with both libraries.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Grant, LockBusy, LockLost, LockMisuse, Locks } from "../src/index.ts";
import { eventually, startServer } from "./servers.ts";
import { KEY, clients, newLocks } from "./support.ts";

for (const [library, clientOf] of Object.entries(clients)) {
  test(`a grant: ${library}`, async () => {
    const server = await startServer();
    const grant = await newLocks(clientOf(server), { lease: 2000 }).lock(KEY).acquire();
    const info = await server.info(KEY);
    assert.deepEqual([grant.key, grant.token, grant.owner], [KEY, info?.["token"], info?.["owner"]]);
    assert.match(grant.owner, /^test:/);
    assert(grant.held && grant.remaining > 0 && grant.remaining <= 2000);
    await grant.check();
    await grant.release();
    assert.deepEqual([grant.held, grant.lost, await server.info(KEY)], [false, undefined, undefined]);
    await assert.rejects(grant.release(), LockMisuse);
  });
}

test("a loss reaches all that listen, and their errors harm nothing", async () => {
  const server = await startServer();
  const told: LockLost[] = [];
  const fail = (): never => { throw new Error("of the program"); };
  const lost = (loss: LockLost): never => {
    told.push(loss);
    return fail();
  };
  const observer = { acquired: fail, released: fail, lost: (_: string, loss: LockLost) => lost(loss) };
  const grant = await newLocks(server, { observer }).lock(KEY).acquire();
  grant.onLost(lost);
  const { signal } = grant;
  grant.onLost((loss) => lost(loss));
  await server.redis.del(KEY);
  await eventually(() => told.length === 3, "the notices");
  assert.equal(grant.lost?.reason, "deleted");
  assert(signal.aborted && signal.reason === grant.lost && !grant.held);
  assert(grant.signal.aborted);
  grant.onLost(lost);
  await eventually(() => told.length === 4, "the notice of a loss before");
  for (const call of [grant.check(), grant.extend(5000), grant.release()]) {
    await assert.rejects(call, (error) => error instanceof LockLost && error.reason === "deleted" && error.key === KEY);
  }
});

test("closing", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const held = await locks.lock("held").acquire();
  const fixed = await locks.lock("fixed", { fixed: 60_000 }).acquire();
  await locks.close();
  assert.deepEqual([await server.info("held"), await server.info("fixed")], [undefined, undefined]);
  assert.deepEqual(await server.redis.call("LOCK.SESSION", "LIST"), []);
  for (const call of [held.release(), fixed.check(), locks.lock("new").acquire()]) await assert.rejects(call, LockMisuse);
});

test("several locks", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const keys = await locks.all(["b", "a", "b"], (grants) => {
    assert.equal(new Set(grants.map((grant) => grant.owner)).size, 1);
    return grants.map((grant) => grant.key);
  });
  assert.deepEqual(keys, ["a", "b"]);
  await server.redis.call("LOCK.ACQUIRE", "b", "other", "PX", 60_000);
  await assert.rejects(locks.all(["a", "b"], () => assert.fail(), { wait: 100 }), LockBusy);
  assert.equal(await server.info("a"), undefined);
});

test("leases: extended, fixed, and with a maximum", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const ends = async (grant: Grant, reason: RegExp): Promise<void> => {
    await eventually(() => grant.lost, "the end");
    assert.match(grant.lost?.reason ?? "", reason);
    await server.waitUntilFree(KEY);
  };
  await locks.lock(KEY).run(async (grant) => {
    await grant.extend(60_000);
    assert.equal((await server.info(KEY))?.["lease-ms"], 60_000);
    assert(grant.remaining > 50_000);
    await grant.extend(1000);
    assert(grant.remaining <= 1000);
    await assert.rejects(grant.extend(500), LockMisuse);
  });
  const lock = locks.lock(KEY, { fixed: 5000 });
  const fixed = await lock.acquire();
  assert.equal((await server.holders(KEY))[0]?.["session"] ?? 0, 0);
  await fixed.extend(60_000);
  assert(fixed.remaining > 50_000);
  await fixed.extend(300);
  await ends(fixed, /expired/);
  await lock.run((grant) => assert(grant.remaining <= 5000));
  await ends(await locks.lock(KEY, { maxHold: 300 }).acquire(), /maximum/);
});

test("leading, without a signal too", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const abort = new AbortController();
  let terms = 0;
  const leading = locks.lead(KEY, async (grant) => {
    const lost = new Promise<void>((resolve) => { grant.signal.addEventListener("abort", () => resolve()); });
    terms += 1;
    if (terms === 1) await server.redis.del(KEY);
    if (terms === 3) abort.abort();
    if (terms === 2) return;
    await lost;
    throw grant.signal.reason;
  }, { signal: abort.signal });
  await leading; // the signal ends the work of the third term
  assert.equal(terms, 3);
  const failure = new Error("of the work");
  await assert.rejects(locks.lead(KEY, () => { throw failure; }), failure);
  assert.equal(await server.info(KEY), undefined);
});

test("prefixes and misuse", async () => {
  const server = await startServer();
  const own = newLocks(server, { prefix: "app:" });
  const ofClient = newLocks(clients["ioredis"]?.(server, { keyPrefix: "app:" }) as never);
  const grant = await own.lock("k").acquire();
  assert.equal(grant.key, "app:k");
  assert.equal(await ofClient.lock("k").tryAcquire(), undefined);
  await grant.release();
  await server.redis.set("app:old", "1");
  await assert.rejects(own.lock("old").acquire(),
    (error) => error instanceof LockMisuse && /SET NX/.test(error.message) && error.message.includes(String(server.port)));
  const wrong = [() => own.lock(""), () => own.lock(7 as never), () => own.permit("k", { of: 0 }), () => own.lock("k", { wait: -1 }),
    () => own.lock("k", { fixed: 0 }), () => own.lock("k", { maxHold: Number.NaN }), () => new Locks({} as never),
    () => newLocks(server, { lease: 999 })];
  for (const call of wrong) assert.throws(call, LockMisuse);
});
