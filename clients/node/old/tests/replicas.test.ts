/** Locks that replicas have to acknowledge. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { LockRefused, LockUnavailable } from "../src/index.ts";
import { eventually, startProxy, startServer } from "./servers.ts";
import { KEY, Pending, comers, newLocks, took } from "./support.ts";

test("a try that replicas acknowledge takes no longer than others", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(proxy);
  await locks.lock("warm").run(() => {});
  await proxy.inject({ delay: 700 }, "LOCK.ACQUIRE");
  const taking = Pending.of(locks.lock(KEY, { replicas: 1 }));
  const ms = await took(async () => {
    await eventually(() => server.info(KEY), "the grant");
    await proxy.inject("keep", "WAIT");
    await assert.rejects(taking.over, LockUnavailable);
  });
  assert(ms < 1300, String(ms));
  await server.waitUntilFree(KEY, 5000);
});

test("what is taken again has its replicas, too", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  for (const [who, comer] of Object.entries(comers)) {
    const lock = comer(locks);
    const outer = await lock({}).acquire();
    await assert.rejects(lock({ replicas: 1 }).acquire(), LockUnavailable, who);
    assert.equal((await server.info(KEY))?.["holds"], 1, who);
    await outer.check();
    await outer.release();
    assert.equal(await server.info(KEY), undefined);
  }
});

test("what is taken again is given back where the acknowledgement is refused", async () => {
  const server = await startServer();
  await server.redis.call("ACL", "SETUSER", "app", "on", ">x", "~*", "+@all", "-wait");
  const task = newLocks(server, { redis: { username: "app", password: "x" } }).task();
  const outer = await task.lock(KEY).acquire();
  await assert.rejects(task.lock(KEY, { replicas: 1 }).acquire(), LockRefused);
  assert.equal((await server.info(KEY))?.["holds"], 1);
  await outer.release();
  assert.equal(await server.info(KEY), undefined);
});
