/** Faults of earlier clients: those that the common trial (crates/testing/trial) does not have. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { createClient } from "@redis/client";
import { LockBusy, LockUnavailable } from "../src/index.ts";
import { eventually, startServer } from "./servers.ts";
import { KEY, clients, newLocks, took } from "./support.ts";

/** What is in use when the calls that have ended are forgotten. */
async function memory(): Promise<number> {
  await pause(100);
  (globalThis as { gc?: () => void }).gc?.();
  return process.memoryUsage().heapUsed;
}

for (const [library, clientOf] of Object.entries(clients)) {
  test(`300 waits need two connections: ${library}`, async () => {
    const server = await startServer({ maxclients: "20" });
    const locks = newLocks(clientOf(server));
    const held = await locks.lock(KEY).acquire();
    const waits = Array.from({ length: 300 }, () => locks.lock(KEY).acquire());
    await server.waitForWaiters(KEY, 300);
    const list = (await server.redis.client("LIST")) as string;
    assert(list.trim().split("\n").length <= 3, list); // one is the test's
    await held.release();
    for (const wait of waits) await (await wait).release();
    assert.equal(await server.info(KEY), undefined);
  });

  test(`acquires that fail in an outage leave nothing, and the first one after it is quick: ${library}`, async () => {
    const server = await startServer();
    const locks = newLocks(clientOf(server));
    const lock = locks.lock(KEY, { wait: 3000 });
    await lock.run(() => {});
    await server.order("stop");
    const fail = (): Promise<unknown> => Promise.all(Array.from({ length: 1000 }, (_, i) =>
      assert.rejects(locks.lock(`lock:${i}`).acquire({ wait: 0 }), LockUnavailable)));
    await fail();
    const before = await memory();
    for (let i = 0; i < 4; i += 1) await fail();
    const grown = (await memory()) - before;
    assert(grown < 2_000_000, `${grown} bytes`);
    await assert.rejects(lock.acquire(), (error) => error instanceof LockUnavailable && /ECONNREFUSED/.test(error.message));
    await server.order("restart");
    const ms = await took(() => lock.run(() => {}));
    assert(ms < 500, String(ms));
  });
}

test("losses do not have the other grants renewed", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const grants = await Promise.all(Array.from({ length: 2000 }, (_, i) => locks.lock(`lock:${i}`).acquire()));
  await server.redis.del(...grants.slice(0, 10).map((grant) => grant.key));
  await eventually(() => grants.filter((grant) => grant.lost).length === 10, "the losses");
  await grants[10]?.check();
  assert.equal(await server.calls("lock.renew"), 0);
  assert(await server.calls("lock.session\\|poll") < 20);
});

test("a client that never connects is no hindrance, and a busy one neither", async () => {
  const server = await startServer();
  const client = createClient({ socket: { port: server.port } });
  await client.connect();
  void client.blPop("list", 0).catch(() => {});
  const locks = newLocks(client);
  await locks.lock(KEY).run(async () => assert.rejects(locks.lock(KEY).acquire({ wait: 20 }), LockBusy));
  client.destroy();
});
