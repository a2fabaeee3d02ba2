/** What passes: a server that is full or busy, or refuses for a while. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import type { Redis } from "ioredis";
import { eventually, startProxy, startServer } from "./servers.ts";
import { KEY, Pending, newLocks, newRedis, toldLocks } from "./support.ts";

/** Keeps the server busy with a script for 700 ms. */
const busy = (redis: Redis): Promise<unknown> => redis.eval(
  "local t = redis.call('TIME'); local e = t[1] * 1000 + t[2] / 1000 + 700; repeat t = redis.call('TIME') until t[1] * 1000 + t[2] / 1000 > e return 1", 0);

test("full connections and a busy server pass", async () => {
  const server = await startServer({ maxclients: "20", "lua-time-limit": "50", "busy-reply-threshold": "50" });
  const locks = newLocks(server);
  await server.redis.ping();
  const others: Redis[] = [];
  for (let more = 0; more < 25; more += 1) others.push(newRedis(server, { retryStrategy: () => null }));
  await pause(300);
  const full = Pending.of(locks.lock(KEY, { wait: 20_000 }));
  await pause(500);
  for (const it of others) it.disconnect();
  const grant = await full.granted();
  const script = busy(newRedis(server));
  await pause(200);
  await grant.check();
  await script;
  await grant.release();
});

test("a server that is busy for most of a call's time answers its last try", async () => {
  const server = await startServer({ "lua-time-limit": "50", "busy-reply-threshold": "50" });
  const proxy = await startProxy(server);
  const locks = newLocks(proxy);
  const scripts = newRedis(server);
  await scripts.ping();
  const grant = await locks.lock(KEY).acquire();
  await proxy.order("inject", { fault: { delay: 30 }, words: "", times: 1000 });
  for (let round = 0; round < 6; round += 1) {
    const script = busy(scripts);
    await eventually(() => server.redis.ping().then(() => false, (error) => String(error).includes("BUSY")), "a busy server");
    const [checked, taken] = await Promise.allSettled([grant.check(), locks.lock("other").acquire()]);
    assert.deepEqual([checked.status, taken.status], ["fulfilled", "fulfilled"]);
    if (taken.status === "fulfilled") await taken.value.release();
    await script;
  }
  await grant.release();
});

test("a renewal that is answered NOPERM or BUSY for a while is sent again", async () => {
  const server = await startServer();
  await server.redis.call("ACL", "SETUSER", "app", "on", ">x", "~*", "+@all");
  const { locks, told } = toldLocks(newRedis(server, { username: "app", password: "x" }));
  const grant = await locks.lock(KEY, { lease: 8000 }).acquire();
  await server.redis.call("ACL", "SETUSER", "app", "-lock.renew");
  await server.redis.call("CLIENT", "KILL", "USER", "app");
  await eventually(() => told.some(({ type }) => type === "keeper-back"), "the keeper");
  await pause(700);
  await server.redis.call("ACL", "SETUSER", "app", "+lock.renew");
  await eventually(async () => (await server.holders(KEY))[0]?.["kept-by"] !== 0, "the keeping");
  await grant.check();
  await grant.release();
  assert(!told.some(({ type }) => type === "lost"));
});
